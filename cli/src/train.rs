//! `train-policy`: weights of a policy, found in the simulator.
//!
//! Invariant: the file appears only when the search has ended.

use crate::args::assignment;
use crate::output::{Failure, print, write_each};
use crate::progress;
use crate::runs::{Instead, read_all, use_threads};
use clap::{ArgAction, Args as ClapArgs};
use std::path::PathBuf;
use tiersim_input::scenario::fingerprint::fingerprint;
use tiersim_input::scenario::weights::weights_text;
use tiersim_policies::scenario::weights::WeightFile;
use tiersim_policies::zoo::Registry;
use tiersim_reports::words::clean;
use tiersim_sim::train::cross_entropy::Search;
use tiersim_sim::train::train;

#[derive(Debug, ClapArgs)]
pub(crate) struct TrainArgs {
    /// A scenario file with cases that use Scored or LearnedPlacement; the mean of their slowdowns is lowered.
    #[arg(value_name = "SCENARIO", value_parser = crate::args::scenario())]
    scenario: PathBuf,
    /// File to write [default: out/SCENARIO/weights.ron].
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// How often the distribution of weights is refitted.
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    generations: u32,
    /// Weights that are tried per generation.
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u32).range(4..=100_000))]
    population: u32,
    /// Seed of the draws of weights; the scenario keeps its own.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Worker threads; all cores without it. No output depends on it.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    jobs: Option<u16>,
    /// Override any value of the scenario.
    #[arg(long = "set", value_name = "PATH=VALUE", value_parser = assignment)]
    set: Vec<(String, String)>,
    /// Print nothing but problems.
    #[arg(short, long, action = ArgAction::SetTrue)]
    quiet: bool,
}

/// Trains, writes the file, says what it is worth where it was trained.
pub(crate) fn train_policy(args: &TrainArgs, registry: &Registry) -> Result<(), Failure> {
    use_threads(args.jobs)?;
    let (scenarios, traces) =
        read_all(std::slice::from_ref(&args.scenario), &args.set, registry, &Instead::default())?;
    let scenario = &scenarios[0];
    let TrainArgs { generations, population, seed, .. } = *args;
    let search = Search { generations, population, seed };
    let stamp = fingerprint(scenario, traces.hash(scenario));
    let bar = progress::bar(generations as usize, true);
    let heard = |best: f64| {
        bar.set_message(format!("generations, mean slowdown {best:.4}"));
        bar.inc(1);
        bar.show(args.quiet);
    };
    let file = train(scenario, traces.of(scenario), stamp, search, heard)?;
    bar.finish_and_clear();
    let default = || PathBuf::from("out").join(&scenario.name).join("weights.ron");
    let out = args.out.clone().unwrap_or_else(default);
    write_each(&[(out.clone(), weights_text(&file).as_bytes())])?;
    if args.quiet {
        return Ok(());
    }
    print(&format!("{}written to {}\n", said(&file), out.display()))
}

fn said(file: &WeightFile) -> String {
    let trained = file.trained.as_ref().expect("it was trained just now");
    let mut text = format!(
        "{}: {} generations of {}, seed {}\nmean slowdown of {} case(s): {:.4} before, {:.4} after\n\n",
        clean(&trained.scenario),
        trained.generations,
        trained.population,
        trained.seed,
        trained.cases.len(),
        trained.before,
        trained.after,
    );
    for (feature, weight) in &file.weights {
        text += &format!("  {feature:<14}{weight:>10.4}\n");
    }
    text + "\n"
}
