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

// One range of words: of `check` and `fill` below, which say what its members mean.
struct Range {
    u64 *words;
    u64 count, key, first, stride;
    u64 *out;
};

// Several ranges in one launch: parameters, which a launch copies, so nobody has to keep them. All
// threads go through all ranges as if these were one, so that a large one and many small ones use
// the whole device alike.
constexpr u32 RANGES = 64;
struct Ranges {
    u64 count;
    Range of[RANGES];
};

// words[i] = key ^ ((first + i) * ODD), from the thread's index `i` on; how far that went.
__device__ inline u64 fill_from(u64 i, u64 *words, u64 count, u64 key, u64 first) {
    for (; i < count; i += all_threads()) words[i] = key ^ ((first + i) * ODD);
    return i;
}

KERNEL fill(u64 *words, u64 count, u64 key, u64 first) {
    fill_from(first_index(), words, count, key, first);
}

// `fill` of each range, whose `stride` and `out` have no meaning.
KERNEL fill_many(const __grid_constant__ Ranges ranges) {
    u64 i = first_index();
    const u32 count = u32(ranges.count);
#pragma unroll 1
    for (u32 n = 0; n < count; n++) {
        const Range &range = ranges.of[n];
        i = fill_from(i, range.words, range.count, range.key, range.first) - range.count;
    }
}

// Compares with the pattern: pages of 512 words whose number within this range is a multiple of
// `stride` (0 counts as 1), and the last page. A last page may be short.
//   out[0] += words that differ
//   out[1]  = min(out[1], index within this range of a word that differs)
//   out[2]  = the word at out[1], if this call lowered out[1]
// One launch at a time may use the same `out`. From the thread's index `i` on; by how much that went
// beyond the end.
__device__ inline u64 check_from(u64 i, const u64 *words, u64 count, u64 key, u64 first,
                                 u64 stride, u64 *out) {
    if (count == 0) return i;
    if (stride == 0) stride = 1;
    const u64 last = (count - 1) / PAGE_WORDS;
    // Page 0 and every stride-th after it, and then the last one if it is none of these.
    const u64 chosen = last / stride + 1 + (last % stride != 0);
    u64 wrong = 0, lowest = ~0ull;
    for (; i < chosen * PAGE_WORDS; i += all_threads()) {
        const u64 number = i / PAGE_WORDS;
        const u64 page = number > last / stride ? last : number * stride;
        const u64 at = page * PAGE_WORDS + i % PAGE_WORDS;
        if (at < count && words[at] != (key ^ ((first + at) * ODD))) {
            wrong += 1;
            if (at < lowest) lowest = at;
        }
    }
    i -= chosen * PAGE_WORDS;
    if (wrong == 0) return i;
    atomicAdd(out, wrong);
    if (atomicMin(out + 1, lowest) <= lowest) return i;
    // Whoever lowered the minimum writes its word, and writes again if the minimum moved meanwhile:
    // the last to write has seen the final minimum.
    volatile u64 *seen = out;
    u64 at;
    do {
        at = seen[1];
        seen[2] = words[at];
        __threadfence();
    } while (seen[1] != at);
    return i;
}

KERNEL check(const u64 *words, u64 count, u64 key, u64 first, u64 stride, u64 *out) {
    check_from(first_index(), words, count, key, first, stride, out);
}

// `check` of each range, each with an `out` of its own.
KERNEL check_many(const __grid_constant__ Ranges ranges) {
    u64 i = first_index();
    const u32 count = u32(ranges.count);
#pragma unroll 1
    for (u32 n = 0; n < count; n++) {
        const Range &range = ranges.of[n];
        i = check_from(i, range.words, range.count, range.key, range.first, range.stride,
                       range.out);
    }
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

// Copies `count16` times 16 bytes, `passes` times. The two ranges do not overlap.
KERNEL stream_copy(uint4 *__restrict__ to, const uint4 *__restrict__ from, u64 count16,
                   u32 passes) {
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

// Compute-bound: 8 independent chains of 16 multiply-adds per thread and iteration, so
// 8 * 16 * 2 = 256 FLOP per thread and iteration. x = x / 2 + 1/2 goes to 1 and stays there.
// Writes sink[0] only if a value is negative, which none is.
KERNEL fma_f32(u32 iterations, float *sink) {
    constexpr int CHAINS = 8, LINKS = 16;
    float x[CHAINS];
#pragma unroll
    for (int k = 0; k < CHAINS; k++) x[k] = 1.0f + float(first_index() & 1023) * (k + 1);
    // No constant to the compiler, so that it stays in a register.
    const float half = iterations == ~0u ? 0.25f : 0.5f;
    for (u32 i = 0; i < iterations; i++) {
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
