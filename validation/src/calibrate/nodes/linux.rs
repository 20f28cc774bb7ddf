//! Threads and memory of this computer, kept to nodes by the system's own calls.

use super::{Bound, Here};
use crate::clock::Clock;
use crate::options::draw;
use crate::pattern::PAGE;
use std::hint::black_box;
use std::io;
use std::sync::Barrier;
use tiersim_models::units::Time;

/// Words of one line of a cache: the chain has one address in each.
const LINE: usize = 8;
/// Steps of the chain that are timed.
const STEPS: usize = 1 << 18;
/// `MPOL_BIND` of linux/mempolicy.h: memory of this node or none.
const BIND: libc::c_long = 2;
/// Nodes in the mask of `mbind`, as the kernel's largest has them.
const MASK: usize = 1024;

/// Keeps the calling thread, and those that it starts, to these cores.
///
/// Errors in words where the system refuses.
#[expect(unsafe_code, reason = "a mask of cores is a system call without a safe wrapper")]
pub fn keep_to(cores: &[u32]) -> Result<(), String> {
    // SAFETY: a set of cores is plain bits, for which zeros are a valid value.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    for &core in cores {
        let core = core as usize;
        if core < 8 * size_of::<libc::cpu_set_t>() {
            // SAFETY: the core is within the set.
            unsafe { libc::CPU_SET(core, &mut set) };
        }
    }
    // SAFETY: the set is borrowed for the call and has the size that is given.
    let result = unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set) };
    if result == 0 {
        return Ok(());
    }
    Err(format!("threads are not kept to its cores: {}", io::Error::last_os_error()))
}

/// Pages that are kept to one node.
struct Kept {
    words: *mut u64,
    len: usize,
}

#[expect(unsafe_code, reason = "memory of one node is had by system calls only")]
impl Kept {
    fn new(node: u32, bytes: usize) -> Result<Kept, String> {
        let refused = |what: &str| format!("{what}: {}", io::Error::last_os_error());
        let len = bytes.next_multiple_of(PAGE);
        let (access, flags) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: new memory at an address of the system's choice.
        let place = unsafe { libc::mmap(std::ptr::null_mut(), len, access, flags, -1, 0) };
        if place == libc::MAP_FAILED {
            return Err(refused("no memory"));
        }
        // Given back by the drop, whatever comes.
        let mut kept = Kept { words: place.cast(), len };
        let mut mask = [0u64; MASK / 64];
        let Some(word) = mask.get_mut(node as usize / 64) else {
            return Err("a number of a node that the kernel does not know".to_owned());
        };
        *word = 1 << (node % 64);
        // SAFETY: the pages are ours and the mask has the bits that are given.
        let result = unsafe {
            let bits: libc::c_ulong = MASK as libc::c_ulong;
            libc::syscall(libc::SYS_mbind, place, len, BIND, mask.as_ptr(), bits, 0)
        };
        if result != 0 {
            return Err(refused("memory is not kept to its node"));
        }
        kept.words().fill(1);
        Ok(kept)
    }

    fn words(&mut self) -> &mut [u64] {
        // SAFETY: the mapping is ours alone, has this length, is aligned to pages, and pages of the
        // system begin as zeros.
        unsafe { std::slice::from_raw_parts_mut(self.words, self.len / 8) }
    }
}

#[expect(unsafe_code, reason = "what was mapped is given back")]
impl Drop for Kept {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and nothing borrows from it any more.
        unsafe { libc::munmap(self.words.cast(), self.len) };
    }
}

impl Bound for Here {
    fn pair(
        &mut self,
        cores: &[u32],
        memory: u32,
        bytes: usize,
        repeats: usize,
    ) -> Result<[Vec<f64>; 3], String> {
        let mut kept = Kept::new(memory, bytes)?;
        let read = |words: &mut [u64]| {
            black_box(words.iter().fold(0u64, |sum, word| sum.wrapping_add(*word)));
        };
        let write = |words: &mut [u64]| black_box(words).fill(black_box(3));
        let reads = together(cores, kept.words(), repeats, read)?;
        let writes = together(cores, kept.words(), repeats, write)?;
        let latencies = chained(cores, kept.words(), repeats)?;
        Ok([reads, writes, latencies])
    }
}

/// Bytes per second of all cores, each with a part of its own, once per repeat and once before.
fn together(
    cores: &[u32],
    words: &mut [u64],
    repeats: usize,
    work: impl Fn(&mut [u64]) + Sync,
) -> Result<Vec<f64>, String> {
    let bytes = (words.len() * 8) as f64;
    let part = words.len().div_ceil(cores.len());
    let parts: Vec<&mut [u64]> = words.chunks_mut(part).collect();
    let barrier = &Barrier::new(parts.len());
    let (work, clock) = (&work, Clock::start());
    let on_core = |core: u32, words: &mut [u64]| -> Result<Vec<(Time, Time)>, String> {
        let kept = keep_to(&[core]);
        let mut spans = Vec::with_capacity(repeats);
        for round in 0..=repeats {
            barrier.wait();
            let from = clock.now();
            work(words);
            // The first time round is not counted.
            if round > 0 {
                spans.push((from, clock.now()));
            }
        }
        kept.map(|()| spans)
    };
    let on_core = &on_core;
    let all: Vec<_> = std::thread::scope(|scope| {
        let each = cores.iter().zip(parts);
        let threads: Vec<_> =
            each.map(|(core, words)| scope.spawn(move || on_core(*core, words))).collect();
        let died = |_| Err("a thread died".to_owned());
        threads.into_iter().map(|thread| thread.join().unwrap_or_else(died)).collect()
    });
    let all = all.into_iter().collect::<Result<Vec<_>, _>>()?;
    let rate = |round: usize| {
        let first = all.iter().map(|spans| spans[round].0).min();
        let last = all.iter().map(|spans| spans[round].1).max();
        let span = last.zip(first).map_or(0, |(last, first)| last.since(first).ps());
        bytes / (span.max(1) as f64 / 1e12)
    };
    Ok((0..repeats).map(rate).collect())
}

/// Seconds of one step of a chain through the whole memory, by one core.
fn chained(cores: &[u32], words: &mut [u64], repeats: usize) -> Result<Vec<f64>, String> {
    let lines = words.len() / LINE;
    // One cycle through all lines in a random order: Sattolo's shuffle.
    let mut order: Vec<u32> = (0..lines as u32).collect();
    for last in (1..lines).rev() {
        order.swap(last, (draw(0xC4A1, last as u64) % last as u64) as usize);
    }
    for (line, next) in order.iter().enumerate() {
        words[line * LINE] = u64::from(*next);
    }
    drop(order);
    let words = &*words;
    let follow = move || {
        keep_to(&cores[..1])?;
        let clock = Clock::start();
        let mut at = 0usize;
        let mut spans = Vec::with_capacity(repeats);
        for round in 0..=repeats {
            let from = clock.now();
            for _ in 0..STEPS {
                at = words[at * LINE] as usize;
            }
            at = black_box(at);
            let span = clock.now().since(from);
            if round > 0 {
                spans.push(span.ps() as f64 / 1e12 / STEPS as f64);
            }
        }
        Ok(spans)
    };
    std::thread::scope(|scope| {
        scope.spawn(follow).join().unwrap_or_else(|_| Err("a thread died".to_owned()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Cores that this process may have, which on a machine of many may not be core 0.
    fn ours() -> u32 {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
        let first = line.and_then(|list| list.trim().split([',', '-']).next()?.parse().ok());
        first.unwrap_or(0)
    }

    #[test]
    fn memory_of_a_node_that_is_not_there_and_cores_that_are_not_are_refused() {
        let refused = Here.pair(&[ours()], 1000, 1 << 16, 1).expect_err("no node has this number");
        assert!(refused.contains("memory is not kept to its node"), "{refused}");
        let refused = Here.pair(&[ours()], 5000, 1 << 16, 1).expect_err("nor this");
        assert!(refused.contains("does not know"), "{refused}");
        std::thread::spawn(|| keep_to(&[1023]).expect_err("no such core"))
            .join()
            .expect("a refusal is no panic");
    }

    #[test]
    fn a_chain_goes_through_every_line_once() {
        let mut words = vec![0; 64 * LINE];
        let spans = chained(&[ours()], &mut words, 3).expect("a core of ours");
        assert!(spans.len() == 3 && spans.iter().all(|span| *span > 0.0));
        let (mut at, mut seen) = (0, 0);
        loop {
            at = words[at * LINE] as usize;
            seen += 1;
            if at == 0 {
                break;
            }
        }
        assert_eq!(seen, 64);
    }

    #[test]
    fn this_hosts_own_memory_is_measured() {
        let topology = crate::calibrate::nodes::read(std::path::Path::new("/")).expect("files");
        let Some(node) = topology.nodes.iter().find(|node| node.cores.contains(&ours())) else {
            return;
        };
        match Here.pair(&[ours()], node.id, 1 << 20, 2) {
            Ok([reads, writes, latencies]) => {
                assert!(reads.len() == 2 && writes.len() == 2 && latencies.len() == 2);
                assert!(reads.iter().chain(&writes).all(|rate| *rate > 1e6));
            }
            // A container may forbid it.
            Err(why) => assert!(why.contains("kept"), "{why}"),
        }
    }
}
