//! A run cut into windows of ops, and the windows that add up to the most.
//!
//! A window goes from one split to any later one; what must cross a cut in it is counted by a pass
//! over its ops, which counts all windows with the same start. Few of them matter: every pass also
//! says what later ones count at most ([`super::slack`]), so the best windows are found with these
//! limits where nothing was counted, and counted until all of the best are. What a pass counts
//! follows from the capacity alone, so machines that differ in rates share it.
//! Invariant: the result is that of counting every window; of equals the windows that begin first.

use super::cut::Cut;
use super::future::Future;
use super::slack::Slack;
use super::traffic::{Counted, Crossing, Traffic};
use super::window::{Bound, Cause, Window, WindowBound};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use tiersim_models::lifetime::Workload;

#[cfg(test)]
mod tests;

/// Where windows may begin and end, and what ops compute.
#[derive(Clone, Debug)]
pub(super) struct Pieces {
    /// Ops of the run.
    pub(super) splits: Vec<u64>,
    /// Picoseconds up to each split.
    pub(super) computed: Vec<u128>,
    pub(super) streams: usize,
}

/// All windows of a run.
#[derive(Debug)]
pub(super) struct Windows {
    /// By cut; one alone is that of all.
    counts: Vec<(Future, Slack)>,
    objects: usize,
    pieces: Pieces,
    /// What passes have counted: by what counts at the cut, its capacity and the first split, up to
    /// each later split.
    passed: Mutex<Passed>,
}

/// See [`Windows::passed`].
type Passed = BTreeMap<(usize, u128, usize), Arc<[Counted]>>;

/// Passes that are kept, of some 4 kB each. Points of a sweep mostly have few capacities.
const MOST_PASSED: usize = 1 << 10;

/// What is known of a window.
#[derive(Clone, Debug)]
struct Known {
    /// By cut: no more crosses.
    at_most: Vec<Crossing>,
    /// So many picoseconds at most.
    limit: u128,
    /// What was counted.
    exact: Option<WindowBound>,
}

/// By first and last split.
type Table = Vec<Vec<Known>>;

impl Windows {
    pub(super) fn new(workload: &Workload, pieces: Pieces) -> Windows {
        Windows::of(workload, pieces, &[None])
    }

    /// The same where objects are packed: by cut, so many times fewer bytes of each object count, in
    /// parts of `RATIO_UNIT`.
    pub(super) fn packed(workload: &Workload, pieces: Pieces, ratios: &[Vec<u64>]) -> Windows {
        let ratios: Vec<Option<&[u64]>> = ratios.iter().map(|own| Some(&own[..])).collect();
        Windows::of(workload, pieces, &ratios)
    }

    fn of(workload: &Workload, pieces: Pieces, ratios: &[Option<&[u64]>]) -> Windows {
        let objects = workload.trace.objects.len();
        let count = |&ratios: &Option<&[u64]>| {
            let future = Future::new(workload, ratios);
            let slack = Slack::new(&future, objects, &pieces.splits);
            (future, slack)
        };
        let counts = ratios.iter().map(count).collect();
        Windows { counts, objects, pieces, passed: Mutex::default() }
    }

    /// Which of `counts` is that of a cut.
    fn count_at(&self, cut: usize) -> usize {
        cut.min(self.counts.len() - 1)
    }

    /// What counts at a cut.
    fn count_of(&self, cut: usize) -> &(Future, Slack) {
        &self.counts[self.count_at(cut)]
    }

    /// The windows that add up to the most.
    pub(super) fn best(&self, cuts: &[Cut]) -> Bound {
        self.counted(cuts).0
    }

    /// The same, and how many passes it took.
    fn counted(&self, cuts: &[Cut]) -> (Bound, usize) {
        let last = self.pieces.splits.len() - 1;
        let mut counters: Vec<Option<Traffic<'_>>> = cuts.iter().map(|_| None).collect();
        let mut table = self.unknown(cuts.len());
        let mut next = (0, last);
        for passes in 1.. {
            // What is asked for again with another end is counted to the end of the run.
            let (first, end) = next;
            let again = table[first][first + 1].exact.is_some();
            let next_end = if again { last } else { end };
            self.count(cuts, &mut counters, (first, next_end), &mut table);
            let path = self.longest(&table);
            let uncounted = |&&(first, last): &&(usize, usize)| table[first][last].exact.is_none();
            match path.iter().rev().find(uncounted) {
                Some(&window) => next = window,
                None => return (sum(path.iter().filter_map(|&(f, l)| table[f][l].exact)), passes),
            }
        }
        unreachable!("every pass counts a window more")
    }

    /// What a pass from the split `first` counts at a cut up to each later one, no further than
    /// `last`; `counter` is that of the cut, once it is needed.
    fn pass<'w>(
        &'w self,
        (depth, cut): (usize, &Cut),
        (first, last): (usize, usize),
        counter: &mut Option<Traffic<'w>>,
    ) -> Arc<[Counted]> {
        let key = (self.count_at(depth), cut.capacity, first);
        let passed = || self.passed.lock().expect("nobody panics with it");
        if let Some(known) = passed().get(&key).filter(|known| known.len() >= last - first) {
            return known.clone();
        }
        let counter = counter.get_or_insert_with(|| {
            Traffic::new(&self.count_of(depth).0, self.objects, cut.capacity)
        });
        let counted: Arc<[Counted]> = counter.count(&self.pieces.splits[first..=last]).into();
        let mut passed = passed();
        if passed.len() >= MOST_PASSED {
            passed.clear();
        }
        passed.insert(key, counted.clone());
        counted
    }

    fn unknown(&self, cuts: usize) -> Table {
        let all = u128::MAX;
        let any = Crossing { strict: [all; 2], loose: [all; 2], in_place: all, unread: 0 };
        let known = Known { at_most: vec![any; cuts], limit: all, exact: None };
        let last = self.pieces.splits.len() - 1;
        vec![vec![known; last + 1]; last]
    }

    /// Counts all windows that begin where this one does and end no later.
    fn count<'w>(
        &'w self,
        cuts: &[Cut],
        counters: &mut [Option<Traffic<'w>>],
        (first, last): (usize, usize),
        table: &mut Table,
    ) {
        for known in &mut table[first][first + 1..=last] {
            known.exact = None;
        }
        for (depth, (cut, counter)) in cuts.iter().zip(counters).enumerate() {
            let counted = self.pass((depth, cut), (first, last), counter);
            let counted = &counted[..last - first];
            for (end, counted) in (first + 1..).zip(counted) {
                let window = self.window(first, end);
                let crosses = window.crosses(cut, &counted.crossing);
                let exact = &mut table[first][end].exact;
                *exact = Some(exact.map_or(crosses, |found| found.max(crosses)));
            }
            for begin in first + 1..last {
                for end in begin + 1..=last {
                    let (from, to) = (&counted[begin - first - 1], &counted[end - first - 1]);
                    let limit = self.count_of(depth).1.at_most((begin, end), from, to);
                    table[begin][end].lower(depth, &limit);
                }
            }
        }
        for (begin, row) in table.iter_mut().enumerate().take(last).skip(first + 1) {
            for (end, known) in row.iter_mut().enumerate().take(last + 1).skip(begin + 1) {
                let window = self.window(begin, end);
                let of_cuts = cuts.iter().zip(&known.at_most);
                let limits = of_cuts.map(|(cut, crossing)| window.at_most(cut, crossing));
                known.limit = limits.max().unwrap_or(u128::MAX).min(known.limit);
            }
        }
    }

    fn window(&self, first: usize, last: usize) -> Window {
        let Pieces { computed, streams, .. } = &self.pieces;
        Window { compute: computed[last] - computed[first], streams: *streams }
    }

    /// The windows that add up to the most, or may, from the last to the first.
    fn longest(&self, table: &Table) -> Vec<(usize, usize)> {
        let end = self.pieces.splits.len() - 1;
        // By split: the most up to there, and the split before.
        let mut up_to = vec![(0u128, 0usize); end + 1];
        for (first, row) in table.iter().enumerate() {
            for (last, known) in row.iter().enumerate().skip(first + 1) {
                let own = known.exact.map_or(known.limit, |exact| exact.ps);
                let sum = up_to[first].0.saturating_add(own);
                if sum > up_to[last].0 {
                    up_to[last] = (sum, first);
                }
            }
        }
        let mut path = Vec::new();
        let mut at = end;
        while at > 0 {
            path.push((up_to[at].1, at));
            at = up_to[at].1;
        }
        path
    }
}

impl Known {
    /// No more crosses a cut than this.
    fn lower(&mut self, cut: usize, limit: &Crossing) {
        let known = &mut self.at_most[cut];
        for (known, limit) in known.strict.iter_mut().zip(limit.strict) {
            *known = limit.min(*known);
        }
        for (known, limit) in known.loose.iter_mut().zip(limit.loose) {
            *known = limit.min(*known);
        }
        known.in_place = known.in_place.min(limit.in_place);
        known.unread = known.unread.max(limit.unread);
    }
}

/// All of them one after the other, and what most of that is.
fn sum(windows: impl Iterator<Item = WindowBound>) -> Bound {
    let mut shares: BTreeMap<Cause, u128> = BTreeMap::new();
    for window in windows {
        *shares.entry(window.cause).or_default() += window.ps;
    }
    let ps = shares.values().sum();
    let largest = shares.into_iter().max_by_key(|&(_, ps)| ps);
    Bound { ps, cause: largest.map_or(Cause::CriticalPath, |(cause, _)| cause) }
}
