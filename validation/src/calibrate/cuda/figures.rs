//! What launches cost, and how well delays are kept.
//!
//! Invariant: as of all figures, every value is given and none is corrected by another.

use crate::calibrate::cuda::kernels::Kernels;
use crate::calibrate::cuda::rows::Rows;
use crate::calibrate::figures::figure;
use crate::clock::Clock;
use crate::fault::Result;
use tiersim_models::results::calibration::Figure;
use tiersim_models::units::Span;

/// Launches per value, so that the events between values do not count for much.
const LAUNCHES: u32 = 100;
/// Values of each figure.
const VALUES: usize = 21;
/// Launches that are timed on the host; fewer than a driver queues before it makes the host wait.
const QUEUED: usize = 200;
/// Holds the stream while they are queued, in nanoseconds: 50 us each.
const HOLD_NS: u64 = QUEUED as u64 * 50_000;
/// Delays that are asked for, in nanoseconds.
const DELAYS: [u64; 9] =
    [1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 1_000_000, 10_000_000];

pub(super) fn figures(rows: &mut Rows, kernels: &Kernels) -> Result<Vec<Figure>> {
    let mut figures = vec![back_to_back(rows, kernels)?, queueing(rows, kernels)?];
    for ns in DELAYS {
        let spans = rows.single(kernels, VALUES, |stream| kernels.delay(stream, ns))?;
        let off = |span: &Span| us(*span) - ns as f64 / 1e3;
        let name = format!("a delay of {} us lasts longer by", ns / 1000);
        figures.push(figure(name, "us", spans.iter().map(off).collect()));
    }
    Ok(figures)
}

/// Kernels that do nothing, one after the other.
fn back_to_back(rows: &mut Rows, kernels: &Kernels) -> Result<Figure> {
    let spans = rows
        .ends(kernels, VALUES, |stream| (0..LAUNCHES).try_for_each(|_| kernels.delay(stream, 0)))?;
    let values = spans.iter().map(|span| us(*span) / f64::from(LAUNCHES)).collect();
    Ok(figure("an empty kernel behind another, from end to end", "us", values))
}

/// What a launch takes on the thread that queues it, while the stream is busy.
fn queueing(rows: &mut Rows, kernels: &Kernels) -> Result<Figure> {
    let stream = rows.main();
    kernels.delay(stream, HOLD_NS)?;
    let clock = Clock::start();
    let mut values = Vec::with_capacity(QUEUED);
    for _ in 0..QUEUED {
        let start = clock.now();
        kernels.delay(stream, 0)?;
        values.push(us(clock.now().since(start)));
    }
    stream.synchronize()?;
    Ok(figure("a launch, on the thread that queues it", "us", values))
}

fn us(span: Span) -> f64 {
    span.ps() as f64 / 1e6
}
