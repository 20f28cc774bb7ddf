//! Options that several verbs have. Only what they say; what they mean is worked out elsewhere.

use crate::VERSION;
use crate::output::{Failure, Format};
use clap::builder::{PathBufValueParser, TypedValueParser};
use clap::{ArgAction, Args as ClapArgs, ValueEnum};
use std::path::PathBuf;
use tiersim_reports::{Made, Pictures, Style};
use tiersim_sim::run::BoundMethod;
use tiersim_validation::real::Kind;

#[derive(Debug, ClapArgs)]
pub(crate) struct Common {
    /// Override any value of the scenario, such as seed=7; elements of a list by number from 0 or
    /// by name.
    #[arg(long = "set", value_name = "PATH=VALUE", value_parser = assignment)]
    pub(crate) set: Vec<(String, String)>,
    /// Override the scenario's seed.
    #[arg(long)]
    pub(crate) seed: Option<u64>,
    /// Check capacity, hazards, conservation and Little's law after every event.
    #[arg(long)]
    pub(crate) audit: bool,
    /// Worker threads; all cores without it. No output depends on it.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) jobs: Option<u16>,
    /// Folder to write to [default: out/SCENARIO].
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// What charts are made for.
    #[arg(long, value_enum, default_value_t = StyleName::Screen)]
    pub(crate) style: StyleName,
    /// Write charts as SVG only, which is quicker.
    #[arg(long)]
    pub(crate) no_png: bool,
    /// Leave out the curve of the least step over budgets of HBM, which charts show; cases keep
    /// their own bounds.
    #[arg(long)]
    pub(crate) no_bound_curve: bool,
    /// How the least step of any policy is worked out.
    #[arg(long, value_enum, default_value_t = BoundName::Quick)]
    pub(crate) bound: BoundName,
    /// Write report.html as well: all results on one page that opens offline.
    #[arg(long)]
    pub(crate) report: bool,
    /// What to print on stdout; of several scenarios `json` is one list.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
    /// Print every figure on wide lines: percentiles, traffic, stalls, memory of every tier, costs.
    #[arg(long)]
    pub(crate) wide: bool,
    /// Print nothing but problems.
    #[arg(short, long, action = ArgAction::SetTrue)]
    pub(crate) quiet: bool,
    /// What counts as a failure too: exit 2 before anything is written, or 1 where only the results
    /// show it.
    #[arg(long, value_enum, value_name = "WHAT")]
    pub(crate) deny: Option<Deny>,
}

/// A scenario's file, or the name of one that ships.
pub(crate) fn scenario() -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().map(|path| tiersim_input::project::scenario(&path))
}

/// Options of a question about one scenario, which is run many times for its answer.
#[derive(Debug, ClapArgs)]
pub(crate) struct Question {
    /// A scenario file, or the name of one that ships.
    #[arg(value_name = "SCENARIO", value_parser = scenario())]
    pub(crate) scenario: PathBuf,
    /// Override any value of the scenario or, behind `hardware.`, of its machine.
    #[arg(long = "set", value_name = "PATH=VALUE", value_parser = assignment)]
    pub(crate) set: Vec<(String, String)>,
    /// Override the scenario's seed.
    #[arg(long)]
    pub(crate) seed: Option<u64>,
    /// Worker threads; all cores without it. No output depends on it.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) jobs: Option<u16>,
    /// Folder to write to [default: out/SCENARIO- and the verb].
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// What to print on stdout.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
    /// What charts are made for.
    #[arg(long, value_enum, default_value_t = StyleName::Screen)]
    pub(crate) style: StyleName,
    /// Print nothing but problems.
    #[arg(short, long, action = ArgAction::SetTrue)]
    pub(crate) quiet: bool,
}

/// How bounds are worked out, by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum BoundName {
    /// From the bytes that must cross between tiers, in a moment.
    Quick,
    /// From a linear program that sees when they can cross as well, where that is later; takes
    /// seconds.
    Lp,
}

impl BoundName {
    pub(crate) fn method(self) -> BoundMethod {
        match self {
            BoundName::Quick => BoundMethod::Quick,
            BoundName::Lp => BoundMethod::Lp,
        }
    }
}

/// What charts are made for, by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum StyleName {
    /// A page on a screen.
    Screen,
    /// A slide of 16:9, large type.
    Slide,
    /// One column of a paper: 84 mm, 8 points, no title.
    Paper,
}

impl StyleName {
    /// By this tiersim, for what was said.
    pub(crate) fn made(self) -> Made<'static> {
        let style = match self {
            StyleName::Screen => Style::Screen,
            StyleName::Slide => Style::Slide,
            StyleName::Paper => Style::Paper,
        };
        Made { version: VERSION, style }
    }
}

impl Common {
    /// Which pictures charts become.
    pub(crate) fn pictures(&self) -> Pictures {
        if self.no_png { Pictures::Svg } else { Pictures::Both }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Deny {
    /// Every warning of the lint.
    Warnings,
}

#[derive(Clone, Copy, Debug, ClapArgs)]
pub(crate) struct MachineArgs {
    /// The real machine.
    #[arg(long, value_enum)]
    machine: RealMachine,
    /// Which CUDA device, counted from 0 [default: 0]; with --machine cuda only.
    #[arg(long, value_name = "N")]
    device: Option<u16>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum RealMachine {
    /// This machine's memory and files.
    Host,
    /// A CUDA device.
    Cuda,
}

impl MachineArgs {
    /// The machine and the number of its device. The host is one machine: a number for it is
    /// refused.
    pub(crate) fn which(self) -> Result<(Kind, usize), Failure> {
        match (self.machine, self.device) {
            (RealMachine::Host, None) => Ok((Kind::Host, 0)),
            (RealMachine::Host, Some(number)) => Err(Failure::Input(format!(
                "--device {number}: only a CUDA machine has devices to choose from; leave it out, or \
                 use --machine cuda"
            ))),
            (RealMachine::Cuda, asked) => Ok((Kind::Cuda, asked.map_or(0, usize::from))),
        }
    }
}

pub(crate) fn assignment(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((path, value)) if !path.is_empty() => Ok((path.to_owned(), value.to_owned())),
        _ => Err("write PATH=VALUE, such as seed=7".to_owned()),
    }
}
