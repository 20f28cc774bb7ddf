//! Reads tables of single ops: products, attention, experts, kernels that stream, collectives; one
//! kind per file, told by its columns. Collectives may also be a log of nccl-tests.
//!
//! `us` holds measured times; a table without it can still be priced. What an op is called and the
//! least and the most that it took are for people.
//! Invariant: the kind is told from the header alone, and rows are kept in the order of the file.

mod nccl;

use crate::file_kind::refused_by;
use crate::trace::rows::{Row, read_rows};
use crate::trace::tables::{Findings, LIMITS, Limits, ReadBudget, Source, describe};
use std::io::Read;
use std::path::Path;
use tiersim_models::collective::{Collective, CollectiveKind};
use tiersim_models::diagnostic::{Diagnostics, Place};
use tiersim_models::kernel::{Attention, Kernel, Product, Streaming, Work};
use tiersim_models::measured_op::{MeasuredOp, What};
use tiersim_models::op_times::experts::{Layer, Spread};
use tiersim_models::units::Bytes;

const PRODUCT: &str = "dtype m n k layout? us? name? us_min? us_max?";
const PREFILL: &str = "dtype kv_dtype batch sequence past heads kv_heads head_dim window? us? \
                       name? us_min? us_max?";
const DECODE: &str = "dtype kv_dtype batch kv_length heads kv_heads head_dim window? us? \
                      name? us_min? us_max?";
const EXPERTS: &str = "dtype tokens hidden intermediate top_k experts tensor_parallel? \
                       expert_parallel? distribution? gated? us? name? us_min? us_max?";
const STREAMING: &str = "kernel dtype bytes rows? width? us? name? us_min? us_max?";
const COLLECTIVE: &str = "collective dtype gpus elements us? name? us_min? us_max?";

/// Tables of measurements; far more than any has.
const TABLE: Limits = Limits { expanded: 1 << 30, ..LIMITS };
/// Bytes of a log among whose first lines its columns are named.
const START: u64 = 1 << 20;
/// Most rows of one table.
const MAX_ROWS: u64 = 1 << 24;

/// What an op takes: the list of them has room for twice as many while it grows, and once it is whole
/// less than it are what ops are priced at, the rows that are written and what is graded.
const OP_BYTES: usize = 2 * size_of::<MeasuredOp>();

/// Hidden, expert and count of models whose experts have no gate: Nemotron's, by their times.
const WITHOUT_GATE: [(u64, u64, u64); 3] =
    [(2048, 5120, 512), (2688, 1856, 128), (1024, 2688, 512)];

/// The ops of a table.
pub fn read_ops(path: &Path) -> Result<Vec<MeasuredOp>, Diagnostics> {
    let head = Source::at(path.to_path_buf(), true, TABLE)?.open_ended();
    let mut findings = Findings::default();
    let mut reader = csv::ReaderBuilder::new().flexible(true).from_reader(head.text);
    let header = reader.headers().map(|found| found.iter().map(str::to_owned).collect());
    let header: Vec<String> = header.unwrap_or_default();
    let has = |name: &str| header.iter().any(|column| column == name);
    let read: (&'static str, fn(&mut Row<'_>) -> MeasuredOp) = match () {
        () if has("collective") => (COLLECTIVE, collective),
        () if has("experts") => (EXPERTS, experts),
        () if has("kernel") => (STREAMING, streaming),
        () if has("kv_length") => (DECODE, attention),
        () if has("sequence") => (PREFILL, attention),
        () if ["m", "n", "k"].into_iter().any(has) => (PRODUCT, product),
        () if nccl::is_log(&start(path)?) => {
            return nccl::read(Source::at(path.to_path_buf(), false, TABLE)?.open_ended());
        }
        () => return Err(refused_by(path, "a table of ops", unknown(path, &header))),
    };
    let source = Source::at(path.to_path_buf(), true, TABLE)?.open_ended();
    let (mut ops, mut budget) = (Vec::new(), ReadBudget::default());
    read_rows(source, read.0, Some(MAX_ROWS), &mut findings, |row| {
        if row.fits(&mut budget, OP_BYTES) {
            ops.push(read.1(row));
        }
    });
    ops.shrink_to_fit();
    if findings.is_empty() && ops.is_empty() {
        findings.push(path, None, "a table of ops has rows", "", kinds());
    }
    findings.finish().into_result(ops)
}

/// The first lines of a file.
fn start(path: &Path) -> Result<String, Diagnostics> {
    let mut bytes = Vec::new();
    let head = Source::at(path.to_path_buf(), false, TABLE)?.open_ended();
    let read = head.text.take(START).read_to_end(&mut bytes);
    read.map_err(|error| describe(path, &error))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The columns of every kind of table.
fn kinds() -> String {
    let all = [PRODUCT, PREFILL, DECODE, EXPERTS, STREAMING, COLLECTIVE];
    format!("columns of its kinds are {}; `us` is in microseconds", all.join("; "))
}

/// That a header is of no kind.
fn unknown(path: &Path, header: &[String]) -> Diagnostics {
    let found: String = header.join(",").chars().take(80).collect();
    let rule = "a table of ops begins with the names of its columns, and these are of no kind";
    Diagnostics::one(path, Some(Place { line: 1, column: 0 }), rule, format!("{found:?}"), kinds())
}

/// How precisions are called here, whatever a table calls them.
const PRECISIONS: [(&str, &str); 11] = [
    ("bf16", "bf16"),
    ("bfloat16", "bf16"),
    ("fp16", "fp16"),
    ("half", "fp16"),
    ("float16", "fp16"),
    ("fp8", "fp8"),
    ("fp8_e4m3", "fp8"),
    ("fp32", "fp32"),
    ("float", "fp32"),
    ("tf32", "tf32"),
    ("int8", "int8"),
];

fn precision(row: &mut Row<'_>, column: &str) -> &'static str {
    row.word(column, &PRECISIONS, "bf16")
}

fn bytes_of(precision: &str) -> u64 {
    match precision {
        "fp8" | "int8" => 1,
        "fp32" | "tf32" => 4,
        _ => 2,
    }
}

/// A number from 1 to 10^9.
fn size(row: &mut Row<'_>, column: &str) -> u64 {
    within(row, column, 1)
}

/// The same of a field that may be empty.
fn size_or(row: &mut Row<'_>, column: &str, instead: u64, least: u64) -> u64 {
    if row.text(column).is_empty() { instead } else { within(row, column, least) }
}

fn within(row: &mut Row<'_>, column: &str, least: u64) -> u64 {
    to_power(row, column, least, 9)
}

/// A whole number up to a power of ten.
fn to_power(row: &mut Row<'_>, column: &str, least: u64, power: u32) -> u64 {
    let text = row.text(column);
    let number = text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse::<u64>().ok());
    match number.flatten().filter(|number| (least..=10u64.pow(power)).contains(number)) {
        Some(number) => number,
        None => {
            let found = text.to_owned();
            let rule = format!("{column} is a whole number from {least} to 10^{power}");
            row.problem(rule, found, "correct the row");
            least.max(1)
        }
    }
}

/// Whether a row has this number, and not one that stands for what it has.
fn is_said(row: &Row<'_>, column: &str, number: u64) -> bool {
    row.text(column).parse() == Ok(number)
}

fn op(row: &mut Row<'_>, precision: &'static str, what: What) -> MeasuredOp {
    MeasuredOp { line: row.index + 2, precision, what, seconds: seconds(row) }
}

fn seconds(row: &mut Row<'_>) -> Option<f64> {
    let text = row.text("us");
    let us = text.parse::<f64>().ok().filter(|&us| us > 0.0 && us < 1e12);
    if us.is_none() && !text.is_empty() {
        let rule = "us is a number of microseconds above 0 and below 10^12";
        let found = text.to_owned();
        row.problem(rule, found, "leave it empty, or correct it");
    }
    us.map(|us| us * 1e-6)
}

fn product(row: &mut Row<'_>) -> MeasuredOp {
    let precision = precision(row, "dtype");
    let [m, n, k] = ["m", "n", "k"].map(|column| size(row, column));
    let of = (precision, bytes_of(precision));
    // As BLAS says which of the two matrices lies transposed.
    let layouts = [("nn", false), ("nt", false), ("tn", true)];
    let transposed = match row.text("layout").is_empty() {
        true => false,
        false => row.word("layout", &layouts, false),
    };
    let shape = Product { transposed, ..Product::new(m, n, k) };
    MeasuredOp::product(row.index + 2, of, shape, seconds(row))
}

fn streaming(row: &mut Row<'_>) -> MeasuredOp {
    let precision = precision(row, "dtype");
    let words = Streaming::ALL.map(|class| (class.word(), class));
    let work = Work::Streaming(row.word("kernel", &words, Streaming::Copy));
    let bytes = to_power(row, "bytes", 1, 15);
    op(row, precision, What::Kernel(Kernel::new(work, 0, bytes.into())))
}

fn attention(row: &mut Row<'_>) -> MeasuredOp {
    let precision = precision(row, "dtype");
    let kv_bytes = bytes_of(self::precision(row, "kv_dtype"));
    let batch = size(row, "batch");
    // A decode step's one token is the last of those that it attends to.
    let (new, past) = match row.text("kv_length").is_empty() {
        true => (size(row, "sequence"), size_or(row, "past", 0, 0)),
        false => (1, size(row, "kv_length") - 1),
    };
    let [heads, kv_heads, head_dim] =
        ["heads", "kv_heads", "head_dim"].map(|column| size(row, column) as u32);
    let said = is_said(row, "heads", heads.into()) && is_said(row, "kv_heads", kv_heads.into());
    if said && heads % kv_heads > 0 {
        let rule = "heads is a multiple of kv_heads: as many of them share each key and value";
        row.problem(rule, format!("heads {heads}, kv_heads {kv_heads}"), "correct the row");
    }
    let window = size_or(row, "window", 0, 0) as u32;
    let kv_bytes = kv_bytes as u32;
    let of =
        Attention { batch, new, past, heads, kv_heads, head_dim, window, kv_bytes, causal: true };
    let wide = u128::from(heads) * u128::from(head_dim) * u128::from(batch) * u128::from(new);
    let kv = u128::from(batch) * u128::from(of.attended()) * u128::from(kv_heads);
    let kv = 2 * kv * u128::from(head_dim) * u128::from(kv_bytes);
    op(row, precision, What::Kernel(Kernel::new(Work::Attention(of), of.flops(), 4 * wide + kv)))
}

fn experts(row: &mut Row<'_>) -> MeasuredOp {
    let precision = precision(row, "dtype");
    let [tokens, hidden, ffn, top_k, experts] =
        ["tokens", "hidden", "intermediate", "top_k", "experts"].map(|column| size(row, column));
    let tensor = size_or(row, "tensor_parallel", 1, 1);
    let expert_parallel = size_or(row, "expert_parallel", 1, 1);
    for (column, number, what) in [
        ("top_k", top_k, "a token goes to different ones"),
        ("expert_parallel", expert_parallel, "each rank has one at least"),
    ] {
        if number > experts && is_said(row, column, number) && is_said(row, "experts", experts) {
            let rule = format!("{column} is at most experts: {what}");
            row.problem(rule, format!("{column} {number}, experts {experts}"), "correct the row");
        }
    }
    let named = WITHOUT_GATE.contains(&(hidden, ffn, experts));
    let gated = match row.text("gated").is_empty() {
        true => !named,
        false => row.word("gated", &[("true", true), ("false", false)], true),
    };
    let spread = spread(row);
    let ffn = ffn.div_ceil(tensor);
    let layer = Layer { tokens, hidden, ffn, gated, top_k, experts, expert_parallel };
    op(row, precision, What::Experts(layer, spread))
}

/// `balanced`, or `power_law_` and an exponent above 1.
fn spread(row: &mut Row<'_>) -> Spread {
    let text = row.text("distribution").to_owned();
    if text.is_empty() || text == "balanced" {
        return Spread::Balanced;
    }
    let exponent = text.strip_prefix("power_law_").and_then(|rest| rest.parse::<f64>().ok());
    match exponent.filter(|exponent| (1.001..=2.0).contains(exponent)) {
        Some(exponent) => Spread::PowerLaw { inverse: (1.0 / (exponent - 1.0)).round() as u32 },
        None => {
            let rule = "distribution is balanced, or power_law_ and an exponent from 1.001 to 2";
            row.problem(rule, text, "write power_law_1.2");
            Spread::Balanced
        }
    }
}

fn collective(row: &mut Row<'_>) -> MeasuredOp {
    let kinds = [
        ("all_reduce", CollectiveKind::AllReduce),
        ("all_gather", CollectiveKind::AllGather),
        ("reduce_scatter", CollectiveKind::ReduceScatter),
        ("alltoall", CollectiveKind::AllToAll),
        ("all_to_all", CollectiveKind::AllToAll),
    ];
    let kind = row.word("collective", &kinds, CollectiveKind::AllReduce);
    let precision = precision(row, "dtype");
    let within = size(row, "gpus") as u32;
    let elements: u64 = row.whole("elements");
    let bytes = elements.saturating_mul(bytes_of(precision)).min(1 << 60);
    let of = Collective::within(kind, Bytes::new(bytes), within);
    op(row, precision, What::Collective(of, bytes_of(precision) > 1))
}
