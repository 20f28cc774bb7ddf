//! A trial in a form that people can read.

use super::Trial;
use std::fmt;
use tiersim_models::ids::OpId;
use tiersim_models::server::Server;

impl fmt::Display for Trial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hardware = &self.hardware;
        writeln!(f, "seed {}, chunk {}, window {}", self.seed, hardware.chunk, self.window)?;
        for tier in &hardware.tiers {
            writeln!(f, "tier {} {:?} {}: {:?}", tier.name, tier.kind, tier.capacity, tier.access)?;
            if let Some(loaded) = &tier.loaded {
                writeln!(f, "    under load {loaded:?}")?;
            }
        }
        for node in &hardware.nodes {
            writeln!(f, "node {} {:?}", node.name, node.kind)?;
        }
        for link in &hardware.links {
            let (near, far) = (hardware.node_name(link.near), hardware.node_name(link.far));
            writeln!(f, "link {} {near}-{far}: {:?}, {:?}", link.name, link.read, link.write)?;
            if let Some(service) = &link.service {
                writeln!(f, "    service {service:?}")?;
            }
            if let Some(raid0) = &link.raid0 {
                writeln!(f, "    {raid0:?}")?;
            }
            if link.background.iter().any(Option::is_some) {
                writeln!(f, "    others {:?}", link.background)?;
            }
        }
        if hardware.server.devices > 1 {
            let met = hardware.meetings().map(|node| node.map(|node| hardware.node_name(node)));
            let Server { devices, tiers, links, .. } = &hardware.server;
            let ranks = self.spec.ranks;
            writeln!(f, "server of {devices}, {ranks} ranks, collectives meet in {met:?}")?;
            writeln!(f, "    shared tiers {tiers:?}, links {links:?}")?;
        }
        for route in &hardware.routes {
            writeln!(f, "route {route:?}")?;
        }
        for hidden in &self.hidden {
            writeln!(f, "hidden {hidden:?}")?;
        }
        for (index, allocator) in self.allocators.iter().enumerate() {
            writeln!(f, "allocator of {}: {allocator}", hardware.tiers[index].name)?;
        }
        if !self.compress.is_none() {
            writeln!(f, "packed {:?}", self.compress)?;
        }
        writeln!(f, "policy {:?}, quickest {}", self.policy, self.quickest)?;
        if !self.numa.is_none() {
            writeln!(f, "nodes {:?}", self.numa)?;
        }
        if let Some(pressure) = &self.pressure {
            writeln!(f, "pressure {pressure:?}")?;
        }
        let (repeat, jitter, time) = (self.repeat, self.spec.jitter, &self.spec.time);
        writeln!(f, "replays {repeat}, jitter {jitter}, times {time:?}")?;
        let trace = &self.workload.trace;
        for object in &trace.objects {
            let (name, bytes, kind) = (&object.name, object.bytes.get(), object.kind);
            let life = if object.persistent { "persistent" } else { "transient" };
            let (module, freed) = (object.module, object.freed_after);
            writeln!(f, "object {name} {bytes} B {kind:?} {life} {module:?} freed {freed:?}")?;
        }
        for (index, op) in trace.ops.iter().enumerate() {
            let uses = trace.uses_of(OpId::at(index)).iter();
            let uses = uses.map(|used| format!("{}:{}", used.object.0, used.mode.word()));
            let uses = uses.collect::<Vec<_>>().join(" ");
            let (step, phase, stream) = (op.step, op.phase, op.stream);
            let ps = self.durations.of(index as u64).ps();
            writeln!(
                f,
                "op {index} step {step} {phase:?} stream {stream} {:?} {ps} ps [{uses}] {:?}",
                op.unit, op.after
            )?;
            if let Some(release) = op.release {
                writeln!(f, "    released {release:?}")?;
            }
        }
        Ok(())
    }
}
