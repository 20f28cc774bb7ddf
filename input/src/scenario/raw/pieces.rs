//! Small parts that several policies write alike.

use serde::Deserialize;

#[derive(Debug, Deserialize)]
#[serde(rename = "Cut", rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum RawCut {
    Shares { hbm: f64, cpu: f64 },
    Cumulative { hbm: f64, cpu: f64 },
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename = "ObjectKind", rename_all = "snake_case")]
pub(crate) enum RawObjectKind {
    Weight,
    Gradient,
    Optimizer,
    Master,
    Activation,
    Kv,
    Buffer,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename = "Access", rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum RawAccess {
    InPlace { charge: RawCharge },
    Migrate { prefetch_ops: Option<u32> },
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename = "Charge", rename_all = "snake_case")]
pub(crate) enum RawCharge {
    ModuleOutput,
    ModuleWeights,
    EveryUse,
}
