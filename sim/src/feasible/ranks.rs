//! Whether a machine has what the ranks of a trace do together.

use tiersim_models::collective::Collective;
use tiersim_models::hardware::{Channel, Hardware, Link};
use tiersim_models::workload::{Trace, Unit};

/// The collectives of a trace that send anything, and the rows of their ops.
fn collectives(trace: &Trace) -> impl Iterator<Item = (usize, Collective)> {
    trace.ops.iter().enumerate().filter_map(|(row, op)| match op.unit {
        Unit::Network(collective) if collective.sends() => Some((row, collective)),
        _ => None,
    })
}

/// What `ranks` devices of the machine cannot do of the trace, the first of each kind, with
/// remedies.
pub(super) fn problems(
    hardware: &Hardware,
    ranks: u32,
    trace: &Trace,
) -> Vec<(String, &'static str)> {
    let (server, name) = (&hardware.server, &hardware.name);
    let mut found = Vec::new();
    if ranks > server.devices {
        let rule = format!("{ranks} ranks, and a server of {name} has {} devices", server.devices);
        found.push((rule, "lower `ranks` of the workload, or raise `devices` of the hardware"));
    }
    let first = |lacks: &dyn Fn(&Collective) -> bool| {
        let (row, one) = collectives(trace).find(|(_, one)| lacks(one))?;
        let op = &trace.ops[row];
        let (word, within, servers) = (one.kind.word(), one.within, one.servers);
        let article = if word.starts_with('a') { "an" } else { "a" };
        Some(format!("op {row} {:?} is {article} {word} of {within}x{servers} ranks", op.name))
    };
    if let Some(op) = first(&|one| one.within > server.devices) {
        let rule = format!("{op}, and a server of {name} has {} devices", server.devices);
        found
            .push((rule, "choose hardware with as many devices, or spread the group over servers"));
    }
    let sends = |one: &Collective, way: usize| one.ring().bytes[way].get() > 0;
    for (way, (field, node)) in
        [("within", server.within), ("between", server.between)].into_iter().enumerate()
    {
        let op = first(&|one| sends(one, way)).filter(|_| node.is_none());
        if let Some(op) = op {
            let rule = format!("{op}, and {name} does not say where they meet");
            let remedy = match field {
                "within" => {
                    "write `within` into `server` of the hardware, or choose other hardware"
                }
                _ => "write `between` into `server` of the hardware, or choose other hardware",
            };
            found.push((rule, remedy));
        }
    }
    found
}

/// No rank spends more seconds in collectives if every channel serves everything in turn.
pub(super) fn longest(hardware: &Hardware, trace: &Trace) -> f64 {
    let laws = hardware.collective_laws(1);
    let total = |link: &Link| Some(link.left_by_background(link.service.as_ref()?.least_total()?));
    let channel_seconds = |channel: Channel| {
        let link = &hardware.links[channel.link.index()];
        let total = total(link).map_or(0.0, |total| 1.0 / total.get() as f64);
        1.0 / hardware.slowest(channel).rate.get() as f64 + total
    };
    let ways = hardware.meetings().map(|node| {
        let way = node.and_then(|node| hardware.way_out(node)).unwrap_or_default();
        let both = way
            .iter()
            .flat_map(|&channel| [channel, Channel { evicting: !channel.evicting, ..channel }]);
        both.map(channel_seconds).sum::<f64>()
    });
    let one = |collective: Collective| {
        let all = [Some(collective.ring()), collective.tree()].into_iter().flatten();
        let seconds = all.map(|exchange| {
            let way = |way: usize| {
                let setup = laws.ways[way].setup.ps() as f64 / 1e12;
                exchange.steps[way] as f64 * setup + exchange.bytes[way].get() as f64 * ways[way]
            };
            way(0) + way(1)
        });
        let measured = laws.times.and_then(|times| collective.measured(&times, true));
        seconds.fold(0.0, f64::max) + measured.unwrap_or(0.0)
    };
    collectives(trace).map(|(_, collective)| one(collective)).sum()
}
