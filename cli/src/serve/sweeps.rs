//! How far sweeps are, by the journals that they write.
//!
//! A journal is read on from where it was read before. The pace is that since the server first saw
//! the journal, so it takes two looks to have one. A journal that has not grown for long is that of a
//! sweep that was ended, or that hangs: it has no pace.

use super::results::Found;
use crate::journal::{JOURNAL, Reached, reached};
use std::collections::BTreeMap;
use std::time::Duration;
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

/// A sweep whose journal has not grown for this long may have been ended, however slow its cases.
const QUIET: Duration = Duration::from_secs(15);
/// It has not ended as long as a case takes no more than this many of the time of those before.
const PATIENCE: f64 = 5.0;

/// A journal that is watched.
struct Journal {
    /// Since when, and how many cases it had then.
    since: (Instant, usize),
    /// When it was last seen to have more than before.
    grew: Instant,
    reached: Reached,
}

/// Journals by name.
#[derive(Default)]
pub(super) struct Watched(BTreeMap<String, Journal>);

impl Watched {
    /// How far these are. One that cannot be read, or has no first line yet, is left out.
    pub(super) fn look(&mut self, sweeps: &[Found]) -> Vec<Sweep> {
        let mut before = std::mem::take(&mut self.0);
        for Found { name, path } in sweeps {
            let known = before.remove(name);
            let then = known.as_ref().map(|known| &known.reached);
            let Ok(Some(now)) = reached(&path.join(JOURNAL), then) else { continue };
            let goes_on = |then: &Reached| then.head == now.head && then.cases <= now.cases;
            let (at, cases) = (Instant::now(), now.cases);
            let (since, grew) = match known.filter(|known| goes_on(&known.reached)) {
                Some(known) if known.reached.cases == cases => (known.since, known.grew),
                Some(known) => (known.since, at),
                None => ((at, cases), at),
            };
            self.0.insert(name.clone(), Journal { since, grew, reached: now });
        }
        let sweep = |(name, Journal { since, grew, reached }): (&String, &Journal)| Sweep {
            name: name.clone(),
            scenario: reached.head.scenario.display().to_string(),
            done: reached.cases,
            all: reached.head.cases,
            part: reached.head.shard,
            rate: pace(reached.cases - since.1, since.0.elapsed(), grew.elapsed()),
        };
        self.0.iter().map(sweep).collect()
    }
}

/// Cases per second, of so many in such a time, after the last of which nothing came for a while.
fn pace(more: usize, time: Duration, quiet: Duration) -> Option<f64> {
    let working = time.saturating_sub(quiet).as_secs_f64();
    let each = working / more.max(1) as f64;
    let ended = quiet > QUIET && quiet.as_secs_f64() > PATIENCE * each;
    (more > 0 && !time.is_zero() && !ended).then(|| more as f64 / time.as_secs_f64())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_journal_that_has_not_grown_for_long_has_no_pace() {
        let s = Duration::from_secs;
        let of = |more, time, quiet| pace(more, s(time), s(quiet));
        assert_eq!(of(0, 100, 0), None);
        assert_eq!(of(50, 100, 0), Some(0.5));
        assert_eq!(of(50, 100, 15), Some(0.5));
        // A killed sweep: two cases a second, and then nothing.
        assert_eq!(of(200, 116, 16), None);
        // Cases of a minute each may well take another.
        assert_eq!(of(2, 180, 60), Some(2.0 / 180.0));
        assert_eq!(of(2, 500, 380), None);
    }
}
