//! From what a scenario says of its framework to a [`Runtime`].
//!
//! The scenario's block holds for every case; a case's own block stands in its place, and an empty
//! one says that this case has none.

use crate::scenario::raw::{RawCopies, RawRuntime};
use crate::scenario::resolver::Resolver;
use crate::text::quantity::{Duration, Quantity, SETUP};
use tiersim_models::hardware::Hardware;
use tiersim_models::runtime::{MOST_PASSES, Runtime};

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
    let blocking = raw.blocking.unwrap_or(false);
    let runtime = Runtime { per_op, per_object, passes, blocking, pageable, source };
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
