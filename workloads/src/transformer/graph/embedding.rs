//! From token ids to the first block's input: rows of tables, dropout, and a norm in a family that
//! has one.

use super::pass::GraphBuilder;
use super::state::ModelState;
use crate::build::{change, read, write};
use crate::transformer::card::Family;
use crate::transformer::graph::saved::Normed;
use tiersim_models::ids::{ModuleId, ObjectId};
use tiersim_models::kernel::Streaming;
use tiersim_models::workload::CollectiveKind;

/// What the embedding keeps and hands on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Embedded {
    pub(crate) mask: Option<ObjectId>,
    /// The norm behind it, in a family that has one.
    pub(crate) normed: Option<Normed>,
    /// The first block's input.
    pub(crate) out: ObjectId,
}

impl GraphBuilder<'_> {
    /// From token ids to the first block's input, which `owner` is given, and whether it is kept.
    pub(crate) fn embed(
        &mut self,
        model: &ModelState,
        (owner, is_kept): (ModuleId, bool),
    ) -> Embedded {
        let (numbers, sizes) = (self.sizes.stream(), self.sizes);
        let by = self.module(model.tokens);
        let parallel = self.shape.parallel;
        let row = sizes.hidden * u128::from(self.shape.formats.weights.bytes());
        let rows = self.weight(model.tokens).rows(sizes.tokens, row);
        // A rank that has all of the table, or sums in place, looks up what is kept.
        let normed = model.norm_0.map(|norm| self.module(norm));
        let keeper = normed.unwrap_or(owner);
        // Eager kernels give sums and what dropout leaves objects of their own.
        let passes_on = self.is_eager() && (model.positions.is_some() || self.shape.dropout);
        let x = if passes_on {
            self.buffer(by, "out", numbers)
        } else {
            // A frozen table and a frozen norm behind it have no backward pass.
            let is_kept = self.shape.lora.is_none() || normed.is_none() && is_kept;
            self.kept_if(is_kept, by, ("out", numbers), keeper)
        };
        if parallel.tensor > 1 && parallel.sequence {
            let part = self.buffer(by, "part", sizes.tokens * sizes.hidden);
            self.build.streaming("embedding", by, Streaming::Embedding, &[rows, write(part)]);
            let bytes = self.build.size(part);
            self.tensor(CollectiveKind::ReduceScatter, by, bytes, &[read(part), write(x)]);
        } else {
            self.build.streaming("embedding", by, Streaming::Embedding, &[rows, write(x)]);
            self.sum(by, "sum", x);
        }
        let x = match model.types {
            Some(table) => self.types(table, x),
            None => x,
        };
        // In an encoder dropout is behind the norm.
        let is_post = self.shape.card.family.is_post_norm();
        let x = match model.positions {
            Some(table) => self.positions(table, x, (keeper, is_post || !self.shape.dropout)),
            None => x,
        };
        let drops = self.is_eager() && self.shape.dropout;
        if let (Some(norm), true) = (model.norm_0, is_post) {
            let normed = self.norm(norm, x, (owner, !drops));
            let (mask, out) = self.embedding_dropout(by, normed.y);
            return Embedded { mask, normed: Some(normed), out };
        }
        let (mask, x) = self.embedding_dropout(by, x);
        let normed = model.norm_0.map(|norm| self.norm(norm, x, (owner, true)));
        let out = normed.map_or(x, |normed| normed.y);
        Embedded { mask, normed, out }
    }

    /// Adds the rows of token types: gives the sum.
    fn types(&mut self, table: usize, x: ObjectId) -> ObjectId {
        let (module, numbers) = (self.module(table), self.sizes.stream());
        let rows = self.weight(table);
        if !self.is_eager() {
            let touches = [rows, change(x)];
            self.build.streaming("token_types", module, Streaming::Embedding, &touches);
            return x;
        }
        let at = self.at(module);
        let found = self.made(at, "embedding", &[rows], numbers);
        self.made(at, "add", &[read(x), read(found)], numbers)
    }

    /// Adds the positions' rows: gives the sum.
    fn positions(
        &mut self,
        table: usize,
        x: ObjectId,
        (keeper, is_kept): (ModuleId, bool),
    ) -> ObjectId {
        let (sizes, module) = (self.sizes, self.module(table));
        let row = sizes.hidden * u128::from(self.shape.formats.weights.bytes());
        let rows = (u128::from(sizes.attention.new) * row).min(self.owned[table].bytes);
        let rows = self.weight(table).rows(1, rows);
        if !self.is_eager() {
            let touches = [rows, change(x)];
            self.build.streaming("positions", module, Streaming::Embedding, &touches);
            return x;
        }
        let at = self.at(module);
        let each = self.position_rows() * sizes.hidden;
        let found = self.made(at, "embedding", &[rows], each);
        let numbers = sizes.stream();
        let sum = self.kept_if(is_kept, module, ("sum", numbers), keeper);
        self.run_into(at, "add", (numbers, &[read(x), read(found)]), &[write(sum)]);
        sum
    }

    /// Rows of positions that eager kernels look up: GPT-2's and BERT's once for all sequences.
    pub(crate) fn position_rows(&self) -> u128 {
        match self.shape.card.family {
            Family::Gpt2 | Family::Bert => self.sizes.attention.new.into(),
            _ => self.sizes.tokens,
        }
    }

    /// Dropout behind the embedding, if there is any: its mask, and what it leaves.
    fn embedding_dropout(&mut self, by: ModuleId, x: ObjectId) -> (Option<ObjectId>, ObjectId) {
        let numbers = self.sizes.stream();
        if self.is_eager() {
            let at = self.at(by);
            let dropped = self.eager_dropout(at, x, numbers, true);
            return (dropped.map(|(mask, _)| mask), dropped.map_or(x, |(_, y)| y));
        }
        let mask = match self.shape.lora {
            None => self.mask(by, "mask", numbers),
            Some(_) => self.shape.dropout.then(|| self.unkept_mask(by, numbers)),
        };
        if let Some(mask) = mask {
            self.build.streaming("dropout", by, Streaming::ElementWise, &[change(x), write(mask)]);
        }
        (mask, x)
    }
}
