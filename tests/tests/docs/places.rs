//! The places of scenarios and hardware specs where a field or a word can stand, and the sections
//! of `docs/formats.md` that must name what can.

/// What can stand in a place of a file: `@` in `text` marks it.
pub(crate) struct Place {
    pub(crate) heading: &'static str,
    pub(crate) text: &'static str,
}

/// Structs: `@` is where a field can stand. Fields before it must be right.
pub(crate) const STRUCTS: &[Place] = &[
    Place { heading: "Scenario", text: "Scenario(@)" },
    Place { heading: "Workload", text: "Scenario(workload: Trace(@))" },
    Place { heading: "Policies", text: "Scenario(policies: [(@)])" },
    Place { heading: "Allocators", text: "Scenario(allocators: [(@)])" },
    Place { heading: "Allocators", text: "Scenario(allocators: [(compaction: (@))])" },
    Place { heading: "Hidden memory", text: "Scenario(hidden: [(@)])" },
    Place { heading: "Memory pressure", text: "Scenario(policies: [(pressure: (@))])" },
    Place {
        heading: "Memory pressure",
        text: "Scenario(policies: [(pressure: (thresholds: (@)))])",
    },
    Place { heading: "Memory pressure", text: "Scenario(policies: [(pressure: (actions: (@)))])" },
    Place {
        heading: "Memory pressure",
        text: "Scenario(policies: [(pressure: (micro_batch: (@)))])",
    },
    Place { heading: "Trained weights", text: "Weights(@)" },
    Place { heading: "Trained weights", text: "Weights(trained: (@))" },
    Place { heading: "Sweeps", text: "Scenario(sweep: (@))" },
    Place { heading: "Sweeps", text: "Scenario(sweep: (axes: [(@)]))" },
    Place { heading: "Sweeps", text: "Scenario(sweep: (axes: [(values: range(@))]))" },
    Place { heading: "Hardware", text: "Hardware(@)" },
    Place { heading: "Parts", text: "Hardware(parts: [(@)])" },
    Place { heading: "Parts", text: "Hardware(parts: [(set: [(@)])])" },
    Place { heading: "Parts", text: "Part(@)" },
    Place { heading: "Tiers", text: "Hardware(tiers: [(@)])" },
    Place { heading: "Latency under load", text: "Hardware(tiers: [(loaded: [(@)])])" },
    Place { heading: "Links", text: "Hardware(links: [(@)])" },
    Place { heading: "Links", text: "Hardware(links: [(pageable: (@))])" },
    Place { heading: "Service", text: "Hardware(links: [(mix: (@))])" },
    Place { heading: "Service", text: "Hardware(links: [(fetch_sizes: (@))])" },
    Place { heading: "Service", text: "Hardware(links: [(fetch_depths: (@))])" },
    Place { heading: "Service", text: "Hardware(links: [(fetch_tail: (@))])" },
    Place { heading: "Service", text: "Hardware(links: [(write_cache: (@))])" },
    Place { heading: "Hidden memory", text: "Hardware(hidden: [(@)])" },
    Place { heading: "Compute", text: "Hardware(compute: (@))" },
    Place { heading: "Power and price", text: "Hardware(host: (@))" },
    Place { heading: "Compute", text: "Hardware(compute: (flops: [(@)]))" },
    Place { heading: "Efficiency", text: "Hardware(compute: (efficiency: (@)))" },
    Place { heading: "Efficiency", text: "Hardware(compute: (efficiency: (products: (@))))" },
    Place { heading: "Efficiency", text: "Hardware(compute: (efficiency: (memory: (@))))" },
];

/// Choices: `@` is where a variant can stand; fields of every variant are looked for too.
pub(crate) const CHOICES: &[Place] = &[
    Place { heading: "Workload", text: "Scenario(workload: @)" },
    Place { heading: "Op times", text: "Scenario(workload: Trace(time: @))" },
    Place { heading: "Layered", text: "Scenario(workload: Layered(family: @))" },
    Place { heading: "Layered", text: "Scenario(workload: Layered(precision: @))" },
    Place { heading: "Layered", text: "Scenario(workload: Layered(mode: @))" },
    Place { heading: "Policies", text: "Scenario(policies: [(policy: @)])" },
    Place { heading: "AdamState", text: "Scenario(policies: [(policy: AdamState(cut: @))])" },
    Place { heading: "AdamState", text: "Scenario(policies: [(policy: AdamState(by: @))])" },
    Place { heading: "AdamState", text: "Scenario(policies: [(policy: AdamState(kinds: [@]))])" },
    Place { heading: "Access", text: "Scenario(policies: [(policy: AdamState(access: @))])" },
    Place {
        heading: "Access",
        text: "Scenario(policies: [(policy: AdamState(access: in_place(charge: @)))])",
    },
    Place { heading: "Allocators", text: "Scenario(allocators: [(model: @)])" },
    Place { heading: "Hidden memory", text: "Scenario(hidden: [(what: @)])" },
    Place { heading: "Memory pressure", text: "Scenario(policies: [(pressure: (profile: @))])" },
    Place {
        heading: "Memory pressure",
        text: "Scenario(policies: [(pressure: (actions: (target: [@])))])",
    },
    Place { heading: "Sweeps", text: "Scenario(sweep: (axes: [(values: @)]))" },
    Place { heading: "Expectations", text: "Scenario(expect: [@])" },
    Place { heading: "Expectations", text: "Scenario(expect: [pressure(at_least: @)])" },
    Place { heading: "Expectations", text: "Scenario(expect: [fragmentation(over: @)])" },
    Place { heading: "Tiers", text: "Hardware(tiers: [(kind: @)])" },
    Place { heading: "Power and price", text: "Hardware(tiers: [(included: [@])])" },
    Place { heading: "Service", text: "Hardware(links: [(service: @)])" },
    Place { heading: "Links", text: "Hardware(links: [(buffers: @)])" },
    Place {
        heading: "Efficiency",
        text: "Hardware(compute: (efficiency: (products: (between: @))))",
    },
    Place { heading: "Sources", text: "Hardware(tiers: [(setup: (us(1), @))])" },
];
