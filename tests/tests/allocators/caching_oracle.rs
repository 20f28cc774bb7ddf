//! The caching allocator once more, from the description of its rules alone: plain vectors, no
//! links, no orders kept, everything searched anew. It must give the same addresses and bytes.

use tiersim_models::allocator::caching::Caching;
use tiersim_models::allocator::{Allocator, AllocatorBlock, CachingConfig};
use tiersim_tests::prelude::*;

const MIB: u64 = 1 << 20;

/// A segment: reserved addresses, which of them have memory, and which are in use.
#[derive(Clone)]
struct Segment {
    at: u64,
    size: u64,
    stream: u16,
    small: bool,
    /// Memory comes and goes in pieces of this size; a plain segment is one piece.
    piece: u64,
    mapped: Vec<bool>,
    /// (address, size), in order.
    used: Vec<(u64, u64)>,
}

impl Segment {
    /// Free memory in a row as (address, size): between used blocks and unmapped pieces.
    fn free(&self) -> Vec<(u64, u64)> {
        let mut free: Vec<(u64, u64)> = Vec::new();
        for (index, _) in self.mapped.iter().enumerate().filter(|(_, mapped)| **mapped) {
            let (start, end) = self.bounds(index);
            let mut at = start;
            let inside = self.used.iter().filter(|(used, size)| *used < end && used + size > start);
            for &(used, size) in inside.chain(&[(end, 0)]) {
                if used > at {
                    match free.last_mut() {
                        Some((last, length)) if *last + *length == at => *length += used - at,
                        _ => free.push((at, used - at)),
                    }
                }
                at = at.max(used + size);
            }
        }
        free
    }

    fn bounds(&self, index: usize) -> (u64, u64) {
        let start = self.at + index as u64 * self.piece;
        (start, start + self.piece)
    }

    /// Addresses without memory from `at` on, in a row.
    fn unmapped_from(&self, at: u64) -> u64 {
        if !(at - self.at).is_multiple_of(self.piece) {
            return 0;
        }
        let first = ((at - self.at) / self.piece) as usize;
        let row = self.mapped[first.min(self.mapped.len())..].iter().take_while(|m| !**m).count();
        row as u64 * self.piece
    }

    fn in_use(&self, at: u64) -> bool {
        self.used.iter().any(|&(start, size)| start <= at && at < start + size)
    }
}

struct Plain {
    config: CachingConfig,
    capacity: u64,
    segments: Vec<Segment>,
}

impl Plain {
    fn reserved(&self) -> u64 {
        let mapped = |s: &Segment| s.mapped.iter().filter(|m| **m).count() as u64 * s.piece;
        self.segments.iter().map(mapped).sum()
    }

    fn round(&self, bytes: u64) -> u64 {
        let divisions = u64::from(self.config.roundup_power2_divisions);
        if bytes < 512 {
            return 512;
        }
        if divisions > 1 && bytes > 512 * divisions && !bytes.is_power_of_two() {
            let below = bytes.next_power_of_two() / 2;
            return (0..=divisions)
                .map(|i| below + i * (below / divisions))
                .find(|&s| s >= bytes)
                .expect("the last step is the next power of two");
        }
        if divisions > 1 && bytes > 512 * divisions { bytes } else { bytes.div_ceil(512) * 512 }
    }

    fn alloc(&mut self, bytes: u64, stream: u16) -> Option<(u64, u64)> {
        let size = self.round(bytes);
        let small = size <= MIB;
        let found = self
            .best(size, stream, small)
            .or_else(|| self.extend(size, stream, small))
            .or_else(|| {
                self.release_oversize(size, stream, small)
                    .then_some(())
                    .and_then(|()| self.extend(size, stream, small))
            })
            .or_else(|| {
                self.release_all();
                self.extend(size, stream, small)
            });
        let (at, length) = found?;
        let rest = length - size;
        let split = match small || self.config.expandable_segments {
            true => rest >= 512,
            false => size < self.limit() && rest > MIB,
        };
        let taken = if split { size } else { length };
        let owner = self.segments.iter_mut().find(|s| s.at <= at && at < s.at + s.size);
        let used = &mut owner.expect("a block lies in a segment").used;
        used.push((at, taken));
        used.sort_unstable();
        Some((at, taken))
    }

    fn limit(&self) -> u64 {
        self.config.max_split.map_or(u64::MAX, Bytes::get)
    }

    fn best(&self, size: u64, stream: u16, small: bool) -> Option<(u64, u64)> {
        let pool = self.segments.iter().filter(|s| s.stream == stream && s.small == small);
        let mut free: Vec<(u64, u64, u64)> = pool
            .flat_map(|s| {
                s.free().into_iter().map(|(at, length)| {
                    let grows = self.config.expandable_segments;
                    let more = if grows { s.unmapped_from(at + length) } else { 0 };
                    (length, at, length + more)
                })
            })
            .filter(|(length, _, _)| *length >= size)
            .collect();
        free.sort_unstable();
        let mut chosen = *free.first()?;
        if self.config.expandable_segments {
            for &next in &free[1..] {
                if next.2 >= chosen.2 {
                    break;
                }
                chosen = next;
            }
        }
        let (length, at, _) = chosen;
        let good =
            if size < self.limit() { length < self.limit() } else { length < size + 20 * MIB };
        good.then_some((at, length))
    }

    fn extend(&mut self, size: u64, stream: u16, small: bool) -> Option<(u64, u64)> {
        if self.config.expandable_segments {
            return self.grow(size, stream, small);
        }
        let segment = match size {
            _ if small => 2 * MIB,
            _ if size < 10 * MIB => 20 * MIB,
            _ => size.div_ceil(2 * MIB) * 2 * MIB,
        };
        if self.reserved() + segment > self.capacity {
            return None;
        }
        let at = self.reserve(segment, stream, small, segment, true);
        Some((at, segment))
    }

    /// The lowest free addresses.
    fn reserve(&mut self, size: u64, stream: u16, small: bool, piece: u64, mapped: bool) -> u64 {
        self.segments.sort_by_key(|s| s.at);
        let mut at = 0;
        for segment in &self.segments {
            if segment.at >= at + size {
                break;
            }
            at = segment.at + segment.size;
        }
        let mapped = vec![mapped; (size / piece) as usize];
        self.segments.push(Segment { at, size, stream, small, piece, mapped, used: Vec::new() });
        self.segments.sort_by_key(|s| s.at);
        at
    }

    fn grow(&mut self, size: u64, stream: u16, small: bool) -> Option<(u64, u64)> {
        let (number, start) = match self.place(size, stream, small) {
            Some(place) => place,
            None => {
                let piece = if small { 2 * MIB } else { 20 * MIB };
                let space = (self.capacity + self.capacity / 8).div_ceil(piece) * piece;
                let at = self.reserve(space, stream, small, piece, false);
                (self.segments.iter().position(|s| s.at == at).expect("just made"), at)
            }
        };
        loop {
            let reserved = self.reserved();
            let segment = &mut self.segments[number];
            let run = segment.free().into_iter().find(|&(at, _)| at == start);
            let length = run.map_or(0, |(_, length)| length);
            if length >= size {
                return Some((start, length));
            }
            let end = start + length;
            let wanted = (size - length).min(segment.unmapped_from(end));
            let pieces = wanted.div_ceil(segment.piece);
            if reserved + pieces * segment.piece > self.capacity {
                return None;
            }
            let first = ((end - segment.at) / segment.piece) as usize;
            segment.mapped[first..first + pieces as usize].fill(true);
        }
    }

    /// The lowest addresses that are free or unmapped, enough in a row, and partly unmapped.
    fn place(&self, size: u64, stream: u16, small: bool) -> Option<(usize, u64)> {
        for (number, segment) in self.segments.iter().enumerate() {
            if segment.stream != stream || segment.small != small {
                continue;
            }
            let free = segment.free();
            for index in 0..segment.mapped.len() {
                let (at, _) = segment.bounds(index);
                let first = !segment.mapped[index] && (index == 0 || segment.mapped[index - 1]);
                if !first {
                    continue;
                }
                let before = free.iter().find(|(start, length)| start + length == at);
                let start = before.map_or(at, |&(start, _)| start);
                let end = (start / 512..(segment.at + segment.size) / 512)
                    .map(|cell| cell * 512)
                    .find(|&cell| segment.in_use(cell))
                    .unwrap_or(segment.at + segment.size);
                if end - start >= size {
                    return Some((number, start));
                }
            }
        }
        None
    }

    fn release_oversize(&mut self, size: u64, stream: u16, small: bool) -> bool {
        if self.config.max_split.is_none() || self.config.expandable_segments {
            return false;
        }
        let target = size.max(self.limit());
        let of_stream = |s: &&Segment| s.stream == stream && s.small == small;
        let idle = self.segments.iter().filter(of_stream).filter(|s| s.used.is_empty());
        let mut idle: Vec<(u64, u64)> =
            idle.map(|s| (s.size, s.at)).filter(|(size, _)| *size >= self.limit()).collect();
        idle.sort_unstable();
        if let Some(&(_, at)) = idle.iter().find(|(size, _)| *size >= target) {
            self.segments.retain(|s| s.at != at);
            return true;
        }
        let mut released = 0;
        while let Some((size, at)) = idle.pop().filter(|_| released < target) {
            released += size;
            self.segments.retain(|s| s.at != at);
        }
        released >= target
    }

    fn release_all(&mut self) {
        // Only what is unmapped here is given back: addresses that never had memory stay reserved.
        let had: Vec<u64> =
            self.segments.iter().filter(|s| s.mapped.contains(&true)).map(|s| s.at).collect();
        for segment in &mut self.segments {
            for index in 0..segment.mapped.len() {
                let (start, end) = segment.bounds(index);
                let touched = segment.used.iter().any(|(at, size)| *at < end && at + size > start);
                segment.mapped[index] &= touched;
            }
        }
        self.segments.retain(|s| s.mapped.contains(&true) || !had.contains(&s.at));
    }

    fn free(&mut self, at: u64) {
        for segment in &mut self.segments {
            segment.used.retain(|(used, _)| *used != at);
        }
    }
}

fn size(rng: &mut ChaCha12Rng) -> u64 {
    match rng.random_range(0..6) {
        0 => rng.random_range(1..5000),
        1 => rng.random_range(1..MIB + 2000),
        2 => rng.random_range(MIB..10 * MIB),
        3 => rng.random_range(1..24) * 2 * MIB,
        4 => 3 * MIB + 700 * rng.random_range(0..3),
        _ => rng.random_range(9 * MIB..40 * MIB),
    }
}

#[test]
fn the_caching_allocator_agrees_with_a_plain_reading_of_its_rules() {
    let mut failures = 0;
    for seed in 0..60 {
        let mut rng = ChaCha12Rng::seed_from_u64(seed);
        let config = CachingConfig {
            expandable_segments: seed % 3 == 2,
            max_split: (seed % 3 == 1).then_some(Bytes::mib(22)),
            roundup_power2_divisions: [0, 0, 4][rng.random_range(0..3)],
            ..CachingConfig::default()
        };
        let capacity = rng.random_range(60..260) * MIB;
        let mut model = Caching::new(Bytes::new(capacity), config);
        let mut plain = Plain { config, capacity, segments: Vec::new() };
        let mut live: Vec<AllocatorBlock> = Vec::new();
        for step in 0..250 {
            let what = format!("seed {seed}, step {step}");
            if live.is_empty() || rng.random_bool(0.55) {
                let (bytes, stream) = (size(&mut rng), rng.random_range(0..2));
                let got = model.alloc(Bytes::new(bytes), stream).ok();
                let expected = plain.alloc(bytes, stream);
                let found = got.map(|block| (block.at, block.bytes.get()));
                assert_eq!(found, expected, "{what}: {bytes} bytes");
                failures += u64::from(got.is_none());
                live.extend(got);
            } else if rng.random_bool(0.02) {
                model.empty_cache();
                plain.release_all();
            } else {
                let block = live.swap_remove(rng.random_range(0..live.len()));
                model.free(block);
                plain.free(block.at);
            }
            let stats = model.stats();
            let active: u64 = plain.segments.iter().flat_map(|s| &s.used).map(|(_, b)| b).sum();
            assert_eq!(stats.reserved.get(), plain.reserved(), "{what}: reserved");
            assert_eq!(stats.active.get(), active, "{what}: active");
            let partly = plain.segments.iter().filter(|s| !s.used.is_empty());
            let split: u64 = partly.flat_map(Segment::free).map(|(_, bytes)| bytes).sum();
            if !config.expandable_segments {
                assert_eq!(stats.inactive_split.get(), split, "{what}: inactive split");
            }
        }
    }
    assert_eq!(failures, 1129, "the sequences must also fill the memory");
}
