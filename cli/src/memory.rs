//! `memory`: what training or serving a model needs of each GPU and node, by formula.
//!
//! Invariant: nothing is simulated and nothing is written; options that do not go together are refused.

mod options;
mod resolve;
pub(crate) mod typed;

pub(crate) use options::MemoryArgs;

use crate::args::Format;
use crate::output::{Failure, print};
use crate::runs::chart;
use resolve::{Asked, asked};
use tiersim_models::memory::Overflow;
use tiersim_models::memory::account::{Account, estimated, serving, structured, training};
use tiersim_reports::{memory_json, memory_text};

/// Prints the account of what was typed.
pub(crate) fn memory(args: &MemoryArgs) -> Result<(), Failure> {
    let account = account(&asked(args).map_err(Failure::Input)?)?;
    match args.format {
        Format::Text => print(&memory_text(&account)),
        Format::Json => print(&memory_json(&account, env!("CARGO_PKG_VERSION")).map_err(chart)?),
    }
}

fn account(asked: &Asked) -> Result<Account, Failure> {
    let too_large = |Overflow| {
        let rule = "an amount must be less than 2^128 bytes";
        Failure::Input(format!("{rule}; lower --sequence, --batch or the shape"))
    };
    match asked {
        Asked::Training(job) => training(job).map_err(too_large),
        Asked::Serving(job) => serving(job).map_err(too_large),
        Asked::Structured(job) => structured(job).map_err(too_large),
        Asked::Estimated(question, stage) => estimated(question, *stage).ok_or_else(|| {
            Failure::Input(
                "DeepSpeed's estimators count with floats, which are exact up to 2^53 bytes; lower \
                 --params, --nodes or --gpus-per-node"
                    .to_owned(),
            )
        }),
    }
}
