//! Linear programs some of whose variables are 0 or 1 and nothing between.
//!
//! A program is solved without that; one of the variables that came out between is then set to 0 in
//! one copy of it and to 1 in another, and what the lower of all open copies proves is a bound of
//! the whole. Source: Land and Doig, "An automatic method of solving discrete programming
//! problems", Econometrica 28(3), 1960.
//! Invariant: wherever it stops, what it says is proven.

use crate::bound::linear::{Program, Solution, solve};

/// So close to 0 or 1 a variable is no matter.
const WHOLE: f64 = 1e-3;

/// A copy of the program that is still open.
struct Open {
    fixed: Vec<(u32, bool)>,
    solution: Solution,
}

/// What a program proves whose `whole` variables are 0 or 1, with so many copies at most.
pub(crate) fn branched(program: &Program, whole: &[u32], copies: usize) -> Solution {
    let mut open = vec![Open { fixed: Vec::new(), solution: solve(program) }];
    let mut solved = 1;
    loop {
        let proven = |one: &Open| one.solution.proven;
        let lowest = (0..open.len()).min_by(|&a, &b| proven(&open[a]).total_cmp(&proven(&open[b])));
        let at = lowest.expect("one copy is always open");
        let Some(variable) = between(&open[at], whole).filter(|_| solved < copies) else {
            return open.swap_remove(at).solution;
        };
        let Open { fixed, solution } = open.swap_remove(at);
        for to in [false, true] {
            let mut fixed = fixed.clone();
            fixed.push((variable, to));
            let mut copy = program.clone();
            for &(variable, to) in &fixed {
                copy.fix(variable, to);
            }
            let mut own = solve(&copy);
            own.proven = own.proven.max(solution.proven);
            open.push(Open { fixed, solution: own });
            solved += 1;
        }
    }
}

/// The variable that is farthest from being whole.
fn between(open: &Open, whole: &[u32]) -> Option<u32> {
    let free = |variable: &&u32| open.fixed.iter().all(|(fixed, _)| fixed != *variable);
    let off = |variable: u32| {
        let value = open.solution.values[variable as usize];
        value.min(1.0 - value)
    };
    let most = whole.iter().filter(free).map(|&variable| (off(variable), variable));
    let most = most.max_by(|a, b| a.0.total_cmp(&b.0).then(b.1.cmp(&a.1)));
    most.filter(|(off, _)| *off > WHOLE).map(|(_, variable)| variable)
}

#[cfg(test)]
mod tests {
    use super::branched;
    use crate::bound::linear::Program;

    /// `min x + y + z` where any two come to 1: 1.5 by shares, 2 by whole ones. Without copies to
    /// look at it is what shares prove.
    #[test]
    fn whole_variables_cost_more() {
        let mut program = Program::default();
        let all: Vec<u32> = (0..3).map(|_| program.variable(1.0, 1.0)).collect();
        for (a, b) in [(0, 1), (1, 2), (0, 2)] {
            program.row(&[(all[a], 1.0), (all[b], 1.0)], 1.0);
        }
        for (copies, exact) in [(1, 1.5), (64, 2.0)] {
            let proven = branched(&program, &all, copies).proven;
            assert!((proven - exact).abs() < 1e-5 && proven <= exact, "{copies}: {proven}");
        }
    }
}
