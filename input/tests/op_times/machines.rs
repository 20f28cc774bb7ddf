//! Which numbers a machine takes, and where it says that they come from.

use crate::op_times::shipped;
use crate::specs::parts::{CARD, Parts};
use crate::specs::project::{GOOD, assert_says};
use tiersim_models::hardware::{Hardware, Source};

/// The machine of parts, whose card says this of its op times.
fn with(op_times: &str) -> Hardware {
    let parts = Parts::new();
    let launch = "launch: (us(2.6), measured(\"m\"))";
    parts.part("card", CARD.replacen(launch, &format!("{launch}, {op_times}"), 1));
    parts.read(crate::specs::parts::MACHINE).unwrap_or_else(|found| panic!("{found}"))
}

#[test]
fn a_device_of_another_name_takes_scaled_numbers_and_says_so() {
    let machine = with("op_times: (of: \"op-times/a100\")");
    let compute = machine.compute.as_ref().unwrap();
    let times = compute.op_times.as_deref().unwrap();
    let of = shipped("a100").times;
    assert_eq!((times.name.as_str(), times.processors, times.cache), ("a100", 108, 40_000_000));
    let (own, others) = (times.products.unwrap(), of.products.unwrap());
    assert!(own.inherited && !others.inherited);
    // The card states what an A100 states for products, and 1750 of its 1759 GB/s.
    assert_eq!(own.numbers.flops, others.numbers.flops);
    assert_eq!(own.numbers.memory, others.numbers.memory * (1750.0 / 1759.0));
    assert_eq!(own.numbers.launch, others.numbers.launch);
    let facts: Vec<_> =
        machine.facts.iter().filter(|fact| fact.path.contains("op_times")).collect();
    let paths: Vec<&str> = facts.iter().map(|fact| fact.path.as_str()).collect();
    let sections = ["products", "attention", "experts", "streaming", "unfused", "collectives"];
    assert_eq!(paths, sections.map(|name| format!("compute.op_times.{name}")));
    for fact in facts {
        assert_eq!(fact.value, "those of A100 SXM 80 GB");
        assert!(matches!(fact.source, Source::Assumed(_)), "{:?}", fact.source);
    }
}

#[test]
fn a_device_may_have_other_processors_and_another_cache() {
    let machine = with("op_times: (of: \"op-times/a100\", processors: 54, cache: mb(6))");
    let compute = machine.compute.unwrap();
    let times = compute.op_times.as_deref().unwrap();
    let of = shipped("a100").times;
    assert_eq!((times.processors, times.cache), (54, 6_000_000));
    // As quick as a whole, with half as many processors: each is twice as quick.
    let [own, others] = [times.products, of.products].map(|of| of.unwrap().numbers);
    assert_eq!(own.fill, others.fill * 2.0);
    assert_eq!(own.flops, others.flops);
}

#[test]
fn the_measured_device_takes_its_numbers_as_they_are() {
    let parts = Parts::new();
    let launch = "launch: (us(2.6), measured(\"m\"))";
    let named = CARD.replacen("name: \"gpu\"", "name: \"A100 SXM 80 GB\"", 1);
    let op_times = "op_times: (of: \"op-times/a100\")";
    let named = named.replacen(launch, &format!("{launch}, {op_times}"), 1);
    parts.part("card", named.replace("gb_per_s(1750)", "gb_per_s(1759)"));
    let machine = parts.read(crate::specs::parts::MACHINE).unwrap();
    let compute = machine.compute.unwrap();
    assert_eq!(**compute.op_times.as_ref().unwrap(), shipped("a100").times);
    // With another rate it is another device, whatever it is called.
    parts.part("card", &named);
    let other = parts.read(crate::specs::parts::MACHINE).unwrap().compute.unwrap();
    let own = other.op_times.as_ref().unwrap().products;
    let of = shipped("a100").times.products;
    let (own, of) = (own.unwrap(), of.unwrap());
    assert!(
        own.inherited && (own.numbers.memory / of.numbers.memory - 1750.0 / 1759.0).abs() < 1e-12
    );
    let facts = machine.facts.iter().filter(|fact| fact.path.contains("op_times"));
    for fact in facts {
        assert_eq!(fact.value, "fitted to A100 SXM 80 GB");
        // Unfused kernels of this device nobody has measured.
        let measured = matches!(fact.source, Source::Measured(_));
        assert_eq!(measured, !fact.path.ends_with(".unfused"), "{:?}", fact.source);
    }
}

#[test]
fn numbers_of_the_project_go_before_shipped_ones() {
    let parts = Parts::new();
    let folder = parts.project.root.join("hardware-specs/op-times");
    std::fs::create_dir_all(&folder).unwrap();
    let shipped = concat!(env!("CARGO_MANIFEST_DIR"), "/../hardware-specs/op-times/h100.ron");
    let text = std::fs::read_to_string(shipped).unwrap();
    let own = text.replacen("launch: us(2.45)", "launch: us(7)", 1);
    std::fs::write(folder.join("h100.ron"), own).unwrap();
    let scenario = parts.project.read(&GOOD.replace("time: roofline(", "time: op_times("));
    let launch = |machine: &Hardware| {
        let times = machine.compute.as_ref().unwrap().op_times.as_deref().unwrap();
        times.products.unwrap().numbers.launch
    };
    assert_eq!(launch(&scenario.unwrap().hardware), 7e-6);
    // What is wrong with them is told at their own place.
    let wrong = text.replacen("launch: us(2.45)", "launch: us(-7)", 1);
    std::fs::write(folder.join("h100.ron"), wrong).unwrap();
    let said = parts.project.read(GOOD);
    let rule = "a time of a formula is finite, not negative, and has its unit";
    assert_says(&said.unwrap_err(), &["op-times/h100.ron:", rule]);
}
