//! Regions of DAMON: pages that were in use in an interval or not, and when intervals were.
//!
//! Which pages of an interval were used when is not known: they take turns.
//! Invariant: pages that were not in use are gone through once, however often a file names them.

use super::{Groups, MOST_OBJECTS};
use std::collections::BTreeSet;
use tiersim_models::workload::{Known, Mode};

type Done<T> = Result<T, String>;

impl Groups {
    /// A region of a target, from its first byte to the one behind its last.
    pub(in crate::import::accesses) fn region(
        &mut self,
        (target, start, end): (u64, u64, u64),
        used: bool,
    ) -> Done<()> {
        let (first, last) = (start / self.object_bytes, (end - 1) / self.object_bytes);
        self.pages = self.pages.saturating_add(last - first + 1);
        // Neighbours may share the page that their border lies in.
        if self.pages > 2 * MOST_OBJECTS as u64 {
            return Err(format!("a trace made of accesses has at most {MOST_OBJECTS} objects"));
        }
        for (from, to) in self.unknown(target, first, last) {
            for page in from..=to {
                self.object(target, page, self.object_bytes)?;
            }
        }
        for page in (first..=last).take_while(|_| used) {
            let id = self.object(target, page, self.object_bytes)?;
            self.in_use.insert(id);
        }
        Ok(())
    }

    /// The pages that were in use in the interval that ends here.
    pub(in crate::import::accesses) fn end_of_interval(&mut self) -> BTreeSet<u32> {
        self.pages = 0;
        self.account.intervals += 1;
        std::mem::take(&mut self.in_use)
    }

    /// Pages that were in use between two times: in the order in which they came up, one after the
    /// other, spread over all of it.
    pub(in crate::import::accesses) fn interval(
        &mut self,
        pages: &BTreeSet<u32>,
        (start, end): (u128, u128),
    ) -> Done<()> {
        let (span, count) = (end.saturating_sub(start), pages.len() as u128);
        // Times begin with the first interval, whether anything is in use in it or not.
        self.time(Some(start))?;
        for (index, &id) in pages.iter().enumerate() {
            // Less than 2^18 pages, and spans are refused that are not far below 2^64.
            let at = start + span.saturating_mul(index as u128) / count;
            self.begin(Some(at))?;
            self.touch(id, u64::MAX, Mode::Read, Known::Inferred);
            self.count(self.object_bytes, Mode::Read)?;
        }
        self.time(Some(end))
    }

    /// The rows of pages from `first` to `last` that are not known, which now are.
    fn unknown(&mut self, target: u64, first: u64, last: u64) -> Vec<(u64, u64)> {
        let (mut gaps, mut next, mut begin, mut end) = (Vec::new(), first, first, last);
        let before = self.rows.range(..=(target, first)).next_back();
        let before = before.filter(|&(&(of, _), &to)| of == target && to >= first);
        if let Some((&(_, from), &to)) = before {
            if to >= last {
                return gaps;
            }
            (begin, next) = (from, to + 1);
        }
        let within: Vec<(u64, u64)> = self
            .rows
            .range((target, begin)..=(target, last))
            .map(|(&(_, from), &to)| (from, to))
            .collect();
        for (from, to) in within {
            self.rows.remove(&(target, from));
            if from > next {
                gaps.push((next, from - 1));
            }
            next = next.max(to.saturating_add(1));
            end = end.max(to);
        }
        if next <= last {
            gaps.push((next, last));
        }
        self.rows.insert((target, begin), end);
        gaps
    }
}
