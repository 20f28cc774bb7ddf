//! Records of DAMON: in each interval, in how many samples each region was found in use.
//!
//! Two texts are read. `perf script` prints the tracepoint `damon:damon_aggregated` as `... TIME:
//! damon:damon_aggregated: target_id=0 nr_regions=11 START-END: ACCESSES AGE`, addresses decimal, all
//! regions of an interval at its end. `damo report raw` prints intervals of one target, with
//! `monitoring_start:`, `monitoring_end:` and `nr_regions:` before the regions, `START-END(SIZE):
//! ACCESSES`, addresses hexadecimal. Neither tells reads from writes, nor what of a region was used
//! when: all of it is taken to be read, page by page, where any of it was found in use.
//! Invariant: an interval has the regions that it says.

use super::group::Groups;
use super::lines::{Lines, decimal, hex, seconds};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use tiersim_models::diagnostic::Diagnostics;

const EVENT: &str = "damon:damon_aggregated:";
const AGAIN: &str = "record again; `perf record` says when events were lost";
/// Most targets: processes that are watched at once.
const MOST_TARGETS: usize = 1 << 10;

/// A line of the tracepoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Region {
    at_ps: u128,
    target: u64,
    regions: u64,
    start: u64,
    end: u64,
    accesses: u64,
}

/// The region of a line, if it is one.
pub(super) fn tracepoint(text: &str) -> Option<Region> {
    let (before, behind) = text.split_once(EVENT)?;
    let at_ps = seconds(before.trim_ascii_end().strip_suffix(':')?.rsplit(' ').next()?)?;
    let mut words = behind.split_ascii_whitespace();
    let mut field = |name: &str| decimal(words.next()?.strip_prefix(name)?.strip_prefix('=')?);
    let (target, regions) = (field("target_id")?, field("nr_regions")?);
    let (start, end) = words.next()?.strip_suffix(':')?.split_once('-')?;
    let (start, end) = (decimal(start)?, decimal(end)?);
    let accesses = decimal(words.next()?)?;
    Some(Region { at_ps, target, regions, start, end, accesses })
}

/// The regions of an interval that have come.
#[derive(Default)]
struct Interval {
    /// By target: how many have come, of how many.
    of: BTreeMap<u64, (u64, u64)>,
    at_ps: u128,
    /// When the interval before ended.
    before: Option<u128>,
    /// The pages of the first one, until it is known how long the second is.
    first: Option<BTreeSet<u32>>,
}

impl Interval {
    fn whole(&self) -> bool {
        self.of.values().all(|(come, all)| come == all)
    }

    /// Whether a region of a target begins the next interval.
    fn ends_before(&self, target: u64) -> bool {
        self.of.get(&target).is_some_and(|(come, all)| come >= all)
    }
}

pub(super) fn read_tracepoint(path: &Path, groups: &mut Groups) -> Result<(), Diagnostics> {
    let mut lines = Lines::open(path)?;
    let mut interval = Interval::default();
    while lines.advance()? {
        let text = lines.text()?;
        if text.trim_ascii().is_empty() || text.starts_with('#') {
            continue;
        }
        let Some(region) = tracepoint(text) else {
            let rule = "a line is such as `kdamond.0 46568 [027] 79357.842179: damon:damon_aggregated: \
                        target_id=0 nr_regions=11 122509119488-135708762112: 0 864`";
            let remedy =
                "record with `perf record -e damon:damon_aggregated` and print with `perf script`";
            return Err(lines.no_such(rule, remedy));
        };
        if interval.ends_before(region.target) {
            close(&lines, &mut interval, groups)?;
        }
        if interval.of.is_empty() {
            interval.at_ps = region.at_ps;
        }
        let entry = interval.of.entry(region.target).or_insert((0, region.regions));
        entry.0 += 1;
        if entry.1 != region.regions || entry.0 > entry.1 {
            let rule = "all regions of an interval say the same nr_regions, and are as many";
            return Err(lines.refuse(rule, region.regions.to_string(), AGAIN));
        }
        if interval.of.len() > MOST_TARGETS {
            return Err(lines.refuse("at most 1024 targets", "more", "watch fewer at once"));
        }
        let place = (region.target, region.start, region.end);
        take(&lines, place, region.accesses, groups)?;
    }
    if !interval.of.is_empty() {
        close(&lines, &mut interval, groups)?;
    }
    if interval.first.is_some() {
        let rule = "a record has two intervals or more: only then is it known how long one is";
        return Err(lines.refuse(rule, "1", "record longer"));
    }
    Ok(())
}

fn close(lines: &Lines, interval: &mut Interval, groups: &mut Groups) -> Result<(), Diagnostics> {
    if !interval.whole() {
        let missing: u64 = interval.of.values().map(|(come, all)| all - come).sum();
        let rule = "an interval has as many regions as its nr_regions says";
        return Err(lines.refuse(rule, format!("{missing} too few"), AGAIN));
    }
    let (end, pages) = (interval.at_ps, groups.end_of_interval());
    interval.of.clear();
    let Some(start) = interval.before.replace(end) else {
        interval.first = Some(pages);
        return Ok(());
    };
    let mut done = Ok(());
    if let Some(first) = interval.first.take() {
        // Taken to be as long as the second.
        let begin = start.saturating_sub(end.saturating_sub(start));
        done = groups.interval(&first, (begin, start));
    }
    done.and_then(|()| groups.interval(&pages, (start, end)))
        .map_err(|rule| lines.broken(rule, groups))
}

/// A region of a target, with its first byte and the one behind its last.
fn take(
    lines: &Lines,
    (target, start, end): (u64, u64, u64),
    accesses: u64,
    groups: &mut Groups,
) -> Result<(), Diagnostics> {
    if start >= end {
        let rule = "a region ends behind its start";
        return Err(lines.refuse(rule, format!("{start:x}-{end:x}"), "check what wrote the file"));
    }
    groups.read(lines.length).map_err(|rule| lines.broken(rule, groups))?;
    groups.account.regions += 1;
    groups.region((target, start, end), accesses > 0).map_err(|rule| lines.broken(rule, groups))
}

/// A time such as `1 m 2.500 s`, `104.599 ms`, or nanoseconds alone, in ps.
fn span(text: &str) -> Option<u128> {
    let mut words = text.split_ascii_whitespace().peekable();
    let mut sum = 0u128;
    while let Some(number) = words.next() {
        let number = number.replace(',', "");
        let (whole, part) = number.split_once('.').unwrap_or((&number, ""));
        if part.len() > 6 || !part.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let unit: u128 = match words.next() {
            Some("ns") | None => 1_000,
            Some("us") => 1_000_000,
            Some("ms") => 1_000_000_000,
            Some("s") => 1_000_000_000_000,
            Some("m") => 60_000_000_000_000,
            Some("h") => 3_600_000_000_000_000,
            Some(_) => return None,
        };
        let part = if part.is_empty() {
            0
        } else {
            u128::from(decimal(part)?) * unit / 10u128.pow(part.len() as u32)
        };
        sum = sum.checked_add(u128::from(decimal(whole)?).checked_mul(unit)?.checked_add(part)?)?;
    }
    (!text.trim_ascii().is_empty()).then_some(sum)
}

/// The start, end and accesses of a region of `damo report raw`.
fn region(text: &str) -> Option<(u64, u64, u64)> {
    let (addresses, rest) = text.split_once('(')?;
    let (start, end) = addresses.trim_ascii().split_once('-')?;
    let (_, behind) = rest.split_once(')')?;
    let accesses = behind.trim_start_matches(':').split_ascii_whitespace().next()?;
    Some((hex(start)?, hex(end)?, decimal(accesses)?))
}

/// What `damo report raw` says of an interval before its regions, and of all of them.
#[derive(Default)]
struct Report {
    start: Option<u128>,
    end: Option<u128>,
    /// Regions that are still to come.
    left: u64,
    target: Option<String>,
}

pub(super) fn read_report(path: &Path, groups: &mut Groups) -> Result<(), Diagnostics> {
    let mut lines = Lines::open(path)?;
    let mut report = Report::default();
    while lines.advance()? {
        let text = lines.text()?.trim_ascii();
        let of_all = ["#", "base_time_absolute:", "data source:"];
        if text.is_empty() || of_all.iter().any(|start| text.starts_with(start)) {
            continue;
        }
        match text.split_once(':').filter(|_| !text.contains('(')) {
            Some((name, value)) => report.field(&lines, name, value.trim_ascii())?,
            None => report.region(&lines, text, groups)?,
        }
    }
    report.whole(&lines)
}

/// That a line is not as `damo` prints it.
fn wrong(lines: &Lines, rule: &str) -> Diagnostics {
    lines.no_such(rule, "print it with `damo report raw`")
}

impl Report {
    /// Whether the interval has all of its regions.
    fn whole(&self, lines: &Lines) -> Result<(), Diagnostics> {
        if self.left == 0 {
            return Ok(());
        }
        let rule = "an interval has as many regions as its nr_regions says";
        Err(lines.refuse(rule, format!("{} too few", self.left), AGAIN))
    }

    fn field(&mut self, lines: &Lines, name: &str, value: &str) -> Result<(), Diagnostics> {
        match name {
            "monitoring_start" | "monitoring_end" => {
                let Some(time) = span(value) else {
                    let rule = "a time is such as `104.599 ms`, or whole nanoseconds";
                    return Err(wrong(lines, rule));
                };
                self.whole(lines)?;
                match name {
                    "monitoring_start" => (self.start, self.end) = (Some(time), None),
                    _ => self.end = Some(time),
                }
            }
            "monitoring_duration" => {}
            "target_id" => {
                if self.target.get_or_insert_with(|| value.to_owned()) != value {
                    let rule = "all intervals are of one target";
                    let remedy = "record one process, or print the tracepoint with `perf script`";
                    return Err(lines.refuse(rule, value, remedy));
                }
            }
            "nr_regions" => match decimal(value) {
                Some(regions) => self.left = regions,
                None => return Err(wrong(lines, "nr_regions is a whole number")),
            },
            _ => return Err(wrong(lines, "a line of `damo report raw`")),
        }
        Ok(())
    }

    fn region(
        &mut self,
        lines: &Lines,
        text: &str,
        groups: &mut Groups,
    ) -> Result<(), Diagnostics> {
        let Some((start, end, accesses)) = region(text) else {
            let rule = "a region is such as `563ebaa00000-563ebc99e000(  31.617 MiB): 1`";
            return Err(wrong(lines, rule));
        };
        let (Some(from), Some(to)) = (self.start, self.end) else {
            let rule = "regions stand behind monitoring_start and monitoring_end";
            return Err(wrong(lines, rule));
        };
        let Some(left) = self.left.checked_sub(1) else {
            return Err(wrong(lines, "an interval has as many regions as its nr_regions says"));
        };
        self.left = left;
        take(lines, (0, start, end), accesses, groups)?;
        if left == 0 {
            let pages = groups.end_of_interval();
            let done = groups.interval(&pages, (from, to));
            done.map_err(|rule| lines.broken(rule, groups))?;
        }
        Ok(())
    }
}
