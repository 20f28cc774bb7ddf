//! Which shapes are refused, and why.
//!
//! A dozen numbers stand for tables of any length, so each has a limit, and so have the ops, the
//! bytes and the FLOPs that they amount to together. Sums are made in 128 bits: no shape overflows
//! the arithmetic that refuses it.

use super::{Family, Layered, Mode, Precision};

/// Most ops of a generated trace; it has less than three times as many objects, and less than five
/// times as many uses.
pub const MAX_OPS: u64 = 100_000;

/// Most uses of one object in one step of training, see the tests.
const MAX_USES: u128 = 5;

/// A rule that a shape breaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShapeProblem {
    /// The field, as a path below the shape: `heads`, `mode.tokens`.
    pub field: &'static str,
    /// The rule, with the value found where it is not the field's own.
    pub rule: String,
    /// What to do about it.
    pub remedy: &'static str,
}

/// A field, its value and the largest that it may have; the least is 1.
pub(crate) type Range = (&'static str, u64, u64);

/// Refuses every value that lies outside its range, with a rule made of the field, the largest
/// value and this one.
pub(crate) fn outside(
    ranges: Vec<Range>,
    rule: fn(&str, u64, u64) -> String,
) -> impl Iterator<Item = ShapeProblem> {
    let is_outside = |&(_, value, most): &Range| value == 0 || value > most;
    ranges.into_iter().filter(is_outside).map(move |(field, value, most)| ShapeProblem {
        field,
        rule: rule(field, most, value),
        remedy: "write a number in that range",
    })
}

impl Layered {
    /// Every rule that this shape breaks; empty for one that makes a trace.
    pub fn problems(&self) -> Vec<ShapeProblem> {
        let mut found = Vec::new();
        self.ranges(&mut found);
        if !found.is_empty() {
            return found;
        }
        self.fits_together(&mut found);
        if found.is_empty() {
            self.amounts(&mut found);
        }
        found
    }

    /// Ops of the whole trace.
    pub fn ops(&self) -> u64 {
        match self.mode {
            Mode::Train { .. } => {
                let (both, adam) = self.ops_of_training();
                both + adam
            }
            Mode::Decode { tokens, .. } => self.ops_of_pass() * u64::from(tokens),
        }
    }

    /// Matrices of the feed-forward part from the residual stream.
    fn up_proj(&self) -> u64 {
        if self.family == Family::Llama { 2 } else { 1 }
    }

    /// Ops of a forward pass.
    fn ops_of_pass(&self) -> u64 {
        u64::from(self.layers) * (7 + self.up_proj()) + 3 + u64::from(self.positions > 0)
    }

    /// Ops of a forward and a backward pass, and of the optimizer.
    pub(super) fn ops_of_training(&self) -> (u64, u64) {
        let tables = u64::from(self.positions > 0) + u64::from(!self.tied);
        let adam = u64::from(self.layers) * (5 + self.up_proj()) + 2 + tables;
        // The loss belongs to the forward pass.
        (2 * self.ops_of_pass() + 1, adam)
    }

    /// No less than the bytes that the ops of one step of training touch.
    pub(super) fn most_touched(&self) -> u128 {
        self.most_bytes() * MAX_USES * 2
    }

    fn values(&self) -> Vec<Range> {
        let mut values = vec![
            ("layers", self.layers.into(), 10_000),
            ("hidden", self.hidden.into(), 1 << 20),
            ("ffn", self.ffn.into(), 1 << 22),
            ("heads", self.heads.into(), 1 << 14),
            ("kv_heads", self.kv_heads.into(), 1 << 14),
            ("vocab", self.vocab.into(), 1 << 26),
            ("batch", self.batch.into(), 1 << 20),
        ];
        if self.family == Family::Gpt2 {
            values.push(("positions", self.positions.into(), 1 << 26));
        }
        match self.mode {
            Mode::Train { sequence } => values.push(("mode.sequence", sequence.into(), 1 << 26)),
            Mode::Decode { context, tokens } => values.extend([
                ("mode.context", context.into(), 1 << 26),
                ("mode.tokens", tokens.into(), 1 << 26),
            ]),
        }
        values
    }

    fn ranges(&self, found: &mut Vec<ShapeProblem>) {
        found.extend(outside(self.values(), |field, most, _| {
            let name = field.rsplit('.').next().unwrap_or(field);
            format!("`{name}` must lie between 1 and {most}")
        }));
        if self.family == Family::Llama && self.positions > 0 {
            let rule = "llama turns queries and keys and has no table of `positions`".to_owned();
            found.push(ShapeProblem { field: "positions", rule, remedy: "leave it out" });
        }
    }

    fn fits_together(&self, found: &mut Vec<ShapeProblem>) {
        let mut add = |field, rule, remedy| found.push(ShapeProblem { field, rule, remedy });
        let (hidden, heads, kv_heads) = (self.hidden, self.heads, self.kv_heads);
        if hidden % heads != 0 {
            let rule = format!("`heads` must divide `hidden`, which is {hidden}");
            add("heads", rule, "every head is as wide as the others");
        } else if self.family == Family::Llama && (hidden / heads) % 2 != 0 {
            let rule = format!("a head is {} wide, and llama turns pairs of it", hidden / heads);
            add("heads", rule, "choose `heads` so that `hidden` / `heads` is even");
        }
        if heads % kv_heads != 0 {
            let rule = format!("`kv_heads` must divide `heads`, which is {heads}");
            add("kv_heads", rule, "as many query heads share every key and value head");
        }
        let (field, longest) = match self.mode {
            Mode::Train { sequence } => ("mode.sequence", sequence),
            Mode::Decode { context, .. } => ("mode.context", context),
        };
        if self.family == Family::Gpt2 && longest > self.positions {
            let rule = format!("longer than the table of `positions`, which is {}", self.positions);
            add(field, rule, "lower it, or raise `positions`");
        }
        if let Mode::Decode { context, tokens } = self.mode
            && tokens > context
        {
            let rule = format!("`tokens` must fit into `context`, which is {context}");
            add("mode.tokens", rule, "raise `context`, or generate fewer");
        }
    }

    fn amounts(&self, found: &mut Vec<ShapeProblem>) {
        let mut add = |field, rule, remedy| found.push(ShapeProblem { field, rule, remedy });
        let ops = self.ops();
        if ops > MAX_OPS {
            let rule = format!("a generated trace has at most {MAX_OPS} ops, this one {ops}");
            match self.mode {
                Mode::Decode { .. } => add("mode.tokens", rule, "generate fewer `tokens`"),
                Mode::Train { .. } => add("layers", rule, "take fewer `layers`"),
            }
            return;
        }
        let steps = match self.mode {
            Mode::Train { .. } => MAX_USES,
            Mode::Decode { tokens, .. } => MAX_USES * u128::from(tokens),
        };
        // Every use reads and writes its object at most once.
        if self.most_bytes() * steps * 2 > u128::from(u64::MAX) {
            let rule = "the bytes that all ops touch must stay below 2^64".to_owned();
            add("batch", rule, "choose a smaller shape, or a smaller `batch`");
        }
        if self.flops() > u128::from(u64::MAX) {
            let rule = "the FLOPs of all ops must stay below 2^64".to_owned();
            add("batch", rule, "choose a smaller shape, or a smaller `batch`");
        }
    }

    /// FLOPs of the whole trace: 2 per token and parameter of a matrix forward and 4 backward, and
    /// 4 forward and 10 backward per attended pair of tokens and channel (see `passes`).
    pub fn flops(&self) -> u128 {
        let [layers, hidden, batch] = [self.layers, self.hidden, self.batch].map(u128::from);
        let matrices = u128::from(self.matrix_parameters());
        let channels = layers * hidden * batch;
        match self.mode {
            Mode::Train { sequence } => {
                let sequence = u128::from(sequence);
                let pairs = sequence * (sequence + 1) / 2;
                6 * matrices * batch * sequence + 14 * channels * pairs
            }
            Mode::Decode { context, tokens } => {
                let (context, tokens) = (u128::from(context), u128::from(tokens));
                // The last `tokens` positions; each attends to itself and to all before it.
                let pairs = tokens * (2 * context - tokens + 1) / 2;
                2 * matrices * batch * tokens + 4 * channels * pairs
            }
        }
    }

    /// No less than the bytes of all objects of one step together.
    fn most_bytes(&self) -> u128 {
        let [layers, hidden, ffn, heads] =
            [self.layers, self.hidden, self.ffn, self.heads].map(u128::from);
        let (batch, vocab) = (u128::from(self.batch), u128::from(self.vocab));
        let (positions, kept) = match self.mode {
            Mode::Train { sequence } => (sequence, 0),
            Mode::Decode { context, .. } => (1, u128::from(context)),
        };
        let tokens = batch * u128::from(positions);
        let kv = 2 * u128::from(self.kv_width());
        let width = u128::from(Precision::Fp32.bytes());
        let block = 6 * hidden + kv + 3 * ffn + heads;
        // Outputs and their gradients; keys and values; 16 bytes of state per parameter.
        2 * tokens * width * (layers * block + 2 * hidden + vocab)
            + layers * batch * kept * kv * width
            + 16 * u128::from(self.parameters())
    }
}
