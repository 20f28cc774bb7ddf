//! The forward pass of a block: where its norms stand, and how what its parts give joins the residual
//! stream. What the parts are is in [`super::forward`].

use super::pass::GraphBuilder;
use super::state::BlockState;
use crate::build::{ObjectAccess, change, read, write};
use crate::transformer::graph::saved::{Normed, SavedActivations, SavedFeed};
use crate::transformer::modules::Feed;
use tiersim_models::ids::{ModuleId, ObjectId};
use tiersim_models::kernel::Streaming;

/// What a block keeps of all that is behind its attention.
struct Rest {
    normed: [Option<Normed>; 2],
    normed_parts: Vec<Normed>,
    fed: ObjectId,
    feed: SavedFeed,
    masks: [Option<ObjectId>; 2],
}

impl GraphBuilder<'_> {
    /// One block; what it hands on is kept by `owner`, if this rank does.
    ///
    /// A norm stands before attention and one before the feed-forward part or, post-norm, each
    /// behind the sum that follows its part; in some families two more between part and sum, or
    /// these alone. Side by side both parts are given the block's input, behind one norm or two.
    pub(crate) fn block(
        &mut self,
        block: &BlockState,
        x: ObjectId,
        owner: Option<ModuleId>,
    ) -> (SavedActivations, ObjectId) {
        self.sizes = self.sizes.in_block(self.shape, block.layer);
        let family = self.shape.card.family;
        let first = self.module(*block.first());
        let is_shared = family.is_parallel() && block.norm_2.is_none();
        let is_kept = self.keeps_input(&block.qkv) || is_shared && self.keeps_fed(block);
        let owner_1 = (self.module(block.qkv[0]), is_kept);
        let before = block.norm_1.filter(|_| !family.is_post_norm());
        let before = before.map(|norm| self.norm(norm, x, owner_1));
        let given = before.map_or(x, |normed| normed.y);
        let input = self.all_tokens(first, "out.whole", given);
        let (qkv, qkv_norms) = self.positioned(block, input);
        let (core, mixed) = self.attention(block, &qkv);
        let out = self.module(block.out);
        let projected = self.part(out, block.part_norms.first().copied());
        self.linear(block.out, self.sizes.tokens, read(mixed), write(projected));
        let behind = ObjectId::at(self.build.trace.objects.len());
        let (rest, next) = match family.is_parallel() {
            true => self.side_by_side(block, (x, projected, owner), (before, input)),
            false => self.one_behind_the_other(block, (x, projected, owner), before),
        };
        let Rest { normed, normed_parts, fed, feed, masks } = rest;
        let kept = SavedActivations {
            input: x,
            given: [given, fed],
            normed,
            qkv_norms,
            qkv,
            core,
            mixed,
            projected,
            behind,
            masks,
            normed_parts,
            feed,
            compressed: Vec::new(),
        };
        (kept, next)
    }

    /// From what attention's last product gave to the block's output, where the feed-forward part is
    /// given the sum of that with the block's input.
    fn one_behind_the_other(
        &mut self,
        block: &BlockState,
        (x, projected, owner): (ObjectId, ObjectId, Option<ModuleId>),
        before: Option<Normed>,
    ) -> (Rest, ObjectId) {
        let is_post = self.shape.card.family.is_post_norm();
        let out = self.module(block.out);
        let [behind_1, behind_2] = [0, 1].map(|at| block.part_norms.get(at).copied());
        let (projected, normed_part_1) = self.summed(out, projected, behind_1);
        let [first, second] = [*block.first(), self.fed_by(block)].map(|of| self.module(of));
        let keeper = if is_post { first } else { second };
        // A norm's backward pass needs what it was given; a product's, if it has weights that train.
        let is_kept = is_post || block.norm_2.is_some() || self.keeps_fed(block);
        let (mask_1, sum) = self.residual(out, &[projected], x, is_kept.then_some(keeper));
        let norm = if is_post { block.norm_1 } else { block.norm_2 };
        let between = norm.map(|norm| self.norm(norm, sum, self.feed_owner(block)));
        let fed = between.map_or(sum, |normed| normed.y);
        let input = self.all_tokens(second, "out.whole", fed);
        let (feed, down_proj, y) = self.feed(block, input);
        let (y, normed_part_2) = self.summed(down_proj, y, behind_2);
        let (middle, keeper) = if is_post { (fed, Some(second)) } else { (sum, owner) };
        let (mask_2, mut next) = self.residual(down_proj, &[y], middle, keeper);
        let mut normed = [before, between];
        if is_post {
            let owner = (owner.unwrap_or(second), owner.is_some());
            let behind = block.norm_2.map(|norm| self.norm(norm, next, owner));
            next = behind.map_or(next, |normed| normed.y);
            normed = [between, behind];
        }
        let normed_parts = normed_part_1.into_iter().chain(normed_part_2).collect();
        (Rest { normed, normed_parts, fed, feed, masks: [mask_1, mask_2] }, next)
    }

    /// As [`GraphBuilder::one_behind_the_other`], where both are given the block's input, behind a
    /// norm of its own or that of attention; what they give is summed over the tensor group at once,
    /// and dropped at once.
    fn side_by_side(
        &mut self,
        block: &BlockState,
        (x, projected, owner): (ObjectId, ObjectId, Option<ModuleId>),
        (before, input): (Option<Normed>, ObjectId),
    ) -> (Rest, ObjectId) {
        let own = block.norm_2.map(|norm| self.norm(norm, x, self.feed_owner(block)));
        let given = before.map_or(x, |normed| normed.y);
        let fed = own.map_or(given, |normed| normed.y);
        let input = match block.norm_2 {
            Some(norm) => self.all_tokens(self.module(norm), "out.whole", fed),
            None => input,
        };
        let (feed, by, y) = self.feed(block, input);
        let (mask, next) = if self.shape.parallel.tensor > 1 {
            self.build.streaming("add", by, Streaming::ElementWise, &[read(projected), change(y)]);
            let (sum, _) = self.summed(by, y, None);
            self.residual(by, &[sum], x, owner)
        } else {
            self.residual(by, &[projected, y], x, owner)
        };
        let normed = [before, own];
        (Rest { normed, normed_parts: Vec::new(), fed, feed, masks: [None, mask] }, next)
    }

    /// Whether the backward pass needs a block's input: for a norm of it, or for its products.
    pub(crate) fn keeps_block_input(&self, block: &BlockState) -> bool {
        let is_normed = block.norm_1.is_some() && !self.shape.card.family.is_post_norm();
        is_normed || self.keeps_input(&block.qkv)
    }

    /// The module that is given what the feed-forward part is: its norm, or its first matrix.
    pub(crate) fn fed_by(&self, block: &BlockState) -> usize {
        block.norm_2.unwrap_or(first_of_feed(block))
    }

    /// Who keeps what the feed-forward part is given, and whether it is kept.
    fn feed_owner(&self, block: &BlockState) -> (ModuleId, bool) {
        (self.module(first_of_feed(block)), self.keeps_fed(block))
    }

    /// Whether the backward pass needs what the feed-forward part is given.
    pub(crate) fn keeps_fed(&self, block: &BlockState) -> bool {
        match &block.feed {
            Feed::Dense(mlp) => self.keeps_input(&mlp.up_proj),
            Feed::Mixture(_) => self.keeps_input(&[]),
        }
    }

    /// What a product gives that ends attention or the feed-forward part; kept where `norm` stands
    /// behind it.
    fn part(&mut self, by: ModuleId, norm: Option<usize>) -> ObjectId {
        let numbers = self.sizes.tokens * self.sizes.hidden;
        match norm.filter(|_| !self.scatters()) {
            Some(norm) => self.kept(by, "part", numbers, self.module(norm)),
            None => self.buffer(by, "part", numbers),
        }
    }

    /// The sum over the tensor group of a part, and its norm, if it has one.
    fn summed(
        &mut self,
        by: ModuleId,
        part: ObjectId,
        norm: Option<usize>,
    ) -> (ObjectId, Option<Normed>) {
        let owner = norm.map(|norm| self.module(norm));
        let sum = self.sum_for(by, "sum", part, owner);
        let normed = norm.zip(owner).map(|(norm, owner)| self.norm(norm, sum, (owner, false)));
        (normed.map_or(sum, |normed| normed.y), normed)
    }

    /// The feed-forward part or the experts: what they keep, whose output is last, and that.
    fn feed(&mut self, block: &BlockState, input: ObjectId) -> (SavedFeed, ModuleId, ObjectId) {
        let tokens = self.sizes.tokens;
        match &block.feed {
            Feed::Dense(mlp) => {
                let down_proj = self.module(mlp.down_proj);
                let y = self.part(down_proj, block.part_norms.get(1).copied());
                let kept = self.feed_forward(mlp, tokens, read(input), write(y));
                (SavedFeed::Dense(kept), down_proj, y)
            }
            Feed::Mixture(mixture) => {
                let (kept, y) = self.mixture(block.layer, mixture, input);
                (SavedFeed::Mixture(kept), self.module(mixture.router), y)
            }
        }
    }

    /// Dropout of the sum of `parts` and the sum with `x`, in one op; eager kernels know one part.
    fn residual(
        &mut self,
        by: ModuleId,
        parts: &[ObjectId],
        x: ObjectId,
        owner: Option<ModuleId>,
    ) -> (Option<ObjectId>, ObjectId) {
        let numbers = self.sizes.stream();
        let (at, y) = (self.at(by), parts[0]);
        let dropped =
            if self.is_eager() { self.eager_dropout(at, y, numbers, false) } else { None };
        let mask = if self.is_eager() { None } else { self.mask(by, "mask", numbers) };
        let sum = match owner {
            Some(owner) => self.kept(by, "out", numbers, owner),
            None => self.buffer(by, "out", numbers),
        };
        if self.is_eager() {
            let y = dropped.map_or(y, |(_, dropped)| dropped);
            self.run_into(at, "add", (numbers, &[read(y), read(x)]), &[write(sum)]);
            return (dropped.map(|(mask, _)| mask), sum);
        }
        let mut touches: Vec<ObjectAccess> = parts.iter().map(|&part| read(part)).collect();
        touches.extend([read(x), write(sum)]);
        touches.extend(mask.map(write));
        self.build.streaming("residual", by, Streaming::ElementWise, &touches);
        (mask, sum)
    }
}

/// The first matrix of the feed-forward part, or the router.
fn first_of_feed(block: &BlockState) -> usize {
    match &block.feed {
        Feed::Dense(mlp) => mlp.up_proj[0],
        Feed::Mixture(mixture) => mixture.router,
    }
}
