//! Reads how a link serves several copies: the optional fields of a link.
//!
//! Invariant: a link that writes none of them has no [`Service`], and so behaves, prints and hashes
//! as if these fields did not exist.

use super::{RawLink, Resolver};
use crate::text::quantity::{Copies, Sourced};
use serde::Deserialize;
use std::num::NonZeroU32;
use tiersim_models::hardware::Law;
use tiersim_models::service::{Discipline, Service};

/// Who is served, as written.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename = "Service", rename_all = "snake_case")]
pub(super) enum RawDiscipline {
    Fifo,
    FairShare,
}

impl Resolver<'_> {
    /// The service of a link whose laws are `fetch` and `evict`, if it has any; `here` is its place
    /// in the file, `fact` its place in listings.
    pub(super) fn service(
        &mut self,
        raw: &RawLink,
        here: &str,
        fact: &str,
        fetch: Law,
        evict: Law,
    ) -> Option<Service> {
        let discipline = match raw.service {
            Some(RawDiscipline::FairShare) => Discipline::FairShare,
            Some(RawDiscipline::Fifo) | None => Discipline::Fifo,
        };
        let lanes = raw.lanes.as_ref();
        let lanes = lanes.and_then(|raw| self.count(raw, here, "lanes", fact));
        let mut total = None;
        if let Some(raw) = &raw.total {
            let path = format!("{here}.total");
            total = self.rate(raw, &path, format!("{fact}.total"));
            if discipline != Discipline::FairShare {
                let rule = "a total is shared by both directions, and this link shares nothing";
                self.check.fault(&path, rule, "write service: fair_share, or leave it out");
            } else if total.is_some_and(|total| total < fetch.rate.max(evict.rate)) {
                let rule = "both directions together reach at least what one does alone";
                self.check.fault(&path, rule, "raise `total`, or lower `fetch` and `evict`");
            }
        }
        let service = Service { discipline, lanes, total };
        (service != Service::default()).then_some(service)
    }

    fn count(
        &mut self,
        raw: &Sourced<Copies>,
        here: &str,
        field: &str,
        fact: &str,
    ) -> Option<NonZeroU32> {
        let path = format!("{here}.{field}");
        self.fact(raw, &path, format!("{fact}.{field}"));
        raw.quantity.count(&mut self.check, &format!("{path}.0"))
    }
}
