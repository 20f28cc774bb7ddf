//! How a step begins: with what persists, and nothing else.

use super::Training;
use crate::build::Builder;
use crate::transformer::graph::network::Groups;
use crate::transformer::graph::pass::{Compressed, GraphBuilder, Reduction};
use crate::transformer::graph::saved::Shared;
use crate::transformer::graph::sizes::Sizes;
use crate::transformer::graph::state::{ModelState, State};
use std::collections::BTreeMap;
use tiersim_models::workload::{Recorded, TraceMeta};

/// A step of which nothing is made yet but what persists, and its gradients.
pub(super) fn begun(shape: &Training) -> (GraphBuilder<'_>, ModelState) {
    let mut build = Builder::new(meta(shape));
    let (model, owned) = State::model(shape, &mut build, true);
    let groups = Groups::new(shape).expect("a shape without problems has equal groups");
    let (sizes, prefix) = (Sizes::new(shape), String::new());
    let reduction = Reduction::default();
    let (micro, cache, low_rank) = (0, None, BTreeMap::new());
    let maker = GraphBuilder {
        shape,
        build,
        owned,
        sizes,
        groups,
        micro,
        prefix,
        reduction,
        cache,
        low_rank,
        trains: true,
        compressed: Compressed::default(),
        shared: Shared::default(),
        later: Vec::new(),
    };
    (maker, model)
}

fn meta(shape: &Training) -> TraceMeta {
    let Training { card, parallel, batch, sequence, .. } = shape;
    TraceMeta {
        name: format!("{}-train", card.name),
        about: format!(
            "generated from a model card: one training step of one of {} ranks, stage {} of ZeRO, \
             batch {batch}, sequences of {sequence}; no durations were recorded, and Adam's \
             statistics are made up",
            parallel.ranks(),
            shape.zero.stage
        ),
        precision: shape.formats.weights.word().to_owned(),
        batch: *batch,
        sequence: u32::try_from(*sequence).unwrap_or(u32::MAX),
        recorded: Recorded::default(),
    }
}
