//! `to`: a case of a scenario in the words of a framework.
//!
//! Invariant: stdout has what the framework reads and nothing else; stderr says of every part of the
//! scenario what became of it.

use crate::args::{assignment, scenario};
use crate::hardware::machine;
use crate::messages::{say_lines, say_note, say_warnings};
use crate::output::{Failure, print_exact};
use crate::runs::feasible;
use clap::{Args, Subcommand};
use std::path::{Path, PathBuf};
use tiersim_input::guide::{
    Ask, Back, Engine, Part, Told, to_deepspeed, to_device_map, to_fsdp, to_plan, to_server,
};
use tiersim_input::scenario::read::read_scenario_with;
use tiersim_input::text::ron_text::Document;
use tiersim_input::traces::read_traces;
use tiersim_policies::zoo::Registry;
use tiersim_sim::explain::chosen;
use tiersim_sim::run::{CaseRunner, Options};

#[derive(Debug, Args)]
pub(crate) struct ToArgs {
    #[command(subcommand)]
    framework: Framework,
}

#[derive(Debug, Subcommand)]
enum Framework {
    /// A ds_config.json of DeepSpeed, of a scenario that trains.
    #[command(
        name = "deepspeed",
        after_help = "Examples:\n  tiersim to deepspeed scenarios/guide-a100.ron"
    )]
    DeepSpeed(CaseArgs),
    /// The file of `accelerate config` for FSDP, of a scenario that trains.
    #[command(after_help = "Examples:\n  tiersim to fsdp scenarios/guide-a100.ron")]
    Fsdp(CaseArgs),
    /// The command line of `vllm serve`, of a scenario that generates or serves.
    #[command(
        after_help = "Examples:\n  tiersim to vllm scenarios/llama-2-13b-24gb-serving.ron --case 'all in HBM'"
    )]
    Vllm(CaseArgs),
    /// The command line of SGLang's server, likewise.
    #[command(after_help = "Examples:\n  tiersim to sglang scenarios/llama-3-70b-serve-8.ron")]
    Sglang(CaseArgs),
    /// A device_map of Hugging Face accelerate, of a case that places weights.
    #[command(
        after_help = "Examples:\n  tiersim to device-map scenarios/gpt2-adam-tiering.ron --case 'Adam 30 %'"
    )]
    DeviceMap(MapArgs),
    /// What a case's policy decides of every op: copies, evictions, uses in place; `tiersim.Plan` in
    /// Python follows it.
    #[command(
        after_help = "Examples:\n  tiersim to plan scenarios/policy-contest.ron --case 'clairvoyant 70 %'"
    )]
    Plan(CaseArgs),
}

#[derive(Debug, Args)]
struct CaseArgs {
    /// A scenario file, or the name of one that ships.
    #[arg(value_name = "SCENARIO", value_parser = scenario())]
    scenario: PathBuf,
    /// The policy's name in the scenario [default: the first that is not `AllHbm`].
    #[arg(long, value_name = "LABEL")]
    case: Option<String>,
    /// Override any value of the scenario.
    #[arg(long = "set", value_name = "PATH=VALUE", value_parser = assignment)]
    set: Vec<(String, String)>,
}

#[derive(Debug, Args)]
struct MapArgs {
    #[command(flatten)]
    of: CaseArgs,
    /// Print `max_memory` in the place of the map: bytes of the card and of the host's memory.
    #[arg(long)]
    max_memory: bool,
}

/// Letters of a value that are shown.
const MOST: usize = 200;

/// A heading, and which parts stand below it.
type Group = (&'static str, fn(&Told) -> bool);

/// Prints a case for a framework, and what became of each part of it.
pub(crate) fn to(args: &ToArgs, registry: &Registry) -> Result<(), Failure> {
    let (Framework::DeepSpeed(of)
    | Framework::Fsdp(of)
    | Framework::Vllm(of)
    | Framework::Sglang(of)
    | Framework::Plan(of)
    | Framework::DeviceMap(MapArgs { of, .. })) = &args.framework;
    let scenario = read_scenario_with(&of.scenario, &of.set, registry)?;
    let case = chosen(&scenario, of.case.as_deref()).map_err(Failure::Input)?;
    let model = model(&of.scenario, &of.set)?;
    let known = machine(&scenario.hardware.name).ok().map(|(_, machine)| machine);
    let ask = Ask {
        file: &of.scenario,
        scenario: &scenario,
        case,
        model: model.as_deref(),
        machine: known.as_ref(),
    };
    let back = match &args.framework {
        Framework::DeepSpeed(_) => to_deepspeed(&ask)?,
        Framework::Fsdp(_) => to_fsdp(&ask)?,
        Framework::Vllm(_) => to_server(&ask, Engine::Vllm)?,
        Framework::Sglang(_) => to_server(&ask, Engine::Sglang)?,
        Framework::DeviceMap(map) => placed(&ask, map.max_memory)?,
        Framework::Plan(_) => planned(&ask)?,
    };
    say_warnings(&scenario.name, &scenario.warnings);
    report(&scenario.name, &back);
    print_exact(&back.text)
}

/// A map is of the modules of the trace, and of the memory that the case may use.
fn placed(ask: &Ask<'_>, max_memory: bool) -> Result<Back, Failure> {
    let traces = read_traces([ask.scenario])?;
    let workload = traces.of(ask.scenario);
    feasible([ask.scenario], &traces)?;
    let runner = CaseRunner::new(ask.scenario, workload, Options::default())?;
    Ok(to_device_map(ask, &workload.trace, &runner.memory_of(ask.case)?, max_memory)?)
}

/// What its policy decides in the replays of its run.
fn planned(ask: &Ask<'_>) -> Result<Back, Failure> {
    let traces = read_traces([ask.scenario])?;
    let workload = traces.of(ask.scenario);
    feasible([ask.scenario], &traces)?;
    let options = Options { audit: false, ..Options::default() };
    let runner = CaseRunner::new(ask.scenario, workload, options)?;
    let (plan, figures) = runner.noted(ask.case, options)?;
    Ok(to_plan(ask, &workload.trace, &plan, figures.mean_step()))
}

/// The model as the scenario names it.
fn model(file: &Path, set: &[(String, String)]) -> Result<Option<String>, Failure> {
    let plain = |text: &str| text.trim().trim_matches('"').to_owned();
    if let Some((_, value)) = set.iter().rfind(|(path, _)| path == "workload.model") {
        return Ok(Some(plain(value)));
    }
    Ok(Document::read(file)?.value("workload.model").map(|text| plain(&text)))
}

/// What became of each part: what is said, what others say, and what nobody does.
fn report(name: &str, back: &Back) {
    let groups: [Group; 3] = [
        ("said", |told| matches!(told, Told::Said(_) | Told::Implied(_) | Told::OneWay(_))),
        ("said by the command or the program", |told| matches!(told, Told::Asked(_))),
        ("not said", |told| matches!(told, Told::Unsaid(_) | Told::Aside(_))),
    ];
    let mut lines = Vec::new();
    for (head, is_one) in groups {
        let found: Vec<String> =
            back.parts.iter().filter(|part| is_one(&part.told)).map(line).collect();
        if !found.is_empty() {
            lines.push(head.to_owned());
            lines.extend(found.iter().map(|line| format!("  {line}")));
        }
    }
    if let Some(from) = &back.from {
        let same = if back.is_whole() { "the same case" } else { "what is said of it" };
        lines.push(format!("read back, {same}: {from}"));
    }
    if crate::messages::for_a_program() {
        lines.iter().for_each(|line| say_note(name, line.trim_start()));
    } else {
        say_lines(&lines);
    }
}

fn line(part: &Part) -> String {
    let Part { at, value, told } = part;
    let mut value = value.clone();
    if let Some((cut, _)) = value.char_indices().nth(MOST) {
        value.truncate(cut);
        value.push_str("...");
    }
    let words = match told {
        Told::Said(words) | Told::Asked(words) | Told::Unsaid(words) | Told::Aside(words) => {
            words.clone()
        }
        Told::Implied(words) => format!("{words}, as always"),
        Told::OneWay(words) => format!("{words}, which is not read back"),
    };
    format!("{at}: {value} -> {words}")
}
