//! What every optimisation of a scenario saves and costs: text, JSON and CSV of the same runs.

use crate::csv::guarded;
use crate::sheet::Made;
use crate::text_table::{Side, cells, text_table};
use crate::words::{clean, elide, short_fingerprint};
use crate::{Artefact, ChartError, pretty};
use serde_json::{Value, json};
use tiersim_models::results::switched::{SwitchRun, SwitchRuns};
use tiersim_models::units::Bytes;

/// `switches.json` and `switches.csv`.
///
/// # Errors
/// A number that JSON cannot hold.
pub fn switches_artefacts<'a>(
    of: &SwitchRuns,
    made: impl Into<Made<'a>>,
) -> Result<Vec<Artefact>, ChartError> {
    let json = switches_json(of, made.into().version)?;
    Ok(vec![Artefact::new("switches.json", json), Artefact::new("switches.csv", csv(of)?)])
}

/// The runs for programs; docs/howto/explain.md says what each key means.
///
/// # Errors
/// A number that JSON cannot hold.
pub fn switches_json(of: &SwitchRuns, version: &str) -> Result<String, ChartError> {
    let rows: Vec<Value> = of
        .rows
        .iter()
        .map(|row| {
            json!({
                "switch": row.name,
                "alone": side(of, &row.alone),
                "in_turn": side(of, &row.in_turn),
            })
        })
        .collect();
    pretty(&json!({
        "schema": super::EXPLAIN_SCHEMA,
        "tiersim": version,
        "scenario": of.scenario,
        "about": of.about,
        "fingerprint": of.fingerprint,
        "hardware": of.hardware,
        "seed": of.seed,
        "case": of.case,
        "as_written": side(of, &of.base),
        "switches": rows,
    }))
}

fn side(of: &SwitchRuns, run: &SwitchRun) -> Value {
    let found = run.found.as_ref().ok();
    let why_not = match &run.found {
        Err(why) => Some(why),
        Ok(found) => found.step.as_ref().err(),
    };
    let held = found.map(|found| of.tiers.iter().zip(&found.held));
    let held = held.into_iter().flatten().map(|(tier, bytes)| (tier.clone(), json!(bytes.get())));
    let saved = of.saved(run).and_then(|saved| i64::try_from(saved).ok());
    json!({
        "set": run.changes.iter().map(|(path, value)| format!("{path}={value}")).collect::<Vec<_>>(),
        "needs_bytes": found.map(|found| found.needs.get()),
        "saved_bytes": saved,
        "unlimited_step_ms": found.map(|found| found.unlimited.as_ms()),
        "step_ms": run.step().map(|step| step.as_ms()),
        "slowdown": of.slowdown(run),
        "held_bytes": held.collect::<serde_json::Map<_, _>>(),
        "why_not": why_not,
    })
}

fn csv(of: &SwitchRuns) -> Result<Vec<u8>, ChartError> {
    let mut writer = ::csv::Writer::from_writer(Vec::new());
    let mut head = ["switch", "turned", "set", "needs_bytes", "unlimited_step_ms", "step_ms"]
        .map(str::to_owned)
        .to_vec();
    head.extend(["slowdown".to_owned(), "why_not".to_owned()]);
    head.extend(of.tiers.iter().map(|tier| format!("held_bytes.{tier}")));
    writer.write_record(head.iter().map(|name| guarded(name)))?;
    let rows = of
        .rows
        .iter()
        .flat_map(|row| [(row.name, "alone", &row.alone), (row.name, "in turn", &row.in_turn)]);
    for (name, turned, run) in [("as written", "", &of.base)].into_iter().chain(rows) {
        let side = side(of, run);
        let number = |key: &str| match &side[key] {
            Value::Null => String::new(),
            Value::String(text) => guarded(text),
            other => other.to_string(),
        };
        let set: Vec<String> =
            run.changes.iter().map(|(path, value)| format!("{path}={value}")).collect();
        let mut row = vec![name.to_owned(), turned.to_owned(), guarded(&set.join(" "))];
        let keys = ["needs_bytes", "unlimited_step_ms", "step_ms", "slowdown", "why_not"];
        row.extend(keys.map(number));
        let held = run.found.as_ref().map_or(&[][..], |found| &found.held);
        let held = (0..of.tiers.len()).map(|at| held.get(at).map(|bytes| bytes.get().to_string()));
        row.extend(held.map(Option::unwrap_or_default));
        writer.write_record(row)?;
    }
    writer.into_inner().map_err(|error| ChartError::Csv(error.into_error().into()))
}

fn gib(bytes: Bytes) -> f64 {
    bytes.get() as f64 / (1u64 << 30) as f64
}

/// The runs as a table.
pub fn switches_text(of: &SwitchRuns, version: &str) -> String {
    let (name, hardware) = (clean(&of.scenario), clean(&of.hardware));
    let mut text = format!(
        "{name} on {hardware}, case {:?}, switch by switch\n  {}\n  tiersim {version}, fingerprint {}\n\n",
        clean(&of.case),
        elide(&clean(&of.about), 100),
        short_fingerprint(&of.fingerprint),
    );
    text += &table(of);
    for row in &of.rows {
        let refused = row.alone.found.as_ref().err().or(row.in_turn.found.as_ref().err());
        if let Some(why) = refused {
            text += &format!("  note: {}: {}\n", row.name, elide(why, 160));
        }
    }
    text += "  note: needs is the most that the workload holds where HBM has no limit\n";
    text += "  note: saved is what HBM holds less than as written needs\n";
    text += "  note: x is the step over that of the scenario as written where HBM has no limit\n";
    text + "  note: - does not fit; switches.json says why\n"
}

fn table(of: &SwitchRuns) -> String {
    let shown = of.tiers.len().min(4);
    let mut over = vec![String::new(); 6 + shown];
    (over[0], over[3]) = ("alone".to_owned(), "in turn".to_owned());
    let mut head = cells(["saved GiB", "ms/step", "x", "needs GiB"]);
    head.extend(of.tiers.iter().take(shown).map(|tier| format!("{} GiB", clean(tier))));
    head.extend(cells(["ms/step", "x", "switch"]));
    over.push(String::new());
    let dash = || "-".to_owned();
    let step = |run: &SwitchRun| {
        let ms = run.step().map_or_else(dash, |step| format!("{:.1}", step.as_ms()));
        [ms, of.slowdown(run).map_or_else(dash, |ratio| format!("{ratio:.3}"))]
    };
    let in_turn = |run: &SwitchRun| {
        let found = run.found.as_ref().ok();
        let mut row = vec![found.map_or_else(dash, |found| format!("{:.3}", gib(found.needs)))];
        let held = |at: usize| found.and_then(|found| found.held.get(at));
        row.extend((0..shown).map(|at| held(at).map_or_else(dash, |b| format!("{:.3}", gib(*b)))));
        row.extend(step(run));
        row
    };
    let mut rows = vec![over, head];
    let mut row = vec![String::new(); 3];
    row.extend(in_turn(&of.base));
    row.push("as written".to_owned());
    rows.push(row);
    for pair in &of.rows {
        let less =
            of.saved(&pair.alone).map(|bytes| format!("{:.3}", bytes as f64 / (1u64 << 30) as f64));
        let mut row = vec![less.unwrap_or_else(dash)];
        row.extend(step(&pair.alone));
        row.extend(in_turn(&pair.in_turn));
        row.push(pair.name.to_owned());
        rows.push(row);
    }
    text_table(2, &vec![Side::Right; 6 + shown], &rows)
}
