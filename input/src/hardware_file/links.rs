//! Reads links: their laws, how they serve several copies, sets of drives behind them, the traffic
//! of others, and what they draw.
//!
//! The numbers of a link with a set of drives, and of the tier behind it, are written for one
//! drive; [`Resolver::gather_drives`] makes those of the whole set of them.
//! Invariant: a link that writes nothing of its service has no [`Service`], and so behaves, prints
//! and hashes as if these fields did not exist.

use super::raw::{
    Buffers, Included, RawBackground, RawCache, RawCurve, RawHardware, RawLink, RawRaid0, RawTail,
};
use super::resolver::{At, Resolver};
use crate::text::quantity::economics::ENERGY;
use crate::text::quantity::{CAPACITY, COPIES, Copies, DRIVES, Quantity, RATE, SETUP, Size};
use std::collections::BTreeMap;
use tiersim_models::energy::LinkEconomics;
use tiersim_models::hardware::{Hardware, Law, Link, TierKind};
use tiersim_models::nodes::{LinkKind, MAX_LINKS};
use tiersim_models::raid0::Raid0;
use tiersim_models::service::{Cache, Detail, Discipline, Service, Tail};
use tiersim_models::units::{Bandwidth, Bytes};

impl Resolver<'_> {
    /// The links of a file.
    pub(super) fn links(&mut self, raw: &RawHardware) -> Option<Vec<Link>> {
        let raw_links = self.check.at_most("links", "links", &raw.links, MAX_LINKS);
        self.names(("links", "link"), raw_links.iter().map(|link| &link.name));
        let mut joined = BTreeMap::new();
        let mut links = Vec::new();
        for (index, link) in raw_links.iter().enumerate() {
            let resolved = self.link(link, At::entry("links", index, &link.name), raw);
            if let Some(link) = &resolved {
                let ends = (link.near.min(link.far), link.near.max(link.far));
                if let Some(first) = joined.insert(ends, index) {
                    // A copy takes the quickest link, so the other would never be used.
                    let first = &raw.links[first].name;
                    let rule = format!("links `{first}` and `{}` join the same tiers", link.name);
                    let remedy = "write one link with the rate of both together";
                    self.check.fault(&format!("links.{index}"), rule, remedy);
                }
            }
            links.push(resolved);
        }
        links.into_iter().collect()
    }

    fn link(&mut self, raw: &RawLink, at: At, machine: &RawHardware) -> Option<Link> {
        let here = &at.path;
        let near = self.end(&format!("{here}.near"), &raw.near, machine);
        let far = self.end(&format!("{here}.far"), &raw.far, machine);
        if near.is_some() && near == far {
            let remedy = "name two different tiers";
            self.check.fault(&format!("{here}.far"), "a link joins two tiers", remedy);
        }
        let setup = self.number(&raw.setup, at.field("setup"), SETUP);
        let read = self.number(&raw.read, at.field("read"), RATE);
        let write_setup = match &raw.write_setup {
            Some(own) => self.number(own, at.field("write_setup"), SETUP),
            None => setup,
        };
        let write = self.number(&raw.write, at.field("write"), RATE);
        let pageable = self.pageable(raw, &at);
        let [read, write] = self.buffers(raw, &at, [read, write], pageable);
        self.link_economics(raw, &at);
        let (near, far, name) = (near?, far?, raw.name.clone());
        let read = Law { setup: setup?, rate: read? };
        let write = Law { setup: write_setup?, rate: write? };
        let service = self.service(raw, &at, [read.rate, write.rate]);
        self.made_of(raw.kind, &format!("{here}.kind"));
        let raid0 = raw.raid0.as_ref().and_then(|set| self.raid0(set, raw, at.field("raid0")));
        let background = match &raw.background {
            Some(background) => self.background(background, at.field("background"), raw.service),
            None => [None, None],
        };
        let (kind, service) = (raw.kind, Some(service).filter(|own| *own != Service::default()));
        let pageable = pageable.and_then(|[read, write]| Some([read?, write?]));
        let link =
            Link { name, near, far, kind, read, write, service, raid0, background, pageable };
        (near != far).then_some(link)
    }

    fn link_economics(&mut self, raw: &RawLink, at: &At) {
        let energy = self.priced(&raw.energy, at.field("energy"), ENERGY);
        if let Some(index) = raw.included.iter().position(|what| *what == Included::Price) {
            let rule = "a link has no price of its own";
            let remedy = "leave it out: what a link costs is part of the host's price";
            self.check.fault(&format!("{}.included.{index}", at.path), rule, remedy);
        }
        let power_included = raw.included.contains(&Included::Power);
        self.economics.links.push(LinkEconomics { energy, power_included });
    }

    /// What a link is made of.
    fn made_of(&mut self, kind: Option<LinkKind>, path: &str) {
        let mut within = |what: &str, number: u8, most: u8| {
            if number == 0 || number > most {
                let rule = format!("{what} must lie between 1 and {most}");
                self.check.fault(path, rule, "write what the link is made of, or leave it out");
            }
        };
        match kind {
            Some(LinkKind::Pcie { generation, width }) => {
                within("the generation of PCIe", generation, 7);
                within("the width of a link", width, 32);
            }
            Some(LinkKind::Cxl { generation, width }) => {
                within("the generation of CXL", generation, 4);
                within("the width of a link", width, 32);
            }
            Some(LinkKind::Nvlink { generation }) => {
                within("the generation of NVLink", generation, 6);
            }
            _ => {}
        }
    }

    /// What copies of pageable memory reach in both directions, if the file says so.
    fn pageable(&mut self, raw: &RawLink, at: &At) -> Option<[Option<Bandwidth>; 2]> {
        let raw = raw.pageable.as_ref()?;
        let at = at.field("pageable");
        let read = self.number(&raw.read, at.field("read"), RATE);
        Some([read, self.number(&raw.write, at.field("write"), RATE)])
    }

    /// The rates of both directions: those given, or those of pageable memory if the link says that
    /// its copies use such.
    fn buffers(
        &mut self,
        raw: &RawLink,
        at: &At,
        pinned: [Option<Bandwidth>; 2],
        pageable: Option<[Option<Bandwidth>; 2]>,
    ) -> [Option<Bandwidth>; 2] {
        match (raw.buffers, pageable) {
            (Buffers::Pinned, _) => pinned,
            (Buffers::Pageable, Some(pageable)) => pageable,
            (Buffers::Pageable, None) => {
                let rule = "nothing says what pageable memory reaches";
                let remedy = "write pageable: (read: ..., write: ...) with their sources";
                self.check.fault(&format!("{}.buffers", at.path), rule, remedy);
                pinned
            }
        }
    }

    /// The service of a link with these rates.
    fn service(
        &mut self,
        raw: &RawLink,
        at: &At,
        [read_rate, write_rate]: [Bandwidth; 2],
    ) -> Service {
        let max_in_flight = self.optional(&raw.max_in_flight, at.field("max_in_flight"), COPIES);
        let total = self.optional(&raw.total, at.field("total"), RATE);
        if total.is_some_and(|total| total < read_rate.max(write_rate)) {
            let rule = "both directions together reach at least what one does alone";
            let remedy = "raise `total`, or lower `read` and `write`";
            self.check.fault(&format!("{}.total", at.path), rule, remedy);
        }
        let sizes = self.sizes(&raw.read_sizes, at, "read", read_rate);
        let depths = self.depths(&raw.read_depths, at, "read", read_rate);
        let tail = raw.read_tail.as_ref().and_then(|raw| self.tail(raw, at.field("read_tail")));
        let read = Detail { sizes, depths, tail, cache: None };
        let sizes = self.sizes(&raw.write_sizes, at, "write", write_rate);
        let depths = self.depths(&raw.write_depths, at, "write", write_rate);
        let tail = raw.write_tail.as_ref().and_then(|raw| self.tail(raw, at.field("write_tail")));
        let cache = raw.write_cache.as_ref();
        let cache = cache.and_then(|raw| self.cache(raw, at.field("write_cache"), write_rate));
        let write = Detail { sizes, depths, tail, cache };
        let mix = raw.mix.as_ref().and_then(|mix| self.mix(mix, at.field("mix"), total));
        let mix = mix.unwrap_or_default();
        let service = Service { discipline: raw.service, max_in_flight, total, mix, read, write };
        self.fits_together(&service, &at.path);
        service
    }

    /// What needs the one or the other discipline.
    fn fits_together(&mut self, service: &Service, here: &str) {
        let fair = service.discipline == Discipline::FairShare;
        let asks = [
            (service.total.is_some(), "total"),
            (!service.read.depths.is_empty(), "read_depths"),
            (!service.write.depths.is_empty(), "write_depths"),
        ];
        for (_, field) in asks.into_iter().filter(|&(asked, _)| asked && !fair) {
            let rule =
                format!("`{field}` is about copies that share, and this link shares nothing");
            let remedy = "write service: fair_share, or leave it out";
            self.check.fault(&format!("{here}.{field}"), rule, remedy);
        }
        if service.write.cache.is_some() && (fair || service.at_once() > 1) {
            let rule = "a write cache needs a link that serves one copy after the other";
            let remedy = "leave out `service` and `max_in_flight`, or the cache";
            self.check.fault(&format!("{here}.write_cache"), rule, remedy);
        }
    }

    /// Rates by size, none above that of the law.
    fn sizes(
        &mut self,
        raw: &Option<RawCurve<Quantity<Size>>>,
        at: &At,
        word: &str,
        rate: Bandwidth,
    ) -> Vec<(Bytes, Bandwidth)> {
        let Some(raw) = raw else { return Vec::new() };
        let at = at.field(&format!("{word}_sizes"));
        let path = format!("{}.points", at.path);
        let points = (&raw.points[..], &raw.source);
        let sizes = self.curve(points, at, "curve", |check, (size, rate), [first, second]| {
            let size = size.value(check, first, CAPACITY);
            size.zip(rate.value(check, second, RATE))
        });
        let sizes = sizes.unwrap_or_default();
        self.not_faster(&sizes, &path, word, rate);
        let time = |(size, rate): &(Bytes, Bandwidth)| rate.checked_span_of(size.get());
        let rule = "sizes rise, and a larger copy takes no less time";
        self.in_order(&path, &sizes, (rule, "order the points by size"), |one, next| {
            one.0 >= next.0 || time(one) > time(next)
        });
        sizes
    }

    /// Rates by number of copies, none above that of the law.
    fn depths(
        &mut self,
        raw: &Option<RawCurve<Quantity<Copies>>>,
        at: &At,
        word: &str,
        rate: Bandwidth,
    ) -> Vec<(u32, Bandwidth)> {
        let Some(raw) = raw else { return Vec::new() };
        let at = at.field(&format!("{word}_depths"));
        let path = format!("{}.points", at.path);
        let points = (&raw.points[..], &raw.source);
        let depths = self.curve(points, at, "curve", |check, (copies, rate), [first, second]| {
            let copies = copies.value(check, first, COPIES)?.get();
            Some(copies).zip(rate.value(check, second, RATE))
        });
        let depths = depths.unwrap_or_default();
        self.not_faster(&depths, &path, word, rate);
        if depths.first().is_some_and(|first| first.0 != 1) {
            let rule = "a ramp begins with one copy";
            self.check.fault(&format!("{path}.0.0"), rule, "write copies(1) first");
        }
        let rule = "numbers of copies rise, and more of them reach no less together";
        let remedy = "order the points by number, and cut the ramp where it falls";
        self.in_order(&path, &depths, (rule, remedy), |one, next| {
            one.0 >= next.0 || one.1 > next.1
        });
        depths
    }

    fn not_faster<X>(
        &mut self,
        points: &[(X, Bandwidth)],
        path: &str,
        word: &str,
        most: Bandwidth,
    ) {
        for (index, _) in points.iter().enumerate().filter(|(_, point)| point.1 > most) {
            let rule = format!("no point of a curve is faster than `{word}`");
            let remedy = format!("raise `{word}`: it is what the fastest copies reach");
            self.check.fault(&format!("{path}.{index}.1"), rule, remedy);
        }
    }

    /// Totals by share of fetches.
    fn mix(
        &mut self,
        raw: &RawCurve<f64>,
        at: At,
        total: Option<Bandwidth>,
    ) -> Option<Vec<(u8, Bandwidth)>> {
        let path = format!("{}.points", at.path);
        let points = (&raw.points[..], &raw.source);
        let mix = self.curve(points, at, "curve", |check, (share, rate), [first, second]| {
            let share = check.number(first, "a share", *share, 0.0, 1.0);
            // Shares are kept to the per cent: mixes are not measured more finely.
            let share = share.map(|share| (share * 100.0).round() as u8);
            let rate = rate.value(check, second, RATE);
            if rate.is_some_and(|rate| total.is_none_or(|total| rate > total)) {
                let rule = "a mix says how far below `total` both directions together stay";
                check.fault(second, rule, "write the best mix as `total`");
            }
            share.zip(rate)
        })?;
        let rule = "points come by rising share of fetches, each share once";
        self.in_order(&path, &mix, (rule, "put them in order"), |one, next| one.0 >= next.0);
        Some(mix)
    }

    fn tail(&mut self, raw: &RawTail, at: At) -> Option<Tail> {
        let p50 = self.number(&raw.p50, at.field("p50"), SETUP);
        let p99 = self.number(&raw.p99, at.field("p99"), SETUP);
        let (p50, p99, path) = (p50?, p99?, at.field("p99").path);
        if p50.ps() == 0 || p99 < p50 || p99.ps() / 1000 > p50.ps() {
            let rule = "a tail has 0 < p50 <= p99 <= 1000 x p50";
            self.check.fault(&path, rule, "check the units of both");
            return None;
        }
        let tail = Tail { p50, p99 };
        if tail.most().ps() as f64 > 10.0 * SETUP.most {
            let rule = "the longest delay, six deviations out, is above 100 s";
            self.check.fault(&path, rule, "lower it");
            return None;
        }
        Some(tail)
    }

    fn cache(&mut self, raw: &RawCache, at: At, rate: Bandwidth) -> Option<Cache> {
        let size = self.number(&raw.size, at.field("size"), CAPACITY);
        let drain = self.number(&raw.drain, at.field("drain"), RATE)?;
        if drain >= rate {
            let rule = "a cache is emptied more slowly than it is written";
            let remedy = "lower it, or leave out the cache";
            self.check.fault(&at.field("drain").path, rule, remedy);
            return None;
        }
        Some(Cache { size: size?, drain })
    }

    /// The set of drives of a link.
    fn raid0(&mut self, raw: &RawRaid0, link: &RawLink, at: At) -> Option<Raid0> {
        let drives = self.number(&raw.drives, at.field("drives"), DRIVES);
        let stripe = self.number(&raw.stripe, at.field("stripe"), CAPACITY);
        let curves = [
            (link.mix.is_some(), "mix"),
            (link.pageable.is_some(), "pageable"),
            (link.read_sizes.is_some(), "read_sizes"),
            (link.write_sizes.is_some(), "write_sizes"),
            (link.read_depths.is_some(), "read_depths"),
            (link.write_depths.is_some(), "write_depths"),
            (link.write_cache.is_some(), "write_cache"),
        ];
        for (_, field) in curves.into_iter().filter(|(given, _)| *given) {
            let rule = format!("a set of drives follows from its stripes, not from `{field}`");
            self.check.fault(&at.path, rule, "leave one of them out");
        }
        Some(Raid0 { drives: drives?, stripe: stripe? })
    }

    /// What background traffic sends over a link in each direction.
    fn background(
        &mut self,
        raw: &RawBackground,
        at: At,
        discipline: Discipline,
    ) -> [Option<Bandwidth>; 2] {
        if discipline != Discipline::FairShare {
            let rule = "`background` is copies that share, and this link shares nothing";
            self.check.fault(&at.path, rule, "write service: fair_share, or leave it out");
        }
        if raw.read.is_none() && raw.write.is_none() {
            let rule = "background traffic goes in one direction at least";
            self.check.fault(&at.path, rule, "write `read` or `write`, or leave it out");
        }
        let read = self.optional(&raw.read, at.field("read"), RATE);
        [read, self.optional(&raw.write, at.field("write"), RATE)]
    }

    /// From the numbers of one drive to those of the set.
    pub(super) fn gather_drives(&mut self, hardware: &mut Hardware) {
        for index in 0..hardware.links.len() {
            let Some(raid0) = hardware.links[index].raid0 else { continue };
            let (link, here) = (&hardware.links[index], format!("links.{index}.raid0"));
            let far = hardware.tier_of(link.far);
            let drive = far.filter(|tier| hardware.tiers[tier.index()].kind == TierKind::Nvme);
            let Some(tier) = drive else {
                let rule = "a set of drives is at the far end of its link, a tier of kind nvme";
                self.check.fault(&here, rule, "turn the link around, or leave it out");
                continue;
            };
            let again = |other: &Link| other.far == link.far && other.raid0.is_some();
            if hardware.links[..index].iter().any(again) {
                let rule = "another link to this tier says already that it is a set of drives";
                self.check.fault(&here, rule, "keep one of them");
                continue;
            }
            if grown(hardware, index, tier.index(), raid0).is_none() {
                let rule = "a number of the set leaves its range: 1 EiB or 10^18 per second";
                self.check.fault(&format!("{here}.drives"), rule, "write fewer drives");
            }
        }
    }
}

/// Multiplies the numbers of a link and its tier; `None` if one leaves its range.
fn grown(hardware: &mut Hardware, link: usize, tier: usize, raid0: Raid0) -> Option<()> {
    let drives = u64::from(raid0.drives.get());
    let grow = |rate: &mut Bandwidth| {
        let all = rate.get().checked_mul(drives).filter(|&all| all as f64 <= RATE.most)?;
        *rate = Bandwidth::new(all)?;
        Some(())
    };
    let tier = &mut hardware.tiers[tier];
    if let Some(capacity) = tier.capacity.limit() {
        let all = capacity.get().checked_mul(drives)?;
        tier.capacity = Bytes::new(all).into();
        (all as f64 <= CAPACITY.most).then_some(())?;
    }
    grow(&mut tier.access.rate)?;
    let link = &mut hardware.links[link];
    grow(&mut link.read.rate)?;
    grow(&mut link.write.rate)?;
    link.service.iter_mut().flat_map(|service| &mut service.total).try_for_each(grow)
}
