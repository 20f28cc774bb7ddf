//! Reads how a link serves several copies: the optional fields of a link.
//!
//! Invariant: a link that writes none of them has no [`Service`], and so behaves, prints and hashes
//! as if these fields did not exist.

use super::{RawLink, Resolver};
use crate::text::quantity::{Bandwidth, CAPACITY, Copies, Duration, Quantity, SETUP, Size};
use crate::text::quantity::{Sourced, sourced};
use serde::Deserialize;
use std::num::NonZeroU32;
use tiersim_models::hardware::{Fact, Law, Source};
use tiersim_models::service::{Cache, Detail, Discipline, Service, Tail};
use tiersim_models::units::Bytes;

/// More points than any measured curve has.
const MAX_POINTS: usize = 64;

/// Who is served, as written.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename = "Service", rename_all = "snake_case")]
pub(super) enum RawDiscipline {
    Fifo,
    FairShare,
}

/// Rates by size, with one source for all points.
#[derive(Debug, Deserialize)]
#[serde(rename = "Sizes", deny_unknown_fields)]
pub(super) struct RawSizes {
    points: Vec<(Quantity<Size>, Quantity<Bandwidth>)>,
    source: Source,
}

/// Rates by number of copies, with one source for all points.
#[derive(Debug, Deserialize)]
#[serde(rename = "Depths", deny_unknown_fields)]
pub(super) struct RawDepths {
    points: Vec<(Quantity<Copies>, Quantity<Bandwidth>)>,
    source: Source,
}

/// Totals by share of fetches, with one source for all points.
#[derive(Debug, Deserialize)]
#[serde(rename = "Mix", deny_unknown_fields)]
pub(super) struct RawMix {
    points: Vec<(f64, Quantity<Bandwidth>)>,
    source: Source,
}

#[derive(Debug, Deserialize)]
#[serde(rename = "Tail", deny_unknown_fields)]
pub(super) struct RawTail {
    p50: Sourced<Duration>,
    p99: Sourced<Duration>,
}

#[derive(Debug, Deserialize)]
#[serde(rename = "Cache", deny_unknown_fields)]
pub(super) struct RawCache {
    size: Sourced<Size>,
    drain: Sourced<Bandwidth>,
}

/// The host's memory that copies start from or end in.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename = "Buffers", rename_all = "snake_case")]
pub(super) enum RawBuffers {
    Pinned,
    Pageable,
}

/// What copies reach from and to memory that is not pinned.
#[derive(Debug, Deserialize)]
#[serde(rename = "Pageable", deny_unknown_fields)]
pub(super) struct RawPageable {
    fetch: Sourced<Bandwidth>,
    evict: Sourced<Bandwidth>,
}

/// One direction of a link, as written.
struct Direction<'r> {
    /// `fetch` or `evict`.
    word: &'static str,
    here: &'r str,
    fact: &'r str,
    rate: Bandwidth,
    sizes: Option<&'r RawSizes>,
    depths: Option<&'r RawDepths>,
    tail: Option<&'r RawTail>,
}

impl Resolver<'_> {
    /// The service of a link whose laws are `fetch` and `evict`, if it has any; `here` is its place
    /// in the file, `fact` its place in listings.
    pub(super) fn service(
        &mut self,
        raw: &RawLink,
        here: &str,
        fact: &str,
        [fetch, evict]: [Law; 2],
    ) -> Option<Service> {
        let discipline = match raw.service {
            Some(RawDiscipline::FairShare) => Discipline::FairShare,
            Some(RawDiscipline::Fifo) | None => Discipline::Fifo,
        };
        let lanes = raw.lanes.as_ref().and_then(|lanes| self.copies(lanes, here, fact));
        let total = raw.total.as_ref().and_then(|total| {
            let path = format!("{here}.total");
            let total = self.rate(total, &path, format!("{fact}.total"))?;
            if total < fetch.rate.max(evict.rate) {
                let rule = "both directions together reach at least what one does alone";
                self.check.fault(&path, rule, "raise `total`, or lower `fetch` and `evict`");
            }
            Some(total)
        });
        let (sizes, depths, tail) = (&raw.fetch_sizes, &raw.fetch_depths, &raw.fetch_tail);
        let (sizes, depths, tail) = (sizes.as_ref(), depths.as_ref(), tail.as_ref());
        let (word, rate) = ("fetch", fetch.rate);
        let fetch = Direction { word, here, fact, rate, sizes, depths, tail };
        let (sizes, depths, tail) = (&raw.evict_sizes, &raw.evict_depths, &raw.evict_tail);
        let (sizes, depths, tail) = (sizes.as_ref(), depths.as_ref(), tail.as_ref());
        let (word, rate) = ("evict", evict.rate);
        let evict = Direction { word, here, fact, rate, sizes, depths, tail };
        let rate = evict.rate;
        let (fetch, mut evict) = (self.detail(&fetch), self.detail(&evict));
        evict.cache =
            raw.write_cache.as_ref().and_then(|cache| self.cache(cache, here, fact, rate));
        let mix = raw.mix.as_ref().and_then(|mix| self.mix(mix, here, fact, total));
        let mix = mix.unwrap_or_default();
        let service = Service { discipline, lanes, total, mix, fetch, evict };
        self.fits_together(&service, here);
        (service != Service::default()).then_some(service)
    }

    /// The rates of both directions: those given, or those of pageable memory if the link says that
    /// its copies use such.
    pub(super) fn buffers(
        &mut self,
        raw: &RawLink,
        here: &str,
        fact: &str,
        pinned: [Option<Bandwidth>; 2],
    ) -> [Option<Bandwidth>; 2] {
        let (path, fact) = (format!("{here}.pageable"), format!("{fact}.pageable"));
        let pageable = raw.pageable.as_ref().map(|raw| {
            [
                self.rate(&raw.fetch, &format!("{path}.fetch"), format!("{fact}.fetch")),
                self.rate(&raw.evict, &format!("{path}.evict"), format!("{fact}.evict")),
            ]
        });
        match (raw.buffers, pageable) {
            (None | Some(RawBuffers::Pinned), _) => pinned,
            (Some(RawBuffers::Pageable), Some(pageable)) => pageable,
            (Some(RawBuffers::Pageable), None) => {
                let rule = "nothing says what pageable memory reaches";
                let remedy = "write pageable: (fetch: ..., evict: ...) with their sources";
                self.check.fault(&format!("{here}.buffers"), rule, remedy);
                pinned
            }
        }
    }

    /// What needs the one or the other discipline.
    fn fits_together(&mut self, service: &Service, here: &str) {
        let fair = service.discipline == Discipline::FairShare;
        let asks = [
            (service.total.is_some(), "total"),
            (!service.fetch.depths.is_empty(), "fetch_depths"),
            (!service.evict.depths.is_empty(), "evict_depths"),
        ];
        for (_, field) in asks.into_iter().filter(|&(asked, _)| asked && !fair) {
            let rule =
                format!("`{field}` is about copies that share, and this link shares nothing");
            let remedy = "write service: fair_share, or leave it out";
            self.check.fault(&format!("{here}.{field}"), rule, remedy);
        }
        if service.evict.cache.is_some() && (fair || service.at_once() > 1) {
            let rule = "a write cache needs a link that serves one copy after the other";
            let remedy = "leave out `service` and `lanes`, or the cache";
            self.check.fault(&format!("{here}.write_cache"), rule, remedy);
        }
    }

    fn detail(&mut self, direction: &Direction<'_>) -> Detail {
        let sizes = direction.sizes.and_then(|raw| self.sizes(raw, direction));
        let depths = direction.depths.and_then(|raw| self.depths(raw, direction));
        let tail = direction.tail.and_then(|raw| self.tail(raw, direction));
        let (sizes, depths) = (sizes.unwrap_or_default(), depths.unwrap_or_default());
        Detail { sizes, depths, tail, cache: None }
    }

    fn sizes(
        &mut self,
        raw: &RawSizes,
        direction: &Direction<'_>,
    ) -> Option<Vec<(Bytes, Bandwidth)>> {
        let path = self.curve("sizes", direction, &raw.source);
        let points = self.check.at_most(&path, "points", &raw.points, MAX_POINTS);
        let mut sizes = Vec::new();
        for (index, (size, rate)) in points.iter().enumerate() {
            let here = format!("{path}.{index}");
            let size = size.bytes(&mut self.check, &format!("{here}.0"), CAPACITY);
            let rate = rate.rate(&mut self.check, &format!("{here}.1"));
            sizes.push(size.zip(rate));
        }
        let sizes: Vec<_> = sizes.into_iter().collect::<Option<_>>()?;
        self.not_empty(sizes.is_empty(), &path);
        self.not_faster(sizes.iter().map(|point| point.1), &path, direction);
        let time = |(size, rate): &(Bytes, Bandwidth)| rate.checked_span_of(size.get());
        for (index, pair) in sizes.windows(2).enumerate() {
            if pair[0].0 >= pair[1].0 || time(&pair[0]) > time(&pair[1]) {
                let rule = "sizes rise, and a larger copy takes no less time";
                self.check.fault(
                    &format!("{path}.{}", index + 1),
                    rule,
                    "order the points by size",
                );
            }
        }
        Some(sizes)
    }

    fn depths(
        &mut self,
        raw: &RawDepths,
        direction: &Direction<'_>,
    ) -> Option<Vec<(u32, Bandwidth)>> {
        let path = self.curve("depths", direction, &raw.source);
        let points = self.check.at_most(&path, "points", &raw.points, MAX_POINTS);
        let mut depths = Vec::new();
        for (index, (copies, rate)) in points.iter().enumerate() {
            let here = format!("{path}.{index}");
            let copies = copies.count(&mut self.check, &format!("{here}.0")).map(NonZeroU32::get);
            depths.push(copies.zip(rate.rate(&mut self.check, &format!("{here}.1"))));
        }
        let depths: Vec<_> = depths.into_iter().collect::<Option<_>>()?;
        self.not_empty(depths.is_empty(), &path);
        self.not_faster(depths.iter().map(|point| point.1), &path, direction);
        if depths.first().is_some_and(|first| first.0 != 1) {
            let rule = "a ramp begins with one copy";
            self.check.fault(&format!("{path}.0.0"), rule, "write copies(1) first");
        }
        for (index, pair) in depths.windows(2).enumerate() {
            if pair[0].0 >= pair[1].0 || pair[0].1 > pair[1].1 {
                let rule = "numbers of copies rise, and more of them reach no less together";
                let remedy = "order the points by number, and cut the ramp where it falls";
                self.check.fault(&format!("{path}.{}", index + 1), rule, remedy);
            }
        }
        Some(depths)
    }

    fn mix(
        &mut self,
        raw: &RawMix,
        here: &str,
        fact: &str,
        total: Option<Bandwidth>,
    ) -> Option<Vec<(u8, Bandwidth)>> {
        let (here, fact) = (format!("{here}.mix"), format!("{fact}.mix"));
        let path = self.points(&here, fact, &raw.source);
        let points = self.check.at_most(&path, "points", &raw.points, MAX_POINTS);
        let mut mix = Vec::new();
        for (index, (share, rate)) in points.iter().enumerate() {
            let here = format!("{path}.{index}");
            let share = self.check.number(&format!("{here}.0"), "a share", *share, 0.0, 1.0);
            // Shares are kept to the per cent: mixes are not measured more finely.
            let share = share.map(|share| (share * 100.0).round() as u8);
            let rate = rate.rate(&mut self.check, &format!("{here}.1"));
            if rate.is_some_and(|rate| total.is_none_or(|total| rate > total)) {
                let rule = "a mix says how far below `total` both directions together stay";
                self.check.fault(&format!("{here}.1"), rule, "write the best mix as `total`");
            }
            mix.push(share.zip(rate));
        }
        let mix: Vec<_> = mix.into_iter().collect::<Option<_>>()?;
        self.not_empty(mix.is_empty(), &path);
        for (index, pair) in mix.windows(2).enumerate() {
            if pair[0].0 >= pair[1].0 {
                let rule = "points come by rising share of fetches, each share once";
                self.check.fault(&format!("{path}.{}", index + 1), rule, "put them in order");
            }
        }
        Some(mix)
    }

    /// Notes the source of a curve; gives the place of its points.
    fn curve(&mut self, what: &str, direction: &Direction<'_>, source: &Source) -> String {
        let field = format!("{}_{what}", direction.word);
        let path = format!("{}.{field}", direction.here);
        self.points(&path, format!("{}.{field}", direction.fact), source)
    }

    fn points(&mut self, path: &str, fact: String, source: &Source) -> String {
        let source = sourced(source, &mut self.check, &format!("{path}.source"));
        let points = format!("{path}.points");
        let value = self.check.document.value(&points).unwrap_or_default().to_string();
        self.facts.push(Fact { path: fact, value, source });
        points
    }

    fn not_empty(&mut self, empty: bool, path: &str) {
        if empty {
            self.check.fault(path, "a curve has at least one point", "add one, or leave it out");
        }
    }

    fn not_faster(
        &mut self,
        rates: impl Iterator<Item = Bandwidth>,
        path: &str,
        direction: &Direction<'_>,
    ) {
        for (index, _) in rates.enumerate().filter(|&(_, rate)| rate > direction.rate) {
            let word = direction.word;
            let rule = format!("no point of a curve is faster than `{word}`");
            let remedy = format!("raise `{word}`: it is what the fastest copies reach");
            self.check.fault(&format!("{path}.{index}.1"), rule, remedy);
        }
    }

    fn tail(&mut self, raw: &RawTail, direction: &Direction<'_>) -> Option<Tail> {
        let field = format!("{}_tail", direction.word);
        let path = format!("{}.{field}", direction.here);
        let fact = format!("{}.{field}", direction.fact);
        let p50 = self.span(&raw.p50, &format!("{path}.p50"), format!("{fact}.p50"));
        let p99 = self.span(&raw.p99, &format!("{path}.p99"), format!("{fact}.p99"));
        let (p50, p99) = (p50?, p99?);
        if p50.ps() == 0 || p99 < p50 || p99.ps() / 1000 > p50.ps() {
            let rule = "a tail has 0 < p50 <= p99 <= 1000 x p50";
            self.check.fault(&format!("{path}.p99"), rule, "check the units of both");
            return None;
        }
        let tail = Tail { p50, p99 };
        if tail.most().ps() as f64 > 10.0 * SETUP.most {
            let rule = "the longest delay, six deviations out, is above 100 s";
            self.check.fault(&format!("{path}.p99"), rule, "lower it");
            return None;
        }
        Some(tail)
    }

    fn cache(&mut self, raw: &RawCache, here: &str, fact: &str, rate: Bandwidth) -> Option<Cache> {
        let (path, fact) = (format!("{here}.write_cache"), format!("{fact}.write_cache"));
        self.fact(&raw.size, &format!("{path}.size"), format!("{fact}.size"));
        let size = raw.size.quantity.bytes(&mut self.check, &format!("{path}.size.0"), CAPACITY);
        let drain = self.rate(&raw.drain, &format!("{path}.drain"), format!("{fact}.drain"))?;
        if drain >= rate {
            let rule = "a cache is emptied more slowly than it is written";
            self.check.fault(&format!("{path}.drain"), rule, "lower it, or leave out the cache");
            return None;
        }
        Some(Cache { size: size?, drain })
    }

    fn copies(&mut self, raw: &Sourced<Copies>, here: &str, fact: &str) -> Option<NonZeroU32> {
        let path = format!("{here}.lanes");
        self.fact(raw, &path, format!("{fact}.lanes"));
        raw.quantity.count(&mut self.check, &format!("{path}.0"))
    }
}
