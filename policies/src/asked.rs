//! What an op asks of a tier that it uses in place: bytes read and written, and requests.
//!
//! A policy charges an op for bytes of a tier; what kind of bytes these are follows from the
//! objects that the op touches there. One that touches nothing there, as where use is emulated,
//! reads.
//! Invariant: of every charge no more goes each way than the charge, and some goes.

use crate::command::ObjectAccess;
use tiersim_models::hardware::Tier;
use tiersim_models::ids::{OpId, TierId};
use tiersim_models::units::{Bandwidth, Bytes, PS_PER_S, Span};
use tiersim_models::workload::{Trace, Use};

/// Sums over what an op touches in a tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TierTraffic {
    /// Bytes read and written.
    pub ways: [u128; 2],
    /// Bytes that the op would be charged for.
    pub charged: u128,
    /// Requests of the tier's granule.
    pub requests: u128,
}

impl TierTraffic {
    /// Of an op of the run, in a tier with requests of `granule` bytes.
    pub fn of(
        trace: &Trace,
        occurrence: u64,
        touches: &[ObjectAccess],
        tier: TierId,
        granule: Bytes,
    ) -> TierTraffic {
        let op = OpId::at((occurrence % trace.ops.len() as u64) as usize);
        let mut asked = TierTraffic { ways: [0; 2], charged: 0, requests: 0 };
        for touch in touches.iter().filter(|touch| touch.tier == tier) {
            let whole = Use::whole(touch.object, touch.mode);
            let used = trace.uses_of(op).iter().find(|used| used.object == touch.object);
            let used = used.unwrap_or(&whole);
            let whole = trace.objects[used.object.index()].bytes;
            asked.ways[0] += u128::from(used.read(whole).get());
            asked.ways[1] += u128::from(used.written(whole).get());
            asked.charged += u128::from(used.charged(whole).get());
            asked.requests += u128::from(used.requests(whole, granule));
        }
        match asked.charged {
            0 => TierTraffic { ways: [1, 0], charged: 1, requests: 0 },
            _ => asked,
        }
    }

    /// Whether the op only writes there.
    pub fn only_writes(&self) -> bool {
        self.ways[0] == 0
    }

    /// How much of a charge goes towards the device and away from it.
    pub fn split(&self, charge: Bytes) -> [Bytes; 2] {
        let part = |of: u128| (u128::from(charge.get()) * of).div_ceil(self.charged);
        self.ways.map(|of| Bytes::new(u64::try_from(part(of)).unwrap_or(u64::MAX)))
    }

    /// The least time that the bytes of a charge take at `pace`: bandwidth or latency, whichever
    /// binds. A request takes the time of a whole one, whatever is needed of it.
    pub fn span(&self, tier: &Tier, charge: Bytes, pace: Bandwidth) -> Span {
        let granule = u128::from(tier.granule().get());
        let whole = u128::from(charge.get()) * self.requests;
        let requests = match self.requests {
            0 => u128::from(charge.get()).div_ceil(granule),
            _ => whole.div_ceil(self.charged),
        };
        let plain = tier.access.rate.span_of(charge.get());
        if pace == tier.access.rate && requests * granule < u128::from(charge.get()) + granule {
            return plain;
        }
        let bytes = requests * granule * u128::from(PS_PER_S);
        let waits = bytes.div_ceil(u128::from(pace.get()));
        plain.max(Span::from_ps(u64::try_from(waits).expect("an op ends within 213 days")))
    }
}
