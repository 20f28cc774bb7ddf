//! Figures beside the laws: what the machine makes of the bare hardware, and what a bench adds.
//!
//! Two of them have a share that they should reach: copies through the machine against the bare
//! copy of pinned memory, measured in turns in the same run, and copies beside ops against ideal
//! double buffering.
//! Invariant: every value of a figure is given, in the order in which it was measured.

use crate::calibrate::probe::{Kind, MeasuredMachine, Memory, Probe, Start, Way};
use crate::calibrate::through::Through;
use crate::fault::Result;
use crate::real;
use std::path::Path;
use tiersim_models::hardware::Channel;
use tiersim_models::results::calibration::Figure;
use tiersim_models::results::comparison::median;
use tiersim_models::results::op_grades::quantile;
use tiersim_models::units::{Bytes, Span};

/// Sizes at which the machine is held against the bare hardware.
const SIZES: [u64; 3] = [1 << 20, 16 << 20, 64 << 20];
/// Repeats of each, and in how many turns.
const REPEATS: usize = 5;
const TURNS: usize = 3;
/// Objects of a double-buffered run.
const OBJECTS: usize = 16;
/// Share of the bare hardware that a device with copy engines should reach. A processor that copies
/// and checks word by word is asked for nothing.
const WANTED: f64 = 0.95;

/// A figure of which nothing is wanted. Its median is the lower of the two middle values of an even
/// number; 0 without values.
pub(crate) fn figure(name: impl Into<String>, unit: &'static str, values: Vec<f64>) -> Figure {
    let mut sorted = values.clone();
    sorted.sort_by(f64::total_cmp);
    Figure { name: name.into(), unit, values, median: quantile(&sorted, 0.5), wanted: None }
}

/// All figures of a machine and its bench. Sizes above `most` are left out.
pub fn figures(
    bench: &mut dyn MeasuredMachine,
    (machine, device): (real::Kind, usize),
    scratch: &Path,
    most: Bytes,
) -> Result<Vec<Figure>> {
    let mut figures = bench.figures()?;
    let skeleton = bench.describe().skeleton;
    let through = Through { machine, device, skeleton: &skeleton, scratch };
    let kinds = bench.kinds();
    let wanted = (machine == real::Kind::Cuda).then_some(WANTED);
    let channels: Vec<Channel> =
        skeleton.channels().filter(|channel| channel.link.index() == 0).collect();
    for channel in channels {
        let start = Start::Busy;
        for size in SIZES.map(Bytes::new).into_iter().filter(|size| *size <= most) {
            let way = if channel.evicting { Way::FromDevice } else { Way::ToDevice };
            let bare = Kind::Bare { way, memory: Memory::Pinned, both: false };
            let channel_kind = Kind::Channel { channel, start };
            let possible = |kind| {
                let limits = kinds.iter().find(|(other, _)| *other == kind);
                limits.is_some_and(|(_, limits)| size <= limits.most)
            };
            if possible(bare) && possible(channel_kind) {
                figures.push(Figure {
                    wanted,
                    ..against_bare(bench, [bare, channel_kind], (way, size))?
                });
            }
            if !channel.evicting && possible(channel_kind) {
                figures.push(Figure { wanted, ..overlap(&through, channel, size)? });
            }
        }
    }
    Ok(figures)
}

/// Bare time over the machine's, in turns, so that both meet the same disturbances.
fn against_bare(
    bench: &mut dyn MeasuredMachine,
    kinds: [Kind; 2],
    (way, size): (Way, Bytes),
) -> Result<Figure> {
    let mut values = Vec::with_capacity(TURNS);
    for _ in 0..TURNS {
        let mut time = |kind| -> Result<f64> {
            let sample = bench.run(&Probe { kind, size, repeats: REPEATS })?;
            Ok(median(&sample.spans).ps() as f64)
        };
        let (bare, ours) = (time(kinds[0])?, time(kinds[1])?);
        values.push(bare / ours.max(1.0));
    }
    let way = match way {
        Way::ToDevice => "to the device",
        Way::FromDevice => "from the device",
    };
    let name =
        format!("rate of copies of {size} {way} through the machine, of the bare pinned copy");
    Ok(figure(name, "share", values))
}

/// Ideal time over the measured one, where every op lasts as long as a copy: the first copy, and
/// then the ops.
fn overlap(through: &Through<'_>, channel: Channel, size: Bytes) -> Result<Figure> {
    let mut values = Vec::with_capacity(TURNS);
    for _ in 0..TURNS {
        let copy = median(&through.channel(channel, Start::Busy, size, REPEATS)?);
        let time = through.double_buffered(channel, size, copy, OBJECTS)?;
        let ideal = Span::from_ps(copy.ps() * (OBJECTS as u64 + 1));
        values.push(ideal.ps() as f64 / time.ps().max(1) as f64);
    }
    let name = format!("overlap of copies of {size} with ops as long, of ideal double buffering");
    Ok(figure(name, "share", values))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_median_is_a_value_that_was_there() {
        for (values, median) in [(&[0.97, 0.9, 0.96, 0.99][..], 0.96), (&[0.1], 0.1), (&[], 0.0)] {
            assert_eq!(figure("", "share", values.to_vec()).median, median);
        }
    }
}
