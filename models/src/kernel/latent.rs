//! Attention to one compressed row per token.
//!
//! Multi-head latent attention keeps of a token `rank` numbers that all keys and values follow
//! from, and `rotary` ones of a key that is turned by position and that all heads share
//! (DeepSeek-AI, "DeepSeek-V2", 2024, section 2.1). Several new tokens have the rows that they
//! attend to expanded into keys and values of every head; one new token attends to the rows as they
//! are, its query and its result going through the same matrices instead ("absorbed", as serving
//! engines do). Those products count with the attention.

/// Attention of new tokens to compressed rows, with the products that expand them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LatentAttention {
    /// Sequences.
    pub batch: u64,
    /// New tokens of each.
    pub new: u64,
    /// Tokens before those.
    pub past: u64,
    /// Query heads.
    pub heads: u32,
    /// Numbers of a row that keys and values follow from.
    pub rank: u32,
    /// Numbers of a query, and of the key that heads share, that are turned by position.
    pub rotary: u32,
    /// Other numbers of a query.
    pub plain: u32,
    /// Numbers of a value.
    pub value: u32,
    /// Bytes of a number of a row.
    pub kv_bytes: u32,
}

impl LatentAttention {
    /// Pairs of a new token and one that it attends to, itself among them, in all sequences.
    pub fn pairs(&self) -> u128 {
        let [batch, new, past] = [self.batch, self.new, self.past].map(u128::from);
        batch * (new * past + new * (new + 1) / 2)
    }

    /// FLOPs for `pairs` of one new token each, or of several.
    pub fn flops_of(&self, pairs: u128) -> u128 {
        let [batch, new, past] = [self.batch, self.new, self.past].map(u128::from);
        let [heads, rank, rotary, plain, value] =
            [self.heads, self.rank, self.rotary, self.plain, self.value].map(u128::from);
        let through = 2 * rank * (plain + value);
        let (rows, pair) = match self.new {
            // Scores of a row's numbers, and their sum weighed by those.
            1 => (batch, 2 * (rank + rotary + rank)),
            _ => (batch * (past + new), 2 * (plain + rotary + value)),
        };
        heads.saturating_mul((rows * through).saturating_add(pairs.saturating_mul(pair)))
    }

    /// FLOPs.
    pub fn flops(&self) -> u128 {
        self.flops_of(self.pairs())
    }

    pub(super) fn numbers(&self) -> Vec<u64> {
        let LatentAttention { batch, new, past, heads, rank, rotary, plain, value, kv_bytes } =
            *self;
        let small = [heads, rank, rotary, plain, value, kv_bytes].map(u64::from);
        [batch, new, past].into_iter().chain(small).collect()
    }

    pub(super) fn of(numbers: &[u64]) -> Option<LatentAttention> {
        let [batch, new, past] = numbers.get(..3)?.try_into().ok()?;
        let small = |at: usize| u32::try_from(*numbers.get(at)?).ok();
        Some(LatentAttention {
            batch,
            new,
            past,
            heads: small(3)?,
            rank: small(4)?,
            rotary: small(5)?,
            plain: small(6)?,
            value: small(7)?,
            kv_bytes: small(8)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: LatentAttention = LatentAttention {
        batch: 2,
        new: 1,
        past: 9,
        heads: 128,
        rank: 512,
        rotary: 64,
        plain: 128,
        value: 128,
        kv_bytes: 2,
    };

    #[test]
    fn one_token_attends_to_rows_and_several_to_what_they_expand_to() {
        // Two products with a matrix per head, and two with the 10 rows of each sequence.
        let absorbed = 2 * 128 * (2 * 128 * 512 + 2 * 512 * 128 + 10 * 2 * (576 + 512));
        assert_eq!(TOKEN.flops(), absorbed);
        let prompt = LatentAttention { new: 4, past: 6, ..TOKEN };
        // Keys and values of 10 rows; the four tokens attend to 7, 8, 9 and 10.
        let expanded = 2 * 128 * (10 * 2 * 512 * 256 + (7 + 8 + 9 + 10) * 2 * (192 + 128));
        assert_eq!(prompt.flops(), expanded);
    }
}
