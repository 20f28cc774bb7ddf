//! What the experts of a layer take: routing, two grouped products, and the sum.
//!
//! An expert is an up product (with a gate: twice as wide), an activation, and a down product. The
//! products of all experts of one device run as one grouped kernel each, tile by tile; experts
//! without tokens cost nothing:
//!
//! launch + map + norm of (waves x tile) and (weights / memory), for both products
//! \+ bytes of activations / rows
//!
//! Fitted to measured times of single operators,
//! <https://github.com/ai-dynamo/aiconfigurator> (Apache-2.0, NVIDIA CORPORATION & AFFILIATES).

use super::{norm_2, norm_4, numbers};
use crate::kernel::Experts;

/// Rows of a tile that the kernels choose from.
const ROWS: [u64; 4] = [16, 32, 64, 128];

/// Columns of a tile that the kernels choose from.
const COLUMNS: [f64; 2] = [64.0, 128.0];

/// Bytes of an activation.
const WIDE: f64 = 2.0;

/// More experts than this are taken as loaded evenly, which keeps the list of loads short.
const MOST_EXPERTS: u64 = 4096;

numbers! {
    /// Numbers of experts on one device, of one format of weights.
    ExpertTimes {
        /// Bytes of a weight, and of an activation that enters a product.
        width: Code,
        /// Launches of all kernels: sorting, two products, activation, sum.
        launch: Time,
        /// Added to map global to local experts where other devices have some of them.
        map: Time,
        /// Rate of products.
        flops: Flops,
        /// Rate of reading weights.
        memory: Memory,
        /// Parts of both factors into one processor; infinite where it hides.
        fill: Local,
        /// Start and end of a tile.
        tile: Time,
        /// Part of the cost of activations that rows of experts elsewhere still cause, 0 to 1.
        ghost: Share,
        /// Rate of moving activations between the kernels.
        rows: Memory,
        /// Factor on the products where the width of an expert is no multiple of 16, since loads
        /// are narrow then.
        ragged: Factor,
        /// How the kernel picks the rows of its tiles: 0 the best of all, as with a tuned table; 1
        /// the fewest while there are no more tokens than experts, else 64: a kernel without
        /// tuning; 2 the fewest below 16 tokens for each expert, else 128; 3 always 128.
        tiles: Code,
        /// 1 where experts were measured with a gate, whatever the model has.
        gates: Code,
        /// The share of `flops` that is left where the kernel has no table of tiles that were tuned
        /// for this number of experts and their width.
        untuned: Left,
        /// The share of that which is left where the activations of an expert are far larger than
        /// the last cache and the kernel's tiles were not tuned.
        spilled: Left,
        /// How the tables that the numbers were fitted to dealt tokens to experts: 0 levelled, 1
        /// packed.
        dealt: Code,
    }
}

/// The device that experts run on.
#[derive(Clone, Copy, Debug)]
pub struct On<'a> {
    /// Its processors.
    pub processors: u32,
    /// Bytes of its last cache.
    pub cache: u64,
    /// Experts on one device and their width, for which the kernel's tiles were tuned.
    pub tuned: &'a [(u64, u64)],
}

/// How a table of measurements dealt tokens to experts by a power law.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deal {
    /// Tokens that rounding lost go to the least busy experts.
    Level,
    /// Tokens that rounding lost go to idle experts side by side on one device, as in older
    /// measurements.
    Packed,
}

/// How tokens spread over the experts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spread {
    /// All experts get the same.
    Balanced,
    /// Loads follow a power law with exponent 1 + 1 / `inverse`: 100 for 1.01, 5 for 1.2. The law
    /// is cut at 0.8 times the tokens, or at a ratio of 200 when picks are no more than experts.
    PowerLaw {
        /// 1 / (exponent - 1), at least 1.
        inverse: u32,
    },
}

/// A layer of experts as a table of measurements has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layer {
    /// Tokens of all devices that share the experts.
    pub tokens: u64,
    /// Width of the residual stream.
    pub hidden: u64,
    /// Width of an expert, on this device.
    pub ffn: u64,
    /// Whether the up product has a gate beside it.
    pub gated: bool,
    /// Experts of a token.
    pub top_k: u64,
    /// Experts of the layer.
    pub experts: u64,
    /// Devices that share out the experts.
    pub expert_parallel: u64,
}

/// Tokens of one expert, and how many experts of a device have as many.
pub type Load = (u64, u64);

/// The `q`-th root of `a` >= 1, by Newton steps from above.
fn root(a: f64, q: u32) -> f64 {
    let mut x = 1.0 + (a - 1.0) / f64::from(q);
    loop {
        let power = (1..q).fold(1.0, |p, _| p * x);
        let next = x - (x - a / power) / f64::from(q);
        // The steps fall until rounding stops them; not-a-number ends the loop as well.
        if next.is_nan() || next >= x {
            return x;
        }
        x = next;
    }
}

/// Tokens of each expert, busiest first, and how many single tokens a packed deal puts side by
/// side.
fn spread(tokens: u64, experts: u64, top_k: u64, inverse: u32, deal: Deal) -> (Vec<u64>, u64) {
    let total = tokens * top_k;
    let ratio = if total > experts { (0.8 * tokens as f64).max(1.0) } else { 200.0 };
    let low = 1.0 / root(ratio, inverse);
    // The midpoint quantiles of the law take the place of random draws.
    let weight = |i: u64| {
        let y = 1.0 - (experts as f64 - i as f64 - 0.5) / experts as f64 * (1.0 - low);
        1.0 / (0..inverse).fold(1.0, |p, _| p * y)
    };
    let weights: Vec<f64> = (0..experts).map(weight).collect();
    let sum = weights.iter().fold(0.0, |s, w| s + w);
    let share = |w: &f64| ((w / sum * total as f64 + 0.5).floor() as u64).min(tokens);
    let mut loads: Vec<u64> = weights.iter().map(share).collect();
    let n = loads.len();
    let mut dealt: u64 = loads.iter().sum();
    while dealt > total {
        // Too many: the busiest experts come down together, to the level of the next.
        let equal = loads.iter().take_while(|&&x| x == loads[0]).count();
        let down = loads[0] - loads.get(equal).unwrap_or(&0);
        let (over, count) = (dealt - total, equal as u64);
        if down * count <= over {
            loads[..equal].iter_mut().for_each(|x| *x -= down);
            dealt -= down * count;
        } else {
            let (each, rest) = (over / count, (over % count) as usize);
            for (j, x) in loads[..equal].iter_mut().enumerate() {
                *x -= each + u64::from(j >= equal - rest);
            }
            dealt = total;
        }
    }
    if deal == Deal::Packed {
        return (loads, total - dealt);
    }
    while dealt < total {
        // Too few: the least busy experts rise together.
        let last = loads[n - 1];
        let equal = loads.iter().rev().take_while(|&&x| x == last).count();
        let up = if equal < n { loads[n - 1 - equal] } else { tokens } - last;
        let (under, count) = (total - dealt, equal as u64);
        if up * count <= under {
            loads[n - equal..].iter_mut().for_each(|x| *x += up);
            dealt += up * count;
        } else {
            let (each, rest) = (under / count, (under % count) as usize);
            for (j, x) in loads[n - equal..].iter_mut().enumerate() {
                *x += each + u64::from(j < rest);
            }
            dealt = total;
        }
    }
    (loads, 0)
}

/// Loads of the experts of the busiest device, idle experts left out.
pub fn loads(layer: &Layer, of: Spread, deal: Deal) -> Vec<Load> {
    let experts = layer.experts;
    let top_k = layer.top_k.min(experts);
    let local = (experts / layer.expert_parallel).max(1);
    let total = layer.tokens * top_k;
    let inverse = match of {
        Spread::PowerLaw { inverse } if experts <= MOST_EXPERTS => inverse,
        _ if total >= experts => return vec![(total.div_ceil(experts), local)],
        _ => {
            let active = (u128::from(total) * u128::from(local)).div_ceil(u128::from(experts));
            return vec![(1, active as u64)];
        }
    };
    let (all, side) = spread(layer.tokens, experts, top_k, inverse, deal);
    // The busiest device has the busiest expert, and of the others those in the middle of equal
    // parts.
    let mut picked = vec![all[0]];
    for j in 0..local - 1 {
        let at = 1 + (2 * j + 1) * (experts - 1) / (2 * (local - 1));
        picked.push(all[at.min(experts - 1) as usize]);
    }
    picked.retain(|&x| x > 0);
    let side = side.min(local - picked.len() as u64);
    let mut loads: Vec<Load> = picked.into_iter().map(|x| (x, 1)).collect();
    if side > 0 {
        loads.push((1, side));
    }
    loads
}

/// As few loads as tell the busiest expert of a kernel from the others.
fn loads_of(shape: &Experts) -> Vec<Load> {
    let Experts { given, busy, most, .. } = *shape;
    let others = u64::from(busy.max(1)) - 1;
    let rest = given.saturating_sub(most);
    let each = if others > 0 { rest.div_ceil(others) } else { 0 };
    [(most, 1), (each, others)].into_iter().filter(|load| load.0 > 0 && load.1 > 0).collect()
}

impl ExpertTimes {
    /// How tables of this device's measurements dealt tokens to experts.
    pub fn deal(&self) -> Deal {
        if self.dealt > 0.0 { Deal::Packed } else { Deal::Level }
    }

    /// Seconds of the experts of a layer, on a device with so many processors; `bytes` are all that
    /// the kernel reads and writes.
    pub fn seconds(&self, on: On<'_>, shape: &Experts, bytes: f64) -> f64 {
        let layer = Layer {
            tokens: shape.tokens,
            hidden: shape.hidden,
            ffn: shape.ffn,
            gated: true,
            top_k: shape.top_k.into(),
            experts: shape.experts.into(),
            expert_parallel: 1,
        };
        // What is not weights: tokens in and out, what stands between the matrices, and the
        // router's probabilities.
        let [tokens, hidden, ffn, given] =
            [shape.tokens, shape.hidden, shape.ffn, shape.given].map(|number| number as f64);
        let others = 2.0 * WIDE * tokens * hidden
            + WIDE * given * ffn
            + 4.0 * tokens * f64::from(shape.experts);
        let numbers = 3.0 * hidden * ffn * f64::from(shape.busy);
        let stored = (bytes - others) / numbers;
        // They are never wider than the kernel multiplies; of a kernel that says no bytes nothing is
        // known.
        let is_narrow = stored > 0.0 && stored < 0.9 * self.width;
        let width = if is_narrow { stored } else { self.width };
        self.of_loads_stored(on, &layer, &loads_of(shape), width)
    }

    /// Seconds of a layer whose busiest device has these loads, without exchange between devices.
    pub fn of_loads(&self, on: On<'_>, layer: &Layer, loads: &[Load]) -> f64 {
        self.of_loads_stored(on, layer, loads, self.width)
    }

    /// The same, of weights that are stored in so many bytes each.
    fn of_loads_stored(&self, on: On<'_>, layer: &Layer, loads: &[Load], stored: f64) -> f64 {
        let sum = |of: &dyn Fn(&Load) -> f64| loads.iter().fold(0.0, |sum, load| sum + of(load));
        let active = sum(&|load| load.1 as f64);
        let own = sum(&|load| load.0 as f64 * load.1 as f64);
        let (tokens, hidden, ffn) = (layer.tokens as f64, layer.hidden as f64, layer.ffn as f64);
        let up = if layer.gated || self.gates > 0.0 { 2.0 * ffn } else { ffn };
        let pairs = tokens * layer.top_k.min(layer.experts) as f64;
        let few = match self.tiles {
            1.0 => layer.tokens <= (layer.experts / layer.expert_parallel.max(1)).max(1),
            _ => pairs < 16.0 * layer.experts as f64,
        };
        let here = (layer.experts / layer.expert_parallel.max(1), layer.ffn);
        let tuned = on.tuned.contains(&here);
        let left = if tuned { 1.0 } else { self.untuned };
        // Up to half of the cache nothing spills, from one and a half on everything.
        let spills = |load: u64| {
            let over = load as f64 * WIDE * hidden / on.cache as f64 - 0.5;
            1.0 + (1.0 / self.spilled - 1.0) * over.clamp(0.0, 1.0)
        };
        let ragged = if layer.ffn.is_multiple_of(16) { 1.0 } else { self.ragged };
        let mut busy = 0.0;
        for (n, k) in [(up, hidden), (hidden, ffn)] {
            let weights = stored * active * n * k / self.memory;
            let times = ROWS.map(|rows| {
                let blocks = sum(&|load| {
                    let cost = if tuned { 1.0 } else { spills(load.0) };
                    load.0.div_ceil(rows) as f64 * load.1 as f64 * cost
                });
                self.grouped(on.processors, left, rows as f64, blocks, (n, k), weights)
            });
            busy += ragged
                * match self.tiles {
                    1.0 => times[if few { 0 } else { 2 }],
                    2.0 => times[if few { 0 } else { 3 }],
                    3.0 => times[3],
                    _ => times[0].min(times[1]).min(times[2].min(times[3])),
                };
        }
        let rows = own + self.ghost * (pairs - own).max(0.0);
        let moved = WIDE * (rows * (up + ffn + hidden) + tokens * hidden);
        let map = if layer.expert_parallel > 1 { self.map } else { 0.0 };
        self.launch + map + busy + moved / self.rows
    }

    /// Seconds of a grouped product: `blocks` tiles of `rows` rows, n columns, inner size k.
    fn grouped(
        &self,
        processors: u32,
        left: f64,
        rows: f64,
        blocks: f64,
        (n, k): (f64, f64),
        weights: f64,
    ) -> f64 {
        let processors = f64::from(processors.max(1));
        // The product units of newer devices always take 64 rows.
        let full = if self.tiles == 1.0 { rows } else { rows.max(64.0) };
        let deep = (k / 64.0).ceil() * 64.0;
        let time = |columns: f64| {
            let products = 2.0 * full * columns / (self.flops * left / processors);
            let step = norm_4(products, self.width * (rows + columns) / self.fill);
            let waves = (blocks * (n / columns).ceil() / processors).ceil().max(1.0);
            norm_2(waves * (step * deep + self.tile), weights)
        };
        time(COLUMNS[0]).min(time(COLUMNS[1]))
    }
}
