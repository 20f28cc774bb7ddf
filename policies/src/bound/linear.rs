//! A linear program, and what proves a lower bound on it.
//!
//! `min c x` where every row says `a x >= b` and every variable lies between two numbers. Prices
//! `y >= 0` of the rows prove `y b + sum of min over x_j of (c - y A)_j x_j`, whatever they are and
//! wherever they come from: so a bound rests on this one sum and not on the solver (Clarabel's
//! interior-point method), which only has to name good prices.
//! Invariant: every variable has two finite ends, so every prices prove something.

use clarabel::algebra::CscMatrix;
use clarabel::solver::{DefaultSettings, DefaultSolver, IPSolver, SupportedConeT};

/// What a sum of so many terms may be off by, as a share of the sum of their sizes.
const ROUNDING: f64 = 1e-10;

/// A linear program.
#[derive(Clone, Debug, Default)]
pub(crate) struct Program {
    /// By variable: its price, and the most that it is; the least is 0.
    cost: Vec<f64>,
    most: Vec<f64>,
    /// By row: where its terms begin, and what they come to at least.
    starts: Vec<usize>,
    terms: Vec<(u32, f64)>,
    least: Vec<f64>,
}

/// Prices of rows, values of variables, and what the prices prove.
#[derive(Clone, Debug)]
pub(crate) struct Solution {
    pub(crate) values: Vec<f64>,
    pub(crate) prices: Vec<f64>,
    pub(crate) proven: f64,
}

impl Program {
    /// A variable from 0 to `most`.
    pub(crate) fn variable(&mut self, cost: f64, most: f64) -> u32 {
        self.cost.push(cost);
        self.most.push(most);
        (self.cost.len() - 1) as u32
    }

    /// One of a variable costs so much more.
    pub(crate) fn costs_more(&mut self, variable: u32, more: f64) {
        self.cost[variable as usize] += more;
    }

    /// A row: the terms come to `least` or more. Terms of one variable must not be repeated.
    pub(crate) fn row(&mut self, terms: &[(u32, f64)], least: f64) -> usize {
        self.starts.push(self.terms.len());
        self.terms.extend(terms.iter().copied().filter(|term| term.1 != 0.0));
        self.least.push(least);
        self.least.len() - 1
    }

    /// A variable that is 0 or 1, and which of the two.
    pub(crate) fn fix(&mut self, variable: u32, one: bool) {
        if one {
            self.row(&[(variable, 1.0)], 1.0);
        } else {
            self.most[variable as usize] = 0.0;
        }
    }

    pub(crate) fn variables(&self) -> usize {
        self.cost.len()
    }

    pub(crate) fn rows(&self) -> usize {
        self.least.len()
    }

    pub(crate) fn terms_of(&self, row: usize) -> &[(u32, f64)] {
        let end = self.starts.get(row + 1).copied().unwrap_or(self.terms.len());
        &self.terms[self.starts[row]..end]
    }

    /// What prices of rows prove: no solution costs less. Prices below zero count as zero.
    fn proven(&self, prices: &[f64]) -> f64 {
        let mut reduced = self.cost.clone();
        let (mut sum, mut size) = (0.0, 0.0);
        let mut sizes: Vec<f64> = self.cost.iter().map(|cost| cost.abs()).collect();
        for (row, &price) in prices.iter().enumerate() {
            let price = if price > 0.0 { price } else { continue };
            sum += price * self.least[row];
            size += (price * self.least[row]).abs();
            for &(variable, factor) in self.terms_of(row) {
                reduced[variable as usize] -= price * factor;
                sizes[variable as usize] += (price * factor).abs();
            }
        }
        for (variable, &most) in self.most.iter().enumerate() {
            sum += reduced[variable].min(0.0) * most;
            size += sizes[variable] * most * f64::EPSILON / ROUNDING * 16.0;
        }
        sum - ROUNDING * size
    }
}

/// Prices and values of a program, close to the best; prices of nothing if the solver finds none.
pub(crate) fn solve(program: &Program) -> Solution {
    let (variables, rows) = (program.variables(), program.rows());
    let nothing = vec![0.0; rows];
    let proven = program.proven(&nothing);
    let none = Solution { values: vec![0.0; variables], prices: nothing, proven };
    let (matrix, right) = standard(program);
    let quadratic = CscMatrix::zeros((variables, variables));
    let cones = [SupportedConeT::NonnegativeConeT(right.len())];
    // Prices need not be exact to prove something: to refine each of the solver's steps would take up
    // to a third of its time, and move what is proven by less than a millionth.
    let iterative_refinement_enable = false;
    let settings =
        DefaultSettings { verbose: false, iterative_refinement_enable, ..Default::default() };
    let solver = DefaultSolver::new(&quadratic, &program.cost, &matrix, &right, &cones, settings);
    let Ok(mut solver) = solver else { return none };
    solver.solve();
    let found = solver.solution;
    let prices = found.z[..rows].to_vec();
    let proven = program.proven(&prices);
    // Also where it is not a number.
    if proven > none.proven { Solution { values: found.x, prices, proven } } else { none }
}

/// `A x <= b`, of the rows and then of both ends of each variable, as the solver wants it.
fn standard(program: &Program) -> (CscMatrix<f64>, Vec<f64>) {
    let (variables, rows) = (program.variables(), program.rows());
    let mut columns: Vec<Vec<(usize, f64)>> = vec![Vec::new(); variables];
    for row in 0..rows {
        for &(variable, factor) in program.terms_of(row) {
            columns[variable as usize].push((row, -factor));
        }
    }
    for (variable, column) in columns.iter_mut().enumerate() {
        column.push((rows + variable, 1.0));
        column.push((rows + variables + variable, -1.0));
    }
    let mut right: Vec<f64> = program.least.iter().map(|least| -least).collect();
    right.extend(&program.most);
    right.resize(rows + 2 * variables, 0.0);
    let mut starts = vec![0];
    for column in &columns {
        starts.push(starts[starts.len() - 1] + column.len());
    }
    let (at, terms): (Vec<usize>, Vec<f64>) = columns.into_iter().flatten().unzip();
    (CscMatrix::new(right.len(), variables, starts, at, terms), right)
}

#[cfg(test)]
mod tests {
    use super::{Program, solve};

    /// `min x + 2 y` where `x + y >= 1` and `y >= 0.25`: 1.25, at prices 1 and 1.
    #[test]
    fn prices_prove_what_a_program_comes_to() {
        let mut program = Program::default();
        let (x, y) = (program.variable(1.0, 5.0), program.variable(2.0, 5.0));
        program.row(&[(x, 1.0), (y, 1.0)], 1.0);
        program.row(&[(y, 1.0)], 0.25);
        let found = solve(&program);
        assert!((found.proven - 1.25).abs() < 1e-6 && found.proven <= 1.25, "{found:?}");
        for (price, exact) in found.prices.iter().zip([1.0, 1.0]) {
            assert!((price - exact).abs() < 1e-6, "{found:?}");
        }
    }

    /// Whatever prices are named, what they prove is no more than the best.
    #[test]
    fn no_prices_prove_too_much() {
        let mut program = Program::default();
        let (x, y) = (program.variable(1.0, 5.0), program.variable(2.0, 5.0));
        program.row(&[(x, 1.0), (y, 1.0)], 1.0);
        program.row(&[(y, 1.0)], 0.25);
        for one in [-1.0, 0.0, 0.5, 1.0, 1.5, 3.0, f64::NAN] {
            for other in [-2.0, 0.0, 1.0, 2.5, 40.0] {
                let proven = program.proven(&[one, other]);
                assert!(proven <= 1.25, "{one} {other}: {proven}");
            }
        }
    }

    /// A program without a solution proves any bound, and its prices grow; nothing panics.
    #[test]
    fn a_program_without_a_solution_is_no_trouble() {
        let mut program = Program::default();
        let x = program.variable(1.0, 1.0);
        program.row(&[(x, 1.0)], 2.0);
        assert!(solve(&program).proven >= 0.0);
    }
}
