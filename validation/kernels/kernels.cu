// The kernels of the CUDA machine and of its calibration.
//
// Compiled ahead of time to kernels.ptx by build.py beside this file; a driver compiles that for its
// device. Words follow the pattern rules of validation/src/pattern.rs.
// Every kernel walks its work with a stride of all its threads, so it is right for any grid, any
// block of up to 1024 threads (__launch_bounds__ sees to that) and any count, 0 included; how fast
// it is depends on all of them.

typedef unsigned int u32;
typedef unsigned long long u64;

constexpr u64 ODD = 0x9E3779B97F4A7C15ull;
constexpr u64 PAGE_WORDS = 512;

#define KERNEL extern "C" __global__ void __launch_bounds__(1024)

__device__ inline u64 block_threads() { return u64(blockDim.x) * blockDim.y * blockDim.z; }

__device__ inline u64 thread_in_block() {
    return threadIdx.x + u64(blockDim.x) * (threadIdx.y + u64(blockDim.y) * threadIdx.z);
}

__device__ inline u64 blocks() { return u64(gridDim.x) * gridDim.y * gridDim.z; }

__device__ inline u64 block() {
    return blockIdx.x + u64(gridDim.x) * (blockIdx.y + u64(gridDim.y) * blockIdx.z);
}

__device__ inline u64 first_index() { return block() * block_threads() + thread_in_block(); }

__device__ inline u64 all_threads() { return blocks() * block_threads(); }

// What a launch does to a range.
constexpr u64 READS = 1, WRITES = 2;

// One range of words, aligned to 16 bytes: word i is, or is to be, key ^ ((first + i) * ODD).
struct Range {
    u64 *words;
    u64 count, key, first, stride;
    // What a comparison finds, see `tell`.
    u64 *out;
    // The key of what is written, and READS, WRITES or both.
    u64 next, does;
};

// Two words: what a thread reads or writes at a time.
struct __align__(16) Pair {
    u64 low, high;
};
constexpr u64 PAGE_PAIRS = PAGE_WORDS / 2;
// Pairs that a thread asks for before it uses the first.
constexpr int PAIRS = 2;

__device__ inline Pair load(const u64 *from) {
    const ulonglong2 got = __ldcg(reinterpret_cast<const ulonglong2 *>(from));
    return {got.x, got.y};
}

// What one thread found wrong in a range: how many words, the first of them and what it is.
struct Wrong {
    u64 words, at, word;
};

__device__ inline void compare(Wrong &wrong, u64 at, u64 word, u64 wanted) {
    if (word == wanted) return;
    // A thread goes up, so its first is its lowest.
    if (wrong.words++ == 0) wrong.at = at, wrong.word = word;
}

// Adds what a thread found to what all have found. One launch at a time may use the same `out`.
//   out[0] += words that differ
//   out[1]  = min(out[1], index within the range of a word that differs)
//   out[2]  = the word that was at out[1], if this launch lowered out[1]
//   out[3]    a lock: 0 before and after
__device__ void tell(u64 *out, const Wrong &wrong) {
    atomicAdd(out, wrong.words);
    if (atomicMin(out + 1, wrong.at) <= wrong.at) return;
    // The word may be overwritten by now, so whoever holds the minimum says what it was; of two that
    // lowered it one after the other, the lower is the one that still holds it.
    while (atomicCAS(out + 3, 0ull, 1ull) != 0) {}
    __threadfence();
    volatile u64 *seen = out;
    if (seen[1] == wrong.at) seen[2] = wrong.word;
    __threadfence();
    atomicExch(out + 3, 0ull);
}

// Goes through a range from the thread's index `i` on, which counts pairs; by how much that went
// beyond the end. SPARSE takes pages of 512 words whose number within the range is a multiple of
// `stride`, and the last page, which may be short; else all are taken. What is read and written is
// compared before it is written.
template <bool READ, bool WRITE, bool SPARSE = false>
__device__ inline u64 walk(u64 i, const Range &range) {
    u64 *const words = range.words;
    const u64 count = range.count, key = range.key, next = range.next, first = range.first;
    if (count == 0) return i;
    const u64 stride = SPARSE ? range.stride : 1;
    const u64 last = (count - 1) / PAGE_WORDS, full = last / stride;
    // Page 0 and every stride-th after it, and then the last one if it is none of these.
    const u64 end = (full + 1 + (last % stride != 0)) * PAGE_PAIRS, step = all_threads();
    Wrong wrong = {0, 0, 0};
    for (; i < end; i += PAIRS * step) {
        u64 at[PAIRS];
        Pair got[PAIRS];
#pragma unroll
        for (int k = 0; k < PAIRS; k++) {
            const u64 pair = i + k * step, number = pair / PAGE_PAIRS;
            at[k] = 2 * pair;
            if (SPARSE) {
                const u64 page = number > full ? last : number * stride;
                at[k] = pair < end ? page * PAGE_WORDS + pair % PAGE_PAIRS * 2 : count;
            }
            if (READ && at[k] + 1 < count) got[k] = load(words + at[k]);
        }
#pragma unroll
        for (int k = 0; k < PAIRS; k++) {
            if (at[k] + 1 >= count) continue;
            const u64 low = (first + at[k]) * ODD, high = low + ODD;
            if (READ && (((got[k].low ^ low) ^ key) | ((got[k].high ^ high) ^ key)) != 0) {
                compare(wrong, at[k], got[k].low, key ^ low);
                compare(wrong, at[k] + 1, got[k].high, key ^ high);
            }
            if (WRITE) *reinterpret_cast<Pair *>(words + at[k]) = {next ^ low, next ^ high};
        }
    }
    // An odd last word is nobody's pair.
    if (count % 2 != 0 && first_index() == 0) {
        const u64 mask = (first + count - 1) * ODD;
        if (READ) compare(wrong, count - 1, words[count - 1], key ^ mask);
        if (WRITE) words[count - 1] = next ^ mask;
    }
    if (READ && wrong.words != 0) tell(range.out, wrong);
    // The last round may have gone on by more than a step beyond the end.
    i -= end;
    while (i >= step) i -= step;
    return i;
}

// words[i] = key ^ ((first + i) * ODD).
KERNEL fill(u64 *words, u64 count, u64 key, u64 first) {
    walk<false, true>(first_index(), {words, count, 0, first, 1, nullptr, key, WRITES});
}

__device__ inline u64 look(u64 i, const Range &range) {
    return range.stride > 1 ? walk<true, false, true>(i, range) : walk<true, false>(i, range);
}

// Compares words with that; a stride of 0 counts as 1.
KERNEL check(u64 *words, u64 count, u64 key, u64 first, u64 stride, u64 *out) {
    look(first_index(), {words, count, key, first, stride, out, 0, READS});
}

// Independent loads of 16 bytes that a thread asks for before it uses the first.
constexpr int FLIGHT = 8;

// Reads `count16` times 16 bytes, `passes` times, past the L1 cache. The sink is written only if the
// bits read come to one value out of 2^64, so never in practice, but the compiler cannot know.
KERNEL stream_read(const uint4 *from, u64 count16, u32 passes, u64 *sink) {
    const u64 step = all_threads();
    u32 low = 0, high = 0;
    for (u32 pass = 0; pass < passes; pass++) {
        u64 i = first_index();
        for (; i + (FLIGHT - 1) * step < count16; i += FLIGHT * step) {
            uint4 got[FLIGHT];
#pragma unroll
            for (int k = 0; k < FLIGHT; k++) got[k] = __ldcg(from + i + k * step);
#pragma unroll
            for (int k = 0; k < FLIGHT; k++) {
                low ^= got[k].x ^ got[k].z;
                high += got[k].y + got[k].w;
            }
        }
        for (; i < count16; i += step) {
            const uint4 got = __ldcg(from + i);
            low ^= got.x ^ got.z;
            high += got.y + got.w;
        }
    }
    const u64 sum = u64(high) << 32 | low;
    if (sum == 0x9E3779B97F4A7C15ull) sink[0] = sum;
}

// Writes `count16` times 16 bytes, `passes` times: pass p (from 0) leaves p, p + 1, p + 2 and p + 3.
KERNEL stream_write(uint4 *to, u64 count16, u32 passes) {
    const u64 step = all_threads();
    for (u32 pass = 0; pass < passes; pass++) {
        const uint4 value = make_uint4(pass, pass + 1, pass + 2, pass + 3);
        for (u64 i = first_index(); i < count16; i += step) to[i] = value;
    }
}

__device__ inline void copy_over(uint4 *__restrict__ to, const uint4 *__restrict__ from,
                                 u64 count16, u32 passes) {
    const u64 step = all_threads();
    for (u32 pass = 0; pass < passes; pass++) {
        u64 i = first_index();
        for (; i + (FLIGHT - 1) * step < count16; i += FLIGHT * step) {
            uint4 got[FLIGHT];
#pragma unroll
            for (int k = 0; k < FLIGHT; k++) got[k] = __ldcg(from + i + k * step);
#pragma unroll
            for (int k = 0; k < FLIGHT; k++) to[i + k * step] = got[k];
        }
        for (; i < count16; i += step) to[i] = __ldcg(from + i);
    }
}

// Copies `count16` times 16 bytes, `passes` times. The two ranges do not overlap.
KERNEL stream_copy(uint4 *to, const uint4 *from, u64 count16, u32 passes) {
    copy_over(to, from, count16, passes);
}

// Compute-bound: 8 independent chains of 16 multiply-adds per thread and round, so 8 * 16 * 2 = 256
// FLOP per thread and round. x = x / 2 + 1/2 goes to 1 and stays there. Writes the sink only if a
// value is negative, which none is.
__device__ inline void multiply_add(u64 rounds, float *sink) {
    constexpr int CHAINS = 8, LINKS = 16;
    float x[CHAINS];
#pragma unroll
    for (int k = 0; k < CHAINS; k++) x[k] = 1.0f + float(first_index() & 1023) * (k + 1);
    // No constant to the compiler, so that it stays in a register.
    const float half = rounds == ~0ull ? 0.25f : 0.5f;
    for (u64 i = 0; i < rounds; i++) {
#pragma unroll
        for (int link = 0; link < LINKS; link++) {
#pragma unroll
            for (int k = 0; k < CHAINS; k++) x[k] = fmaf(x[k], half, half);
        }
    }
    float sum = 0.0f;
#pragma unroll
    for (int k = 0; k < CHAINS; k++) sum += x[k];
    if (sum < 0.0f) sink[0] = sum;
}

// What fills a part of an op's time: rounds of multiply-adds, or copies as above.
struct Filler {
    u64 rounds;
    uint4 *to;
    const uint4 *from;
    u64 count16, passes;
};

__device__ inline void work(const Filler &filler, float *sink) {
    if (filler.rounds != 0) multiply_add(filler.rounds, sink);
    if (filler.passes != 0) copy_over(filler.to, filler.from, filler.count16, u32(filler.passes));
}

// An op: works, does to each range what it says, each with an `out` of its own, and works again. No
// two ranges overlap. All of it is a parameter, which a launch copies, so nobody has to keep it. All
// threads go through all ranges as if these were one, so that a large one and many small ones use
// the whole device alike. Blocks do not wait for one another.
template <u32 RANGES>
struct Op {
    Filler before, after;
    float *sink;
    u64 count;
    Range of[RANGES];
};

template <u32 RANGES>
__device__ inline void run(const Op<RANGES> &op) {
    work(op.before, op.sink);
    u64 i = first_index();
    const u32 count = u32(op.count);
#pragma unroll 1
    for (u32 n = 0; n < count; n++) {
        const Range &range = op.of[n];
        if (range.does == READS)
            i = look(i, range);
        else if (range.does == WRITES)
            i = walk<false, true>(i, range);
        else
            i = walk<true, true>(i, range);
    }
    work(op.after, op.sink);
}

// Most ops touch few ranges, and a launch takes the longer the more it copies.
KERNEL op_few(const __grid_constant__ Op<6> op) { run(op); }

KERNEL op_many(const __grid_constant__ Op<46> op) { run(op); }

__device__ inline u64 globaltimer() {
    u64 now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now)::"memory");
    return now;
}

// Keeps its stream busy for `ns` of the device's global timer; other threads than the first end at
// once. How far that timer moves at a time depends on the device (PTX promises no step, and coarse
// ones exist), so a delay may be off by one step either way: calibrate before relying on short ones.
// The timer counts time and not cycles, so changes of the clock rate do not matter.
// Bounded: at most 10 s, and a timer that stands still for 2^24 looks ends it.
KERNEL delay(u64 ns) {
    if (first_index() != 0) return;
    const u64 most = 10000000000ull;
    const u64 wanted = ns < most ? ns : most;
    const u64 start = globaltimer();
    u64 before = start;
    u32 still = 0;
    for (;;) {
        const u64 now = globaltimer();
        if (now - start >= wanted) return;
        still = now == before ? still + 1 : 0;
        if (still >= (1u << 24)) return;
        before = now;
    }
}

// c = a * b, all n x n, row-major. Tiles of 64 x 64 pass through shared memory in steps of 16. A
// tile's 256 patches of 4 x 4 go round over the threads that the block has: 256 is the size to use.
KERNEL gemm_f32(const float *__restrict__ a, const float *__restrict__ b, float *__restrict__ c,
                u32 n) {
    constexpr u32 TILE = 64, STEP = 16, PATCH = 4, ACROSS = TILE / PATCH;
    __shared__ float left[STEP][TILE + 4];
    __shared__ float right[STEP][TILE];
    const u32 me = u32(thread_in_block()), threads = u32(block_threads());
    const u64 side = n, across = (side + TILE - 1) / TILE;
    for (u64 tile = block(); tile < across * across; tile += blocks()) {
        const u64 top = tile / across * TILE, start = tile % across * TILE;
        for (u32 round = 0; round < ACROSS * ACROSS; round += threads) {
            const u32 patch = round + me;
            const u32 down = patch / ACROSS * PATCH, over = patch % ACROSS * PATCH;
            const bool works = patch < ACROSS * ACROSS;
            float sum[PATCH][PATCH] = {};
            for (u64 from = 0; from < side; from += STEP) {
                __syncthreads();
                for (u32 i = me; i < TILE * STEP; i += threads) {
                    const u64 row = top + i / STEP, deep = from + i % STEP;
                    left[i % STEP][i / STEP] =
                        row < side && deep < side ? a[row * side + deep] : 0.0f;
                    const u64 depth = from + i / TILE, column = start + i % TILE;
                    right[i / TILE][i % TILE] =
                        depth < side && column < side ? b[depth * side + column] : 0.0f;
                }
                __syncthreads();
                if (!works) continue;
#pragma unroll
                for (u32 k = 0; k < STEP; k++) {
#pragma unroll
                    for (u32 i = 0; i < PATCH; i++) {
#pragma unroll
                        for (u32 j = 0; j < PATCH; j++)
                            sum[i][j] = fmaf(left[k][down + i], right[k][over + j], sum[i][j]);
                    }
                }
            }
            if (!works) continue;
#pragma unroll
            for (u32 i = 0; i < PATCH; i++) {
#pragma unroll
                for (u32 j = 0; j < PATCH; j++) {
                    const u64 row = top + down + i, column = start + over + j;
                    if (row < side && column < side) c[row * side + column] = sum[i][j];
                }
            }
        }
    }
}
