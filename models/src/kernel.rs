//! Kernels: what an op computes, as far as its time depends on it.
//!
//! An op of a trace may say which kernels it stands for; their FLOPs and bytes are the op's, so a
//! roofline of the op and a sum over its kernels price the same work. One op may be one kernel, or
//! all of a group of layers: the time is the sum either way.
//! Invariant: shapes are those of one rank.

mod latent;

use crate::units::Bytes;
pub use latent::LatentAttention;
use std::fmt;
use std::str::FromStr;

/// A product of matrices: m rows of k numbers by k rows of n.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Product {
    /// Rows that go in and come out: tokens.
    pub m: u64,
    /// Numbers of a row that comes out.
    pub n: u64,
    /// Numbers of a row that goes in.
    pub k: u64,
    /// Whether the left matrix lies transposed in memory, k rows of m numbers: BLAS's `tn`, as for
    /// the gradient of a weight.
    pub transposed: bool,
}

/// Attention of new tokens to themselves and to those before them, in one kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Attention {
    /// Sequences.
    pub batch: u64,
    /// New tokens of each sequence; 1 is a decode step.
    pub new: u64,
    /// Tokens of each sequence whose keys and values are there already.
    pub past: u64,
    /// Heads of queries.
    pub heads: u32,
    /// Heads of keys and values.
    pub kv_heads: u32,
    /// Numbers of a head.
    pub head_dim: u32,
    /// The most tokens that one attends to, itself among them; 0 for all before it.
    pub window: u32,
    /// Bytes of a number of keys and values.
    pub kv_bytes: u32,
    /// Whether a token attends to none behind it; else every new one attends to all there are.
    pub causal: bool,
}

/// Experts of one layer: tokens are sent to some of them, multiplied and weighted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Experts {
    /// Tokens that come to the layer on this rank.
    pub tokens: u64,
    /// Width of the residual stream.
    pub hidden: u64,
    /// Width of an expert.
    pub ffn: u64,
    /// Experts that a token goes through.
    pub top_k: u32,
    /// Experts of the layer.
    pub experts: u32,
    /// Pairs of a token and an expert that come to this rank's experts.
    pub given: u64,
    /// Experts that have tokens on this rank.
    pub busy: u32,
    /// Tokens of the expert that has most.
    pub most: u64,
}

crate::words! {
    /// Kernels that read and write what they touch once, and compute next to nothing.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum Streaming {
        /// LayerNorm or RMSNorm.
        Norm = "norm",
        /// Rotary positions.
        Rotary = "rotary",
        /// GeLU, SiLU times the other half.
        Activation = "activation",
        /// A sum of two, dropout.
        ElementWise = "element-wise",
        /// Rows of a table.
        Embedding = "embedding",
        /// Softmax and cross-entropy.
        Softmax = "softmax",
        /// The update of parameters.
        Optimizer = "optimizer",
        /// A copy inside the device.
        Copy = "copy",
        /// One operation per element, inputs and result alike and in order, as a framework without a
        /// compiler runs it; a join of tensors, dropout.
        Vectorized = "vectorized",
        /// The same where an input has another shape, order or fewer bits.
        Strided = "strided",
        /// A sum or mean in a kernel of its own.
        Reduction = "reduction",
        /// LayerNorm or RMSNorm as the framework's own kernel, and its gradients.
        LayerNorm = "layer-norm",
    }
}

/// What a kernel computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Work {
    /// A product of matrices.
    Product(Product),
    /// Attention in one kernel.
    Attention(Attention),
    /// The gradients of attention in one kernel.
    AttentionBackward(Attention),
    /// Attention to compressed rows.
    LatentAttention(LatentAttention),
    /// Experts of a layer.
    Experts(Experts),
    /// Bound by memory.
    Streaming(Streaming),
}

/// Kernels of one shape that an op stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Kernel {
    /// What one of them computes.
    pub work: Work,
    /// FLOPs of one.
    pub flops: u64,
    /// Bytes that one reads and writes.
    pub bytes: Bytes,
    /// How many.
    pub times: u64,
}

impl Product {
    /// Of matrices of which the left one lies as it is multiplied.
    pub const fn new(m: u64, n: u64, k: u64) -> Product {
        Product { m, n, k, transposed: false }
    }

    /// What gives the gradient of the rows that go in: those that came out by the weight.
    pub const fn gradient_of_input(self) -> Product {
        Product { n: self.k, k: self.n, ..self }
    }

    /// What gives the gradient of the weight: the rows that came out, transposed, by those that
    /// went in.
    pub const fn gradient_of_weight(self) -> Product {
        Product { m: self.n, n: self.k, k: self.m, transposed: true }
    }

    /// Bytes, 16 at most, that every row of the three matrices is a multiple of, with so many bytes
    /// a number. A product with a side of less than 8 is one of vectors: its kernels load no tiles,
    /// and it counts as aligned.
    pub fn alignment(&self, width: u64) -> u64 {
        let sides = [self.m, self.n, self.k];
        if sides.into_iter().any(|side| side < 8) {
            return 16;
        }
        let inner = if self.transposed { self.m } else { self.k };
        let rows = (inner | self.n).saturating_mul(width);
        1 << rows.trailing_zeros().min(4)
    }

    /// A multiplication and an addition for each of m n k.
    pub fn flops(&self) -> u128 {
        2 * u128::from(self.m) * u128::from(self.n) * u128::from(self.k)
    }
}

impl Attention {
    /// Pairs of a new token and one that it attends to, itself among them, in all sequences.
    pub fn pairs(&self) -> u128 {
        let [past, new, batch] = [self.past, self.new, self.batch].map(u128::from);
        let all = |to: u128| to * (to + 1) / 2;
        let pairs = match u128::from(self.window) {
            _ if !self.causal => new * (past + new),
            0 => all(past + new) - all(past),
            // Behind the window every token attends to as many.
            window => {
                let sum = |to: u128| all(to.min(window)) + to.saturating_sub(window) * window;
                sum(past + new) - sum(past)
            }
        };
        batch * pairs
    }

    /// Two products of a head's width for each pair and head.
    pub fn flops(&self) -> u128 {
        let width = 4 * u128::from(self.heads) * u128::from(self.head_dim);
        self.pairs().saturating_mul(width)
    }

    /// Tokens whose keys and values a sequence reads, the new ones among them.
    pub fn attended(&self) -> u64 {
        match u64::from(self.window) {
            0 => self.past + self.new,
            window => (self.past + self.new).min((window - 1).saturating_add(self.new)),
        }
    }
}

impl Kernel {
    /// One kernel; what does not fit 64 bits is cut, and whoever sums up says so.
    pub fn new(work: Work, flops: u128, bytes: u128) -> Kernel {
        let cut = |number: u128| u64::try_from(number).unwrap_or(u64::MAX);
        Kernel { work, flops: cut(flops), bytes: Bytes::new(cut(bytes)), times: 1 }
    }
}

impl Work {
    /// Its word, and the numbers of its shape in the order of the fields.
    fn parts(&self) -> (&'static str, Vec<u64>) {
        let attention = |of: &Attention| {
            let Attention { batch, new, past, heads, kv_heads, head_dim, window, kv_bytes, .. } =
                *of;
            let heads = [heads, kv_heads, head_dim, window, kv_bytes].map(u64::from);
            // A ninth number stands where it is not causal alone, which most are.
            let causal = (!of.causal).then_some(0);
            [batch, new, past].into_iter().chain(heads).chain(causal).collect()
        };
        match self {
            Work::Product(of) => {
                // A fourth number stands with transposed ones alone, which fewer are.
                let transposed = of.transposed.then_some(1);
                ("product", [of.m, of.n, of.k].into_iter().chain(transposed).collect())
            }
            Work::Attention(of) => ("attention", attention(of)),
            Work::AttentionBackward(of) => ("attention-backward", attention(of)),
            Work::LatentAttention(of) => ("latent-attention", of.numbers()),
            Work::Experts(Experts { tokens, hidden, ffn, top_k, experts, given, busy, most }) => {
                let [top_k, experts, busy] = [*top_k, *experts, *busy].map(u64::from);
                ("experts", vec![*tokens, *hidden, *ffn, top_k, experts, *given, busy, *most])
            }
            Work::Streaming(class) => (class.word(), Vec::new()),
        }
    }

    /// The one that a word and numbers say.
    fn of(word: &str, numbers: &[u64]) -> Option<Work> {
        let small = |at: usize| u32::try_from(numbers[at]).ok();
        let attention = || {
            let [batch, new, past] = numbers.get(..3)?.try_into().ok()?;
            let [heads, kv_heads, head_dim] = [small(3)?, small(4)?, small(5)?];
            let (window, kv_bytes) = (small(6)?, small(7)?);
            let causal = numbers.get(8).is_none_or(|&causal| causal > 0);
            Some(Attention {
                batch,
                new,
                past,
                heads,
                kv_heads,
                head_dim,
                window,
                kv_bytes,
                causal,
            })
        };
        match (word, numbers.len()) {
            ("product", 3 | 4) => {
                let transposed = numbers.get(3).is_some_and(|&transposed| transposed > 0);
                let of = Product::new(numbers[0], numbers[1], numbers[2]);
                Some(Work::Product(Product { transposed, ..of }))
            }
            ("attention", 8 | 9) => attention().map(Work::Attention),
            ("attention-backward", 8 | 9) => attention().map(Work::AttentionBackward),
            ("latent-attention", 9) => LatentAttention::of(numbers).map(Work::LatentAttention),
            ("experts", 8) => Some(Work::Experts(Experts {
                tokens: numbers[0],
                hidden: numbers[1],
                ffn: numbers[2],
                top_k: small(3)?,
                experts: small(4)?,
                given: numbers[5],
                busy: small(6)?,
                most: numbers[7],
            })),
            (word, 0) => Streaming::from_word(word).map(Work::Streaming),
            _ => None,
        }
    }
}

/// `times*word(numbers of the shape):flops:bytes`, such as `2*product(8,64,32):32768:6144`.
impl fmt::Display for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (word, numbers) = self.work.parts();
        let numbers: Vec<String> = numbers.iter().map(u64::to_string).collect();
        write!(
            f,
            "{}*{word}({}):{}:{}",
            self.times,
            numbers.join(","),
            self.flops,
            self.bytes.get()
        )
    }
}

/// The text is not one of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoKernel;

impl FromStr for Kernel {
    type Err = NoKernel;

    fn from_str(text: &str) -> Result<Kernel, NoKernel> {
        let number = |text: &str| match text.bytes().all(|byte| byte.is_ascii_digit()) {
            true => text.parse().ok(),
            false => None,
        };
        let parsed = || {
            let (times, rest) = text.split_once('*')?;
            let (word, rest) = rest.split_once('(')?;
            let (shape, rest) = rest.split_once("):")?;
            let (flops, bytes) = rest.split_once(':')?;
            let shape = shape.split(',').filter(|part| !part.is_empty()).map(number);
            let work = Work::of(word, &shape.collect::<Option<Vec<u64>>>()?)?;
            let bytes = Bytes::new(number(bytes)?);
            Some(Kernel { work, flops: number(flops)?, bytes, times: number(times)? })
        };
        parsed().ok_or(NoKernel)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_a_product_are_aligned_as_its_matrices_lie() {
        let head = Product::new(2048, 50_257, 768);
        let of = |product: Product| product.alignment(2);
        // Its three products all have the logits, whose rows are of 50,257 numbers.
        assert_eq!([of(head), of(head.gradient_of_input()), of(head.gradient_of_weight())], [2; 3]);
        assert_eq!(head.alignment(4), 4);
        let padded = Product::new(2047, 50_304, 768);
        let all = [padded, padded.gradient_of_input(), padded.gradient_of_weight()];
        assert_eq!(all.map(of), [16; 3], "how many tokens there are does not matter");
        assert_eq!(all.map(|of| of.flops()), [padded.flops(); 3]);
        assert_eq!([4098, 4100, 4104].map(|n| of(Product::new(512, n, 4096))), [4, 8, 16]);
        assert_eq!(of(Product::new(1, 50_257, 768)), 16, "a product of a vector loads no tiles");
    }

    #[test]
    fn a_kernel_is_read_as_it_is_written() {
        let attention = Attention {
            batch: 3,
            new: 5,
            past: 7,
            heads: 32,
            kv_heads: 8,
            head_dim: 128,
            window: 4096,
            kv_bytes: 1,
            causal: true,
        };
        let (tokens, hidden, ffn, top_k, experts, given) = (9, 64, 32, 2, 8, 18);
        let (busy, most) = (7, 4);
        let experts = Experts { tokens, hidden, ffn, top_k, experts, given, busy, most };
        let (rank, rotary, plain, value, heads) = (512, 64, 128, 96, 16);
        let (batch, new, past, kv_bytes) = (3, 5, 7, 2);
        let latent =
            LatentAttention { batch, new, past, heads, rank, rotary, plain, value, kv_bytes };
        let mut all = vec![
            Work::Product(Product::new(1, 2, 3)),
            Work::Product(Product::new(1, 2, 3).gradient_of_weight()),
            Work::Attention(attention),
            Work::AttentionBackward(Attention { causal: false, ..attention }),
            Work::LatentAttention(latent),
            Work::Experts(experts),
        ];
        all.extend(Streaming::ALL.map(Work::Streaming));
        for work in all {
            let kernel = Kernel { times: 4, ..Kernel::new(work, 12, 34) };
            assert_eq!(kernel.to_string().parse(), Ok(kernel), "{kernel}");
        }
        for text in
            ["", "1*norm():1", "norm():1:2", "1*norm(1):1:2", "1*product(1,2):1:2", "-1*norm():1:2"]
        {
            assert_eq!(text.parse::<Kernel>(), Err(NoKernel), "{text}");
        }
    }

    #[test]
    fn pairs_and_attended_tokens_are_those_counted_one_by_one() {
        for window in [0u32, 1, 4, 100] {
            for past in 0..9u64 {
                for new in 1..9u64 {
                    let of = Attention {
                        batch: 3,
                        new,
                        past,
                        heads: 1,
                        kv_heads: 1,
                        head_dim: 1,
                        window,
                        kv_bytes: 2,
                        causal: true,
                    };
                    let most = if window == 0 { u64::MAX } else { u64::from(window) };
                    let seen = |at: u64| (at + 1).min(most);
                    let pairs: u64 = (past..past + new).map(seen).sum();
                    assert_eq!(of.pairs(), 3 * u128::from(pairs), "{of:?}");
                    let all = Attention { causal: false, ..of }.pairs();
                    assert_eq!(all, 3 * u128::from(new * (past + new)), "{of:?}");
                    let first = past + 1 - seen(past);
                    assert_eq!(of.attended(), past + new - first, "{of:?}");
                }
            }
        }
    }
}
