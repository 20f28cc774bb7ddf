//! What serving a model needs: weights, and keys and values of past tokens.
//!
//! Source: a token has a key and a value of `head_dim` numbers per key-value head and block
//! (Shazeer 2019, arXiv 1911.02150, for fewer of them than query heads; Ainslie et al. 2023,
//! arXiv 2305.13245, for groups). They are kept in pages of so many tokens (Kwon et al. 2023,
//! arXiv 2309.06180), so a sequence takes whole ones.
//! Invariant: sequences share no page.

use super::{Overflow, product, share};

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
}

impl Kv {
    /// Of one token.
    pub fn of_token(&self) -> Result<u128, Overflow> {
        product(&[
            2,
            self.layers.into(),
            self.heads.into(),
            self.head_dim.into(),
            self.bytes.into(),
        ])
    }

    /// Of `sequences` sequences of `tokens` tokens in pages of `page` tokens, of which each of
    /// `ranks` has its share. With a window, tokens before it are given back page by page, so that
    /// one page more than the window fills may be held.
    ///
    /// # Panics
    /// If a page has no tokens, or there are no ranks.
    pub fn of_batch(
        &self,
        (sequences, ranks): (u64, u64),
        tokens: u64,
        page: u64,
        window: Option<u64>,
    ) -> Result<u128, Overflow> {
        let pages = tokens.div_ceil(page);
        let pages = window.map_or(pages, |window| pages.min(window.div_ceil(page) + 1));
        let pages = pages.div_ceil(ranks);
        product(&[self.of_token()?, sequences.into(), pages.into(), page.into()])
    }

    /// What one of `tensor x pipeline` ranks has of `all`: heads are split over `tensor` ranks, and
    /// copied where there are fewer of them; blocks over `pipeline` stages.
    pub fn of_rank(&self, all: u128, tensor: u64, pipeline: u64) -> Result<u128, Overflow> {
        let here = self.heads.div_ceil(tensor);
        let heads = share(product(&[all, here.into()])?, self.heads.into());
        let layers = self.layers.div_ceil(pipeline);
        Ok(share(product(&[heads, layers.into()])?, self.layers.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::Kv;

    /// Llama-3-70B: 80 blocks, 8 key-value heads of 128.
    const LLAMA: Kv = Kv { layers: 80, heads: 8, head_dim: 128, bytes: 2 };

    #[test]
    fn a_token_has_a_key_and_a_value_per_head_and_block() {
        assert_eq!(LLAMA.of_token(), Ok(2 * 80 * 8 * 128 * 2));
        assert_eq!(Kv { heads: 1, ..LLAMA }.of_token(), Ok(2 * 80 * 128 * 2));
    }

    #[test]
    fn pages_are_whole() {
        let of = |tokens, window| LLAMA.of_batch((3, 1), tokens, 16, window).unwrap();
        let page = 16 * 327_680;
        assert_eq!(of(16, None), 3 * page);
        assert_eq!(of(17, None), 3 * 2 * page);
        assert_eq!(of(1000, Some(64)), 3 * 5 * page);
        assert_eq!(of(20, Some(64)), 3 * 2 * page);
    }

    #[test]
    fn ranks_of_a_sequence_share_its_pages() {
        let of = |ranks, tokens| LLAMA.of_batch((3, ranks), tokens, 16, None).unwrap();
        assert_eq!(of(4, 1024), of(1, 1024) / 4);
        // 65 pages: the busiest of four ranks has 17.
        assert_eq!(of(4, 1025), 3 * 17 * 16 * 327_680);
    }

    #[test]
    fn ranks_share_heads_and_copy_them_when_they_run_out() {
        let all = LLAMA.of_batch((1, 1), 16, 16, None).unwrap();
        assert_eq!(LLAMA.of_rank(all, 8, 1), Ok(all / 8));
        assert_eq!(LLAMA.of_rank(all, 16, 1), Ok(all / 8));
        assert_eq!(LLAMA.of_rank(all, 2, 4), Ok(all / 8));
        assert_eq!(LLAMA.of_rank(all, 3, 1), Ok(all * 3 / 8));
    }
}
