//! What an object holds at a moment of a plan: of each page, which write was the last.
//!
//! An op may write a part of an object, as decoding appends a token's keys and values. Where in it
//! that part lies no plan says, so here it lies behind what was written before, and from the end of
//! the object on at its start again. A copy over older contents carries what was written last.
//! Parts begin and end within pages; a page is of the last write that touched it.
//! Invariant: layers are in order of place and cover each page once.

use crate::pattern::PAGE;
use smallvec::SmallVec;
use std::iter;
use std::ops::Range;
use std::sync::Arc;
use tiersim_models::units::Bytes;
use tiersim_policies::command::{Command, ObjectAccess, Work};

/// Pages in a row: one run of them, or two where they go around the end of an object.
pub(crate) type Runs = SmallVec<[Range<usize>; 2]>;

/// Pages in a row of which one write was the last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Layer {
    pub(crate) pages: Range<usize>,
    pub(crate) version: u64,
}

/// What a command must meet of an object, and how much an op writes of it.
#[derive(Clone, Debug)]
pub(crate) struct ObjectContents {
    /// Writes that it has seen.
    pub(crate) version: u64,
    pub(crate) layers: Arc<[Layer]>,
    /// Behind the last byte that these wrote: below `whole`.
    end: u64,
    whole: u64,
    /// Bytes that an op writes next, or that a copy carries.
    moved: u64,
}

/// What every object holds, by the order of submission.
#[derive(Debug)]
pub(crate) struct Written {
    now: Vec<ObjectContents>,
    versions: Vec<u64>,
}

impl ObjectContents {
    fn new(whole: Bytes) -> ObjectContents {
        let pages = 0..pages(whole.get());
        let (version, end, moved, whole) = (0, 0, 0, whole.get());
        ObjectContents { version, layers: [Layer { pages, version }].into(), end, whole, moved }
    }

    /// Pages that the op's write fills.
    pub(crate) fn fresh(&self) -> Runs {
        self.around(self.end, self.moved)
    }

    /// Pages of a piece of a copy, which starts so many bytes into what the copy carries.
    pub(crate) fn carried(&self, from: Bytes, bytes: Bytes) -> Runs {
        if self.is_whole() {
            return iter::once(pages(from.get())..pages(from.get() + bytes.get())).collect();
        }
        self.around(self.end + (self.whole - self.moved) + from.get(), bytes.get())
    }

    /// The most bytes of whole pages that a piece of a copy has, where it has so many of its own.
    pub(crate) fn most_of(&self, bytes: Bytes) -> u64 {
        let edges = if self.is_whole() { 0 } else { 4 };
        bytes.get().next_multiple_of(PAGE as u64) + edges * PAGE as u64
    }

    fn is_whole(&self) -> bool {
        self.moved >= self.whole
    }

    /// Pages of so many bytes from a place on.
    fn around(&self, from: u64, bytes: u64) -> Runs {
        let all = pages(self.whole);
        if bytes >= self.whole {
            return iter::once(0..all).collect();
        }
        let start = from % self.whole;
        let (first, end) = (start as usize / PAGE, start + bytes);
        if end <= self.whole {
            return iter::once(first..pages(end)).collect();
        }
        match pages(end - self.whole) {
            over if over >= first => iter::once(0..all).collect(),
            over => [first..all, 0..over].into_iter().collect(),
        }
    }

    /// What it is after the op's write.
    fn after(&self) -> ObjectContents {
        let (version, runs) = (self.version + 1, self.fresh());
        let mut layers: Vec<Layer> = Vec::with_capacity(self.layers.len() + 2);
        for layer in self.layers.iter() {
            let left = outside(&layer.pages, &runs);
            layers.extend(left.into_iter().map(|pages| Layer { pages, ..layer.clone() }));
        }
        layers.extend(runs.into_iter().map(|pages| Layer { pages, version }));
        layers.sort_unstable_by_key(|layer| layer.pages.start);
        let end = (self.end + self.moved) % self.whole.max(1);
        ObjectContents { version, layers: layers.into(), end, ..self.clone() }
    }
}

impl Written {
    /// Nothing written yet of objects of these sizes.
    pub(crate) fn new(objects: impl IntoIterator<Item = Bytes>) -> Written {
        let now: Vec<ObjectContents> = objects.into_iter().map(ObjectContents::new).collect();
        Written { versions: vec![0; now.len()], now }
    }

    /// What a command must meet, one per touch or copied object; and counts its writes.
    pub(crate) fn meets(&mut self, command: &Command) -> Vec<ObjectContents> {
        match &command.work {
            Work::Compute { touches, .. } => {
                let meet = |touch: &ObjectAccess| {
                    let now = &mut self.now[touch.object.index()];
                    let met = ObjectContents { moved: touch.written.get(), ..now.clone() };
                    if touch.mode.writes() {
                        *now = met.after();
                        self.versions[touch.object.index()] = now.version;
                    }
                    met
                };
                touches.iter().map(meet).collect()
            }
            Work::Copy { object, bytes, .. } => {
                vec![ObjectContents { moved: bytes.get(), ..self.now[object.index()].clone() }]
            }
            Work::Compact { .. } | Work::Release => Vec::new(),
        }
    }

    /// Writes by object.
    pub(crate) fn all(&self) -> &[u64] {
        &self.versions
    }

    /// What an object holds after all of them.
    pub(crate) fn now(&self, object: tiersim_models::ids::ObjectId) -> &ObjectContents {
        &self.now[object.index()]
    }
}

/// Pages that are in none of some runs.
pub(crate) fn outside(pages: &Range<usize>, runs: &Runs) -> SmallVec<[Range<usize>; 3]> {
    let mut left: SmallVec<[Range<usize>; 3]> = SmallVec::from_iter([pages.clone()]);
    for run in runs {
        let cut = |old: Range<usize>| {
            [old.start..old.end.min(run.start), old.start.max(run.end)..old.end]
        };
        left = left.into_iter().flat_map(cut).filter(|rest| !rest.is_empty()).collect();
    }
    left
}

/// Pages that are in one of some runs.
pub(crate) fn inside(pages: &Range<usize>, runs: &Runs) -> Runs {
    let shared = runs.iter().map(|run| pages.start.max(run.start)..pages.end.min(run.end));
    shared.filter(|shared| !shared.is_empty()).collect()
}

fn pages(bytes: u64) -> usize {
    (bytes as usize).div_ceil(PAGE)
}

#[cfg(test)]
mod tests {
    use super::*;

    const P: u64 = PAGE as u64;

    fn write(contents: &ObjectContents, bytes: u64) -> ObjectContents {
        ObjectContents { moved: bytes, ..contents.clone() }.after()
    }

    fn layers(contents: &ObjectContents) -> Vec<(Range<usize>, u64)> {
        contents.layers.iter().map(|layer| (layer.pages.clone(), layer.version)).collect()
    }

    #[test]
    fn parts_follow_one_another_and_go_around_the_end() {
        let start = ObjectContents::new(Bytes::new(4 * P));
        let one = write(&start, 3 * P / 2);
        assert_eq!(layers(&one), [(0..2, 1), (2..4, 0)]);
        let two = write(&one, P);
        assert_eq!(layers(&two), [(0..1, 1), (1..3, 2), (3..4, 0)]);
        let three = write(&two, 2 * P);
        assert_eq!(layers(&three), [(0..1, 3), (1..2, 2), (2..4, 3)]);
        assert_eq!(layers(&write(&three, 4 * P)), [(0..4, 4)]);
    }

    #[test]
    fn a_copy_carries_the_pages_of_what_was_written_last() {
        let start = ObjectContents::new(Bytes::new(4 * P));
        let now = write(&write(&start, 3 * P / 2), 2 * P);
        let carried = |bytes, from, of| {
            let copy = ObjectContents { moved: bytes, ..now.clone() };
            copy.carried(Bytes::new(from), Bytes::new(of))
        };
        assert_eq!(carried(2 * P, 0, 2 * P), iter::once(1..4).collect::<Runs>());
        assert_eq!(carried(7 * P / 2, 0, P), iter::once(0..1).collect::<Runs>());
        assert_eq!(carried(4 * P, P, 3 * P), iter::once(1..4).collect::<Runs>());
        let around = write(&now, P);
        let copy = ObjectContents { moved: P, ..around };
        assert_eq!(copy.carried(Bytes::ZERO, Bytes::new(P)).to_vec(), [3..4, 0..1]);
    }
}
