//! Which kernels of many are which parameter's, by sizes and durations.
//!
//! Kernels of an optimizer go through the parameters in the order of the model or the other way
//! round. Where each parameter has as many, the way counts in which long ones meet large ones.
//! Where a kernel has several parameters, bytes decide.
//! Invariant: every parameter has at least one kernel.

use std::ops::Range;

/// By parameter of these sizes: its kernels, of those with these durations; nothing where there are
/// none.
pub(super) fn shares(sizes: &[u64], spans: &[u64]) -> Vec<Range<usize>> {
    let (count, kernels) = (sizes.len(), spans.len());
    if count == 0 || kernels == 0 {
        return Vec::new();
    }
    if kernels.is_multiple_of(count) {
        let each = kernels / count;
        let sums: Vec<u64> = spans.chunks(each).map(|run| run.iter().sum()).collect();
        let back: Vec<u64> = sums.iter().rev().copied().collect();
        let ahead = alike(sizes, &sums) >= alike(sizes, &back);
        let place = |index: usize| if ahead { index } else { count - 1 - index };
        return (0..count).map(|index| place(index) * each..(place(index) + 1) * each).collect();
    }
    // Gradients come in the order of the model the other way round.
    let all: u128 = sizes.iter().map(|&bytes| u128::from(bytes)).sum();
    let mut before = all;
    let share = |&bytes: &u64| {
        before -= u128::from(bytes);
        let at = before * kernels as u128 / all.max(1);
        let at = (at as usize).min(kernels - 1);
        at..at + 1
    };
    sizes.iter().map(share).collect()
}

/// How well long meets large: the covariance of sizes and durations.
fn alike(sizes: &[u64], spans: &[u64]) -> f64 {
    let mean = |all: &[u64]| all.iter().map(|&one| one as f64).sum::<f64>() / all.len() as f64;
    let (size, span) = (mean(sizes), mean(spans));
    sizes.iter().zip(spans).map(|(&a, &b)| (a as f64 - size) * (b as f64 - span)).sum()
}

#[cfg(test)]
mod tests {
    use super::shares;

    #[test]
    fn long_kernels_belong_to_large_parameters() {
        assert_eq!(shares(&[1, 100, 10], &[2, 50, 7]), [0..1, 1..2, 2..3]);
        assert_eq!(shares(&[1, 10, 100], &[50, 7, 2]), [2..3, 1..2, 0..1]);
        assert_eq!(shares(&[1, 100], &[2, 2, 50, 50]), [0..2, 2..4]);
    }

    #[test]
    fn several_parameters_to_a_kernel_are_shared_by_bytes() {
        // 300 bytes and three kernels but for one: the last gradient is of the first kernel.
        let sizes = [50, 50, 100, 100, 0];
        assert_eq!(shares(&sizes, &[1, 1, 1]), [2..3, 2..3, 1..2, 0..1, 0..1]);
        assert_eq!(shares(&sizes, &[]), []);
        assert_eq!(shares(&[], &[1]), []);
    }
}
