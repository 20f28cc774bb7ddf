//! Which ranks work together, and where they are.
//!
//! Ranks are numbered with the tensor group innermost, then context, data and pipeline, and servers are
//! filled in that order: ranks of one tensor group are neighbours. A group is `ranks` of them at a
//! distance of `stride`. Invariant: a shape without problems spreads every group equally over
//! servers.

use crate::limits::ShapeProblem;
use crate::transformer::card::Card;
use crate::transformer::training::{Parallel, Training};
use tiersim_models::units::Bytes;
use tiersim_models::workload::{Collective, CollectiveKind, Unit};

/// Ranks of a group in each server, and servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Group {
    within: u32,
    servers: u32,
}

/// One rank.
const ALONE: Group = Group { within: 1, servers: 1 };

/// `None` if servers would have unequally many ranks.
pub(crate) fn group(ranks: u32, stride: u32, devices: u32) -> Option<Group> {
    let (ranks, stride, devices) = (u64::from(ranks), u64::from(stride), u64::from(devices.max(1)));
    let (within, servers) = if ranks == 1 || ranks * stride <= devices {
        (ranks, 1)
    } else if stride % devices == 0 {
        (1, ranks)
    } else if devices % stride == 0 && ranks % (devices / stride) == 0 {
        (devices / stride, ranks * stride / devices)
    } else {
        return None;
    };
    Some(Group { within: within as u32, servers: servers as u32 })
}

/// Why matrices of a model cannot be split over so many ranks of servers of so many devices.
pub(crate) fn tensor_problem(card: &Card, tensor: u32, devices: u32) -> Option<ShapeProblem> {
    let splits = |by: u32| tensor > 0 && by.is_multiple_of(tensor);
    let ffn = card.experts.map_or(card.ffn, |experts| experts.ffn);
    let copies = tensor > 0 && tensor.is_multiple_of(card.kv_heads.max(1));
    let all = [card.heads, ffn, card.vocab].into_iter().all(splits);
    if !all || !(splits(card.kv_heads) || copies) {
        let rule = format!(
            "`tensor` must divide heads ({}), heads of keys and values ({}) or be a multiple of these, ffn \
             ({ffn}) and vocab ({})",
            card.heads, card.kv_heads, card.vocab
        );
        let remedy = "choose another number of ranks";
        return Some(ShapeProblem { field: "tensor", rule, remedy });
    }
    group(tensor, 1, devices).is_none().then(|| ShapeProblem {
        field: "devices",
        rule: format!("{tensor} ranks fill servers of {devices} devices unequally"),
        remedy: "choose groups that fill whole servers, or fit into one",
    })
}

/// The groups that one rank is in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Groups {
    pub(crate) tensor: Group,
    /// Those with the other parts of its sequences.
    pub(crate) context: Group,
    /// Those with the same part of the model, whichever tokens they have.
    pub(crate) data: Group,
    /// Those that the experts of a block are spread over.
    pub(crate) expert: Group,
    /// Those with the same experts.
    pub(crate) replicas: Group,
    /// This rank and the same one of the next stage.
    pub(crate) next: Group,
    /// The same ranks of the first and the last stage.
    pub(crate) ends: Group,
}

impl Groups {
    /// `None` if some group is spread unequally.
    pub(crate) fn new(shape: &Training) -> Option<Groups> {
        let Parallel { data, context, tensor, pipeline, expert, .. } = shape.parallel;
        let devices = shape.devices;
        let replicas = data.checked_mul(context)?;
        let up_proj = replicas.checked_mul(tensor)?;
        // Two ranks, and how many ranks there are from the first pair of such to the last.
        let two = |stride: u32, span: u64| {
            let apart = Group { within: 1, servers: 2 };
            match pipeline {
                1 => ALONE,
                _ if span <= u64::from(devices) => Group { within: 2, servers: 1 },
                _ => group(2, stride, devices).unwrap_or(apart),
            }
        };
        let all = u64::from(up_proj) * u64::from(pipeline);
        Some(Groups {
            tensor: group(tensor, 1, devices)?,
            context: group(context, tensor, devices)?,
            data: group(replicas, tensor, devices)?,
            expert: group(expert, tensor, devices)?,
            replicas: group(data / expert, tensor.checked_mul(expert)?, devices)?,
            next: two(up_proj, 2 * u64::from(up_proj)),
            ends: two(up_proj.checked_mul(pipeline - 1)?, all),
        })
    }
}

impl Group {
    /// The collective over this group of a buffer of so many bytes.
    pub(crate) fn does(self, kind: CollectiveKind, bytes: u128) -> Unit {
        let bytes = Bytes::new(u64::try_from(bytes).unwrap_or(u64::MAX));
        let Group { within, servers } = self;
        Unit::Network(Collective { kind, bytes, within, servers, times: 1 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_filled_with_tensor_groups_first() {
        let of =
            |ranks, stride, devices| group(ranks, stride, devices).map(|g| (g.within, g.servers));
        // 4 replicas of tensor groups of 4 in servers of 8: two replicas in each server.
        assert_eq!(of(4, 1, 8), Some((4, 1)));
        assert_eq!(of(4, 4, 8), Some((2, 2)));
        assert_eq!(of(16, 1, 8), Some((8, 2)));
        assert_eq!(of(64, 8, 8), Some((1, 64)));
        assert_eq!(of(2, 16, 8), Some((1, 2)));
        assert_eq!(of(12, 1, 8), None, "eight here and four there");
        assert_eq!(of(5, 1, 8), Some((5, 1)));
        assert_eq!(of(1, 3, 8), Some((1, 1)));
    }

    #[test]
    fn the_ends_of_a_pipeline_that_fits_into_a_server_are_in_one() {
        let card = crate::transformer::known::known("gpt2").expect("it is known").card();
        let ends = |tensor, pipeline, data| {
            let parallel = Parallel { tensor, pipeline, data, ..Parallel::default() };
            let shape = Training { parallel, devices: 8, ..Training::new(card.clone(), 64) };
            let Group { within, servers } = Groups::new(&shape).expect("it is spread equally").ends;
            (within, servers)
        };
        for (tensor, pipeline, data) in [(1, 8, 1), (1, 6, 1), (2, 4, 1), (1, 4, 2), (1, 5, 1)] {
            assert_eq!(ends(tensor, pipeline, data), (2, 1), "{tensor} {pipeline} {data}");
        }
        assert_eq!(ends(1, 12, 1), (1, 2));
        assert_eq!(ends(8, 2, 1), (1, 2));
        assert_eq!(ends(1, 1, 8), (1, 1));
    }
}
