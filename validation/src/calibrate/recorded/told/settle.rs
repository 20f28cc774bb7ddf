//! What follows from the rates that a recording told: numbers of the base that would contradict
//! them.
//!
//! Invariant: what comes out obeys the rules of hardware files that are about several numbers of a
//! link, if the base does.

use super::Telling;
use tiersim_models::hardware::{Channel, HBM, Link, Tier};
use tiersim_models::recorded::Value;
use tiersim_models::service::Detail;
use tiersim_models::units::Bandwidth;

impl Telling<'_> {
    /// Makes the rest of each link go along with what was told of it.
    pub(super) fn settle(&mut self) {
        let hardware = self.base.hardware;
        for (index, link) in hardware.links.iter().enumerate() {
            let place = format!("links.{}", link.name);
            if self.told.iter().any(|told| told.path.starts_with(&format!("{place}."))) {
                self.pageable(link, &place);
                let channels = hardware.channels().filter(|of| of.link.index() == index);
                channels.for_each(|channel| self.direction(channel, link, &place));
                self.total(link, &place);
            }
        }
        self.tiers();
    }

    fn is_told(&self, path: &str) -> bool {
        self.told.iter().any(|told| told.path == path)
    }

    fn rate(&self, path: &str) -> Option<Bandwidth> {
        let told = self.told.iter().find(|told| told.path == path)?;
        if let Value::Rate(rate) = told.value { Some(rate) } else { None }
    }

    /// Both directions have a rate for pageable memory or neither, and pinned memory is no slower.
    fn pageable(&mut self, link: &Link, place: &str) {
        let rates = ["read", "write"].map(|way| self.rate(&format!("{place}.pageable.{way}")));
        let own = [link.read.rate, link.write.rate];
        for (index, way) in ["read", "write"].into_iter().enumerate() {
            let path = format!("{place}.{way}");
            if let (None, None, Some(other)) = (rates[index], link.pageable, rates[1 - index]) {
                let why = "as the other direction, which the trace shows".to_owned();
                let rate = Value::Rate(other.min(own[index]));
                self.follow(format!("{place}.pageable.{way}"), rate, why);
            }
            let pinned = self.rate(&path).unwrap_or(own[index]);
            if let Some(rate) = rates[index].filter(|rate| *rate > pinned) {
                let why = format!("no less than pageable memory reaches in {}", self.file);
                self.told.retain(|told| told.path != path);
                self.follow(path, Value::Rate(rate), why);
            }
        }
    }

    /// Rates by size and by number of copies go along with the rate of their direction; those by
    /// size hold what a copy costs, so a set-up that is told takes their place.
    fn direction(&mut self, channel: Channel, link: &Link, place: &str) {
        let (way, field, law) = match channel.evicting {
            false => ("read", "setup", link.read),
            true => ("write", "write_setup", link.write),
        };
        let (setup, base) = (format!("{place}.{field}"), self.base);
        let fact = |path: &str| base.hardware.facts.iter().find(|fact| fact.path == path);
        let other = format!("{place}.setup");
        // Of a direction of which nothing was said, it was the set-up of the other one.
        if let (true, None, Some(of_other)) = (self.is_told(&other), fact(&setup), fact(&other)) {
            let source = base.kept(&of_other.source);
            self.tell(setup.clone(), Value::Time(law.setup), source, (1.0, 0.0));
        }
        let Some(rate) = self.rate(&format!("{place}.{way}")) else { return };
        // A little less, so that no rounding leaves a rate above that of the law.
        let ratio = rate.get() as f64 / law.rate.get() as f64 * (1.0 - 1e-9);
        let Some(service) = &link.service else { return };
        let Detail { sizes, depths, .. } = service.detail(channel.evicting);
        let of = |curve: &str| format!("{place}.{way}_{curve}");
        let along = || "goes along with the rate of its direction".to_owned();
        match sizes.is_empty() {
            false if self.is_told(&setup) => self.follow(of("sizes"), Value::Nothing, along()),
            false => self.follow(of("sizes.points.*.1"), Value::Times(ratio), along()),
            true => {}
        }
        if !depths.is_empty() {
            self.follow(of("depths.points.*.1"), Value::Times(ratio), along());
        }
    }

    /// What both directions reach together lies between the larger of them and their sum.
    fn total(&mut self, link: &Link, place: &str) {
        let Some(service) = &link.service else { return };
        let Some(total) = service.total else { return };
        let [read, write] = [("read", link.read), ("write", link.write)]
            .map(|(way, law)| self.rate(&format!("{place}.{way}")).unwrap_or(law.rate));
        let sum = Bandwidth::new(read.get().saturating_add(write.get())).unwrap_or(total);
        let within = total.max(read.max(write)).min(sum);
        if within == total {
            return;
        }
        let (base, was) = (&self.base.hardware.name, total.get() as f64 / 1e9);
        let why =
            format!("that of {base}, {was} GB/s, brought to what one direction and both reach");
        self.follow(format!("{place}.total"), Value::Rate(within), why);
        if !service.mix.is_empty() {
            let why = "belongs to another total".to_owned();
            self.follow(format!("{place}.mix"), Value::Nothing, why);
        }
    }

    /// Use in place goes over links and is no faster than they are; another device's own memory is
    /// that of its copies.
    fn tiers(&mut self) {
        let hardware = self.base.hardware;
        if let Some(rate) = self.rate("compute.memory").filter(|_| self.base.another) {
            let path = format!("tiers.{}.bandwidth", hardware.tiers[HBM.index()].name);
            let why = "the same memory as that of the device's copies and kernels".to_owned();
            self.follow(path, Value::Rate(rate), why);
        }
        let Ok(routes) = hardware.routes() else { return };
        for tier in hardware.tier_ids().filter(|tier| *tier != HBM) {
            let Tier { name, access, .. } = &hardware.tiers[tier.index()];
            let rates = routes.between(tier, HBM).iter().filter_map(|channel| {
                let link = &hardware.links[channel.link.index()].name;
                let way = if channel.evicting { "write" } else { "read" };
                self.rate(&format!("links.{link}.{way}"))
            });
            if let Some(rate) = rates.min().filter(|rate| *rate < access.rate) {
                let why = format!("no more than the link to it carries in {}", self.file);
                self.follow(format!("tiers.{name}.bandwidth"), Value::Rate(rate), why);
            }
        }
    }
}
