//! Power and prices of machines: what they mean.

use crate::specs::hardware::good;
use crate::specs::project::{Project, edited};
use tiersim_input::scenario::fingerprint::fingerprint;
use tiersim_models::energy::{Confidence, DeviceEconomics, HostEconomics, Standby};

const PRICED: &str = r#"Hardware(
    schema: 2,
    about: "two tiers with power and prices",
    tiers: [
        (name: "hbm", kind: hbm, setup: (ns(400), measured("m")), bandwidth: (gb_per_s(1750), measured("m")),
            energy: (pj_per_bit(3.92), datasheet("d")), price: (usd_per_gb(10), assumed("a")), included: [power]),
        (name: "dram", kind: dram, setup: (us(1), assumed("a")), bandwidth: (gb_per_s(25), announced("n")),
            energy: (pj_per_bit(22), datasheet("d")), write_energy: (fj_per_bit(23500), measured("m")),
            idle: (watts_per_gib(0.25), assumed("a")), price: (usd_per_gib(15), measured("m"))),
    ],
    links: [
        (name: "pcie", near: "hbm", far: "dram", setup: (us(3), measured("m")), read: (gb_per_s(26), measured("m")),
            write: (gb_per_s(26), measured("m")), energy: (pj_per_bit(6.5), datasheet("d"))),
    ],
    compute: (name: "gpu", flops: [], memory: (gb_per_s(1750), measured("m")), launch: (us(2), measured("m")),
        idle: (watts(60), measured("m")), active: (kilowatts(0.7), datasheet("d")), price: (usd(29000), assumed("a"))),
    host: (power: (watts(500), assumed("a")), price: (usd(5000), announced("n"))),
)"#;

#[test]
fn power_and_prices_mean_what_the_file_says() {
    let machine = good(PRICED);
    let economics = &machine.economics;
    let hbm = economics.tier(0);
    assert_eq!((hbm.read, hbm.write), (Some(3_920_000), Some(3_920_000)));
    assert_eq!((hbm.price, hbm.idle), (Some(10_737_418_240), None));
    assert_eq!((hbm.power_included, hbm.price_included), (true, false));
    let dram = economics.tier(1);
    assert_eq!((dram.read, dram.write), (Some(22_000_000), Some(23_500_000)));
    assert_eq!(dram.idle, Some(Standby::PerGib(250_000)));
    assert_eq!(economics.link(0).energy, Some(6_500_000));
    let (idle, active) = (Some(60_000_000), Some(700_000_000));
    let price = Some(29_000_000_000_000);
    assert_eq!(economics.device, DeviceEconomics { idle, active, price });
    let (power, price) = (Some(500_000_000), Some(5_000_000_000_000));
    assert_eq!(economics.host, HostEconomics { power, price });
    let dram_price = economics.fact("tiers.dram.price").unwrap();
    assert_eq!(dram_price.value, "usd_per_gib(15)");
    assert_eq!(dram_price.source.confidence(), Confidence::Measured);
    // Kept apart from what times rest on.
    assert_eq!((economics.facts.len(), machine.assumed()), (12, 1));
    assert!(machine.facts.iter().all(|fact| economics.fact(&fact.path).is_none()));
}

#[test]
fn a_price_is_part_of_what_a_run_is() {
    let project = Project::new();
    project.write("hardware-specs/priced.ron", PRICED);
    let text = r#"Scenario(schema: 2, about: "x", hardware: "priced",
        workload: Trace(path: "traces/small", time: recorded()), policies: [(name: "a", policy: AllHbm)])"#;
    let print = || fingerprint(&project.read(text).unwrap(), "abc");
    let before = print();
    project.write(
        "hardware-specs/priced.ron",
        PRICED.replace("usd(29000), assumed(\"a\")", "usd(29000), assumed(\"b\")"),
    );
    assert_eq!(before, print(), "a source is no meaning");
    project.write("hardware-specs/priced.ron", PRICED.replace("usd(29000)", "usd(29001)"));
    assert_ne!(before, print());
}

#[test]
fn another_device_brings_its_own_power_and_price() {
    let text = edited("device: \"h100-sxm-pcie5\"", "device: \"a100-80g-pcie4\"");
    let of = |text: &str| Project::new().read(text).unwrap().hardware.economics.clone();
    let (own, other) = (of(&edited("seed: 1", "seed: 2")), of(&text));
    assert!(own.device.active.is_some() && own.fact("compute.active").is_some());
    // The other file says nothing of power so far; what it will say is this device's.
    assert_eq!(other.device.active.is_some(), other.fact("compute.active").is_some());
    assert_ne!(own.device, other.device);
    assert_eq!(own.host, other.host);
}
