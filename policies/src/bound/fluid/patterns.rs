//! Objects that do the same at the same instants and in the same windows are one.
//!
//! The program is linear, so the mean of their shares, weighed by bytes, stands for all of them.
//! What they pay is counted at the least that a byte of any of them pays. Where every op has its
//! instants nothing is put together.
//! Invariant: leaving a pattern out only lowers the bound.

use super::cycle::{Cycle, Life, Used};
use super::instants::{Instants, Place};
use super::level::{Level, Price};

/// So small a share of the first cut's capacity may be left out in all.
const CRUMBS: f64 = 0.001;

/// Who writes an object last in a window or at an instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Writer {
    Nobody,
    Device,
    Host,
}

/// What happens to an object in one place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Visit {
    pub(crate) place: Place,
    /// It begins to live here: by an op of the device, or of the host.
    pub(crate) born: Writer,
    /// Ops of the device use it that are not the one that writes it last.
    pub(crate) used: bool,
    pub(crate) last: Writer,
    /// Ops of the host read it before anything is written here.
    pub(crate) host: bool,
}

/// Objects of the same visits.
#[derive(Clone, Debug)]
pub(crate) struct Pattern {
    /// Rows of the objects.
    pub(crate) objects: Vec<u32>,
    pub(crate) persistent: bool,
    pub(crate) visits: Vec<Visit>,
    /// Where it dies, unless it persists.
    pub(crate) ends: Place,
    pub(crate) bytes: f64,
    /// By level: picoseconds to move all inwards, outwards and either.
    pub(crate) moves: Vec<[f64; 3]>,
    /// By level, of a pattern of one object: picoseconds of one copy inwards, and outwards.
    pub(crate) alone: Vec<[f64; 2]>,
    /// By visit and level: what use in place takes, of the last write and of all other uses.
    pub(crate) in_place: Vec<Vec<[Price; 2]>>,
}

type Key = (bool, Vec<Visit>, Option<Place>, u32);

impl Pattern {
    pub(crate) fn of(cycle: &Cycle, levels: &[Level<'_>], instants: &Instants) -> Vec<Pattern> {
        let mut all: Vec<(Key, Pattern)> = Vec::new();
        for life in &cycle.lives {
            let one = Pattern::one(life, levels, instants);
            // Between two instants anything fits.
            let first = one.visits[0].place;
            if !one.persistent && first.is_within() && one.ends == first {
                continue;
            }
            let own = if instants.every_op() { life.object } else { 0 };
            let ends = (!one.persistent).then_some(one.ends);
            all.push(((one.persistent, one.visits.clone(), ends, own), one));
        }
        all.sort_by(|a, b| a.0.cmp(&b.0));
        let mut patterns: Vec<Pattern> = Vec::new();
        let mut last: Option<Key> = None;
        for (key, one) in all {
            match patterns.last_mut().filter(|_| last.as_ref() == Some(&key)) {
                Some(pattern) => pattern.add(one),
                None => patterns.push(one),
            }
            last = Some(key);
        }
        if !instants.every_op() {
            without_crumbs(&mut patterns, levels[0].cut.capacity as f64 * CRUMBS);
        }
        patterns
    }

    fn one(life: &Life, levels: &[Level<'_>], instants: &Instants) -> Pattern {
        let (mut visits, mut in_place): (Vec<Visit>, Vec<Vec<[Price; 2]>>) = Default::default();
        let prices = |used: &Used| -> Vec<Price> {
            levels.iter().map(|level| level.in_place([used.read, used.written])).collect()
        };
        let add = |all: &mut Price, one: Price| *all = all.map2(one, |all, one| all + one);
        // The one that wrote last before is one of the others now.
        let others = |prices: &mut Vec<[Price; 2]>| {
            prices.iter_mut().for_each(|[last, all]| add(all, std::mem::take(last)));
        };
        for (number, used) in life.uses.iter().enumerate() {
            let place = instants.place(used.op);
            if visits.last().is_none_or(|visit| visit.place != place) {
                let (nobody, none) = (Writer::Nobody, vec![[Price::default(); 2]; levels.len()]);
                let visit = Visit { place, born: nobody, used: false, last: nobody, host: false };
                visits.push(visit);
                in_place.push(none);
            }
            let at = visits.len() - 1;
            let visit = &mut visits[at];
            let born = number == 0 && !life.persistent;
            let who = if used.host { Writer::Host } else { Writer::Device };
            if born {
                visit.born = who;
            }
            if used.host {
                visit.host |= used.read > 0 && visit.last == Writer::Nobody && !born;
                if used.written > 0 || born {
                    if visit.last == Writer::Device {
                        visit.used = true;
                        others(&mut in_place[at]);
                    }
                    visit.last = who;
                }
                continue;
            }
            let prices = in_place[at].iter_mut().zip(prices(used));
            if used.written > 0 || born {
                if visit.last == Writer::Device {
                    visit.used = true;
                    prices.for_each(|([last, all], own)| add(all, std::mem::replace(last, own)));
                } else {
                    prices.for_each(|([last, _], own)| *last = own);
                }
                visit.last = who;
            } else {
                visit.used = true;
                prices.for_each(|([_, all], own)| add(all, own));
            }
        }
        let moves = levels.iter().map(|level| level.moves(life.moved)).collect();
        let alone = levels.iter().map(|level| level.alone(life.moved)).collect();
        let (persistent, bytes) = (life.persistent, life.bytes as f64);
        let (objects, ends) = (vec![life.object], instants.place(life.ends));
        Pattern { objects, persistent, visits, ends, bytes, moves, alone, in_place }
    }

    /// Prices are the least of any byte.
    fn add(&mut self, other: Pattern) {
        let bytes = self.bytes + other.bytes;
        let least = |own: &mut f64, others: f64| {
            *own = (*own / self.bytes).min(others / other.bytes) * bytes;
        };
        let moves = self.moves.iter_mut().flatten();
        moves.zip(other.moves.iter().flatten()).for_each(|(own, others)| least(own, *others));
        let prices = self.in_place.iter_mut().flatten().flatten();
        for (own, others) in prices.zip(other.in_place.iter().flatten().flatten()) {
            *own = own.map2(*others, |mut own, others| {
                least(&mut own, others);
                own
            });
        }
        self.bytes = bytes;
        self.objects.extend(other.objects);
    }
}

impl Place {
    pub(crate) fn is_within(self) -> bool {
        matches!(self, Place::In { .. })
    }

    /// The window in which what happens there takes effect.
    pub(crate) fn window(self) -> usize {
        match self {
            Place::At { first, .. } => first as usize,
            Place::In { window } => window as usize,
        }
    }
}

impl Visit {
    /// The window in which what it does takes effect.
    pub(crate) fn window(&self) -> usize {
        self.place.window()
    }

    /// Its op begins at an instant.
    pub(crate) fn begins(&self, instant: usize) -> bool {
        matches!(self.place, Place::At { first, .. } if first as usize == instant)
    }
}

impl Pattern {
    /// The visit whose op begins at an instant.
    pub(crate) fn at(&self, instant: usize) -> Option<usize> {
        self.visits.iter().position(|visit| visit.begins(instant))
    }

    /// The visit within a window.
    pub(crate) fn within(&self, window: usize) -> Option<usize> {
        let place = Place::In { window: window as u32 };
        self.visits.iter().position(|visit| visit.place == place)
    }
}

/// Leaves the smallest patterns out, which come to `most` bytes together at most.
fn without_crumbs(patterns: &mut Vec<Pattern>, most: f64) {
    let mut order: Vec<usize> = (0..patterns.len()).collect();
    order.sort_by(|&a, &b| patterns[a].bytes.total_cmp(&patterns[b].bytes));
    let mut sum = 0.0;
    let crumbs: Vec<usize> = order
        .into_iter()
        .take_while(|&pattern| {
            sum += patterns[pattern].bytes;
            sum <= most
        })
        .collect();
    let mut keep = vec![true; patterns.len()];
    crumbs.into_iter().for_each(|pattern| keep[pattern] = false);
    let mut keep = keep.into_iter();
    patterns.retain(|_| keep.next().unwrap_or(true));
}
