//! The makers' activations: SiLU and a product in two kernels, GeLU by tanh in eight, GeLU by
//! the error function and ReLU in one.

use super::super::pass::GraphBuilder;
use super::super::state::Mlp;
use super::At;
use crate::build::{ObjectAccess, read, write};
use crate::transformer::card::Activation;
use crate::transformer::graph::saved::{Gelu, SavedFeedForward};
use tiersim_models::ids::ObjectId;

impl GraphBuilder<'_> {
    /// What follows the wide matrices, of `numbers` between them, to the narrow one's output.
    pub(crate) fn eager_feed_forward(
        &mut self,
        mlp: &Mlp,
        (up_proj, numbers): (&[ObjectId], u128),
        to: ObjectAccess,
    ) -> SavedFeedForward {
        let at = self.at(mlp.activation);
        let tokens = numbers / mlp.width.max(1);
        let (mut kept, mut gate, mut gelu) = (up_proj.to_vec(), None, None);
        let active = match *up_proj {
            [one, other] => {
                let [silu, active] = self.eager_silu(at, [read(one), read(other)], numbers);
                gate = Some(silu);
                active
            }
            [one] => {
                let active = self.kept(mlp.activation, "out", numbers, self.module(mlp.down_proj));
                gelu = self.eager_activation(at, one, numbers, active);
                if Activation::of(self.shape.card.family) == Activation::Relu {
                    kept.clear();
                }
                active
            }
            _ => unreachable!("a feed-forward part has one or two wide matrices"),
        };
        self.linear(mlp.down_proj, tokens, read(active), to);
        SavedFeedForward { up_proj: kept, gate, active, gelu }
    }

    /// SiLU of `gate`, which is kept, times `up`: gives both.
    pub(crate) fn eager_silu(
        &mut self,
        at: At,
        [gate, up]: [ObjectAccess; 2],
        numbers: u128,
    ) -> [ObjectId; 2] {
        let silu = self.keep(at, "silu", &[gate], numbers);
        let active = self.keep(at, "mul", &[read(silu), up], numbers);
        [silu, active]
    }

    /// The activation of a feed-forward part with one wide matrix.
    pub(crate) fn eager_activation(
        &mut self,
        at: At,
        x: ObjectId,
        numbers: u128,
        active: ObjectId,
    ) -> Option<Gelu> {
        let kind = Activation::of(self.shape.card.family);
        if matches!(kind, Activation::Relu | Activation::ErfGelu) {
            let name = if kind == Activation::Relu { "relu" } else { "gelu" };
            self.run_into(at, name, (numbers, &[read(x)]), &[write(active)]);
            return None;
        }
        let half = self.keep(at, "mul", &[read(x)], numbers);
        let cubes = self.made(at, "pow", &[read(x)], numbers);
        let cubes = self.made(at, "mul", &[read(cubes)], numbers);
        let sum = self.made(at, "add", &[read(x), read(cubes)], numbers);
        let inner = self.made(at, "mul", &[read(sum)], numbers);
        let tanh = self.keep(at, "tanh", &[read(inner)], numbers);
        let more = self.keep(at, "add", &[read(tanh)], numbers);
        self.run_into(at, "mul", (numbers, &[read(half), read(more)]), &[write(active)]);
        Some([half, tanh, more])
    }
}
