//! What a trace asks of memory: text for people, JSON for programs.
//!
//! Invariant: both are made of the same [`TraceMemory`], and every share of it is worked out there.

use crate::text_table::{Side, text_table};
use crate::words::{clean, count, number, percent};
use crate::{ChartError, pretty};
use serde_json::{Value, json};
use tiersim_models::results::memory_use::Share;
use tiersim_models::results::trace_memory::{
    Ahead, Leak, Leaks, LeastPool, Proof, Refused, Served, TraceMemory,
};
use tiersim_models::units::Bytes;

/// For people; ends with a line break.
pub fn trace_memory_text(of: &TraceMemory) -> String {
    let (there, asked) = of.requests;
    let head = format!(
        "{}, {}: {}, {} from the start, {}\n",
        clean(&of.trace),
        of.allocator,
        count(of.steps, "step", "steps"),
        count(there, "object", "objects"),
        count(asked, "request", "requests"),
    );
    let mut rows = vec![
        ("floor", of.floor.to_string(), "asked for at once at most: no pool is smaller".to_owned()),
        ("ample", of.ample.to_string(), "kept at most where memory is not short".to_owned()),
        (
            "least pool",
            of.least.bytes.to_string(),
            format!("serves, in steps of {}", of.least.granule),
        ),
        ("", String::new(), least(&of.least)),
    ];
    if let Some(fails) = of.least.fails_above {
        let why = "fails again though it is larger: not monotone";
        rows.push(("", fails.to_string(), why.to_owned()));
    }
    served(of, &mut rows);
    ahead(of, &mut rows);
    leaks(&of.leaks, &mut rows);
    let cells = |(name, value, words): &(&str, String, String)| {
        vec![(*name).to_owned(), value.clone(), words.clone()]
    };
    let rows: Vec<Vec<String>> = rows.iter().map(cells).collect();
    head + &text_table(2, &[Side::Left, Side::Right, Side::Left], &rows)
}

/// A line: its name, its figure, and what that is.
type Row = (&'static str, String, String);

fn least(least: &LeastPool) -> String {
    let proof = match least.proof {
        Proof::Floor => "no less than is live at once".to_owned(),
        Proof::All => "every smaller one was tried and fails".to_owned(),
        Proof::Some { tried, of } => format!("{tried} of {of} smaller ones were tried, and fail"),
    };
    let replays = count(least.replays as usize, "replay", "replays");
    format!("{proof} ({replays})")
}

fn served(of: &TraceMemory, rows: &mut Vec<Row>) {
    match &of.served {
        Ok(served) => {
            rows.push(("served in", of.capacity.to_string(), "where fragmentation is".to_owned()));
            let shares = [
                ("external", served.external),
                ("internal", served.internal),
                ("total", served.total),
            ];
            for (name, share) in shares {
                let Share { mean, highest, end } = share;
                let [highest, end] = [highest, end].map(percent);
                let words = format!("mean over ops; highest {highest}, at the end {end}");
                rows.push((name, percent(mean), words));
            }
            if served.compactions > 0 {
                let times = count(served.compactions as usize, "compaction", "compactions");
                rows.push(("moved", served.moved.to_string(), format!("by {times}")));
            }
        }
        Err(Refused { object, op, need, free, largest }) => {
            let at = op.map_or("at the start".to_owned(), |op| format!("by op {op}"));
            let object = clean(object);
            let words = format!(
                "does not serve: {need} asked for {object} {at}, {free} free in pieces of at most \
                 {largest}"
            );
            rows.push(("refused in", of.capacity.to_string(), words));
        }
    }
}

fn ahead(of: &TraceMemory, rows: &mut Vec<Row>) {
    let ahead = &of.ahead;
    let next = if ahead.same_step { "the same step again" } else { "the steps behind" };
    let plan = format!(
        "for {}; {} at once at most, {} outlive it",
        count(ahead.planned, "offset of the first step", "offsets of the first step"),
        ahead.plan_floor,
        ahead.outliving,
    );
    rows.push(("planned", ahead.plan.to_string(), plan));
    let misses = format!(
        "for others: {} new, {} larger, {} still in use; {} took their offsets",
        ahead.unknown, ahead.larger, ahead.in_use, ahead.hits,
    );
    rows.push(("beside", ahead.beside.to_string(), misses));
    let total = format!("with {} that persist, over {next}", ahead.persistent);
    rows.push(("in all", ahead.total().to_string(), total));
    let saved = ahead.saved();
    let word = if saved < 0 { "more" } else { "saved" };
    let bytes = Bytes::new(u64::try_from(saved.unsigned_abs()).unwrap_or(u64::MAX));
    let share = saved.unsigned_abs() as f64 / (ahead.alone.get() as f64).max(1.0) * 100.0;
    let words = format!("{} % of {} that the allocator keeps alone", number(share), ahead.alone);
    rows.push((word, bytes.to_string(), words));
    let floor = format!("above the {} asked for at once", ahead.floor);
    rows.push(("wasted", ahead.wasted().to_string(), floor));
}

fn leaks(leaks: &Leaks, rows: &mut Vec<Row>) {
    if leaks.sites.is_empty() {
        let words = match leaks.can_tell() {
            true => "nothing that is held for nothing grows with the steps".to_owned(),
            false => format!("too few steps to tell: {} are needed", Leaks::LEAST_STEPS),
        };
        rows.push(("leaks", "none".to_owned(), words));
    }
    for leak in &leaks.sites {
        rows.push(("leak", leak.per_step.to_string(), leak_words(leak)));
    }
}

/// Who leaks, and how much.
pub fn leak_words(leak: &Leak) -> String {
    let module = leak.module.as_ref().map_or(String::new(), |name| format!(" of {}", clean(name)));
    format!(
        "per step by {}{module} since step {}: {} of {} in all, the first {}",
        clean(&leak.op),
        leak.since,
        count(leak.objects, "object", "objects"),
        leak.bytes,
        clean(&leak.first),
    )
}

/// For programs.
pub fn trace_memory_json(of: &TraceMemory, version: &str) -> Result<String, ChartError> {
    let served = match &of.served {
        Ok(served) => json_of_served(served),
        Err(refused) => json!({
            "refused": refused.object,
            "op": refused.op,
            "need_bytes": refused.need.get(),
            "free_bytes": refused.free.get(),
            "largest_free_bytes": refused.largest.get(),
        }),
    };
    let leak = |leak: &Leak| {
        json!({
            "op": leak.op,
            "module": leak.module,
            "first": leak.first,
            "objects": leak.objects,
            "bytes": leak.bytes.get(),
            "since_step": leak.since,
            "bytes_per_step": leak.per_step.get(),
        })
    };
    pretty(&json!({
        "schema": 1,
        "tiersim": version,
        "trace": of.trace,
        "allocator": of.allocator,
        "steps": of.steps,
        "persistent_objects": of.requests.0,
        "requests": of.requests.1,
        "floor_bytes": of.floor.get(),
        "ample_bytes": of.ample.get(),
        "least_pool": json_of_least(&of.least),
        "capacity_bytes": of.capacity.get(),
        "served": served,
        "ahead": json_of_ahead(&of.ahead),
        "leaks_can_be_told": of.leaks.can_tell(),
        "leaks": of.leaks.sites.iter().map(leak).collect::<Vec<_>>(),
    }))
}

fn json_of_served(served: &Served) -> Value {
    let Served { allocated, reserved, external, internal, total, compactions, moved } = served;
    json!({
        "peak_allocated_bytes": allocated.get(),
        "peak_reserved_bytes": reserved.get(),
        "external_mean": external.mean,
        "external_highest": external.highest,
        "external_end": external.end,
        "internal_mean": internal.mean,
        "internal_highest": internal.highest,
        "internal_end": internal.end,
        "total_mean": total.mean,
        "total_highest": total.highest,
        "total_end": total.end,
        "compactions": compactions,
        "compacted_bytes": moved.get(),
    })
}

fn json_of_least(least: &LeastPool) -> Value {
    let (proof, tried, of) = match least.proof {
        Proof::Floor => ("floor", None, None),
        Proof::All => ("all", None, None),
        Proof::Some { tried, of } => ("some", Some(tried), Some(of)),
    };
    json!({
        "bytes": least.bytes.get(),
        "granule_bytes": least.granule.get(),
        "proof": proof,
        "smaller_tried": tried,
        "smaller": of,
        "fails_again_at_bytes": least.fails_above.map(Bytes::get),
        "replays": least.replays,
    })
}

fn json_of_ahead(ahead: &Ahead) -> Value {
    json!({
        "same_step": ahead.same_step,
        "planned": ahead.planned,
        "outliving": ahead.outliving,
        "plan_bytes": ahead.plan.get(),
        "plan_floor_bytes": ahead.plan_floor.get(),
        "persistent_bytes": ahead.persistent.get(),
        "beside_bytes": ahead.beside.get(),
        "total_bytes": ahead.total().get(),
        "alone_bytes": ahead.alone.get(),
        "saved_bytes": i64::try_from(ahead.saved()).unwrap_or(i64::MAX),
        "wasted_bytes": ahead.wasted().get(),
        "floor_bytes": ahead.floor.get(),
        "hits": ahead.hits,
        "unknown": ahead.unknown,
        "larger": ahead.larger,
        "in_use": ahead.in_use,
    })
}
