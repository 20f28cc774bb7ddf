//! The six numbers, and what they are of.

use tiersim_models::workload::ObjectKind;

/// Percent of the GPU and of the CPU for each [`Group`]; the rest goes to disk.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Six(pub [[f64; 2]; 3]);

/// What has percentages of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// Weights, and in training what belongs to them.
    Weights,
    /// Keys and values of past tokens.
    Cache,
    /// Outputs of layers.
    Activations,
}

impl Group {
    /// Every group, in the order of the six numbers.
    pub const ALL: [Group; 3] = [Group::Weights, Group::Cache, Group::Activations];

    /// The group of a kind, if it has one.
    pub const fn of(kind: ObjectKind) -> Option<Group> {
        match kind {
            ObjectKind::Weight
            | ObjectKind::Gradient
            | ObjectKind::Optimizer
            | ObjectKind::Master => Some(Group::Weights),
            ObjectKind::Kv => Some(Group::Cache),
            ObjectKind::Activation => Some(Group::Activations),
            ObjectKind::Buffer | ObjectKind::State => None,
        }
    }
}
