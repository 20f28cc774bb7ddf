//! The rows of channels: in each window, what crosses a cut takes no longer than the window.
//!
//! A window lasts as long as its ops compute, are delayed by use in place, and stall.

use crate::bound::linear::Program;

/// A variable of each instant, or of each window.
pub(crate) type Column = Vec<Option<u32>>;
/// Variables with their factors.
pub(crate) type Terms = Vec<(u32, f64)>;

/// A row of a channel in a window.
#[derive(Debug)]
pub(crate) struct Carried {
    pub(crate) row: usize,
    pub(crate) window: usize,
    /// What crosses, by how much of the channel's time each takes.
    crosses: Terms,
}

/// By level and way: the row of each window in which something may cross.
pub(crate) type Channels = Vec<[Vec<Carried>; 3]>;

/// What crosses one cut, by window and way.
pub(crate) type Crossings = Vec<[Terms; 3]>;

/// What windows last.
pub(crate) struct Lasting<'a> {
    /// What their ops compute.
    pub(crate) computed: &'a [f64],
    pub(crate) stall: &'a Column,
    /// Prices of use in place.
    pub(crate) delays: &'a [Terms],
}

/// Adds the rows of all cuts.
pub(crate) fn channels(
    program: &mut Program,
    crossings: Vec<Crossings>,
    lasting: &Lasting<'_>,
) -> Channels {
    let mut row = |window: usize, mut crosses: Terms| {
        crosses.retain(|term| term.1 != 0.0);
        if crosses.is_empty() {
            return None;
        }
        let lasts = lasting.stall[window].map(|stall| (stall, 1.0));
        let lasts = lasts.iter().chain(&lasting.delays[window]).copied();
        // What is used in place both delays and crosses.
        let terms = merged(crosses.iter().map(|&(at, time)| (at, -time)).chain(lasts).collect());
        let row = program.row(&terms, -lasting.computed[window]);
        Some(Carried { row, window, crosses })
    };
    let of_cut = |windows: Crossings| {
        let mut ways: [Vec<Carried>; 3] = Default::default();
        for (window, crosses) in windows.into_iter().enumerate() {
            for (way, crosses) in ways.iter_mut().zip(crosses) {
                way.extend(row(window, crosses));
            }
        }
        ways
    };
    crossings.into_iter().map(of_cut).collect()
}

/// The same sum with every variable once.
pub(crate) fn merged(mut terms: Terms) -> Terms {
    terms.sort_by_key(|term| term.0);
    terms.dedup_by(|next, term| {
        let same = next.0 == term.0;
        term.1 += if same { next.1 } else { 0.0 };
        same
    });
    terms
}

/// How long the copies of one object take in each window, inwards and outwards, of which each takes
/// so long.
pub(crate) fn one_by_one(ways: [&Column; 2], spans: [f64; 2]) -> Crossings {
    let crosses = |window: usize| {
        let terms = ways.into_iter().zip(spans);
        let terms = terms.filter_map(|(column, span)| Some((column[window]?, span)));
        [terms.collect(), Vec::new(), Vec::new()]
    };
    (0..ways[0].len() - 1).map(crosses).collect()
}

impl Carried {
    /// How much of its window the channel is used.
    pub(crate) fn used(&self, values: &[f64]) -> f64 {
        self.crosses.iter().map(|&(variable, time)| time * values[variable as usize]).sum()
    }
}
