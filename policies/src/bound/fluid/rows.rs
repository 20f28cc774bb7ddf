//! The rows of the program.
//!
//! For every pattern and every cut: the share of it that is inside at each instant at which it is
//! alive, the share whose present contents are outside, and what crosses in each window. Uses ask
//! for a share inside or pay for the rest in place. Rows that meet all patterns come last: memory
//! at each instant, and each channel in each window.
//! Invariant: what a plan does is a solution, with the share of the time that a copy has taken of
//! its channel as the share that has crossed.

use super::channels::{Channels, Column, Crossings, Lasting, Terms, channels, merged, one_by_one};
use super::cycle::Cycle;
use super::instants::{Instants, Place};
use super::level::{Flows, LONGEST, Level, Price};
use super::patterns::{Pattern, Visit, Writer};
use crate::bound::linear::Program;
use std::collections::BTreeSet;

/// The program, and what its rows are.
#[derive(Debug)]
pub(crate) struct Rows {
    pub(crate) program: Program,
    /// Picoseconds that 1 of the objective stands for.
    pub(crate) unit: f64,
    /// No window stalls longer.
    pub(crate) most: f64,
    /// By cut: the rows of memory.
    pub(crate) held: Vec<Vec<usize>>,
    pub(crate) channels: Channels,
    /// By window: what its ops compute, in units.
    pub(crate) computed: Vec<f64>,
    /// By window: shares that are used in place, and by how much all of one delays an op.
    pub(crate) delays: Vec<Terms>,
    /// By pattern and level.
    pub(crate) shares: Vec<Vec<Shares>>,
    /// Variables that are 0 or 1 in every run of the cycle, where every op has its instants: whether
    /// a use is in place, and whether an object has room inside.
    pub(crate) whole: Vec<u32>,
}

/// The variables of a pattern and a cut.
#[derive(Debug)]
pub(crate) struct Shares {
    pub(crate) inside: Column,
    outside: Column,
    pub(crate) inwards: Column,
    pub(crate) outwards: Column,
    /// By visit: in place, of the last write and of other uses.
    pub(crate) in_place: Vec<[Option<u32>; 2]>,
}

struct Maker<'a> {
    program: Program,
    cycle: &'a Cycle,
    levels: &'a [Level<'a>],
    instants: &'a Instants,
    unit: f64,
    /// By window: what its ops compute, in units.
    computed: Vec<f64>,
    stall: Column,
    /// By window: prices of use in place.
    delays: Vec<Terms>,
    /// By level and window: what use in place has links carry.
    flowing: Vec<Crossings>,
    /// By level and instant.
    held: Vec<Vec<Terms>>,
    /// By level.
    crosses: Vec<Crossings>,
    whole: Vec<u32>,
}

impl Rows {
    pub(crate) fn new(
        cycle: &Cycle,
        levels: &[Level<'_>],
        instants: &Instants,
        patterns: &[Pattern],
    ) -> Rows {
        let demand = demand(cycle, patterns, |pattern: &Pattern| {
            instants.every_op() || levels.iter().any(|level| is_too_large(pattern, level))
        });
        let unit = (cycle.computed() + demand).max(1.0) / 16.0;
        let windows = instants.windows();
        let none = || vec![Vec::new(); windows + 1];
        let mut maker = Maker {
            program: Program::default(),
            cycle,
            levels,
            instants,
            unit,
            computed: instants.computed(cycle).into_iter().map(|ps| ps / unit).collect(),
            stall: Vec::new(),
            delays: vec![Vec::new(); windows],
            flowing: levels.iter().map(|_| vec![Default::default(); windows]).collect(),
            held: levels.iter().map(|_| none()).collect(),
            crosses: levels.iter().map(|_| vec![Default::default(); windows]).collect(),
            whole: Vec::new(),
        };
        // More than moving everything for every use would take is never the best.
        let most = 17.0;
        for window in 0..windows {
            let stall = (!instants.runs(window)).then(|| maker.program.variable(1.0, most));
            maker.stall.push(stall);
        }
        let shares: Vec<Vec<Shares>> =
            patterns.iter().map(|pattern| maker.pattern(pattern)).collect();
        (0..windows).for_each(|window| maker.held_up(window, most));
        let Maker { mut program, computed, stall, delays, crosses, whole, held, .. } = maker;
        let mut rows = |instants: Vec<Terms>| -> Vec<usize> {
            let some = instants.iter().filter(|terms| !terms.is_empty());
            some.map(|terms| program.row(terms, -1.0)).collect()
        };
        let held = held.into_iter().map(&mut rows).collect();
        let lasting = Lasting { computed: &computed, stall: &stall, delays: &delays };
        // An object crosses by one copy after the other. In wide windows that says nothing.
        if instants.every_op() {
            let levels = |(pattern, levels): (&Pattern, &Vec<Shares>)| -> Vec<Crossings> {
                let alone = pattern.alone.iter().map(|spans| spans.map(|ps| ps / unit));
                let ways = levels.iter().map(|shares| [&shares.inwards, &shares.outwards]);
                ways.zip(alone).map(|(ways, spans)| one_by_one(ways, spans)).collect()
            };
            let own = patterns.iter().zip(&shares).flat_map(levels);
            channels(&mut program, own.collect(), &lasting);
        }
        let channels = channels(&mut program, crosses, &lasting);
        Rows { program, unit, most, held, channels, computed, delays, shares, whole }
    }
}

/// Whether a pattern is of one object that is larger than all there is inside of a cut.
fn is_too_large(pattern: &Pattern, level: &Level<'_>) -> bool {
    pattern.objects.len() == 1 && pattern.bytes > level.cut.capacity as f64
}

/// Picoseconds to move everything in and out for every use, and to use those in place that may have
/// to be.
fn demand(cycle: &Cycle, patterns: &[Pattern], in_place: impl Fn(&Pattern) -> bool) -> f64 {
    let of = |pattern: &Pattern| {
        let visits = (pattern.visits.len() + 1) as f64;
        let uses = pattern.in_place.iter().flatten().flatten();
        let delay = |price: &Price| price.delay + price.aside + price.flow.iter().sum::<f64>();
        let delays = uses.filter(|_| in_place(pattern)).map(delay);
        pattern.moves.iter().flatten().sum::<f64>() * visits
            + delays.filter(|&ps| ps < LONGEST).sum::<f64>()
    };
    patterns.iter().map(of).sum::<f64>() + cycle.computed()
}

impl Maker<'_> {
    /// An instant's number: where the cycle ends is where it begins, if it wraps.
    fn at(&self, instant: usize) -> usize {
        if self.cycle.wraps && instant == self.instants.windows() { 0 } else { instant }
    }

    fn share(&mut self) -> Option<u32> {
        Some(self.program.variable(0.0, 1.0))
    }

    /// The variables and rows of one pattern.
    fn pattern(&mut self, pattern: &Pattern) -> Vec<Shares> {
        let mut all: Vec<Shares> = Vec::new();
        for level in 0..self.levels.len() {
            let shares = self.shares(pattern, level, all.last());
            for window in 0..self.instants.windows() {
                self.window(pattern, level, &shares, window);
            }
            self.nested(all.last(), &shares);
            all.push(shares);
        }
        self.flows(pattern, &all);
        all
    }

    /// The instants at which a pattern is alive.
    fn alive(&self, pattern: &Pattern) -> std::ops::RangeInclusive<usize> {
        let windows = self.instants.windows();
        if pattern.persistent {
            return 0..=windows;
        }
        let first = match pattern.visits[0].place {
            Place::At { first, .. } => first as usize,
            Place::In { window } => window as usize + 1,
        };
        let last = match pattern.ends {
            Place::At { last, .. } => last as usize,
            Place::In { window } => window as usize,
        };
        first..=last
    }

    fn shares(&mut self, pattern: &Pattern, level: usize, before: Option<&Shares>) -> Shares {
        let windows = self.instants.windows();
        let alive = self.alive(pattern);
        let none = || vec![None; windows + 1];
        let mut shares = Shares {
            inside: none(),
            outside: none(),
            inwards: none(),
            outwards: none(),
            in_place: vec![[None; 2]; pattern.visits.len()],
        };
        // What is never written may have a copy outside for ever.
        let writes = pattern.visits.iter().any(|visit| visit.last != Writer::Nobody);
        let dirty = !pattern.persistent || writes || !self.cycle.wraps;
        // What is larger than all there is has no room inside.
        let most = if is_too_large(pattern, &self.levels[level]) { 0.0 } else { 1.0 };
        for instant in alive {
            if self.at(instant) != instant {
                continue;
            }
            shares.inside[instant] = Some(self.program.variable(0.0, most));
            if dirty {
                shares.outside[instant] = self.share();
            }
        }
        if self.cycle.wraps && pattern.persistent {
            shares.inside[windows] = shares.inside[0];
            shares.outside[windows] = shares.outside[0];
        }
        for (number, visit) in pattern.visits.iter().enumerate() {
            // Only what is inside of a cut closer to the device is cheaper.
            let prices = &pattern.in_place[number];
            let more = |way: usize| {
                let closer = level.checked_sub(1).map_or(0.0, |closer| prices[closer][way].delay);
                (prices[level][way].delay - closer).max(0.0)
            };
            if visit.last == Writer::Device {
                shares.in_place[number][0] = self.in_place(visit, more(0));
            }
            if visit.used && visit.born == Writer::Nobody {
                shares.in_place[number][1] = self.in_place(visit, more(1));
            }
        }
        self.crossing(pattern, level, dirty, &mut shares);
        if let Some(before) = before {
            for (outer, inner) in shares.in_place.iter().zip(&before.in_place) {
                for (outer, inner) in outer.iter().zip(inner) {
                    if let (Some(outer), Some(inner)) = (outer, inner) {
                        self.program.row(&[(*inner, 1.0), (*outer, -1.0)], 0.0);
                    }
                }
            }
        }
        let weight = pattern.bytes / (self.levels[level].cut.capacity as f64).max(1.0);
        for instant in 0..=windows {
            if let Some(inside) = shares.inside[instant].filter(|_| self.at(instant) == instant) {
                let room = self.room(inside);
                self.held[level][instant].push((room, -weight));
            }
        }
        shares
    }

    /// Whether there is room for what is inside, be it only a part: an object has room as a whole.
    fn room(&mut self, inside: u32) -> u32 {
        if !self.instants.every_op() {
            return inside;
        }
        let room = self.program.variable(0.0, 1.0);
        self.at_most(inside, &[Some(room)], 0.0);
        self.whole.push(room);
        room
    }

    /// A share that is used in place, and delays the op by so much.
    fn in_place(&mut self, visit: &Visit, price: f64) -> Option<u32> {
        let price = price / self.unit;
        let share = self.program.variable(price, 1.0);
        self.delays[visit.window()].push((share, price));
        if self.instants.every_op() {
            self.whole.push(share);
        }
        Some(share)
    }

    /// What crosses in each window from the first visit to the last.
    fn crossing(&mut self, pattern: &Pattern, level: usize, dirty: bool, shares: &mut Shares) {
        let windows = self.instants.windows();
        let moves = pattern.moves[level];
        let span = match pattern.persistent {
            true => 0..=windows - 1,
            false => pattern.visits[0].window()..=pattern.ends.window(),
        };
        for window in span {
            shares.inwards[window] = self.share();
            let inwards = shares.inwards[window].expect("it was made");
            self.crosses[level][window][0].push((inwards, moves[0] / self.unit));
            self.crosses[level][window][2].push((inwards, moves[2] / self.unit));
            if dirty {
                shares.outwards[window] = self.share();
                let outwards = shares.outwards[window].expect("it was made");
                self.crosses[level][window][1].push((outwards, moves[1] / self.unit));
                self.crosses[level][window][2].push((outwards, moves[2] / self.unit));
            }
        }
    }

    /// What is used in place over the links of a cut takes its part of what they carry.
    fn flows(&mut self, pattern: &Pattern, all: &[Shares]) {
        for (level, shares) in all.iter().enumerate() {
            let flows = &self.levels[level].flows;
            for (number, visit) in pattern.visits.iter().enumerate() {
                for (kind, share) in shares.in_place[number].into_iter().enumerate() {
                    let Some(share) = share.filter(|_| *flows != Flows::No) else { continue };
                    let price = pattern.in_place[number][level][kind];
                    let aside = match flows {
                        Flows::UpTo(wider) => all[*wider].in_place[number][kind],
                        Flows::Without(_) => {
                            let aside = self.in_place(visit, price.aside);
                            let aside = aside.expect("it was made");
                            self.at_most(aside, &[Some(share)], 0.0);
                            Some(aside)
                        }
                        _ => None,
                    };
                    let all = [&mut self.crosses, &mut self.flowing];
                    for crosses in all.map(|of| &mut of[level][visit.window()]) {
                        for (terms, time) in crosses.iter_mut().zip(price.flow) {
                            let time = time / self.unit;
                            terms.push((share, time));
                            terms.extend(aside.map(|aside| (aside, -time)));
                        }
                    }
                }
            }
        }
    }

    /// An op that runs a whole window computes, and then uses in place what flows over links. Where
    /// they take longer for it than tiers do by their laws, or carry copies beside it, the op lasts
    /// longer.
    fn held_up(&mut self, window: usize, most: f64) {
        let flows = self.flowing.iter().flat_map(|level| level[window].iter());
        let flows: Vec<Terms> = flows.filter(|terms| !terms.is_empty()).cloned().collect();
        if self.stall[window].is_some() || flows.is_empty() {
            return;
        }
        let stall = self.program.variable(1.0, most);
        let uses = flows.iter().flatten().filter(|term| term.1 > 0.0);
        let uses: BTreeSet<u32> = uses.map(|term| term.0).collect();
        let uses = uses.into_iter().map(|share| (share, most));
        self.program.row(&uses.chain([(stall, -1.0)]).collect::<Terms>(), 0.0);
        let lasts = || self.delays[window].iter().copied().chain([(stall, 1.0)]);
        for flow in flows {
            let crosses = flow.into_iter().map(|(share, time)| (share, -time));
            self.program.row(&merged(crosses.chain(lasts()).collect()), 0.0);
        }
        self.stall[window] = Some(stall);
    }

    /// The rows of one window, and of the instant at its beginning.
    fn window(&mut self, pattern: &Pattern, level: usize, shares: &Shares, window: usize) {
        let end = window + 1;
        let (from, to) = (shares.inside[window], shares.inside[end]);
        let (out_from, out_to) = (shares.outside[window], shares.outside[end]);
        let (inwards, outwards) = (shares.inwards[window], shares.outwards[window]);
        let runs = self.instants.runs(window);
        let starts = pattern.at(window).filter(|&v| pattern.visits[v].begins(window));
        let within = pattern.within(window);
        let born_at = starts.is_some_and(|v| pattern.visits[v].born != Writer::Nobody);
        let born_in = within.is_some_and(|v| pattern.visits[v].born != Writer::Nobody);
        self.uses(pattern, level, shares, window);
        // Who writes last before the instant at the end.
        let writes = |v: &usize| pattern.visits[*v].last != Writer::Nobody;
        let last = within.filter(writes).or(starts.filter(writes));
        let written = last.map(|v| (pattern.visits[v].last, shares.in_place[v][0]));
        if let Some(to) = to {
            if !born_in && let Some(from) = from {
                self.at_most(to, &[Some(from), inwards], 0.0);
            }
            match written {
                // What was written outside is inside only if it came there since.
                Some((Writer::Device, share)) => {
                    let here = if runs { None } else { inwards };
                    let share = share.expect("the device's writes have one");
                    let terms: Terms = [(share, -1.0), (to, -1.0)]
                        .into_iter()
                        .chain(here.map(|x| (x, 1.0)))
                        .collect();
                    self.program.row(&terms, -1.0);
                }
                Some((Writer::Host, _)) if level == 0 => {
                    self.at_most(to, &[if runs { None } else { inwards }], 0.0);
                }
                _ => {}
            }
        }
        if let Some(out_to) = out_to {
            match written {
                Some((Writer::Device, share)) => {
                    self.at_most(out_to, &[share, if runs { None } else { outwards }], 0.0);
                }
                Some((Writer::Host, _)) => {}
                _ => {
                    self.at_most(out_to, &[out_from, outwards], 0.0);
                }
            }
        }
        if let (Some(from), Some(out_from)) = (from, out_from) {
            if !born_at {
                self.program.row(&[(from, 1.0), (out_from, 1.0)], 1.0);
            }
            // Where the run begins it is in one place.
            if window == 0 && self.cycle.begins {
                self.program.row(&[(from, -1.0), (out_from, -1.0)], -1.0);
            }
        }
        let ends = end == self.instants.windows() && !self.cycle.wraps;
        if let (true, Some(to), Some(out_to)) = (ends, to, out_to) {
            self.program.row(&[(to, 1.0), (out_to, 1.0)], 1.0);
        }
    }

    /// What is used is inside, or used in place.
    fn uses(&mut self, pattern: &Pattern, level: usize, shares: &Shares, window: usize) {
        let (from, out_from) = (shares.inside[window], shares.outside[window]);
        let (inwards, outwards) = (shares.inwards[window], shares.outwards[window]);
        if let Some(v) = pattern.at(window) {
            let visit = &pattern.visits[v];
            for share in shares.in_place[v].into_iter().flatten() {
                let terms: Terms = from.into_iter().chain([share]).map(|x| (x, 1.0)).collect();
                self.program.row(&terms, 1.0);
                if let Some(out) = out_from.filter(|_| visit.born != Writer::Nobody) {
                    self.at_most(out, &[Some(share)], 0.0);
                }
            }
            if let Some(out) = out_from.filter(|_| visit.host && level == 0) {
                self.program.row(&[(out, 1.0)], 1.0);
            }
            // An op that ends with the window's end holds its objects until then.
            let ends = shares.inside[window + 1].filter(|_| self.instants.runs(window));
            if let Some(to) = ends.filter(|_| visit.begins(window)) {
                for share in shares.in_place[v].into_iter().flatten() {
                    self.program.row(&[(to, 1.0), (share, 1.0)], 1.0);
                }
            }
        }
        let Some(v) = pattern.within(window) else { return };
        let visit = &pattern.visits[v];
        if visit.born == Writer::Nobody {
            for share in shares.in_place[v].into_iter().flatten() {
                let terms: Terms =
                    from.into_iter().chain(inwards).chain([share]).map(|x| (x, 1.0)).collect();
                self.program.row(&terms, 1.0);
            }
            if visit.host && level == 0 && out_from.is_some() {
                let terms: Terms = out_from.into_iter().chain(outwards).map(|x| (x, 1.0)).collect();
                self.program.row(&terms, 1.0);
            }
        }
    }

    /// `share <= sum of others + more`.
    fn at_most(&mut self, share: u32, others: &[Option<u32>], more: f64) {
        let others = others.iter().flatten().map(|&other| (other, 1.0));
        let terms: Terms = others.chain([(share, -1.0)]).collect();
        self.program.row(&terms, -more);
    }

    /// What is inside a cut is inside a wider one.
    fn nested(&mut self, inner: Option<&Shares>, outer: &Shares) {
        let Some(inner) = inner else { return };
        for instant in 0..inner.inside.len() {
            let pair = (inner.inside[instant], outer.inside[instant]);
            if let (Some(inner), Some(outer)) = pair
                && self.at(instant) == instant
            {
                self.at_most(inner, &[Some(outer)], 0.0);
            }
        }
    }
}
