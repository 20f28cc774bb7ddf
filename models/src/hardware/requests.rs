//! Requests that a device has under way in a tier; [`crate::outstanding`] says what they reach.

use crate::units::Bytes;
use std::num::NonZeroU32;

/// The requests of a device in a tier, as far as the file states them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceRequests {
    /// Bytes that one request brings, whoever needs fewer.
    pub granule: Option<Bytes>,
    /// Requests that are under way at once.
    pub depth: Option<NonZeroU32>,
}
