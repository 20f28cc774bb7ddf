//! Writes the device that computes.

use super::{Unwritable, Writer, quantity, quoted, source};
use crate::text::quantity::{Bandwidth, Dimension, Duration, FlopCount, FlopRate, Size, Unit};
use tiersim_models::efficiency::{Between, Efficiency, Shares, WHOLE};
use tiersim_models::hardware::Compute;

impl Writer<'_> {
    pub(super) fn compute(&mut self, compute: &Compute) -> Result<(), Unwritable> {
        self.line(1, "compute: (");
        self.line(2, &format!("name: {},", quoted(&compute.name)));
        self.line(2, "flops: [");
        for (precision, rate) in &compute.flops {
            let path = format!("compute.flops.{precision}");
            let rate = self.sourced(path, rate.get(), FlopRate::UNIT)?;
            self.line(3, &format!("(precision: {}, rate: {rate}),", quoted(precision)));
        }
        self.line(2, "],");
        let memory =
            self.sourced("compute.memory".into(), compute.memory.get(), Bandwidth::UNIT)?;
        self.line(2, &format!("memory: {memory},"));
        let launch = self.sourced("compute.launch".into(), compute.launch.ps(), Duration::UNIT)?;
        self.line(2, &format!("launch: {launch},"));
        self.efficiency(&compute.efficiency)?;
        self.economics("compute", 2, &["idle", "active", "price"], [false; 2])?;
        self.line(1, "),");
        Ok(())
    }

    fn efficiency(&mut self, efficiency: &Efficiency) -> Result<(), Unwritable> {
        if *efficiency == Efficiency::default() {
            return Ok(());
        }
        self.line(2, "efficiency: (");
        self.shares("products", &efficiency.products, FlopCount::UNIT)?;
        self.shares("memory", &efficiency.memory, Size::UNIT)?;
        self.line(2, "),");
        Ok(())
    }

    fn shares(&mut self, what: &str, shares: &Shares, unit: &Unit) -> Result<(), Unwritable> {
        if shares.points.is_empty() {
            return Ok(());
        }
        let path = format!("compute.efficiency.{what}");
        let Some(mut fact) = self.source(&path).cloned() else {
            return Err(Unwritable::NoSource(path));
        };
        if fact.value.is_empty() {
            let point = |&(size, share): &(u64, u32)| {
                format!("({}, {})", quantity(size, unit), f64::from(share) / f64::from(WHOLE))
            };
            let points: Vec<String> = shares.points.iter().map(point).collect();
            fact.value = format!("[{}]", points.join(", "));
        }
        self.line(3, &format!("{what}: ("));
        self.line(4, &format!("points: {},", fact.value));
        if shares.between == Between::Steps {
            self.line(4, "between: steps,");
        }
        self.line(4, &format!("source: {},", source(&fact.source)));
        self.line(3, "),");
        self.facts.push(fact);
        Ok(())
    }
}
