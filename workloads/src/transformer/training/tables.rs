//! The backward pass of the embedding: of the norm and the dropout behind it, and of the tables.
//!
//! A table's gradient has rows of zeros where no token is. A tied table's may be there already.
//! Invariant: dropout and norm come in the opposite order of the forward pass.

use crate::build::{ObjectAccess, read, write};
use crate::transformer::graph::embedding::Embedded;
use crate::transformer::graph::pass::GraphBuilder;
use crate::transformer::graph::state::ModelState;
use tiersim_models::ids::ObjectId;
use tiersim_models::kernel::Streaming;

impl GraphBuilder<'_> {
    /// From the gradient of the first block's input to those of the tables.
    pub(super) fn embed_backward(&mut self, model: &ModelState, embedded: &Embedded, dx: ObjectId) {
        let (sizes, by) = (self.sizes, self.module(model.tokens));
        let dx = if self.shape.card.family.is_post_norm() {
            let dx = self.embedding_dropout_backward(model, embedded, dx);
            self.norm_0_backward(model, embedded, dx)
        } else {
            let dx = self.norm_0_backward(model, embedded, dx);
            self.embedding_dropout_backward(model, embedded, dx)
        };
        if self.is_eager() {
            self.eager_tables_backward(model, dx);
            return;
        }
        let tables =
            [(model.positions, "positions_backward"), (model.types, "token_types_backward")];
        for (table, name) in tables {
            let Some(table) = table else { continue };
            let mut touches = vec![read(dx)];
            touches.extend(self.gradient(table));
            self.build.streaming(name, self.module(table), Streaming::Embedding, &touches);
            self.done(table);
        }
        let dx = self.all_tokens(by, "out.grad.whole", dx);
        let row = sizes.hidden * u128::from(self.shape.formats.gradients.bytes());
        let rows = 2 * sizes.tokens * row;
        // A tied head or an earlier micro-batch has written it before; otherwise it is cleared
        // first.
        let mut touches = self.gradient(model.tokens);
        for touch in &mut touches {
            let size = self.build.size(touch.object);
            let rows = rows * size / self.owned[model.tokens].gradient_bytes.max(1);
            *touch = touch.part(if touch.is_write() { size + rows } else { rows });
        }
        touches.push(read(dx));
        self.build.streaming("embedding_backward", by, Streaming::Embedding, &touches);
        self.done(model.tokens);
    }

    fn norm_0_backward(
        &mut self,
        model: &ModelState,
        embedded: &Embedded,
        dx: ObjectId,
    ) -> ObjectId {
        let Some(norm) = model.norm_0 else { return dx };
        let normed = embedded.normed.expect("a norm behind the embedding is there");
        self.norm_backward(norm, &normed, dx, None)
    }

    fn embedding_dropout_backward(
        &mut self,
        model: &ModelState,
        embedded: &Embedded,
        dx: ObjectId,
    ) -> ObjectId {
        let Some(mask) = embedded.mask else { return dx };
        let by = self.module(model.tokens);
        let d = self.buffer(by, "out.grad", self.sizes.stream());
        let touches: [ObjectAccess; 3] = [read(dx), read(mask), write(d)];
        self.build.streaming("dropout_backward", by, Streaming::ElementWise, &touches);
        d
    }
}
