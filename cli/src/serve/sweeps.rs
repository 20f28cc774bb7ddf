//! How far sweeps are, by the journals that they write.
//!
//! A journal is read on from where it was read before. The pace is that since the server first saw
//! the journal, so it takes two looks to have one.

use super::results::Found;
use crate::journal::{JOURNAL, Reached, reached};
use std::collections::BTreeMap;
use tiersim_reports::SweepShown;
use tiersim_reports::words::{clean, number};
use tokio::time::Instant;

/// A sweep that has not come to its end.
#[derive(Clone, Debug)]
pub(super) struct Sweep {
    pub(super) name: String,
    pub(super) scenario: String,
    pub(super) done: usize,
    /// Cases of the whole sweep.
    pub(super) all: usize,
    /// Which part of it this is, and of how many.
    pub(super) part: Option<(usize, usize)>,
    /// Cases per second.
    pub(super) rate: Option<f64>,
}

/// Journals by name: since when they are watched, what they had then, and what they have.
#[derive(Default)]
pub(super) struct Watched(BTreeMap<String, (Instant, usize, Reached)>);

impl Watched {
    /// How far these are. One that cannot be read, or has no first line yet, is left out.
    pub(super) fn look(&mut self, sweeps: &[Found]) -> Vec<Sweep> {
        let mut before = std::mem::take(&mut self.0);
        for Found { name, path } in sweeps {
            let known = before.remove(name);
            let then = known.as_ref().map(|(.., reached)| reached);
            let Ok(Some(now)) = reached(&path.join(JOURNAL), then) else { continue };
            let same = known.filter(|(.., then)| then.head == now.head && then.cases <= now.cases);
            let (since, had) = same.map_or((Instant::now(), now.cases), |(at, had, _)| (at, had));
            self.0.insert(name.clone(), (since, had, now));
        }
        let sweep = |(name, (since, had, now)): (&String, &(Instant, usize, Reached))| {
            let (more, time) = ((now.cases - had) as f64, since.elapsed().as_secs_f64());
            Sweep {
                name: name.clone(),
                scenario: now.head.scenario.display().to_string(),
                done: now.cases,
                all: now.head.cases,
                part: now.head.shard,
                rate: (more > 0.0 && time > 0.0).then(|| more / time),
            }
        };
        self.0.iter().map(sweep).collect()
    }
}

impl Sweep {
    /// In words. How many cases a part has is in no journal, so of one it is not said what is left.
    pub(super) fn shown(&self) -> SweepShown {
        let Sweep { name, scenario, done, all, part, rate } = self;
        let left = rate.filter(|_| part.is_none()).map(|rate| (all - done) as f64 / rate);
        SweepShown {
            name: clean(name),
            scenario: clean(scenario),
            done: match part {
                Some((index, of)) => format!("{done} (part {index}/{of} of {all})"),
                None => format!("{done} of {all}"),
            },
            rate: rate.map_or_else(|| "-".to_owned(), number),
            left: left.map_or_else(|| "-".to_owned(), |seconds| format!("{seconds:.0} s")),
        }
    }
}
