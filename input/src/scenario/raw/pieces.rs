//! Small parts that several policies write alike.

use serde::Deserialize;
use tiersim_policies::access::Charge;

#[derive(Debug, Deserialize)]
#[serde(rename = "Cut", rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum RawCut {
    Shares { hbm: f64, cpu: f64 },
    Cumulative { hbm: f64, cpu: f64 },
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename = "Access", rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum RawAccess {
    InPlace { charge: Charge },
    Migrate { prefetch_ops: Option<u32> },
}
