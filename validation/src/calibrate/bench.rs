//! What benches have in common: the list of what they measure, and who measures each.
//!
//! Invariant: what goes through the machine is measured by the same plans on every bench.

use crate::calibrate::blocks::{self, Blocks};
use crate::calibrate::probe::{Access, Kind, Limits, Memory, Precision, Probe, Sample, Start, Way};
use crate::calibrate::through::{Through, ends};
use crate::fault::Result;
use crate::files::Queue;
use tiersim_models::hardware::Hardware;
use tiersim_models::ids::TierId;
use tiersim_models::units::{Bytes, Span};

/// What a bench measures around the machine, as [`Kind`] says, so many times.
pub(super) trait Bare {
    /// The machine.
    fn through(&self) -> Through<'_>;

    /// [`Kind::Bare`].
    fn bare(&mut self, size: usize, how: (Way, Memory, bool), repeats: usize) -> Result<Vec<Span>>;

    /// [`Kind::Stream`].
    fn stream(&mut self, access: Access, size: usize, repeats: usize) -> Result<Vec<Span>>;

    /// [`Kind::Gemm`].
    fn product(&mut self, precision: Precision, side: u64, repeats: usize) -> Result<Vec<Span>>;

    /// The file, and memory of so many bytes that it is read to and written from.
    fn file(&mut self, size: usize) -> Result<(&mut Blocks, &mut [u8])>;
}

/// Every kind of measurement. `objects` gives the sizes of what lies in these tiers.
pub(super) fn kinds(
    skeleton: &Hardware,
    objects: impl Fn(&[TierId]) -> Limits,
    bare: impl IntoIterator<Item = (Kind, Limits)>,
    streams: Limits,
    products: impl IntoIterator<Item = (Kind, Limits)>,
) -> Vec<(Kind, Limits)> {
    let mut kinds = Vec::new();
    for channel in skeleton.channels() {
        let (from, to) = ends(skeleton, channel);
        let limits = objects(&[from, to]);
        let starts = [Start::Busy, Start::Idle, Start::Both];
        kinds.extend(starts.map(|start| (Kind::Channel { channel, start }, limits)));
    }
    kinds.extend(bare);
    let accesses = [Access::Read, Access::Write, Access::Copy];
    kinds.extend(accesses.map(|access| (Kind::Stream(access), streams)));
    kinds.push((Kind::Launch, Limits::new(Bytes::ZERO, Bytes::ZERO)));
    kinds.extend(products);
    for tier in skeleton.tier_ids() {
        let limits = objects(&[tier]);
        kinds.extend([false, true].map(|writes| (Kind::InPlace { tier, writes }, limits)));
    }
    kinds.extend(blocks::kinds());
    kinds
}

/// See [`crate::calibrate::probe::MeasuredMachine::run`].
pub(super) fn run(bench: &mut impl Bare, probe: &Probe) -> Result<Sample> {
    let &Probe { kind, size, repeats } = probe;
    let len = usize::try_from(size.get()).expect("it fits memory");
    let (mut latencies, mut flops) = (Vec::new(), 0);
    let spans = match kind {
        Kind::Channel { channel, start } => {
            bench.through().channel(channel, start, size, repeats)?
        }
        Kind::Launch => bench.through().launch(repeats)?,
        Kind::Between => bench.through().between(repeats)?,
        Kind::InPlace { tier, writes } => bench.through().in_place(tier, writes, size, repeats)?,
        Kind::Bare { way, memory, both } => bench.bare(len, (way, memory, both), repeats)?,
        Kind::Stream(access) => bench.stream(access, len, repeats)?,
        Kind::Gemm(precision) => {
            let side = precision.side(size.get());
            flops = 2 * side.pow(3);
            bench.product(precision, side, repeats)?
        }
        Kind::File { writes, block, depth } => {
            let queue = Queue { block: block as usize, depth: usize::from(depth) };
            let (file, buffer) = bench.file(len)?;
            let (spans, each) = file.run(writes, buffer, queue, repeats)?;
            latencies = each;
            spans
        }
    };
    Ok(Sample { probe: *probe, spans, latencies, flops })
}
