//! Keys and values of past tokens: objects of their own per layer, batch and block of positions.
//!
//! Eager kernels make a cache without blocks anew in every step, from what was there and what is
//! new. All others have one that grows where it lies:
//! blocks that are full are read, those that grow are written where they grow, and what is new is
//! born. Attention runs on the device, or, in decode steps, on the host's processors, where only
//! queries and results cross the link (Sheng et al., "FlexGen", ICML 2023, section 4.2); a prompt
//! is attended to on the device then, and its keys and values are stored beside that.

use super::eager::At;
use super::pass::GraphBuilder;
use super::state::BlockState;
use crate::build::{ObjectAccess, change, read, write};
use tiersim_models::ids::ObjectId;
use tiersim_models::kernel::Work;
use tiersim_models::workload::{ObjectKind, Unit};

/// The stream on which a prompt's keys and values are stored beside the device's work.
const STORES: u16 = 1;

impl GraphBuilder<'_> {
    /// Bytes of keys, and as many of values, of one token in one layer.
    fn key_bytes(&self) -> u128 {
        self.sizes.keys * u128::from(self.shape.formats.kv.bytes())
    }

    /// Attention of the new tokens to the cache of a layer, which they are added to.
    pub(super) fn cached(&mut self, block: &BlockState, qkv: &[ObjectId], mixed: ObjectId) {
        if let Some(compression) = &block.compression {
            return self.rows_attended(block, compression, qkv, mixed);
        }
        if self.is_ring() {
            return self.sharded(block, qkv, mixed);
        }
        if self.cache.as_ref().is_some_and(|cache| cache.is_made_anew) {
            return self.concatenated(block, qkv, mixed);
        }
        let (by, attention) = (block.attention, self.sizes.attention);
        let on_host = self.cache.as_ref().is_some_and(|cache| cache.on_host);
        let stored = self.stored(block);
        let mut touches: Vec<ObjectAccess> = qkv.iter().map(|&y| read(y)).collect();
        touches.push(write(mixed));
        let work = (Work::Attention(attention), attention.flops());
        if on_host && attention.new > 1 {
            let bytes = 2 * self.sizes.tokens * self.key_bytes();
            let (name, format) = (self.named(by, "fresh"), self.shape.formats.kv);
            let fresh = self.build.object(name, ObjectKind::Buffer, (bytes, format), None);
            touches.push(write(fresh));
            self.build.kernel("attention", by, work, &touches);
            let mut touches = vec![read(fresh)];
            touches.extend(stored);
            self.build.op_on(Unit::Cpu, STORES, "store", by, 0, &touches);
            return;
        }
        touches.extend(stored);
        if on_host {
            self.build.op_on(Unit::Cpu, 0, "attention", by, work.1, &touches);
        } else {
            self.build.kernel("attention", by, work, &touches);
        }
    }

    /// Attention to keys and values that two copies have made anew, of those of past tokens and of
    /// the new ones: `torch.cat` of `transformers`' `DynamicCache`. Behind a window no token is
    /// copied.
    fn concatenated(&mut self, block: &BlockState, qkv: &[ObjectId], mixed: ObjectId) {
        let Some(mut cache) = self.cache.take() else { return };
        let (sizes, by) = (self.sizes, block.attention);
        let format = self.shape.formats.kv;
        let at = At { by, format };
        let of = u128::from(sizes.attention.batch) * self.key_bytes();
        let bytes = u128::from(sizes.work.bytes()) * sizes.tokens;
        let attended = sizes.attention.attended();
        let past = u128::from(attended - sizes.attention.new) * of;
        let owner = block.qkv.last().map(|&owned| self.module(owned));
        let slot = block.layer as usize * cache.batches + cache.batch;
        let before = std::mem::take(&mut cache.blocks[slot]);
        let mut touches = self.qkv(qkv, [true, false, false], bytes);
        for (index, name) in ["keys", "values"].into_iter().enumerate() {
            let size = (u128::from(attended) * of, format);
            let whole = self.build.object(self.named(by, name), ObjectKind::Kv, size, owner);
            let held = before.get(index).filter(|_| past > 0);
            let mut from: Vec<ObjectAccess> =
                held.map(|&old| read(old).part(past)).into_iter().collect();
            from.extend(self.qkv(qkv, [false, index == 0, index == 1], bytes));
            self.run_into(at, "cat", (0, &from), &[write(whole)]);
            cache.blocks[slot].push(whole);
            touches.push(read(whole));
        }
        touches.push(write(mixed));
        let work = (Work::Attention(sizes.attention), sizes.attention.flops());
        self.build.kernel("attention", by, work, &touches);
        self.cache = Some(cache);
    }

    /// What a pass does to the cache of a layer.
    pub(super) fn stored(&mut self, block: &BlockState) -> Vec<ObjectAccess> {
        let Some(mut cache) = self.cache.take() else { return Vec::new() };
        let attention = self.sizes.attention;
        // Keys and values of each sequence lie apart, in blocks.
        let (numbers, pieces) = self.shape.card.cached(self.shape.parallel.tensor);
        let sequences = u128::from(pieces) * u128::from(attention.batch);
        let apart = u128::from(numbers) * u128::from(self.shape.formats.kv.bytes());
        let (size, row) = (cache.size, apart * sequences);
        let (before, after) = (cache.span.start, cache.span.end);
        let first = after - attention.attended();
        // One block turns round in the room of its window.
        let room = match attention.window {
            window if window > 0 && !cache.paged => cache.positions.min(window.into()),
            _ => cache.positions,
        };
        let at = block.layer as usize * cache.batches + cache.batch;
        if cache.blocks[at].is_empty() {
            cache.behind[at] = first / size;
        }
        let mut touches = Vec::new();
        for index in cache.behind[at]..after.div_ceil(size) {
            let start = index * size;
            let end = (start + size).min(after);
            let at_block = (index - cache.behind[at]) as usize;
            let is_new = at_block >= cache.blocks[at].len();
            if is_new {
                let module = &self.build.trace.modules[block.attention.index()];
                let name = format!("b{}.{module}.kv.{index}", cache.batch);
                let bytes = u128::from(size.min(cache.positions - start).min(room)) * row;
                let size = (bytes, self.shape.formats.kv);
                // Attention has no parameters that it could be ranked by; what makes values has.
                let owner = block.qkv.last().map(|&owned| self.module(owned));
                let object = self.build.object(name, ObjectKind::Kv, size, owner);
                self.build.trace.objects[object.index()].persistent = start < cache.held;
                cache.blocks[at].push(object);
            }
            let object = cache.blocks[at][at_block];
            let grows = end > before;
            let held = self.build.trace.objects[object.index()].persistent || !is_new;
            let touch = match (grows, held) {
                (true, false) => write(object),
                // What grows is written alone.
                (true, true) => {
                    let fresh = u128::from((end - start.max(before)).min(room));
                    change(object).rows(sequences, fresh * apart)
                }
                (false, _) if cache.paged => {
                    read(object).rows(sequences, self.build.size(object) / sequences)
                }
                (false, _) => read(object),
            };
            // Behind a window nothing is attended to, nor read.
            if end > first {
                touches.push(touch.part(u128::from((end - start.max(first)).min(room)) * row));
            }
        }
        self.cache = Some(cache);
        touches
    }
}
