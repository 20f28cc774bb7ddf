//! `memory`: what training or serving a model needs of each GPU and node, by formula.
//!
//! Invariant: nothing is simulated and nothing is written; options that do not go together are
//! refused.

mod fit;
mod model;
mod options;
mod resolve;

pub(crate) use options::MemoryArgs;

use crate::VERSION;
use crate::output::{Failure, Format, print, print_exact};
use resolve::{MemoryQuestion, asked};
use tiersim_models::results::memory_account::Account;
use tiersim_reports::words::clean;
use tiersim_reports::{
    FitTarget, memory_fit_json, memory_fit_text, memory_json, memory_switches_json,
    memory_switches_text, memory_text,
};
use tiersim_workloads::memory::Overflow;
use tiersim_workloads::memory::account::{Training, advised, estimated, serving, structured};
use tiersim_workloads::memory::fit::serving::fit as serving_fit;
use tiersim_workloads::memory::fit::switches::switches;
use tiersim_workloads::memory::fit::{Pace, fit};

/// Prints the account of what was typed.
pub(crate) fn memory(args: &MemoryArgs) -> Result<(), Failure> {
    let model = model::model(args)?;
    let asked = asked(args, model.as_ref()).map_err(Failure::Input)?;
    let account = account(&asked)?;
    if let Some(gpu) = &args.fit {
        return fitted(&asked, &account, gpu, args.format);
    }
    if let (Some(gpu), MemoryQuestion::Training(job)) = (&args.table, &asked) {
        return tabled(job, &account, gpu, args.format);
    }
    match args.format {
        Format::Text => print(&memory_text(&account)),
        Format::Json => print_exact(&memory_json(&account, VERSION)?),
    }
}

/// Prints the account and what makes the job fit; fails if nothing does.
fn fitted(
    asked: &MemoryQuestion,
    account: &Account,
    gpu: &str,
    format: Format,
) -> Result<(), Failure> {
    let (target, found) = match asked {
        MemoryQuestion::Training(job) => {
            let target = fit::target("--fit", gpu, job.weights)?;
            let found = fit(job, &target.budget, &pace(job, &target)).map_err(too_large)?;
            (target, found)
        }
        MemoryQuestion::Serving(job) => {
            let target = fit::target("--fit", gpu, job.weights)?;
            let found = serving_fit(job, &target.budget, &target.rates).map_err(too_large)?;
            (target, found)
        }
        MemoryQuestion::Structured(_) | MemoryQuestion::Estimated(..) => {
            return Err(Failure::Internal("--fit of what has no knobs".to_owned()));
        }
    };
    match format {
        Format::Text => print(&memory_fit_text(account, &target, &found))?,
        Format::Json => {
            print_exact(&memory_fit_json(account, &target, &found, VERSION)?)?;
        }
    }
    if found.least.is_empty() {
        let tried = found.tried;
        let place = clean(gpu);
        let failed = format!("--fit {place}: none of {tried} settings fits; use more GPUs");
        return Err(Failure::Expectation(vec![failed]));
    }
    Ok(())
}

/// How quick a job is there.
fn pace<'a>(job: &Training, target: &'a FitTarget) -> Pace<'a> {
    let device = target.device.as_ref().map(|device| (device, job.weights.word()));
    Pace { rates: target.rates, device }
}

/// Prints the account and what every switch of the job saves and costs.
fn tabled(job: &Training, account: &Account, gpu: &str, format: Format) -> Result<(), Failure> {
    let target = fit::target("--table", gpu, job.weights)?;
    let found = switches(job, &target.budget, &pace(job, &target)).map_err(too_large)?;
    match format {
        Format::Text => print(&memory_switches_text(account, &target, &found)),
        Format::Json => print_exact(&memory_switches_json(account, &target, &found, VERSION)?),
    }
}

fn too_large(_: Overflow) -> Failure {
    let rule = "an amount must be less than 2^128 bytes, and a tensor less than 2^64";
    Failure::Input(format!("{rule}; lower --sequence, --batch or the shape"))
}

fn account(asked: &MemoryQuestion) -> Result<Account, Failure> {
    match asked {
        MemoryQuestion::Training(job) => advised(job).map_err(too_large),
        MemoryQuestion::Serving(job) => serving(job).map_err(too_large),
        MemoryQuestion::Structured(job) => structured(job).map_err(too_large),
        MemoryQuestion::Estimated(question, stage) => {
            estimated(question, *stage).ok_or_else(|| {
                Failure::Input(
                "DeepSpeed's estimators count with floats, which are exact up to 2^53 bytes; lower \
                 --params, --nodes or --gpus-per-node"
                    .to_owned(),
            )
            })
        }
    }
}
