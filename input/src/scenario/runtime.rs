//! From what a scenario says of its framework to a [`Runtime`].
//!
//! The scenario's block holds for every case; a case's own block stands in its place, and an empty
//! one says that this case has none.

use crate::hardware_file::write::quantity;
use crate::scenario::raw::{RawCopies, RawRuntime};
use crate::scenario::resolver::Resolver;
use crate::text::quantity::{Duration, Quantity, SETUP};
use crate::text::ron_text::quoted;
use tiersim_models::hardware::Hardware;
use tiersim_models::runtime::{MOST_PASSES, Runtime};
use tiersim_models::units::written::Dimension;

/// Most bytes of `source`: every case carries it.
const MAX_SOURCE: usize = 1000;

/// The block at `at`, or `base` where there is none.
pub(crate) fn resolve(
    resolver: &mut Resolver<'_, '_>,
    at: &str,
    raw: Option<&RawRuntime>,
    base: Option<&Runtime>,
    hardware: &Hardware,
) -> Runtime {
    let Some(raw) = raw else { return base.cloned().unwrap_or_default() };
    let check = &mut resolver.check;
    let mut span = |name: &str, said: &Option<Quantity<Duration>>| {
        let value = said.as_ref().and_then(|s| s.value(check, &format!("{at}.{name}"), SETUP));
        value.unwrap_or_default()
    };
    let (per_op, per_object) = (span("per_op", &raw.per_op), span("per_object", &raw.per_object));
    let passes = raw.passes.unwrap_or(0);
    if passes > MOST_PASSES {
        let rule = format!("`passes` is between 0 and {MOST_PASSES}");
        let remedy = "a copy within the device is two: one read, one write";
        check.fault(&format!("{at}.passes"), rule, remedy);
    }
    let pageable = raw.copies == Some(RawCopies::Pageable);
    if pageable && hardware.links.iter().all(|link| link.pageable.is_none()) {
        let rule = "no link of the hardware says what pageable memory reaches";
        let remedy = "write pageable: (read: ..., write: ...) in a link of the hardware file";
        check.fault(&format!("{at}.copies"), rule, remedy);
    }
    let source = raw.source.as_deref().unwrap_or_default().trim().to_owned();
    let [blocking, blocking_out, ahead] =
        [raw.blocking, raw.blocking_out, raw.ahead].map(|said| said.unwrap_or(false));
    let runtime =
        Runtime { per_op, per_object, passes, blocking, blocking_out, ahead, pageable, source };
    if runtime.source.is_empty() && !runtime.is_none() {
        let remedy = "write source: \"...\": the code or the measurement, and how many of the rows \
                      that are predicted each number was taken from";
        check.fault(at, "a runtime says where its numbers come from", remedy);
    }
    if runtime.source.len() > MAX_SOURCE {
        let rule = format!("`source` has at most {MAX_SOURCE} bytes");
        check.fault(&format!("{at}.source"), rule, "write the rest as a comment");
    }
    runtime
}

/// The block of a runtime that adds times to ops and objects and nothing else, as a scenario says it
/// and `--set runtime=...` takes it.
pub fn runtime_text(runtime: &Runtime) -> String {
    let Runtime { per_op, per_object, source, .. } = runtime;
    let [per_op, per_object] = [per_op, per_object].map(|span| quantity(span.ps(), Duration::UNIT));
    format!("(per_op: {per_op}, per_object: {per_object}, source: {})", quoted(source))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tiersim_models::units::Span;

    #[test]
    fn a_runtime_is_written_as_a_scenario_says_it() {
        let source = "measured: \"twice\", 1 of 2 rows".to_owned();
        let (per_op, per_object) = (Span::from_ps(16_920_000), Span::from_us(63));
        let runtime = Runtime { per_op, per_object, source, ..Runtime::default() };
        let said = r#"(per_op: us(16.92), per_object: us(63), source: "measured: \"twice\", 1 of 2 rows")"#;
        assert_eq!(runtime_text(&runtime), said);
    }
}
