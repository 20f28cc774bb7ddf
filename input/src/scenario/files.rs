//! The files that a scenario may name, each read once.
//!
//! Where they are, [`Project`] knows.

use crate::hardware_file::changed::{Drawn, MachineText};
use crate::hardware_file::{read_hardware, read_hardware_of};
use crate::import::card::ModelFiles;
use crate::project::{PathFault, Project};
use crate::scenario::hints::{HintFile, read_hints};
use crate::scenario::statistics_file::read_statistics;
use crate::scenario::weights::read_weights;
use crate::scenario::{Said, Scenario, Terms, WorkloadSpec};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tiersim_models::diagnostic::Diagnostics;
use tiersim_models::hardware::Hardware;
use tiersim_models::statistics::Given;
use tiersim_policies::scenario::weights::WeightFile;
use tiersim_policies::zoo::Registry;

/// What a named file turned out to be.
#[derive(Clone, Debug)]
pub enum Lookup<T> {
    /// Read.
    Good(Arc<T>),
    /// It cannot be reached from here.
    Path(PathFault),
    /// It was read and is wrong.
    Wrong(Diagnostics),
}

/// What a model turned out to be.
#[derive(Clone, Debug)]
pub(crate) enum ModelLookup {
    /// As any other file.
    Model(Lookup<ModelFiles>),
    /// The file of its weights cannot be reached.
    Weights(PathFault),
}

/// What is remembered of one kind of file, by name.
type Known<T> = BTreeMap<String, Lookup<T>>;

/// `this`, or the one before it if that is equal.
fn as_before<T: PartialEq>(before: &mut Option<Arc<T>>, this: Arc<T>) -> Arc<T> {
    match before {
        Some(known) if **known == *this => known.clone(),
        _ => before.insert(this).clone(),
    }
}

/// A machine that was taken in the place of several.
#[derive(Clone, Debug)]
pub(crate) struct Taken {
    /// What the several are called.
    pub(crate) labels: Vec<String>,
    /// Which of them it is, if it is one of them.
    pub(crate) own: Option<usize>,
}

/// Finds and remembers files.
#[derive(Clone, Debug)]
pub struct Files {
    project: Project,
    /// The policies that the scenario can name.
    pub(super) registry: Registry,
    paths: BTreeMap<String, Result<PathBuf, PathFault>>,
    hardware: Known<Hardware>,
    texts: Known<MachineText>,
    hints: Known<HintFile>,
    weights: Known<WeightFile>,
    statistics: Known<Vec<Given>>,
    /// By name and file of weights.
    pub(super) models: BTreeMap<(String, Option<String>), ModelLookup>,
    machines: BTreeMap<Vec<u64>, Vec<Arc<Hardware>>>,
    /// The first of these.
    like: Option<Arc<Hardware>>,
    /// Those of the point that was read last.
    workload: Option<Arc<WorkloadSpec>>,
    said: Option<Arc<Said>>,
    /// Those of cases.
    terms: Vec<Arc<Terms>>,
    /// Values that uncertain numbers of all machines have; none where they are as written.
    pub(super) drawn: Drawn,
    /// The machine that was taken in the place of several, if one was.
    pub(super) taken: Option<Taken>,
}

impl Files {
    /// For the scenario file at `scenario`.
    pub fn around(scenario: &Path, registry: &Registry) -> Result<Files, Diagnostics> {
        let folder = scenario.parent().unwrap_or(Path::new(""));
        let project = Project::around(folder).map_err(|error| {
            let rule = "the scenario's folder cannot be read";
            Diagnostics::one(scenario, None, rule, error.to_string(), "check the path")
        })?;
        let (paths, models, machines, workload, drawn) = Default::default();
        let (hardware, texts, hints, weights, statistics) = Default::default();
        let (terms, said, like, taken) = Default::default();
        let registry = registry.clone();
        Ok(Files {
            project,
            registry,
            paths,
            hardware,
            texts,
            hints,
            weights,
            statistics,
            models,
            machines,
            like,
            workload,
            said,
            terms,
            drawn,
            taken,
        })
    }

    /// The file or folder that the scenario calls `name`.
    pub fn path(&mut self, name: &str) -> Result<PathBuf, PathFault> {
        let path = || self.project.path(name);
        self.paths.entry(name.to_owned()).or_insert_with(path).clone()
    }

    /// The machine called `name`: a spec of the project or of the command, such as `host-smoke` or
    /// `measured/host`, or a file if the name ends in `.ron`.
    pub fn hardware(&mut self, name: &str) -> Lookup<Hardware> {
        let project = &self.project;
        once(&mut self.hardware, name, || match name.ends_with(".ron") {
            true => found(project.path(name), read_hardware),
            false => found(project.machine(name), |path| read_hardware_of(path, project)),
        })
    }

    /// The text of the machine called `name`, to be changed.
    pub(crate) fn machine_text(&mut self, name: &str) -> Lookup<MachineText> {
        let project = &self.project;
        once(&mut self.texts, name, || match name.ends_with(".ron") {
            true => found(project.path(name), |path| MachineText::read(path, None)),
            false => found(project.machine(name), |path| MachineText::read(path, Some(project))),
        })
    }

    /// `machine`, or one that is equal to it and already in use: points of a sweep that have the
    /// same machine share it, and those that differ share what they have alike.
    pub fn shared(&mut self, mut machine: Arc<Hardware>) -> Arc<Hardware> {
        let capacities = machine.tiers.iter().map(|tier| tier.capacity.most().get()).collect();
        let alike = self.machines.entry(capacities).or_default();
        if let Some(known) = alike.iter().find(|known| **known == machine) {
            return known.clone();
        }
        match &self.like {
            Some(like) => Arc::make_mut(&mut machine).share(like),
            None => self.like = Some(machine.clone()),
        }
        // Machines with equal capacities differ by name or by how a capacity is written: few.
        if alike.len() < 64 {
            alike.push(machine.clone());
        }
        machine
    }

    /// `workload`, or the one before it if that is equal: points of a sweep that have the same
    /// workload share it.
    pub fn shared_workload(&mut self, workload: impl Into<Arc<WorkloadSpec>>) -> Arc<WorkloadSpec> {
        as_before(&mut self.workload, workload.into())
    }

    /// The same of what a scenario says beside what it runs.
    pub fn shared_said(&mut self, said: impl Into<Arc<Said>>) -> Arc<Said> {
        as_before(&mut self.said, said.into())
    }

    /// `terms`, or equal ones that are in use: points of a sweep whose cases run under the same
    /// share them.
    pub fn shared_terms(&mut self, terms: impl Into<Arc<Terms>>) -> Arc<Terms> {
        let terms = terms.into();
        if let Some(known) = self.terms.iter().find(|known| ***known == *terms) {
            return known.clone();
        }
        // A case differs from point to point by its policy, or by its terms.
        if self.terms.len() < 64 {
            self.terms.push(terms.clone());
        }
        terms
    }

    /// The scenario with all that it shares with points that were read before, here or elsewhere.
    pub(crate) fn shares(&mut self, mut scenario: Scenario) -> Scenario {
        scenario.hardware = self.shared(scenario.hardware);
        scenario.workload = self.shared_workload(scenario.workload);
        scenario.said = self.shared_said(scenario.said);
        for case in &mut scenario.cases {
            case.terms = self.shared_terms(case.terms.clone());
        }
        scenario
    }

    /// The hint file called `name`.
    pub fn hints(&mut self, name: &str) -> Lookup<HintFile> {
        once(&mut self.hints, name, || found(self.project.path(name), read_hints))
    }

    /// The file of trained weights called `name`.
    pub fn weights(&mut self, name: &str) -> Lookup<WeightFile> {
        let read = |path: &Path| read_weights(path, &self.registry);
        once(&mut self.weights, name, || found(self.project.path(name), read))
    }

    /// The table of statistics called `name`.
    pub fn statistics(&mut self, name: &str) -> Lookup<Vec<Given>> {
        once(&mut self.statistics, name, || found(self.project.path(name), read_statistics))
    }
}

/// What is known of `name`, read if nothing is.
fn once<T: Clone>(known: &mut Known<T>, name: &str, read: impl FnOnce() -> Lookup<T>) -> Lookup<T> {
    known.entry(name.to_owned()).or_insert_with(read).clone()
}

fn found<T>(
    path: Result<PathBuf, PathFault>,
    read: impl Fn(&Path) -> Result<T, Diagnostics>,
) -> Lookup<T> {
    match path.map(|path| read(&path)) {
        Ok(Ok(value)) => Lookup::Good(Arc::new(value)),
        Ok(Err(problems)) => Lookup::Wrong(problems),
        Err(fault) => Lookup::Path(fault),
    }
}
