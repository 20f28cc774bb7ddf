//! From `workload: Model(...)` to what is done with a model: a card, formats, and a mode.
//!
//! The model is named or read from its own files ([`crate::import::card`]), once per scenario file.
//! What is left out has the default that the doc comment of its field states.

use crate::import::card::{ModelFiles, known_model, known_names, read_model};
use crate::scenario::TraceSource;
use crate::scenario::files::{Files, Lookup, ModelLookup};
use crate::scenario::modes::Setting;
use crate::scenario::raw::RawModelled;
use crate::scenario::raw::card::{RawFormats, RawWeights};
use crate::scenario::raw::work::RawWork;
use crate::scenario::resolver::Resolver;
use crate::text::choices::choices;
use std::sync::Arc;
use tiersim_models::diagnostic::Warning;
use tiersim_models::hardware::Hardware;
use tiersim_workloads::transformer::Work;
use tiersim_workloads::transformer::format::{Format, Formats};
use tiersim_workloads::transformer::generation::Generation;
use tiersim_workloads::transformer::training::TrainingRun;

/// The rule that says where weights and card disagree.
const RULE: &str = "weights-differ";

impl Files {
    /// The model called `name`: a known one, or a `config.json` if the name ends in `.json`; with
    /// the sizes of its weights, if the scenario names them.
    pub(crate) fn model(&mut self, name: &str, weights: Option<&str>) -> ModelLookup {
        let key = (name.to_owned(), weights.map(str::to_owned));
        if let Some(known) = self.models.get(&key) {
            return known.clone();
        }
        let found = self.find_model(name, weights);
        self.models.insert(key, found.clone());
        found
    }

    fn find_model(&mut self, name: &str, weights: Option<&str>) -> ModelLookup {
        let weights = match weights.map(|weights| self.path(weights)).transpose() {
            Ok(weights) => weights,
            Err(fault) => return ModelLookup::Weights(fault),
        };
        let read = if name.ends_with(".json") {
            match self.path(name) {
                Ok(path) => read_model(&path, weights.as_deref()),
                Err(fault) => return ModelLookup::Model(Lookup::Path(fault)),
            }
        } else {
            match known_model(name, weights.as_deref()) {
                Some(read) => read,
                None => {
                    let remedy = format!(
                        "{}; or give the path of a config.json, which ends in .json",
                        choices(name, &known_names())
                    );
                    let rule = "no model of this name is known".to_owned();
                    return ModelLookup::Model(Lookup::Path((rule, remedy)));
                }
            }
        };
        ModelLookup::Model(match read {
            Ok(model) => Lookup::Good(Arc::new(model)),
            Err(problems) => Lookup::Wrong(problems),
        })
    }
}

impl Resolver<'_, '_> {
    /// What is done with the model that `raw` names, and the ranks of one server that do it.
    pub(crate) fn modelled(
        &mut self,
        raw: &RawModelled,
        hardware: Option<&Arc<Hardware>>,
    ) -> Option<(TraceSource, u32)> {
        let RawModelled {
            model: name,
            card: raw_card,
            weights,
            precision,
            formats,
            tied,
            mode,
            ..
        } = raw;
        let devices = hardware.map(|hardware| hardware.server.devices);
        if let RawWork::Semiseparable(raw) = mode {
            for (at, said) in [
                ("workload.model", name.is_some()),
                ("workload.card", raw_card.is_some()),
                ("workload.weights", weights.is_some()),
                ("workload.formats", formats.is_some()),
                ("workload.tied", tied.is_some()),
            ] {
                if said {
                    let rule = "structured operators stand in the place of a model";
                    self.check.fault(at, rule, "leave it out; `precision` is that of U and V");
                    return None;
                }
            }
            let operators = self.operators(raw, precision.as_ref(), devices?)?;
            let ranks = operators.ranks.min(operators.devices);
            return Some((TraceSource::Model(Work::Operators(operators)), ranks));
        }
        let model = match (raw_card, name) {
            (Some(card), _) => ModelFiles::card(self.spelled(card, raw)?),
            // What is trained is not stored as it is published.
            (None, Some(name)) => match (self.named(name, weights.as_deref())?, mode) {
                (model, RawWork::Train(_)) => model,
                (model, _) => model.as_published(name),
            },
            (None, None) => {
                let rule = "no model is named";
                let remedy = "write `model: \"llama-2-7b\"`, a config.json, or `card: (...)`";
                self.check.fault("workload", rule, remedy);
                return None;
            }
        };
        if let Some(said) = &formats {
            let trains = matches!(mode, RawWork::Train(_));
            if let Some(kv) = said.kv.filter(|_| trains) {
                let reason = "a step of training keeps keys and values as other activations";
                self.without_effect("workload.formats.kv", kv.word(), reason);
            }
            if let Some(gradients) = said.gradients.filter(|_| !trains) {
                let reason = "nothing is trained";
                self.without_effect("workload.formats.gradients", gradients.word(), reason);
            }
        }
        let trains = matches!(mode, RawWork::Train(_));
        let formats = self.formats(precision.as_ref(), formats.as_ref(), (&model, trains));
        let mut card = model.card.clone();
        card.tied = tied.unwrap_or(card.tied);
        let setting =
            Setting { card, is_spelled: raw_card.is_some(), formats: formats?, devices: devices? };
        match mode {
            RawWork::Train(raw) => {
                let training = self.training(raw, setting)?;
                let ranks = training.parallel.ranks().min(training.devices.into());
                let ranks = u32::try_from(ranks).expect("no more than the devices of a server");
                let source = match &raw.sequences {
                    Some(each) => TraceSource::Training(TrainingRun::new(training, each.clone())),
                    None => TraceSource::Model(Work::Train(training)),
                };
                Some((source, ranks))
            }
            RawWork::Generate(raw) => {
                let generation = self.generation(raw, setting)?;
                let Generation { tensor, context, devices, .. } = generation;
                let ranks = tensor.saturating_mul(context).min(devices);
                Some((TraceSource::Model(Work::Generate(generation)), ranks))
            }
            RawWork::Serve(raw) => {
                let source = self.serving(raw, setting)?;
                let ranks = source.serving.tensor.min(source.serving.devices);
                Some((TraceSource::Serving(Box::new(source)), ranks))
            }
            // It has no card, and was read above.
            RawWork::Semiseparable(_) => None,
        }
    }

    /// The model of this name, or of this file.
    fn named(&mut self, name: &str, weights: Option<&str>) -> Option<ModelFiles> {
        let found = match self.files.model(name, weights) {
            ModelLookup::Model(found) => self.good("workload.model", found),
            ModelLookup::Weights(fault) => {
                self.path_fault("workload.weights", fault);
                None
            }
        };
        let model = found?;
        self.warnings.extend(model.remarks.iter().map(|remark| Warning {
            rule: RULE,
            place: "workload.model".to_owned(),
            found: name.chars().take(80).collect(),
            reason: remark.clone(),
            remedy: "check that the files belong together".to_owned(),
        }));
        Some(Arc::unwrap_or_clone(model))
    }

    fn formats(
        &mut self,
        precision: Option<&Format>,
        formats: Option<&RawFormats>,
        (model, trains): (&ModelFiles, bool),
    ) -> Option<Formats> {
        let said = formats.copied().unwrap_or_default();
        let all = precision.copied().or(model.format);
        let (mut weights, mut packed) =
            said.weights.map_or((None, model.quantised), RawWeights::parts);
        match packed.and_then(Format::read_as) {
            // What is trained has one format.
            Some(format) if trains => (weights, packed) = (Some(format), None),
            // What is not packed is as wide as what it is multiplied with.
            Some(_) => weights = all.or(said.activations),
            None => {}
        }
        let each = [weights, said.gradients, said.activations, said.kv];
        let each = each.map(|format| format.or(all));
        let [Some(weights), Some(gradients), Some(activations), Some(kv)] = each else {
            let rule = "neither `precision` nor the model's files say which format numbers have";
            self.check.fault(
                "workload.model",
                rule,
                "write `precision: bf16`, or every one of `formats`",
            );
            return None;
        };
        let products = packed.and_then(Format::read_as).unwrap_or(weights);
        if let Some(stored) =
            model.format.filter(|stored| model.bytes.is_some() && *stored != products)
        {
            self.warnings.push(Warning {
                rule: RULE,
                place: "workload.weights".to_owned(),
                found: stored.word().to_owned(),
                reason: format!("the scenario says {} for weights", products.word()),
                remedy: "leave `precision` and the weights' format out to take that of the file"
                    .into(),
            });
        }
        Some(Formats { weights, packed, gradients, activations, kv })
    }
}
