//! `mode: semiseparable(...)`: layers of structured operators in the place of a model, as written,
//! and what they mean.

use crate::scenario::raw::work::RawSemiseparable;
use crate::scenario::resolver::Resolver;
use tiersim_workloads::memory::semiseparable::{Formats, Shape};
use tiersim_workloads::transformer::format::Format;
use tiersim_workloads::transformer::semiseparable::Semiseparable;

/// What the value at `path` means for servers of so many devices; every rule that it breaks is told
/// otherwise.
pub(crate) fn operators(
    resolver: &mut Resolver<'_, '_>,
    path: &str,
    raw: &RawSemiseparable,
    (precision, devices): (Option<&Format>, u32),
) -> Option<Semiseparable> {
    let shape = match (raw.levels, raw.nested) {
        (Some(_), Some(true)) => {
            let rule = "nested operators have as many levels as there are";
            resolver.check.fault(&format!("{path}.levels"), rule, "leave `levels` or `nested` out");
            return None;
        }
        (None, Some(true)) => Shape::Nested,
        (levels, _) => Shape::Sum(levels.unwrap_or(1)),
    };
    let operators = Semiseparable {
        size: raw.size,
        layers: raw.layers,
        batch: raw.batch,
        shape,
        factors: precision.copied().unwrap_or(Formats::MIXED.factors),
        ranks: raw.ranks.unwrap_or(1),
        devices,
        overlap: raw.overlap.unwrap_or(true),
    };
    let broken = resolver.broken(&operators.problems(), |field| match field {
        "devices" => "hardware".to_owned(),
        field => format!("{path}.{field}"),
    });
    (!broken).then_some(operators)
}
