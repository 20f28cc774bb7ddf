//! Ring attention: a sequence over several ranks (context parallelism).
//!
//! Each of N ranks has 1 / N of the tokens of every sequence, with queries, keys and values of its
//! own. Blocks of keys and values go around the ring: while a rank attends to one, it sends that on
//! and receives the next, so that after N turns it has met all (Liu, Zaharia, Abbeel, "Ring
//! Attention with Blockwise Transformers for Near-Infinite Context", 2023). What each turn gives is
//! put together by the sums of its softmax. In a causal model rank r has the chunks r and
//! 2 N - 1 - r of 2 N equal ones (Brandon et al., "Striped Attention", 2023, and Megatron-LM's
//! context parallelism), so that every rank has the same work in every turn: with chunks of c
//! tokens 2 c^2 + c pairs in the first, and 2 c^2 in each of the others.
//!
//! The backward pass sends keys and values around again, and with each block its gradients, to
//! which every rank adds and which come home in the end: one exchange more.
//!
//! Turns of long rings are put together to as many ops as [`MOST_TURNS`]; what they send, compute
//! and hold is that of all of them.
//!
//! Invariant: pairs of all turns of all ranks are those of the unsplit sequence, exactly. Of one
//! rank nothing is here.

use super::pass::GraphBuilder;
use super::saved::Core;
use super::state::BlockState;
use crate::build::{ObjectAccess, change, read, write};
use crate::transformer::format::Format;
use crate::transformer::training::{Attention, Kernels, Training};
use tiersim_models::ids::{ModuleId, ObjectId};
use tiersim_models::kernel::{self, Kernel, Streaming, Work};
use tiersim_models::workload::{CollectiveKind, ObjectKind, Unit};

/// Ops that the turns behind the first are put together to at most.
pub(crate) const MOST_TURNS: u64 = 15;

/// Turns that are alike: what attention is in each, and how many there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Turns {
    pub(crate) attention: kernel::Attention,
    pub(crate) times: u64,
}

/// The turns of a rank that has `own` of a sequence over so many ranks; its own block is the first.
pub(crate) fn turns(own: kernel::Attention, ranks: u32) -> Vec<Turns> {
    let mut all = vec![Turns { attention: own, times: 1 }];
    // Half of the queries to all keys of the block, or all of them to half of it: as many pairs.
    let half = own.new / 2;
    let other = match own.causal {
        true => kernel::Attention { new: half, past: half, causal: false, ..own },
        false => own,
    };
    let left = u64::from(ranks) - 1;
    let ops = left.min(MOST_TURNS);
    for op in 0..ops {
        let times = left / ops + u64::from(op < left % ops);
        all.push(Turns { attention: other, times });
    }
    all
}

/// Where a block of keys and values lies.
#[derive(Clone, Copy)]
enum Held {
    /// In the rank's own objects.
    Own,
    /// In a buffer that was received.
    Received(ObjectId),
}

impl GraphBuilder<'_> {
    /// Whether a sequence is over several ranks.
    pub(crate) fn is_ring(&self) -> bool {
        self.shape.parallel.context > 1
    }

    /// Numbers of a block of keys and values.
    fn block_numbers(&self) -> u128 {
        2 * self.sizes.tokens * self.sizes.keys
    }

    /// Something that lives for a turn or two.
    fn ring_buffer(&mut self, by: ModuleId, what: &str, size: (u128, Format)) -> ObjectId {
        let name = self.named(by, what);
        self.build.object(name, ObjectKind::Buffer, size, None)
    }

    /// Reads of a block, and of this rank's queries where they are wanted.
    fn held(&self, held: Held, qkv: &[ObjectId], queries: bool) -> Vec<ObjectAccess> {
        let bytes = u128::from(self.sizes.kept.bytes()) * self.sizes.tokens;
        match held {
            Held::Own => self.qkv(qkv, [queries, true, true], bytes),
            Held::Received(block) => {
                let own = if queries { self.qkv(qkv, [true, false, false], bytes) } else { vec![] };
                own.into_iter().chain([read(block)]).collect()
            }
        }
    }

    /// Sends something to the next rank of the ring and receives the same of the one before, so
    /// many times in a row, beside the device's work.
    fn pass_on(&mut self, by: ModuleId, (from, to): (Vec<ObjectAccess>, ObjectAccess), times: u64) {
        let kind = CollectiveKind::SendRecv;
        let mut unit = self.groups.context.does(kind, self.build.size(to.object));
        if let Unit::Network(collective) = &mut unit {
            collective.times = u32::try_from(times).expect("a ring has fewer ranks");
        }
        let touches: Vec<ObjectAccess> = from.into_iter().chain([to]).collect();
        let stream = self.sibling(1);
        self.build.op_on(unit, stream, kind.word(), by, 0, &touches);
        self.build.no_further_ahead();
    }

    /// The next block is asked for, before the one at hand is worked on.
    fn next_block(
        &mut self,
        by: ModuleId,
        (turn, held, qkv): (usize, Held, &[ObjectId]),
        times: u64,
    ) -> Held {
        let format = self.sizes.kept;
        let size = (self.block_numbers() * u128::from(format.bytes()), format);
        let block = self.ring_buffer(by, &format!("kv.{turn}"), size);
        let from = self.held(held, qkv, false);
        self.pass_on(by, (from, write(block)), times);
        Held::Received(block)
    }

    /// One op of so many equal kernels, each of which touches all of `touches`.
    fn repeated(
        &mut self,
        name: &str,
        by: ModuleId,
        (work, flops, times): (Work, u128, u64),
        touches: &[ObjectAccess],
    ) {
        let one = Kernel::new(work, flops, self.build.touched(touches));
        self.build.kernels(name, by, vec![Kernel { times, ..one }], touches);
    }

    /// Attention of this rank's queries to all blocks, into `mixed` and `sums`; the first turn
    /// stores its keys and values too, where there is a cache.
    pub(crate) fn ring_forward(
        &mut self,
        block: &BlockState,
        qkv: &[ObjectId],
        [mixed, sums]: [ObjectId; 2],
        stored: &[ObjectAccess],
    ) -> Core {
        let by = block.attention;
        let sizes = self.sizes;
        let turns = turns(sizes.attention, self.shape.parallel.context);
        let mut held = Held::Own;
        for (turn, Turns { attention, times }) in turns.iter().copied().enumerate() {
            let at_hand = held;
            if let Some(next) = turns.get(turn + 1) {
                held = self.next_block(by, (turn + 1, held, qkv), next.times);
            }
            let mut touches = self.held(at_hand, qkv, true);
            let work = (Work::Attention(attention), attention.flops(), times);
            if turn == 0 {
                touches.extend([write(mixed), write(sums)]);
                touches.extend(stored);
                self.repeated("attention", by, work, &touches);
                continue;
            }
            let part = self.buffer(by, &format!("part.{turn}"), sizes.tokens * sizes.queries);
            let numbers = sizes.tokens * sizes.heads;
            let size = (numbers * u128::from(Format::Fp32.bytes()), Format::Fp32);
            let part_sums = self.ring_buffer(by, &format!("sums.{turn}"), size);
            touches.extend([write(part), write(part_sums)]);
            self.repeated("attention", by, work, &touches);
            // Weighted by the sums of both.
            let touches = [read(part), read(part_sums), change(mixed), change(sums)];
            let work = (Work::Streaming(Streaming::ElementWise), 0, times);
            self.repeated("attention_combine", by, work, &touches);
        }
        Core::Flash(sums)
    }

    /// Gradients of this rank's queries, keys and values, into `d_qkv`.
    pub(crate) fn ring_backward(
        &mut self,
        block: &BlockState,
        qkv: &[ObjectId],
        [mixed, sums, d_mixed]: [ObjectId; 3],
        d_qkv: &[ObjectId],
    ) {
        let by = block.attention;
        let sizes = self.sizes;
        let work_bytes = u128::from(sizes.work.bytes()) * sizes.tokens;
        let turns = turns(sizes.attention, self.shape.parallel.context);
        let numbers = self.block_numbers();
        let (mut held, mut gathered): (Held, Option<ObjectId>) = (Held::Own, None);
        for (turn, Turns { attention, times }) in turns.iter().copied().enumerate() {
            let at_hand = held;
            if let Some(next) = turns.get(turn + 1) {
                held = self.next_block(by, (turn + 1, held, qkv), next.times);
            }
            // The gradients of the block at hand come with it, one turn behind.
            let arrived = gathered.map(|sent| {
                let arrived = self.buffer(by, &format!("kv.{turn}.grad"), numbers);
                self.pass_on(by, (vec![read(sent)], write(arrived)), times);
                arrived
            });
            let own = self.buffer(by, &format!("kv.{turn}.grad.own"), numbers);
            let mut touches = self.held(at_hand, qkv, true);
            touches.extend([read(mixed), read(sums), read(d_mixed), write(own)]);
            touches.push(match (turn, d_qkv) {
                (0, [one]) => write(*one).part(sizes.queries * work_bytes),
                (_, [one]) => change(*one).part(2 * sizes.queries * work_bytes),
                (0, each) => write(each[0]),
                (_, each) => change(each[0]),
            });
            // Five products of pairs, as of attention that is not split.
            let flops = 5 * 2 * attention.pairs() * sizes.queries;
            let work = (Work::AttentionBackward(attention), flops, times);
            self.repeated("attention_backward", by, work, &touches);
            if let Some(arrived) = arrived {
                let work = (Work::Streaming(Streaming::ElementWise), 0, times);
                let touches = [read(own), change(arrived)];
                self.repeated("attention_combine_backward", by, work, &touches);
            }
            gathered = Some(arrived.unwrap_or(own));
        }
        // Home to the rank whose keys and values they are of.
        let sent = gathered.expect("there is a first turn");
        let home = self.buffer(by, "kv.grad.home", numbers);
        self.pass_on(by, (vec![read(sent)], write(home)), 1);
        let mut touches = vec![read(home)];
        match d_qkv {
            [one] => touches.push(change(*one).part(2 * 2 * sizes.keys * work_bytes)),
            each => touches.extend(each[1..].iter().map(|&d| write(d))),
        }
        self.build.streaming("attention_unpack", by, Streaming::Copy, &touches);
    }
}

/// What rings are not known of in this work: rules and remedies.
pub(crate) fn unknown(shape: &Training) -> Vec<(&'static str, &'static str)> {
    let (mut found, remedy) = (Vec::new(), "write 1");
    if shape.attention == Attention::Eager || shape.kernels == Kernels::Eager {
        let rule = "only attention in one kernel goes around a ring";
        found.push((rule, "choose flash attention and compiled kernels"));
    }
    if shape.card.experts.is_some() {
        found.push(("experts are not known to be split so", remedy));
    }
    if shape.card.window.is_some() {
        let rule = "a window of attention needs its neighbours only, which is not modelled";
        found.push((rule, remedy));
    }
    if shape.card.latent.is_some() {
        found.push(("compressed keys and values are not known to be split so", remedy));
    }
    if shape.formats.activations.bytes() == 1 {
        let rule = "keys and values go around in 16 or 32 bits";
        found.push((rule, "choose another format of activations"));
    }
    found
}

/// What a micro-batch's sequence must be a multiple of.
pub(crate) const fn pieces(ranks: u32, causal: bool) -> u64 {
    if ranks > 1 && causal { 2 * ranks as u64 } else { ranks as u64 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transformer::training::own_sequence;

    fn whole(sequence: u64, causal: bool) -> kernel::Attention {
        kernel::Attention {
            batch: 3,
            new: sequence,
            past: 0,
            heads: 4,
            kv_heads: 2,
            head_dim: 8,
            window: 0,
            kv_bytes: 2,
            causal,
        }
    }

    #[test]
    fn pairs_of_all_ranks_are_those_of_the_unsplit_sequence() {
        for causal in [false, true] {
            for ranks in [2u32, 3, 4, 7, 16, 64, 1000] {
                let sequence = 12 * pieces(ranks, causal);
                let all = whole(sequence, causal);
                let own = kernel::Attention { new: own_sequence(sequence, ranks.into()), ..all };
                let turns = turns(own, ranks);
                assert!(turns.len() as u64 <= MOST_TURNS + 1);
                let count: u64 = turns.iter().map(|turn| turn.times).sum();
                assert_eq!(count, u64::from(ranks), "every block is met once");
                let pairs: u128 =
                    turns.iter().map(|turn| turn.attention.pairs() * u128::from(turn.times)).sum();
                assert_eq!(pairs * u128::from(ranks), all.pairs(), "{causal} {ranks}");
                let flops: u128 =
                    turns.iter().map(|turn| turn.attention.flops() * u128::from(turn.times)).sum();
                assert_eq!(flops * u128::from(ranks), all.flops(), "{causal} {ranks}");
            }
        }
    }

    /// Counted pair by pair: which rank has which tokens, and what it attends to in each turn.
    #[test]
    fn turns_have_the_pairs_of_two_chunks_per_rank() {
        let (ranks, chunk) = (4usize, 3usize);
        let tokens = |rank: usize| -> Vec<usize> {
            let of = |chunk_index: usize| chunk_index * chunk..(chunk_index + 1) * chunk;
            of(rank).chain(of(2 * ranks - 1 - rank)).collect()
        };
        let all = whole((2 * ranks * chunk) as u64, true);
        let own = kernel::Attention { new: 2 * chunk as u64, ..all };
        let turns = turns(own, ranks as u32);
        for rank in 0..ranks {
            for (turn, of) in turns.iter().enumerate() {
                let from = (rank + ranks - turn) % ranks;
                let counted: usize = tokens(rank)
                    .iter()
                    .map(|query| tokens(from).iter().filter(|key| *key <= query).count())
                    .sum();
                assert_eq!(of.attention.pairs(), 3 * counted as u128, "rank {rank}, turn {turn}");
            }
        }
    }
}
