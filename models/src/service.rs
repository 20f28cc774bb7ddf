//! How the copies of one link are served, where `setup + bytes / rate` one at a time is not enough.
//!
//! A [`Service`] stands beside a link's two [`Law`]s and changes times only: routes, plans and bytes
//! follow from the laws alone, so a machine of real memory may ignore it.
//! Invariant: a link without a service is one that serves first come, first served, one copy at a
//! time in each direction.
//!
//! [`Law`]: crate::hardware::Law

use crate::units::Rate;
use std::num::NonZeroU32;

/// Who is served when several copies want a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Discipline {
    /// In order of arrival, each at the full rate of the law.
    #[default]
    Fifo,
    /// All at once, at max-min fair rates.
    ///
    /// Source: Bertsekas, Gallager, "Data Networks", 2nd ed., 1992, section 6.5.2.
    FairShare,
}

/// The service of a link.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Service {
    /// Who is served.
    pub discipline: Discipline,
    /// Copies of one direction that are under way at once; later ones wait in order. `None` for
    /// one under [`Discipline::Fifo`] and no limit under [`Discipline::FairShare`].
    pub lanes: Option<NonZeroU32>,
    /// Bytes per second of both directions together; only under [`Discipline::FairShare`].
    pub total: Option<Rate>,
}

impl Service {
    /// Copies of one direction that may be under way at once.
    pub fn at_once(&self) -> u32 {
        match (self.lanes, self.discipline) {
            (Some(lanes), _) => lanes.get(),
            (None, Discipline::Fifo) => 1,
            (None, Discipline::FairShare) => u32::MAX,
        }
    }
}
