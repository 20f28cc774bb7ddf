//! What a case's policy decides, op by op, for a runtime to follow.
//!
//! Actions are those that policies take, in the words in which policies of other programs answer.
//! Numbers of objects and ops are those of the trace's tables; names of what is mentioned stand
//! beside them.
//! Invariant: whoever follows it has the copies, uses in place and delays of the case's run.

use super::parts::{Ask, Back, Parts};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fmt::Write;
use tiersim_models::ids::{ObjectId, TierId};
use tiersim_models::units::Span;
use tiersim_models::workload::Trace;
use tiersim_policies::noted::{NotedOp, NotedPlan};
use tiersim_policies::policy::{Action, Lookahead};

/// The number of this form; what is added does not change it.
const SCHEMA: u32 = 1;

/// The plan of a case, of which a step takes so long in the mean.
pub fn plan(ask: &Ask<'_>, trace: &Trace, plan: &NotedPlan, step: Span) -> Back {
    let mut parts = Parts::new(ask);
    let policy = format!("{}({})", ask.case.policy.name(), ask.case.policy.details());
    let count = |ops: &[NotedOp]| ops.iter().map(|op| op.actions.len()).sum::<usize>();
    let words: Vec<String> = plan
        .replays
        .iter()
        .map(|replay| format!("{} actions from replay {} on", count(&replay.ops), replay.from))
        .collect();
    let at = parts.of_case("policy");
    parts.said(&at, policy, format!("{}, as `tiersim.Plan` follows it", words.join(", ")));
    if !plan.repeats() {
        let why = match plan.planned {
            1 => "the run is one replay: another may decide differently",
            _ => {
                "the last two replays of the run decide differently: the last is the one to repeat"
            }
        };
        parts.unsaid(&at, "what comes behind the run", why);
    }
    parts.aside(
        "workload, hardware",
        "ops, objects, tiers",
        "a plan names what it moves, and where",
    );
    parts.back(text(ask, trace, plan, step), None)
}

/// One line for each op, so that two plans can be compared line by line.
fn text(ask: &Ask<'_>, trace: &Trace, plan: &NotedPlan, step: Span) -> String {
    let tiers: Vec<&str> =
        ask.scenario.hardware.tiers.iter().map(|tier| tier.name.as_str()).collect();
    let mut out = String::from("{\n");
    let mut field = |key: &str, value: Value| {
        let _ = writeln!(out, "\"{key}\": {value},");
    };
    field("schema", json!(SCHEMA));
    field("case", json!(ask.case.label));
    field("policy", json!(ask.case.policy.name()));
    field(
        "lookahead",
        match plan.lookahead {
            Lookahead::Past => json!("past"),
            Lookahead::Window(ops) => json!(ops),
            Lookahead::Oracle => json!("oracle"),
        },
    );
    field("step_ps", json!(step.ps()));
    field("tiers", json!(tiers));
    field("ops", json!(trace.ops.len()));
    field("planned", json!(plan.planned));
    field("repeats", json!(plan.repeats()));
    field("start", json!(plan.start.iter().map(placed).collect::<Vec<_>>()));
    out.push_str("\"objects\": {");
    for (index, object) in mentioned(plan).into_iter().enumerate() {
        let named = &trace.objects[object.index()];
        let module = named.module.map(|module| &trace.modules[module.index()]);
        let value = json!({
            "name": named.name,
            "kind": named.kind.word(),
            "bytes": named.bytes.get(),
            "module": module,
        });
        let _ = write!(out, "{}\"{}\": {value}", if index == 0 { "\n" } else { ",\n" }, object.0);
    }
    out.push_str("\n},\n\"replays\": [");
    for (index, replay) in plan.replays.iter().enumerate() {
        let before = if index == 0 { "\n" } else { ",\n" };
        let _ = write!(out, "{before}{{\"from\": {}, \"ops\": [", replay.from);
        for (index, noted) in replay.ops.iter().enumerate() {
            let value = json!({
                "op": noted.op.0,
                "name": trace.ops[noted.op.index()].name,
                "do": noted.actions.iter().map(words).collect::<Vec<_>>(),
                "born": noted.born.iter().map(placed).collect::<Vec<_>>(),
            });
            let _ = write!(out, "{}{value}", if index == 0 { "\n" } else { ",\n" });
        }
        out.push_str("\n]}");
    }
    out.push_str("\n]\n}\n");
    out
}

fn placed(&(object, tier): &(ObjectId, TierId)) -> Value {
    json!([object.0, tier.0])
}

/// An action as a list: what, and whom it concerns.
fn words(action: &Action) -> Value {
    match *action {
        Action::Fetch { object, to } => json!(["fetch", object.0, to.0]),
        Action::Prefetch { object, to } => json!(["prefetch", object.0, to.0]),
        Action::Evict { object, from, to } => json!(["evict", object.0, from.0, to.0]),
        Action::Drop { object, tier } => json!(["drop", object.0, tier.0]),
        Action::InPlace { object } => json!(["in_place", object.0]),
        Action::Charge { tier, bytes } => json!(["charge", tier.0, bytes.get()]),
        Action::Delay { span } => json!(["delay", span.ps()]),
    }
}

fn mentioned(plan: &NotedPlan) -> BTreeSet<ObjectId> {
    let ops = || plan.replays.iter().flat_map(|replay| &replay.ops);
    let placed = plan.start.iter().chain(ops().flat_map(|noted| &noted.born));
    let moved = ops().flat_map(|noted| &noted.actions).filter_map(Action::object);
    placed.map(|&(object, _)| object).chain(moved).collect()
}
