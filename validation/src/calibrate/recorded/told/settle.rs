//! What follows from the rates that a recording told: numbers of the base that would contradict
//! them.
//!
//! Invariant: what comes out obeys the rules of hardware files that are about several numbers of a
//! link, if the base does.

use super::Telling;
use tiersim_models::hardware::{Channel, HBM, Link, Tier};
use tiersim_models::lint::carried;
use tiersim_models::recorded::{Told, Value};
use tiersim_models::service::Detail;
use tiersim_models::units::Bandwidth;

impl Telling<'_> {
    /// Makes the rest of each link go along with what was told of it.
    pub(super) fn settle(&mut self) {
        let hardware = self.base.hardware;
        for (index, link) in hardware.links.iter().enumerate() {
            let place = format!("links.{}", link.name);
            if self.told.iter().any(|told| told.path.starts_with(&format!("{place}."))) {
                let ways = hardware.channels().filter(|of| of.link.index() == index);
                let ways: Vec<Channel> = ways.collect();
                let mut pinned = [link.read.rate, link.write.rate];
                for &way in &ways {
                    pinned[usize::from(way.evicting)] = carried(hardware, way);
                }
                self.pageable(link, &place, pinned);
                ways.into_iter().for_each(|way| self.direction(way, link, &place));
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

    /// Both directions have a rate for pageable memory or neither, and pinned memory is no slower:
    /// what was told stays, and what is kept goes along with it.
    fn pageable(&mut self, link: &Link, place: &str, pinned: [Bandwidth; 2]) {
        let rates = ["read", "write"].map(|way| self.rate(&format!("{place}.pageable.{way}")));
        for (index, way) in ["read", "write"].into_iter().enumerate() {
            let (path, pageable) = (format!("{place}.{way}"), format!("{place}.pageable.{way}"));
            let told = self.rate(&path);
            let pinned = told.unwrap_or(pinned[index]);
            let kept = link.pageable.map(|kept| kept[index]);
            match (rates[index], kept, rates[1 - index]) {
                (Some(rate), ..) if rate > pinned => {
                    let why = format!("no less than pageable memory reaches in {}", self.file);
                    self.told.retain(|told| told.path != path);
                    self.follow(path, Value::Rate(rate), why);
                }
                (None, Some(kept), _) if told.is_some() && kept > pinned => {
                    let (base, was) = (&self.base.hardware.name, kept.get() as f64 / 1e9);
                    let reach = format!("what pinned memory reaches in {}", self.file);
                    let why = format!("that of {base}, {was} GB/s, brought down to {reach}");
                    self.follow(pageable, Value::Rate(pinned), why);
                }
                (None, None, Some(other)) => {
                    let why = "as the other direction, which the trace shows".to_owned();
                    self.follow(pageable, Value::Rate(other.min(pinned)), why);
                }
                _ => {}
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

    /// Numbers of a set of drives as a file has them, which are those of one drive: until here, as
    /// in the machine, they are of all drives together.
    pub(super) fn of_one_drive(&mut self) {
        let hardware = self.base.hardware;
        for link in &hardware.links {
            let (Some(set), Some(tier)) = (link.raid0, hardware.tier_of(link.far)) else {
                continue;
            };
            let tier = format!("tiers.{}.bandwidth", hardware.tiers[tier.index()].name);
            let fields =
                ["read", "write", "total"].map(|field| format!("links.{}.{field}", link.name));
            let of_set = |told: &&mut Told| fields.contains(&told.path) || told.path == tier;
            for Told { value, source, .. } in self.told.iter_mut().filter(of_set) {
                let Value::Rate(rate) = value else { continue };
                *rate = set.drive(*rate);
                let words = source.text().to_owned();
                *source = source.with(format!("{words}; for one of {} drives", set.drives));
            }
        }
    }
}
