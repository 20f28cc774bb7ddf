//! Choosing what to keep: a knapsack with one limit per period.
//!
//! Every item has a value and a size, and takes its size in the periods in which it is there. Few
//! items are chosen exactly, by branch and bound. Beyond that the linear relaxation is solved and
//! rounded; at an optimum in a corner of the relaxation no more items than periods are cut in
//! pieces, and leaving these out is the most that rounding can lose.
//! Source: Kellerer, Pferschy, Pisinger, "Knapsack Problems", Springer 2004, sections 2.2 and 9.2.
//! Invariant: no period is overfull, and no choice is worth more than the bound.

use microlp::{ComparisonOp, OptimizationDirection, Problem, Variable};
use std::cmp::Ordering;

/// At most this many items are chosen exactly.
pub const EXACT_ITEMS: usize = 32;
/// At most this many partial choices are looked at; after that it is rounded too.
const MOST_NODES: u32 = 1 << 17;
/// Sizes below this share of a limit are left out of the relaxation, which only raises its bound:
/// the solver wants coefficients within six orders of magnitude.
const NEGLIGIBLE: f64 = 1e-6;

/// What can be chosen.
#[derive(Clone, Debug, Default)]
pub struct Packing {
    /// Value of each item.
    pub values: Vec<u64>,
    /// Size of each item.
    pub sizes: Vec<u64>,
    /// The periods.
    pub periods: Vec<Period>,
}

/// A limit.
#[derive(Clone, Debug, Default)]
pub struct Period {
    /// The most that the chosen items may take together.
    pub capacity: u64,
    /// The items that are there, by falling value per size ([`Packing::sort`]).
    pub items: Vec<usize>,
}

/// A choice.
#[derive(Clone, Debug, PartialEq)]
pub struct Packed {
    /// Which items.
    pub chosen: Vec<bool>,
    /// Their value.
    pub value: u64,
    /// No choice is worth more.
    pub bound: f64,
    /// Whether it is the best; if not, it is within `bound - value` of it.
    pub exact: bool,
    /// Value of the items that the relaxation cuts in pieces: the most that rounding can have lost,
    /// but for items too small for the relaxation. All items where the solver gave up.
    pub cut: u64,
}

impl Packing {
    /// The best choice for few items, one close to it for many.
    pub fn solve(mut self) -> Packed {
        self.sort();
        let rounded = self.round();
        if self.values.len() > EXACT_ITEMS {
            return rounded;
        }
        let mut search = Search::new(&self, &rounded);
        match search.descend(0, 0) {
            Some(()) => {
                let bound = search.best as f64;
                Packed { value: search.best, chosen: search.found, bound, exact: true, cut: 0 }
            }
            None => rounded,
        }
    }

    /// Puts the items of each period in order.
    pub fn sort(&mut self) {
        let mut periods = std::mem::take(&mut self.periods);
        for period in &mut periods {
            period.items.sort_by(|&a, &b| self.denser(a, b));
        }
        self.periods = periods;
    }

    fn denser(&self, a: usize, b: usize) -> Ordering {
        let product = |value: usize, size: usize| {
            u128::from(self.values[value]) * u128::from(self.sizes[size])
        };
        // What needs no room comes first: beside it, no products can be compared.
        let needs = |item: usize| self.sizes[item] > 0;
        needs(a).cmp(&needs(b)).then(product(b, a).cmp(&product(a, b))).then(a.cmp(&b))
    }

    /// Whether the item fits into every period by itself.
    fn possible(&self) -> Vec<bool> {
        let mut possible = vec![true; self.values.len()];
        for period in &self.periods {
            for &item in &period.items {
                possible[item] &= self.sizes[item] <= period.capacity;
            }
        }
        possible
    }

    /// Takes items as the relaxation says, whole ones first, as long as they fit.
    fn round(&self) -> Packed {
        let possible = self.possible();
        let (shares, bound) = self.relax(&possible).unwrap_or_else(|| {
            // Each period alone is a relaxation too, solved by filling it.
            let parts = vec![1; self.values.len()];
            (parts, self.fill_bound(&vec![None; self.values.len()]) as f64)
        });
        let mut order: Vec<usize> = (0..self.values.len()).filter(|&i| possible[i]).collect();
        order.sort_by(|&a, &b| shares[b].cmp(&shares[a]).then_with(|| self.denser(a, b)));
        let mut free: Vec<u64> = self.periods.iter().map(|period| period.capacity).collect();
        let within = self.within();
        let mut chosen = vec![false; self.values.len()];
        for item in order {
            if within[item].iter().all(|&period| self.sizes[item] <= free[period]) {
                within[item].iter().for_each(|&period| free[period] -= self.sizes[item]);
                chosen[item] = true;
            }
        }
        let worth = |of: &dyn Fn(usize) -> bool| {
            let items = (0..shares.len()).filter(|&item| of(item));
            items.fold(0u64, |sum, item| sum.saturating_add(self.values[item]))
        };
        let cut = worth(&|item| shares[item] > 0 && shares[item] < WHOLE);
        Packed { value: worth(&|item| chosen[item]), bound, exact: false, cut, chosen }
    }

    /// The linear relaxation: the share of each item in millionths, and its value. `None` where the
    /// solver gives up.
    fn relax(&self, possible: &[bool]) -> Option<(Vec<u32>, f64)> {
        let most = *self.values.iter().max()?.max(&1) as f64;
        let mut problem = Problem::new(OptimizationDirection::Maximize);
        let variables: Vec<Variable> = (0..self.values.len())
            .map(|item| {
                let end = if possible[item] { 1.0 } else { 0.0 };
                problem.add_var(self.values[item] as f64 / most, (0.0, end))
            })
            .collect();
        for period in self.periods.iter().filter(|period| period.capacity > 0) {
            let share = |item: usize| self.sizes[item] as f64 / period.capacity as f64;
            let items = period.items.iter().filter(|&&item| possible[item]);
            let row: Vec<(Variable, f64)> = items
                .filter(|&&item| share(item) >= NEGLIGIBLE)
                .map(|&item| (variables[item], share(item)))
                .collect();
            problem.add_constraint(&row, ComparisonOp::Le, 1.0);
        }
        let solution = problem.solve().ok()?.into_solution().ok()?;
        let share = |variable: &Variable| {
            (solution.var_value(*variable).clamp(0.0, 1.0) * f64::from(WHOLE)).round() as u32
        };
        // The solver keeps to its limits within 1e-7; so much more a choice may be worth.
        let bound = solution.objective() * most * (1.0 + 1e-6) + 1e-6 * most;
        Some((variables.iter().map(share).collect(), bound))
    }

    /// The periods of each item.
    fn within(&self) -> Vec<Vec<usize>> {
        let mut within = vec![Vec::new(); self.values.len()];
        for (index, period) in self.periods.iter().enumerate() {
            period.items.iter().for_each(|&item| within[item].push(index));
        }
        within
    }

    /// The most that a choice can be worth in which some items are decided: the least that any
    /// period alone allows, filled by falling density and the last item in part.
    fn fill_bound(&self, decided: &[Option<bool>]) -> u64 {
        let total: u128 = (0..decided.len())
            .filter(|&item| decided[item] != Some(false))
            .map(|item| u128::from(self.values[item]))
            .sum();
        let of_period = |period: &Period| {
            let mut free = u128::from(period.capacity);
            let mut lost = 0;
            let taken = period.items.iter().filter(|&&item| decided[item] == Some(true));
            free = free.saturating_sub(taken.map(|&item| u128::from(self.sizes[item])).sum());
            for &item in period.items.iter().filter(|&&item| decided[item].is_none()) {
                let (size, value) = (u128::from(self.sizes[item]), u128::from(self.values[item]));
                let part = size.min(free);
                free -= part;
                // Rounded down: the bound must not be too low.
                lost += value * (size - part) / size.max(1);
            }
            total - lost
        };
        let least = self.periods.iter().map(of_period).min().unwrap_or(total);
        u64::try_from(least).unwrap_or(u64::MAX)
    }
}

/// A whole item, in millionths.
const WHOLE: u32 = 1_000_000;

/// Branch and bound, depth first, the densest item first.
struct Search<'a> {
    packing: &'a Packing,
    within: Vec<Vec<usize>>,
    order: Vec<usize>,
    decided: Vec<Option<bool>>,
    free: Vec<u64>,
    best: u64,
    found: Vec<bool>,
    nodes: u32,
}

impl Search<'_> {
    fn new<'a>(packing: &'a Packing, start: &Packed) -> Search<'a> {
        let mut order: Vec<usize> = (0..packing.values.len()).collect();
        order.sort_by(|&a, &b| packing.denser(a, b));
        Search {
            within: packing.within(),
            order,
            decided: vec![None; packing.values.len()],
            free: packing.periods.iter().map(|period| period.capacity).collect(),
            best: start.value,
            found: start.chosen.clone(),
            nodes: 0,
            packing,
        }
    }

    /// Looks at all choices for the items from `depth` on; `None` if there are too many.
    fn descend(&mut self, depth: usize, value: u64) -> Option<()> {
        self.nodes += 1;
        if self.nodes > MOST_NODES {
            return None;
        }
        if value > self.best {
            self.best = value;
            self.found = self.decided.iter().map(|decided| *decided == Some(true)).collect();
        }
        let Some(&item) = self.order.get(depth) else { return Some(()) };
        if self.packing.fill_bound(&self.decided) <= self.best {
            return Some(());
        }
        let size = self.packing.sizes[item];
        let within = std::mem::take(&mut self.within[item]);
        if within.iter().all(|&period| size <= self.free[period]) {
            within.iter().for_each(|&period| self.free[period] -= size);
            self.decided[item] = Some(true);
            self.descend(depth + 1, value.saturating_add(self.packing.values[item]))?;
            within.iter().for_each(|&period| self.free[period] += size);
        }
        self.within[item] = within;
        self.decided[item] = Some(false);
        self.descend(depth + 1, value)?;
        self.decided[item] = None;
        Some(())
    }
}
