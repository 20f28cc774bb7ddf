//! Misses by capacity, from the stack distance of each request.
//!
//! Distances are counted twice: against the capacities that were asked for, and in bins for the
//! curve. Bins are single distances up to 64 and then 32 to an octave; a point of the curve is the
//! largest distance of a bin, so that it is as exact as the capacities asked for.
//! Invariant: memory does not depend on the number of requests or objects.

use super::Misses;

/// Bins of an octave, as a power of two.
const FINE: u32 = 5;
/// Distances below have a bin each.
const SINGLE: u32 = 2 << FINE;

/// Requests and the bytes that they asked for.
#[derive(Clone, Copy, Default)]
struct Tally {
    requests: u64,
    bytes: u64,
}

impl Tally {
    fn add(&mut self, bytes: u64) {
        self.requests += 1;
        self.bytes += bytes;
    }
}

/// What is known of the distances so far.
pub(crate) struct Distances {
    /// Capacities asked for, rising.
    asked: Vec<u64>,
    /// Requests that hit from the capacity at the same place on, and not in a smaller one; the
    /// last entry is those that hit in none.
    from: Vec<Tally>,
    bins: Vec<Tally>,
}

impl Distances {
    pub(crate) fn new(capacities: &[u64]) -> Distances {
        let mut asked = capacities.to_vec();
        asked.sort_unstable();
        asked.dedup();
        let from = vec![Tally::default(); asked.len() + 1];
        Distances { asked, from, bins: vec![Tally::default(); bin(u32::MAX) + 1] }
    }

    /// Counts a request at a distance; 0 is a first request, which misses at every capacity.
    pub(crate) fn count(&mut self, distance: u32, bytes: u64) {
        let asked = match distance {
            0 => self.asked.len(),
            _ => self.asked.partition_point(|&capacity| capacity < u64::from(distance)),
        };
        self.from[asked].add(bytes);
        self.bins[bin(distance)].add(bytes);
    }

    /// Misses at the capacities asked for, rising.
    pub(crate) fn results(&self) -> Vec<Misses> {
        let mut misses = Vec::new();
        let mut missed = Tally::default();
        for (index, tally) in self.from.iter().enumerate().rev() {
            if let Some(&capacity) = self.asked.get(index) {
                misses.push(Misses { capacity, misses: missed.requests, bytes: missed.bytes });
            }
            missed.requests += tally.requests;
            missed.bytes += tally.bytes;
        }
        misses.reverse();
        misses
    }

    /// Misses at the ends of the bins that hold requests, rising; the last is that of a cache
    /// which holds every object.
    pub(crate) fn curve(&self) -> Vec<Misses> {
        let mut missed = Tally::default();
        for tally in &self.bins {
            missed.requests += tally.requests;
            missed.bytes += tally.bytes;
        }
        let mut points = Vec::new();
        for (index, tally) in self.bins.iter().enumerate().skip(1) {
            missed.requests -= tally.requests;
            missed.bytes -= tally.bytes;
            if tally.requests > 0 {
                let capacity = u64::from(largest(index));
                points.push(Misses { capacity, misses: missed.requests, bytes: missed.bytes });
            }
        }
        points
    }
}

/// The bin of a distance.
fn bin(distance: u32) -> usize {
    if distance < SINGLE {
        return distance as usize;
    }
    let octave = distance.ilog2() - FINE;
    (octave << FINE) as usize + (distance >> octave) as usize
}

/// The largest distance of a bin.
fn largest(bin: usize) -> u32 {
    let bin = bin as u32;
    if bin < SINGLE {
        return bin;
    }
    let octave = (bin >> FINE) - 1;
    let leading = (bin & ((1 << FINE) - 1)) + (1 << FINE);
    (((u64::from(leading) + 1) << octave) - 1) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_follow_one_another_without_a_gap() {
        for at in 0..=bin(u32::MAX) {
            let end = largest(at);
            assert_eq!(bin(end), at);
            if let Some(next) = end.checked_add(1) {
                assert_eq!(bin(next), at + 1);
            }
        }
    }

    #[test]
    fn a_request_hits_from_its_distance_on() {
        let mut distances = Distances::new(&[8, 2, 8]);
        for (distance, bytes) in [(0, 10), (0, 20), (1, 10), (2, 20), (3, 5), (8, 7), (9, 1)] {
            distances.count(distance, bytes);
        }
        let at = |capacity, misses, bytes| Misses { capacity, misses, bytes };
        assert_eq!(distances.results(), [at(2, 5, 43), at(8, 3, 31)]);
        let curve = distances.curve();
        assert_eq!(curve, [at(1, 6, 63), at(2, 5, 43), at(3, 4, 38), at(8, 3, 31), at(9, 2, 30)]);
    }
}
