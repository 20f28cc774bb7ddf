//! What serving a model needs: weights, and keys and values of past tokens.
//!
//! Source: a token has a key and a value of `head_dim` numbers per key-value head and block
//! (Shazeer 2019, arXiv 1911.02150, for fewer of them than query heads; Ainslie et al. 2023,
//! arXiv 2305.13245, for groups). They are kept in pages of so many tokens (Kwon et al. 2023,
//! arXiv 2309.06180), so a sequence takes whole ones.
//! Blocks that attend to a window keep the pages that it reaches; each sort of block has pages of
//! its own.
//! Invariant: sequences share no page.

use super::{Overflow, product, share, total};
use crate::transformer::card::{Card, Windows};
use std::ops::Range;

/// What keys and values are made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kv {
    /// Blocks of the model.
    pub layers: u64,
    /// Key and value heads.
    pub heads: u64,
    /// Width of a head.
    pub head_dim: u64,
    /// Bytes of one number.
    pub bytes: u64,
    /// The window of attention, if there is one.
    pub windows: Option<Windows>,
    /// Numbers of a compressed row per token, in the place of keys and values; every rank of a
    /// tensor group has all of it.
    pub latent: Option<u64>,
}

/// Sequences whose keys and values are held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sequences {
    /// How many.
    pub count: u64,
    /// Tokens of each.
    pub tokens: u64,
    /// Tokens of a page, 1 or more.
    pub page: u64,
    /// Ranks that the pages of each are shared out over, 1 or more.
    pub ranks: u64,
}

impl Kv {
    /// Of a card, in numbers of so many bytes.
    pub fn of(card: &Card, bytes: u64) -> Kv {
        Kv {
            layers: card.layers.into(),
            heads: card.kv_heads.into(),
            head_dim: card.head_dim.into(),
            bytes,
            windows: card.windows(),
            latent: card.latent.map(|_| card.cached(1).0),
        }
    }

    /// Of one token.
    pub fn of_token(&self) -> Result<u128, Overflow> {
        product(&[self.of_layer()?, self.layers.into()])
    }

    /// Of one token in one block.
    fn of_layer(&self) -> Result<u128, Overflow> {
        match self.latent {
            Some(numbers) => product(&[numbers.into(), self.bytes.into()]),
            None => product(&[2, self.heads.into(), self.head_dim.into(), self.bytes.into()]),
        }
    }

    /// Those of blocks that attend to all tokens.
    fn full_in(&self, blocks: Range<u64>) -> u64 {
        let small = |at: u64| u32::try_from(at).unwrap_or(u32::MAX);
        let full = |windows: Windows| windows.full_in(small(blocks.start)..small(blocks.end));
        self.windows.map_or(blocks.end - blocks.start, |windows| full(windows).into())
    }

    /// Blocks that attend to all tokens.
    pub fn full_layers(&self) -> u64 {
        self.full_in(0..self.layers)
    }

    /// What one of `tensor x pipeline` ranks has of these sequences: heads are split over `tensor`
    /// ranks, and copied where there are fewer of them; blocks over `pipeline` stages, of which
    /// this is the one that has most. With a window, pages before it are given back, so that one
    /// page more than the window fills may be held.
    ///
    /// # Panics
    /// If a page has no tokens, or there are no ranks.
    pub fn of_rank(&self, of: Sequences, tensor: u64, pipeline: u64) -> Result<u128, Overflow> {
        let all = of.tokens.div_ceil(of.page);
        let near = |of_all: Windows| all.min(u64::from(of_all.tokens).div_ceil(of.page) + 1);
        let [all, near] = [all, self.windows.map_or(0, near)].map(|pages| pages.div_ceil(of.ranks));
        let each = self.layers.div_ceil(pipeline);
        let full_of = |stage: u64| {
            let [from, to] = [stage, stage + 1].map(|at| (at * each).min(self.layers));
            (self.full_in(from..to), to - from)
        };
        // Stages differ where blocks do.
        let stages = if self.windows.is_some() { self.layers.div_ceil(each) } else { 1 };
        let pages = (0..stages).map(full_of).map(|(full, layers)| {
            total([
                product(&[full.into(), all.into()])?,
                product(&[(layers - full).into(), near.into()])?,
            ])
        });
        let pages = pages.collect::<Result<Vec<u128>, Overflow>>()?.into_iter().max().unwrap_or(0);
        let here = self.heads.div_ceil(tensor);
        let all = product(&[self.of_layer()?, of.count.into(), of.page.into(), pages])?;
        if self.latent.is_some() {
            return Ok(all);
        }
        Ok(share(product(&[all, here.into()])?, self.heads.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::{Kv, Sequences, Windows};

    /// Llama-3-70B: 80 blocks, 8 key-value heads of 128.
    const LLAMA: Kv =
        Kv { layers: 80, heads: 8, head_dim: 128, bytes: 2, windows: None, latent: None };
    const PAGE: u128 = 16 * 327_680;

    fn of(kv: Kv, count: u64, ranks: u64, tokens: u64) -> u128 {
        kv.of_rank(Sequences { count, tokens, page: 16, ranks }, 1, 1).unwrap()
    }

    #[test]
    fn a_token_has_a_key_and_a_value_per_head_and_block() {
        assert_eq!(LLAMA.of_token(), Ok(2 * 80 * 8 * 128 * 2));
        assert_eq!(Kv { heads: 1, ..LLAMA }.of_token(), Ok(2 * 80 * 128 * 2));
    }

    #[test]
    fn pages_are_whole() {
        let windows = |tokens| Windows { tokens, full_every: None };
        let of = |tokens, window: Option<u32>| {
            of(Kv { windows: window.map(windows), ..LLAMA }, 3, 1, tokens)
        };
        assert_eq!(of(16, None), 3 * PAGE);
        assert_eq!(of(17, None), 3 * 2 * PAGE);
        assert_eq!(of(1000, Some(64)), 3 * 5 * PAGE);
        assert_eq!(of(20, Some(64)), 3 * 2 * PAGE);
    }

    #[test]
    fn blocks_that_attend_to_all_keep_all_pages() {
        let windows = |every| Some(Windows { tokens: 64, full_every: Some(every) });
        let mixed = Kv { windows: windows(6), ..LLAMA };
        let layer = PAGE / 80;
        // 13 of 80 blocks have 63 pages, the others five.
        assert_eq!(of(mixed, 1, 1, 1000), layer * (13 * 63 + 67 * 5));
        // The last of seven stages has 8 blocks, of which one attends to all; others have two.
        let sequences = Sequences { count: 1, tokens: 1000, page: 16, ranks: 1 };
        let of_stage = mixed.of_rank(sequences, 1, 7);
        assert_eq!(of_stage, Ok(layer * (2 * 63 + 10 * 5)));
        let every = Kv { windows: windows(1), ..mixed };
        assert_eq!(of(every, 1, 1, 1000), of(LLAMA, 1, 1, 1000));
    }

    #[test]
    fn every_rank_has_whole_compressed_rows() {
        // DeepSeek-V3: 61 blocks, 512 numbers and 64 of a key that heads share.
        let kv = Kv { layers: 61, heads: 128, head_dim: 192, latent: Some(576), ..LLAMA };
        assert_eq!(kv.of_token(), Ok(70_272));
        let sequences = Sequences { count: 3, tokens: 16, page: 16, ranks: 1 };
        assert_eq!(kv.of_rank(sequences, 8, 1), Ok(3 * 16 * 70_272));
    }

    #[test]
    fn ranks_of_a_sequence_share_its_pages() {
        assert_eq!(of(LLAMA, 3, 4, 1024), of(LLAMA, 3, 1, 1024) / 4);
        // 65 pages: the busiest of four ranks has 17.
        assert_eq!(of(LLAMA, 3, 4, 1025), 3 * 17 * PAGE);
    }

    #[test]
    fn ranks_share_heads_and_copy_them_when_they_run_out() {
        let sequences = Sequences { count: 1, tokens: 16, page: 16, ranks: 1 };
        let of = |tensor, pipeline| LLAMA.of_rank(sequences, tensor, pipeline);
        assert_eq!(of(8, 1), Ok(PAGE / 8));
        assert_eq!(of(16, 1), Ok(PAGE / 8));
        assert_eq!(of(2, 4), Ok(PAGE / 8));
        assert_eq!(of(3, 1), Ok(PAGE * 3 / 8));
    }
}
