//! The machine that a file means: every rule is checked before any problem is reported.

use super::raw::RawHardware;
use super::read_times::ReadTimes;
use super::resolver::Resolver;
use crate::project::Project;
use crate::text::check::Check;
use crate::text::choices::{SCHEMA, other_schema};
use crate::text::quantity::CHUNK;
use crate::text::ron_text::Document;
use tiersim_models::diagnostic::Diagnostics;
use tiersim_models::energy::Economics;
use tiersim_models::hardware::Hardware;
use tiersim_models::server::Server;
use tiersim_models::shared::Shared;
use tiersim_models::units::{Bandwidth, Bytes};

/// The machine that `raw`, read from `document`, means; `problems` are those found before. Unless
/// it is `whole`, other tiers stand elsewhere.
pub(super) fn resolved(
    document: &Document,
    raw: &RawHardware,
    name: String,
    mut problems: Diagnostics,
    (project, times): (Option<&Project>, &ReadTimes),
    whole: bool,
) -> Result<Hardware, Diagnostics> {
    let (check, facts) = (Check::new(document), Vec::new());
    let economics = Economics::default();
    let mut resolver = Resolver { check, facts, economics, project, times, whole };
    let hardware = resolver.hardware(raw, name);
    problems.0.append(&mut resolver.check.problems.0);
    match hardware {
        Some(hardware) => problems.into_result(hardware),
        None => Err(problems),
    }
}

/// What every file of machines says of itself; `this` is what to say of it.
pub(super) fn head(check: &mut Check<'_>, schema: u32, about: &str, this: &str) {
    if schema != SCHEMA {
        check.fault("schema", "unknown schema of a hardware file", other_schema());
    }
    if about.trim().is_empty() {
        check.fault("about", "`about` may not be empty", format!("say which {this} this is"));
    }
}

impl Resolver<'_> {
    /// The machine, or `None` if so much is wrong that there is none to speak of.
    fn hardware(&mut self, raw: &RawHardware, name: String) -> Option<Hardware> {
        head(&mut self.check, raw.schema, &raw.about, "machine");
        let tiers = self.tiers(raw);
        let nodes = self.nodes(raw);
        let links = self.links(raw);
        let routes = self.routes(raw);
        let near = tiers.as_ref().and_then(|tiers| tiers.first()).map(|near| near.access.rate);
        // A part may have the device and not its memory.
        let near = near.or((!self.whole).then_some(Bandwidth::gb_per_s(1)));
        let compute = raw.compute.as_ref().and_then(|compute| self.compute(compute, near));
        let cpu = raw.cpu.as_ref().and_then(|cpu| self.cpu(cpu));
        self.economics.trim();
        if let Some(host) = &raw.host {
            self.host(host);
        }
        let chunk = match &raw.chunk {
            Some(size) => size.value(&mut self.check, "chunk", CHUNK),
            None => Some(Bytes::mib(4)),
        };
        let mut hardware = Hardware {
            name,
            about: raw.about.trim().to_string().into(),
            tiers: tiers?.into(),
            nodes,
            links: links?.into(),
            routes: routes?,
            compute: compute.map(Shared::from),
            chunk: chunk?,
            hidden: Vec::new(),
            facts: Default::default(),
            economics: std::mem::take(&mut self.economics).into(),
            server: Server::default(),
            cpu,
            pressure: raw.pressure,
        };
        if hardware.tiers.is_empty() {
            return None;
        }
        if self.whole {
            self.join(&mut hardware);
            self.gather_drives(&mut hardware);
        }
        hardware.server = self.server(raw, &hardware);
        hardware.hidden = self.hidden(&raw.hidden, &raw.links, &hardware);
        // A sweep has a machine for each of its points.
        self.facts.shrink_to_fit();
        hardware.facts = std::mem::take(&mut self.facts).into();
        hardware.economics.facts.shrink_to_fit();
        Some(hardware)
    }
}
