//! Where the points of a sweep are: one place for each combination of its axes' values.
//!
//! Invariant: places come in the order of points, the last group of axes turning fastest.

use crate::scenario::AxisValue;
use crate::scenario::axes::Axes;
use crate::text::condition::Condition;
use tiersim_policies::scenario::sweep::{Axis, Params};

/// The values of a place.
pub(super) fn params(axes: &Axes, at: &[usize]) -> Params {
    let value = |(index, axis): (usize, &Axis)| {
        (axis.name.clone(), axis.values[axes.value_at(index, at)].value.clone())
    };
    axes.axes.iter().enumerate().map(value).collect()
}

/// The first condition that a point breaks.
pub(super) fn excluded<'a>(axes: &'a Axes, params: &Params) -> Option<&'a Condition> {
    let value = |name: &str| {
        let value = params.iter().find(|(axis, _)| axis == name)?;
        if let AxisValue::Number(number) = value.1 { Some(number) } else { None }
    };
    axes.constraints.iter().find(|condition| condition.holds(value) != Some(true))
}

/// Where points are, by group of axes; the last group turns fastest.
pub(super) fn places(axes: &Axes) -> impl Iterator<Item = Vec<usize>> {
    let first = Some(vec![0; axes.groups.len()]);
    std::iter::successors(first, |at| {
        let mut next = at.clone();
        advance(&mut next, axes).then_some(next)
    })
}

/// Moves to the next point; false after the last one.
fn advance(at: &mut [usize], axes: &Axes) -> bool {
    for (group, index) in at.iter_mut().enumerate().rev() {
        *index += 1;
        if *index < axes.length(group) {
            return true;
        }
        *index = 0;
    }
    false
}
