//! What small work reaches of a device's rates: what may be written.

use crate::specs::hardware::{TWO, good, read};
use tiersim_models::efficiency::{Interpolation, Shares};
use tiersim_models::hardware::{Compute, Hardware};
use tiersim_models::units::Bytes;

const SOURCE: &str = "source: measured(\"m\")";

/// A machine whose device has such tables.
fn with(tables: &str) -> Hardware {
    let launch = "launch: (us(2.6), measured(\"m\"))";
    good(&TWO.replacen(launch, &format!("{launch}, efficiency: ({tables})"), 1))
}

fn span(compute: &Compute, flops: u64, bytes: u64) -> u64 {
    let span = compute.roofline("bf16", flops, Bytes::new(bytes)).expect("it has a peak");
    span.ps() - 2_600_000
}

#[test]
fn a_device_reaches_the_share_of_each_rate_that_its_tables_say() {
    let machine = with(&format!(
        "products: (points: [(gflop(1), 0.25), (gflop(4), 0.5)], {SOURCE}), \
         memory: (points: [(b(0), 0.5), (mb(1), 1)], between: steps, {SOURCE})"
    ));
    let compute = machine.compute.as_ref().unwrap();
    let rising = Shares {
        points: vec![(1_000_000_000, 250_000), (4_000_000_000, 500_000)],
        interpolation: Interpolation::Interpolated,
    };
    assert_eq!(compute.efficiency.products, rising);
    assert_eq!(compute.efficiency.memory.interpolation, Interpolation::Steps);
    // 2 GFLOP are half way between 1 and 4: three eighths of 271.2 TFLOP/s.
    assert_eq!(span(compute, 1_000_000_000, 0), (1e12 / 271.2e3 / 0.25_f64).ceil() as u64);
    assert_eq!(span(compute, 2_000_000_000, 0), (2e12 / 271.2e3 / 0.375_f64).ceil() as u64);
    assert_eq!(span(compute, 8_000_000_000, 0), (8e12 / 271.2e3 / 0.5_f64).ceil() as u64);
    // 1750 GB/s from a megabyte on, half of it below.
    assert_eq!(span(compute, 0, 875_000), 1_000_000);
    assert_eq!(span(compute, 0, 1_750_000), 1_000_000);
    // The longer of the two.
    assert_eq!(span(compute, 8_000_000_000, 1_750_000_000), 1_000_000_000);
    let facts: Vec<_> = machine.facts.iter().rev().take(2).map(|fact| fact.path.as_str()).collect();
    assert_eq!(facts, ["compute.efficiency.memory", "compute.efficiency.products"]);
}

#[test]
fn a_device_without_tables_is_as_it_was() {
    let plain = read(TWO).unwrap().compute.unwrap();
    assert_eq!(plain.efficiency, Default::default());
    let whole = with(&format!("products: (points: [(gflop(1), 1)], {SOURCE})")).compute.unwrap();
    for (flops, bytes) in [(0, 0), (1, 1), (7_777_777_777, 5), (3, 99_999_999), (1 << 50, 1 << 40)]
    {
        assert_eq!(span(&plain, flops, bytes), span(&whole, flops, bytes));
    }
}
