//! `serve`: results, sweeps on their way and one scenario with sliders, in a browser on this machine.
//!
//! Pages are those of `tiersim report`; what a slider sets goes to a session that stays
//! ([`simulator`]), so the answer is that of `tiersim run --set`. One thread serves all connections,
//! a few more read files, one simulates; each has a limit, and whoever is beyond it is told so.
//! What is asked for is looked up in a list of what there is ([`results`]), so no path of a request
//! is ever opened.
//! Invariant: nothing is written but, with `--edit`, the scenario's own file ([`edit`]), and no
//! request of a page of somebody else's is answered ([`guard`]).

mod answers;
mod connections;
mod edit;
mod guard;
mod metrics;
mod results;
mod routes;
mod simulator;
mod sweeps;

use crate::args::{assignment, scenario};
use crate::messages::say_note;
use crate::output::Failure;
use clap::Args as ClapArgs;
use edit::Editable;
use guard::{Bucket, Names};
use metrics::Counters;
use results::Results;
use simulator::Simulator;
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use sweeps::Watched;
use tiersim_input::shipped::EMBEDDED;
use tiersim_policies::zoo::Registry;

/// Threads that read files and make pages.
const READERS: usize = 2;

#[derive(Debug, ClapArgs)]
pub(crate) struct ServeArgs {
    /// A folder of results, or a scenario (a file, or the name of one that ships) to turn the
    /// numbers of beside those of `out` [default: out].
    #[arg(value_name = "DIR|SCENARIO", value_parser = scenario())]
    pub(crate) what: Option<PathBuf>,
    /// Where to listen; port 0 takes a free one.
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:7878")]
    pub(crate) listen: SocketAddr,
    /// Let the scenario's file be changed through its page, if `check` finds no problem in what is
    /// saved; only where nobody else can reach the server.
    #[arg(long)]
    pub(crate) edit: bool,
    /// Override any value of the scenario before anything is turned.
    #[arg(long = "set", value_name = "PATH=VALUE", value_parser = assignment)]
    pub(crate) set: Vec<(String, String)>,
}

/// All that requests are answered from.
struct Server {
    /// What is served, in words.
    title: String,
    names: Names,
    bucket: Mutex<Bucket>,
    results: Mutex<Results>,
    sweeps: Mutex<Watched>,
    simulator: Option<Simulator>,
    edit: Option<Editable>,
    counters: Counters,
}

/// Serves until it is told to end.
pub(crate) fn serve(args: &ServeArgs, registry: &Registry) -> Result<(), Failure> {
    let out = PathBuf::from("out");
    let (folder, file) = match &args.what {
        None => (out, None),
        Some(what) if what.is_dir() => (what.clone(), None),
        Some(what) => (out, Some(what)),
    };
    if let Some(what) = file.filter(|what| what.extension().is_none() && !what.exists()) {
        return Err(Failure::Input(format!(
            "{}: there is neither a folder of results nor a scenario of this name; run a scenario \
             first, or name one of `tiersim scenario list`",
            what.display()
        )));
    }
    if args.what.as_ref() == Some(&folder) || file.is_none() {
        refuse_without_scenario(args, &folder)?;
    }
    if args.edit && !args.listen.ip().is_loopback() {
        return Err(Failure::Input(format!(
            "--edit with --listen {}: anybody who reaches this address could change the file; \
             listen on 127.0.0.1, or leave out --edit",
            args.listen
        )));
    }
    let counters = Counters::default();
    let edit = file.filter(|_| args.edit).map(|file| Editable::new(file, registry)).transpose()?;
    let simulator = file.map(|file| Simulator::start(file, &args.set, registry, &counters));
    let simulator = simulator.transpose()?;
    let wrong = |error: std::io::Error| {
        let remedy = match error.kind() {
            ErrorKind::AddrInUse => "; choose another port, or 0 for a free one",
            ErrorKind::AddrNotAvailable => "; listen on an address of this machine",
            ErrorKind::PermissionDenied => "; choose a port from 1024 on",
            _ => "",
        };
        Failure::Input(format!("--listen {}: {error}{remedy}", args.listen))
    };
    let listener = TcpListener::bind(args.listen).map_err(wrong)?;
    let address = listener.local_addr().map_err(wrong)?;
    let title = match file {
        // One that ships is called by what is typed.
        Some(file) => file.strip_prefix(EMBEDDED).unwrap_or(file).display().to_string(),
        None => format!("Results in {}", folder.display()),
    };
    let server = Server {
        names: Names::of(address.ip()),
        bucket: Mutex::new(Bucket::full()),
        results: Mutex::new(Results::of(&folder)),
        sweeps: Mutex::default(),
        title: title.clone(),
        simulator,
        edit,
        counters,
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(READERS)
        .build()
        .map_err(|error| Failure::Input(format!("cannot serve: {error}")))?;
    let router = routes::router(Arc::new(server));
    let served = runtime.block_on(async {
        let listening = connections::listening(listener).map_err(wrong)?;
        say_note(&title, &format!("served at http://{address}/; Ctrl-C ends it"));
        connections::serve(listening, router).await.map_err(wrong)
    });
    // What is still being read or simulated is of no use to anybody.
    runtime.shutdown_background();
    served
}

/// Without a scenario there must be a folder, and nothing that only a scenario can have.
fn refuse_without_scenario(args: &ServeArgs, folder: &Path) -> Result<(), Failure> {
    if !folder.is_dir() {
        return Err(Failure::Input(format!(
            "{}: there is no such folder; run a scenario first, or name one: tiersim serve SCENARIO",
            folder.display()
        )));
    }
    let options = [("--edit", args.edit), ("--set", !args.set.is_empty())];
    match options.into_iter().find(|(_, is)| *is) {
        Some((option, _)) => Err(Failure::Input(format!(
            "{option}: {} is a folder of results; name a scenario instead of it",
            folder.display()
        ))),
        None => Ok(()),
    }
}
