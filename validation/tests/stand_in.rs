//! The stand-in of the CUDA driver keeps the driver's promises about contents, order and errors.
//!
//! It is loaded here by its path and called through its C functions, as a program calls a driver.
//! All tests share one device, so they take turns.
//! Invariant: every test ends with nothing left on the device.

#![expect(unsafe_code, reason = "a library's functions have types by promise only")]

pub(crate) mod child;
pub(crate) mod device;
mod work;

use device::*;

const SUCCESS: u32 = 0;
const INVALID_VALUE: u32 = 1;
const OUT_OF_MEMORY: u32 = 2;
const INVALID_CONTEXT: u32 = 201;
const INVALID_HANDLE: u32 = 400;
const NOT_FOUND: u32 = 500;
const NOT_READY: u32 = 600;
const ILLEGAL_ADDRESS: u32 = 700;
const MISALIGNED_ADDRESS: u32 = 716;
const MS: u64 = 1_000_000;

/// The pattern rule of `validation/src/pattern.rs`, which has a test of its own for these numbers.
fn word(object: u64, version: u64, index: u64) -> u64 {
    (object << 32 | version) ^ index.wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

#[test]
fn fill_writes_the_pattern_and_check_finds_every_wrong_word() {
    let device = Device::open();
    let (words, out) = (device.alloc(8 * 2000), device.alloc(32));
    let key = word(7, 3, 0);
    device.run("fill", &[words, 2000, key, 512]);
    let got = device.read(words, 2000);
    assert!((0..2000).all(|i| got[i as usize] == word(7, 3, 512 + i)));
    let check = |stride: u64| {
        device.write(out, &[0, u64::MAX, 0, 0]);
        device.run("check", &[words, 2000, key, 512, stride, out]);
        device.read(out, 3)
    };
    assert_eq!(check(1), [0, u64::MAX, 0]);
    // In page 1, which a stride of 2 passes over, and in the last page, which none does.
    device.write(words + 8 * 600, &[11]);
    device.write(words + 8 * 1999, &[12]);
    assert_eq!(check(1), [2, 600, 11]);
    assert_eq!(check(2), [1, 1999, 12]);
    assert_eq!(check(1000), [1, 1999, 12]);
    device.write(words, &[13]);
    assert_eq!(check(0), [3, 0, 13]);
}

#[test]
fn a_product_of_matrices_is_that_of_the_definition() {
    let device = Device::open();
    let n = 37;
    let value = |i: u64| f32::from(i as u8 % 13) - 6.0;
    let square = |shift: u64| (0..n * n).map(|i| value(i * 7 + shift)).collect::<Vec<_>>();
    let (left, right) = (square(1), square(5));
    let (a, b, c) = (device.alloc(n * n * 4), device.alloc(n * n * 4), device.alloc(n * n * 4));
    device.write_f32(a, &left);
    device.write_f32(b, &right);
    device.run("gemm_f32", &[a, b, c, n]);
    let got = device.read_f32(c, (n * n) as usize);
    let n = n as usize;
    for (i, j) in (0..n).flat_map(|i| (0..n).map(move |j| (i, j))) {
        // Small whole numbers: the sum is exact in any order.
        let want: f32 = (0..n).map(|k| left[i * n + k] * right[k * n + j]).sum();
        assert_eq!(got[i * n + j], want, "{i} {j}");
    }
}

#[test]
fn streaming_kernels_touch_what_they_say() {
    let device = Device::open();
    let (from, to) = (device.alloc(160), device.alloc(160));
    device.write(from, &(0..20).collect::<Vec<_>>());
    device.run("stream_copy", &[to, from, 9, 2]);
    let got = device.read(to, 20);
    assert_eq!(got[..18], (0..18).collect::<Vec<_>>());
    assert_eq!(got[18..], [0, 0]);
    device.run("stream_write", &[to, 10, 3]);
    assert_eq!(device.read(to, 2), [3 << 32 | 2, 5 << 32 | 4]);
    device.run("stream_read", &[from, 10, 2, to]);
    assert_eq!(device.read(to, 2), [3 << 32 | 2, 5 << 32 | 4]);
}

#[test]
fn a_stream_runs_in_order_and_beside_others() {
    let device = Device::open();
    let (one, two) = (device.stream(1), device.stream(1));
    let words = device.alloc(80);
    let (early, late) = (device.event(), device.event());
    let held = device.hold(one);
    device.launch(one, "delay", &[MS]);
    device.launch(one, "fill", &[words, 10, 5, 0]);
    assert_eq!(cuEventRecord(late, one), SUCCESS);
    // The other stream is done while this one is busy, and this one's event is not passed yet.
    assert_eq!(cuEventRecord(early, two), SUCCESS);
    assert_eq!(cuEventSynchronize(early), SUCCESS);
    assert_eq!((cuEventQuery(early), cuEventQuery(late)), (SUCCESS, NOT_READY));
    assert_eq!(device.elapsed(early, late), Err(NOT_READY));
    held.release();
    assert_eq!(cuEventSynchronize(late), SUCCESS);
    assert_eq!(cuEventQuery(late), SUCCESS);
    assert!(
        device.elapsed(early, late).is_ok_and(|ms| ms >= 1.0),
        "a delay of 1 ms is between them"
    );
    assert_eq!(device.read(words, 10), (0..10).map(|i| word(0, 5, i)).collect::<Vec<_>>());
}

#[test]
fn a_stream_waits_for_what_an_event_was_recorded_after_when_the_wait_was_called() {
    let device = Device::open();
    let (one, two) = (device.stream(1), device.stream(1));
    let (words, seen) = (device.alloc(8), device.alloc(8));
    let event = device.event();
    // Never recorded: no wait. Were it one, this would never end.
    assert_eq!(cuStreamWaitEvent(two, event, 0), SUCCESS);
    assert_eq!(cuStreamSynchronize(two), SUCCESS);
    assert_eq!(cuEventQuery(event), SUCCESS);
    for round in 1..=20 {
        device.launch(one, "delay", &[MS / 2]);
        device.launch(one, "fill", &[words, 1, round, 0]);
        assert_eq!(cuEventRecord(event, one), SUCCESS);
        assert_eq!(cuStreamWaitEvent(two, event, 0), SUCCESS);
        device.copy(two, seen, words, 8);
        // Later work of the first stream does not concern the wait; that it does not overtake the
        // copy is for the second stream's event.
        assert_eq!(cuEventRecord(event, two), SUCCESS);
        assert_eq!(cuStreamWaitEvent(one, event, 0), SUCCESS);
        assert_eq!(cuStreamSynchronize(two), SUCCESS);
        assert_eq!(device.read(seen, 1), [round]);
    }
}

#[test]
fn without_the_wait_a_copy_overtakes_the_kernel_beside_it() {
    let device = Device::open();
    let (one, two) = (device.stream(1), device.stream(1));
    let (words, seen) = (device.alloc(8), device.alloc(8));
    let held = device.hold(one);
    device.launch(one, "fill", &[words, 1, 9, 0]);
    device.copy(two, seen, words, 8);
    assert_eq!(cuStreamSynchronize(two), SUCCESS);
    assert_eq!(device.read_on(two, seen, 1), [0], "the kernel had not run");
    held.release();
    assert_eq!(cuStreamSynchronize(one), SUCCESS);
    assert_eq!(device.read(words, 1), [9]);
}

#[test]
fn a_launch_reads_its_parameters_when_it_is_called() {
    let device = Device::open();
    let stream = device.stream(1);
    let words = device.alloc(24);
    let held = device.hold(stream);
    let mut arguments = [words, 3, 4, 0];
    device.launch(stream, "fill", &arguments);
    arguments[2] = 99;
    device.launch(stream, "fill", &[words + 16, 1, 6, 2]);
    held.release();
    assert_eq!(cuStreamSynchronize(stream), SUCCESS);
    assert_eq!(device.read(words, 3), [word(0, 4, 0), word(0, 4, 1), word(0, 6, 2)]);
    assert_eq!(arguments[2], 99);
}

#[test]
fn memory_is_limited_and_counted_and_given_back() {
    let device = Device::open();
    let (free, total) = device.memory();
    let part = device.try_alloc(1 << 20).expect("there is room");
    assert_eq!(device.memory(), (free - (1 << 20), total));
    assert_eq!(device.try_alloc(total), Err(OUT_OF_MEMORY));
    assert_eq!(device.try_alloc(0), Err(INVALID_VALUE));
    assert_eq!(cuMemFree_v2(part), SUCCESS);
    assert_eq!(device.memory(), (free, total));
    assert_eq!(cuMemFree_v2(part), INVALID_VALUE);
}

#[test]
fn memory_is_not_given_back_under_what_a_destroyed_stream_still_does() {
    let device = Device::open();
    let mut stream = 0;
    assert_eq!(cuStreamCreate(&mut stream, 1), SUCCESS);
    let words = device.try_alloc(8).expect("there is room");
    device.launch(stream, "delay", &[5 * MS]);
    device.launch(stream, "fill", &[words, 1, 1, 0]);
    assert_eq!(cuStreamDestroy_v2(stream), SUCCESS);
    assert_eq!(cuMemFree_v2(words), SUCCESS);
    assert_eq!(cuCtxSynchronize(), SUCCESS, "the kernel found its memory");
}

#[test]
fn wrong_use_gives_the_drivers_errors_and_changes_nothing() {
    let device = Device::open();
    let stream = device.stream(1);
    let words = device.alloc(64);
    let (pinned, host) = device.pinned(64);
    assert_eq!(pinned, host, "one address space");
    assert_eq!(cuMemcpyAsync(words, pinned, 65, stream), INVALID_VALUE);
    assert_eq!(cuMemcpyAsync(words + 60, pinned, 8, stream), INVALID_VALUE);
    assert_eq!(cuMemcpyAsync(1 << 50, pinned, 8, stream), INVALID_VALUE);
    assert_eq!(cuMemcpyAsync(0, words, 8, stream), INVALID_VALUE);
    assert_eq!(cuMemcpyAsync(words, pinned, 8, 0xBAD0), INVALID_HANDLE);
    assert_eq!(device.try_launch(stream, "fill", 0, 32, &[words, 8, 1, 0]), INVALID_VALUE);
    assert_eq!(device.try_launch(stream, "fill", 1, 1025, &[words, 8, 1, 0]), INVALID_VALUE);
    assert_eq!(device.try_function("no_such_kernel"), NOT_FOUND);
    assert_eq!(device.try_load(&KERNELS.replace(".version 8.0", ".version 8.9")), 222);
    assert_eq!(device.try_load(&KERNELS.replace(".target sm_75", ".target sm_90")), 209);
    assert_eq!(device.try_load("not PTX"), 200);
    assert_eq!(cuStreamSynchronize(stream), SUCCESS);
    std::thread::scope(|scope| {
        let elsewhere = scope.spawn(|| device.try_alloc(8)).join();
        assert_eq!(elsewhere.ok(), Some(Err(INVALID_CONTEXT)), "not current on that thread");
    });
    assert_eq!(cuMemFreeHost(pinned as usize), SUCCESS);
}

#[test]
fn an_error_inside_a_stream_stays_with_the_context() {
    for (offset, code) in [(1 << 20, ILLEGAL_ADDRESS), (8, MISALIGNED_ADDRESS)] {
        let device = Device::open();
        let stream = device.stream(1);
        let words = device.alloc(64);
        assert_eq!(device.try_launch(stream, "fill", 1, 32, &[words + offset, 1, 1, 0]), SUCCESS);
        assert_eq!(cuStreamSynchronize(stream), code);
        assert_eq!(device.try_alloc(8), Err(code));
        assert_eq!(cuMemFree_v2(words), code);
        device.abandon();
    }
}

#[test]
fn a_kernel_that_the_ptx_lacks_cannot_be_found() {
    let device = Device::open();
    let start = KERNELS.find(".visible .entry stream_write").expect("it is there");
    let ptx: Ptx = device.load(&KERNELS[..start]);
    assert_eq!(device.function_of(&ptx, "fill"), SUCCESS);
    assert_eq!(device.function_of(&ptx, "gemm_f32"), NOT_FOUND);
    device.unload(ptx);
}

#[test]
fn the_legacy_stream_keeps_order_with_blocking_streams_only() {
    let device = Device::open();
    let (blocking, free) = (device.stream(0), device.stream(1));
    let (words, seen) = (device.alloc(8), device.alloc(8));
    let held = device.hold(blocking);
    device.launch(blocking, "fill", &[words, 1, 3, 0]);
    device.copy(0, seen, words, 8);
    assert_eq!(device.read_on(free, seen, 1), [0], "it waits");
    held.release();
    assert_eq!(cuStreamSynchronize(0), SUCCESS);
    assert_eq!(device.read(seen, 1), [3]);
}

#[test]
fn a_call_can_be_told_to_fail_once() {
    let device = Device::open();
    fail("cuMemAlloc_v2:2");
    device.alloc(8);
    assert_eq!(device.try_alloc(8), Err(OUT_OF_MEMORY));
    device.alloc(8);
    assert_eq!(calls("cuMemAlloc_v2"), 3);
    fail("cuCtxSynchronize:1:719");
    assert_eq!(cuCtxSynchronize(), 719);
    assert_eq!(cuCtxSynchronize(), SUCCESS);
    fail("");
}

/// Runs itself as a program of its own, since the stand-in reads its environment once.
#[test]
fn the_environment_sets_limits_and_failures_and_learns_of_leaks() {
    if child::is_child() {
        let device = Device::open();
        assert_eq!(device.memory(), (8192, 8192));
        let leaked = device.alloc(1000);
        assert_eq!(device.try_alloc(1000), Err(OUT_OF_MEMORY), "the second is told to fail");
        assert_eq!(device.try_alloc(8192), Err(OUT_OF_MEMORY), "the third is too large");
        let freed = device.try_alloc(1000).expect("there is room");
        assert_eq!(cuMemFree_v2(freed), SUCCESS);
        assert_ne!(leaked, freed);
        device.stream(1);
        device.abandon();
        return;
    }
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR"));
    let calls = folder.join(format!("stand-in-calls-{}", std::process::id()));
    let name = "stand_in::the_environment_sets_limits_and_failures_and_learns_of_leaks";
    let variables = [
        ("TIERSIM_STAND_IN_MEMORY", "8192"),
        ("TIERSIM_STAND_IN_FAIL", "cuMemAlloc_v2:2"),
        ("TIERSIM_STAND_IN_CALLS", calls.to_str().expect("a path of letters")),
    ];
    let leaks = child::run_leaking(name, &[], &variables).expect("it was written");
    let wanted = "device_allocations 1\ndevice_bytes 1000\nhost_allocations 0\nstreams 1\n\
                  events 0\nmodules 1\nerror 0\n";
    assert_eq!(leaks, wanted);
    let text = std::fs::read_to_string(&calls).expect("it was written");
    std::fs::remove_file(calls).expect("it is there");
    assert!(text.lines().any(|line| line == "cuMemAlloc_v2 4"), "{text}");
}
