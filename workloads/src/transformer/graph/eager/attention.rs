//! Rotary positions in five kernels per tensor, and attention of two products with copies of what
//! they are given.
//!
//! Cosines and sines, and the causal mask, are made once per micro-batch.

use super::super::pass::{GraphBuilder, product};
use super::At;
use crate::build::{ObjectAccess, read, write};
use crate::transformer::card::Family;
use crate::transformer::format::Format;
use crate::transformer::graph::saved::{KeptScores, Normed};
use crate::transformer::graph::state::BlockState;
use crate::transformer::training::Attention;
use tiersim_models::ids::ObjectId;
use tiersim_models::kernel::Work;

/// Whether queries are divided by the root of a head's width before attention, not scores in it.
pub(crate) fn scales_queries(family: Family) -> bool {
    family == Family::Opt
}

/// Whether the softmax of attention of products is in fp32, whatever its input is.
pub(crate) const fn softens_wide(family: Family) -> bool {
    !matches!(family, Family::Gpt2 | Family::Bert | Family::Roberta)
}

impl GraphBuilder<'_> {
    /// Cosines and sines of this micro-batch.
    pub(crate) fn rotary_tables(&mut self, at: At) -> [ObjectId; 2] {
        if let Some(&tables) = self.shared.rotary.get(&self.micro) {
            return tables;
        }
        let of = self.sizes.attention;
        let numbers = u128::from(of.new) * u128::from(of.head_dim);
        let wide = at.wide();
        let angles = self.made(wide, "mul", &[], numbers / 2);
        let angles = self.made(wide, "cat", &[read(angles).part(4 * numbers)], numbers);
        let tables = ["cos", "sin"].map(|name| {
            let table = self.made(wide, name, &[read(angles)], numbers);
            let scaled = self.result(wide, "mul", numbers, at.format == Format::Fp32);
            self.run_into(wide, "mul", (numbers, &[read(table)]), &[write(scaled)]);
            match at.format {
                Format::Fp32 => scaled,
                _ => self.keep(at, "_to_copy", &[read(scaled)], numbers),
            }
        });
        self.shared.rotary.insert(self.micro, tables);
        tables
    }

    /// Makes what eager kernels of all blocks of a pass share.
    pub(crate) fn shared_tables(&mut self, block: &BlockState) {
        if self.is_eager() && self.shape.card.family.is_rotary() {
            self.rotary_tables(self.at(block.attention));
        }
    }

    /// `x` of `numbers`, turned by position; kept if the fused kernel of attention is.
    pub(crate) fn eager_rotary(&mut self, at: At, x: ObjectId, numbers: u128) -> ObjectId {
        let [cos, sin] = self.rotary_tables(at);
        let half = self.build.size(x) / 2;
        let straight = self.made(at, "mul", &[read(x), read(cos)], numbers);
        let negative = self.made(at, "neg", &[read(x).part(half)], numbers / 2);
        let turned = [read(x).part(half), read(negative)];
        let turned = self.made(at, "cat", &turned, numbers);
        let turned = self.made(at, "mul", &[read(turned), read(sin)], numbers);
        let is_kept = self.shape.attention == Attention::Flash;
        let y = self.result(at, "add", numbers, is_kept);
        self.run_into(at, "add", (numbers, &[read(straight), read(turned)]), &[write(y)]);
        y
    }

    /// Whether the backward pass of attention needs what matrix `index` of queries, keys and values
    /// gives: attention of products has copies, and what is turned by position is another.
    pub(crate) fn keeps_qkv(&self, block: &BlockState, index: usize) -> bool {
        if index < block.head_norms.len() {
            return true;
        }
        let family = self.shape.card.family;
        let is_other = family.is_rotary() && index < 2 || scales_queries(family) && index == 0;
        self.shape.attention == Attention::Flash && !is_other
    }

    /// Queries, keys and values as attention gets them: normed, head by head, and turned by
    /// position. Gives the norms.
    pub(crate) fn eager_positions(
        &mut self,
        block: &BlockState,
        qkv: &mut [ObjectId],
    ) -> Vec<Normed> {
        let mut normed = Vec::new();
        for (index, (&norm, x)) in block.head_norms.iter().zip(qkv.iter_mut()).enumerate() {
            normed.push(self.eager_norm(norm, *x, self.head_rows(index), None));
            *x = normed[index].y;
        }
        let at = self.at(block.attention);
        if scales_queries(self.shape.card.family) {
            let numbers = self.sizes.tokens * self.sizes.queries;
            let y = self.result(at, "mul", numbers, self.shape.attention == Attention::Flash);
            self.run_into(at, "mul", (numbers, &[read(qkv[0])]), &[write(y)]);
            qkv[0] = y;
        }
        if !self.shape.card.family.is_rotary() {
            return normed;
        }
        let widths = [self.sizes.queries, self.sizes.keys];
        for (x, width) in qkv.iter_mut().zip(widths) {
            *x = self.eager_rotary(at, *x, self.sizes.tokens * width);
        }
        normed
    }

    /// Rows and numbers of the norm of every head's queries (0) or keys (1).
    pub(crate) fn head_rows(&self, index: usize) -> (u128, u128) {
        let sizes = self.sizes;
        let numbers = sizes.tokens * if index == 0 { sizes.queries } else { sizes.keys };
        (numbers / u128::from(sizes.attention.head_dim).max(1), numbers)
    }

    /// 0 for what a token attends to, and below all numbers for the rest.
    fn causal_mask(&mut self, at: At) -> ObjectId {
        if let Some((pass, mask)) = &self.shared.mask
            && *pass == self.prefix
        {
            return *mask;
        }
        let numbers = self.sizes.scores / self.sizes.heads.max(1);
        let mask = self.made(at, "where", &[], numbers);
        self.shared.mask = Some((self.prefix.clone(), mask));
        mask
    }

    /// Attention of two products.
    pub(crate) fn eager_scores(
        &mut self,
        block: &BlockState,
        qkv: &[ObjectId],
        mixed: ObjectId,
    ) -> KeptScores {
        let (sizes, at) = (self.sizes, self.at(block.attention));
        let numbers = sizes.tokens * sizes.queries;
        let bytes = u128::from(sizes.work.bytes()) * sizes.tokens;
        // Keys and values are repeated for every query head.
        let clones = [1, 2, 0].map(|of| {
            let mut which = [false; 3];
            which[of] = true;
            let from = self.qkv(qkv, which, bytes);
            self.keep(at, "clone", &from, numbers)
        });
        let [k, v, q] = clones;
        let flops = 2 * sizes.pairs * sizes.queries;
        let scores = self.result(at, "bmm", sizes.scores, false);
        let touches = [read(q), read(k), write(scores)];
        self.build.kernel("bmm", at.by, (self.scored(), flops), &touches);
        let scaled = self.made(at, "mul", &[read(scores)], sizes.scores);
        let masked = match self.shape.card.family.is_causal() {
            true => {
                let mask = self.causal_mask(at);
                self.made(at, "add", &[read(scaled), read(mask)], sizes.scores)
            }
            false => scaled,
        };
        let form = if softens_wide(self.shape.card.family) { at.wide() } else { at };
        let softmax = self.keep(form, "_softmax", &[read(masked)], sizes.scores);
        let narrow = match form.format {
            format if format == at.format => softmax,
            // What dropout leaves of it is kept in its place.
            _ if self.shape.dropout => self.made(at, "_to_copy", &[read(softmax)], sizes.scores),
            _ => self.keep(at, "_to_copy", &[read(softmax)], sizes.scores),
        };
        let dropped = self.eager_dropout(at, narrow, sizes.scores, true);
        let weighed = self.result(at, "bmm", numbers, false);
        let from = dropped.map_or(narrow, |(_, dropped)| dropped);
        let touches = [read(from), read(v), write(weighed)];
        self.build.kernel("bmm", at.by, (self.weighed(), flops), &touches);
        self.run_into(at, "clone", (0, &[read(weighed)]), &[write(mixed)]);
        KeptScores { qkv: [q, k, v], softmax, narrow, dropped }
    }

    /// Dropout of `x`, if there is any: its mask and what it leaves.
    pub(crate) fn eager_dropout(
        &mut self,
        at: At,
        x: ObjectId,
        numbers: u128,
        is_kept: bool,
    ) -> Option<(ObjectId, ObjectId)> {
        let mask = self
            .shape
            .dropout
            .then(|| self.result(At { format: Format::Int8, ..at }, "mask", numbers, true))?;
        let y = self.result(at, "native_dropout", numbers, is_kept);
        self.run_into(at, "native_dropout", (numbers, &[read(x)]), &[write(y), write(mask)]);
        Some((mask, y))
    }

    /// A product of `rows`, `outputs` and `inputs` of each, as one kernel.
    pub(crate) fn eager_product(
        &mut self,
        at: At,
        name: &str,
        [rows, outputs, inputs]: [u128; 3],
        touches: &[ObjectAccess],
    ) {
        let of = product(rows, outputs, inputs);
        self.build.kernel(name, at.by, (Work::Product(of), of.flops()), touches);
    }
}
