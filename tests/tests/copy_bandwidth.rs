//! `docs/explanation/copy-bandwidth.md`: what copies reach in the simulator against what somebody measured.
//!
//! Each row of `tests/data/copy-bandwidth.csv` is a published figure. The same copies run on the
//! shipped machine, back to back through [`SimMachine`], both directions at once where they were
//! measured so. Whether a figure is an input of the spec is read from the spec itself: a number on
//! the route with this value and this source. Invariant: the page is what this suite writes.

use tiersim_models::hardware::{Fact, Source};
use tiersim_tests::files::{self, machine, machines, page, root};
use tiersim_tests::prelude::*;

/// Copies of each direction.
const COPIES: usize = 32;
/// A number of a spec is the measured one if it is as near as this: sources are rounded.
const SAME: f64 = 0.003;

/// How a figure relates to the spec.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// A number on the route is this figure.
    Input,
    /// A set-up on the route was worked out from the same source.
    Fitted,
    /// Nothing on the route comes from it.
    HeldOut,
}

impl Kind {
    fn word(self) -> &'static str {
        match self {
            Kind::Input => "input",
            Kind::Fitted => "fitted",
            Kind::HeldOut => "held out",
        }
    }
}

/// One measured figure.
struct Row {
    machine: String,
    /// `dram->hbm`, `dram<->hbm` (the sum of both) or `dram in place`.
    route: String,
    /// Copies under way at once, per direction; towards the first tier first.
    flight: [usize; 2],
    bytes: u64,
    /// Whether the source states the size.
    stated: bool,
    measured: f64,
    /// Where, without a date.
    address: String,
    what: String,
}

fn rows() -> Vec<Row> {
    let row = |row: files::Row| {
        let text = |column: &str| row[column].clone();
        let number = |column: &str| row[column].parse::<f64>().expect("a number");
        let (there, back) = row["in flight"].split_once('+').unwrap_or((&row["in flight"], "0"));
        Row {
            machine: text("machine"),
            route: text("route"),
            flight: [there, back].map(|copies| copies.parse().expect("a number of copies")),
            bytes: number("bytes") as u64,
            stated: row["size stated"] == "yes",
            measured: number("GB/s"),
            address: text("source"),
            what: text("what"),
        }
    };
    let rows = files::table(&root().join("tests/data/copy-bandwidth.csv"));
    rows.into_iter().map(row).collect()
}

/// From and to of each direction; one that uses a tier in place has the device at the other end.
fn ends(row: &Row, machine: &Hardware) -> (TierId, TierId) {
    let tier =
        |name: &str| machine.tier(name).unwrap_or_else(|| panic!("{}: no {name}", row.machine));
    if let Some(place) = row.route.strip_suffix(" in place") {
        return (tier(place), TierId(0));
    }
    let parts = row.route.split_once("<->").or_else(|| row.route.split_once("->"));
    let (from, to) = parts.expect("a route names two tiers");
    (tier(from), tier(to))
}

/// GB/s of copies back to back: all bytes over all time in one direction; in both, the sum of what
/// each reaches from its first end to the last one before either has run out.
fn simulated(row: &Row, machine: &Hardware) -> f64 {
    let (from, to) = ends(row, machine);
    let mut traced = Traced::new();
    traced.op(0, 0, Span::ZERO, &[]);
    let world = World::of(machine.clone(), traced.0, vec![Span::ZERO]);
    let mut sim = world.unplanned();
    let (object, bytes) = (ObjectId(0), Bytes::new(row.bytes));
    let in_place = row.route.ends_with(" in place");
    let ways = if row.flight[1] > 0 { 2 } else { 1 };
    for ticket in 0..COPIES * ways {
        let (way, nth) = (ticket % ways, ticket / ways);
        let (from, to) = if way == 0 { (from, to) } else { (to, from) };
        let work = match in_place {
            true => computing(0, 0, [], [(from, bytes)]),
            false => Work::Copy { object, bytes, from, to },
        };
        let before = nth.checked_sub(row.flight[way]).map(|nth| nth * ways + way);
        sim.submit(command(ticket, work, before)).expect("it takes it");
    }
    let mut ended: [Vec<Time>; 2] = Default::default();
    while let Some((now, ticket)) = sim.next().expect("no fault") {
        ended[ticket.0 as usize % ways].push(now);
        if ended[..ways].iter().any(|ends| ends.len() == COPIES) {
            break;
        }
    }
    let rate =
        |copies: usize, time: Span| copies as f64 * row.bytes as f64 * 1e3 / time.ps() as f64;
    if ways == 1 {
        return rate(COPIES, ended[0][COPIES - 1].since(Time::ZERO));
    }
    let steady = |ends: &Vec<Time>| rate(ends.len() - 1, ends[ends.len() - 1].since(ends[0]));
    ended.iter().map(steady).sum()
}

/// The rates that a value as written holds, in GB/s.
fn rates(written: &str) -> Vec<f64> {
    let units = [("mb_per_s(", 1e-3), ("gb_per_s(", 1.0), ("tb_per_s(", 1e3)];
    let of = |(unit, scale): (&str, f64)| {
        let rest = written.split(unit).skip(1).map(|rest| rest.split(')').next().unwrap_or(""));
        rest.filter_map(|number| number.trim().parse::<f64>().ok())
            .map(|number| number * scale)
            .collect::<Vec<_>>()
    };
    units.into_iter().flat_map(of).collect()
}

fn text(source: &Source) -> &str {
    match source {
        Source::Datasheet(text) | Source::Measured(text) => text,
        Source::Announced(text) | Source::Assumed(text) => text,
    }
}

/// What the spec has from the source of the row.
fn kind(row: &Row, machine: &Hardware) -> Kind {
    let (from, to) = ends(row, machine);
    let both = row.flight[1] > 0;
    // Numbers of a set of drives are written for one of them.
    let mut drives = 1.0;
    let (mut rated, mut set_up) = (Vec::new(), Vec::new());
    if row.route.ends_with(" in place") {
        let tier = &machine.tiers[from.index()].name;
        rated.push(format!("tiers.{tier}.bandwidth"));
        set_up.push(format!("tiers.{tier}.setup"));
    } else {
        let routes = machine.routes().expect("it is joined");
        for channel in routes.between(from, to) {
            let link = &machine.links[channel.link.index()];
            drives = link.raid0.map_or(drives, |set| f64::from(set.drives.get()));
            let link = format!("links.{}", link.name);
            let fields = match (both, channel.evicting) {
                (true, _) => ["total", "mix"],
                (false, true) => ["write", "write_sizes"],
                (false, false) => ["read", "read_sizes"],
            };
            rated.extend(fields.iter().map(|field| format!("{link}.{field}")));
            set_up.push(format!("{link}.setup"));
        }
    }
    let from_there = |paths: &[String]| -> Vec<&Fact> {
        let here = |fact: &&Fact| paths.contains(&fact.path);
        let facts = machine.facts.iter().filter(here);
        facts.filter(|fact| text(&fact.source).contains(&row.address)).collect()
    };
    let same = |rate: f64| {
        [rate, rate * drives].iter().any(|rate| (rate / row.measured - 1.0).abs() <= SAME)
    };
    if from_there(&rated).iter().any(|fact| rates(&fact.value).into_iter().any(same)) {
        return Kind::Input;
    }
    let fitted = !both && !from_there(&set_up).is_empty();
    if fitted { Kind::Fitted } else { Kind::HeldOut }
}

fn size(bytes: u64) -> String {
    let units = [
        ("GiB", 1 << 30),
        ("MiB", 1 << 20),
        ("KiB", 1 << 10),
        ("GB", 1_000_000_000),
        ("MB", 1_000_000),
    ];
    let fits = units.into_iter().find(|(_, unit)| bytes.is_multiple_of(*unit));
    fits.map_or(format!("{bytes} B"), |(name, unit)| format!("{} {name}", bytes / unit))
}

/// As many digits as sources print.
fn figure(rate: f64) -> String {
    if rate < 1.0 { format!("{rate:.3}") } else { format!("{rate:.2}") }
}

fn flight(row: &Row) -> String {
    match row.flight {
        [there, 0] => there.to_string(),
        [there, back] => format!("{there} + {back}"),
    }
}

/// Per cent with a sign, and none of nothing.
fn signed(deviation: f64) -> String {
    let rounded = (deviation * 10.0).round() / 10.0;
    if rounded == 0.0 { "0.0 %".to_owned() } else { format!("{rounded:+.1} %") }
}

/// Median and worst of absolute deviations, the worst with its sign.
fn summary(of: &str, deviations: impl Iterator<Item = f64>) -> String {
    let mut sorted: Vec<f64> = deviations.collect();
    sorted.sort_by(|a, b| a.abs().total_cmp(&b.abs()));
    let count = sorted.len();
    let median = (sorted[(count - 1) / 2].abs() + sorted[count / 2].abs()) / 2.0;
    format!("| {of} | {count} | {median:.1} % | {} |", signed(sorted[count - 1]))
}

/// The lines of the page that start with `|` and are no heads of tables, then the machines that
/// nobody measured.
fn expected() -> Vec<String> {
    let mut table = Vec::new();
    let mut found: Vec<(Kind, u64, f64)> = Vec::new();
    for row in rows() {
        let machine = machine(&row.machine);
        let (reached, kind) = (simulated(&row, &machine), kind(&row, &machine));
        let deviation = 100.0 * (reached / row.measured - 1.0);
        found.push((kind, row.bytes, deviation));
        table.push(format!(
            "| `{}` | {} | {} | {}{} | {} | {} | {} | {} | {}; {} |",
            row.machine,
            row.route,
            flight(&row),
            size(row.bytes),
            if row.stated { "" } else { " ?" },
            row.measured,
            figure(reached),
            signed(deviation),
            kind.word(),
            row.what,
            row.address,
        ));
    }
    let of = |kind: Kind, least: u64| {
        let rows = found.iter().filter(move |(of, bytes, _)| *of == kind && *bytes >= least);
        rows.map(|(_, _, deviation)| *deviation)
    };
    let kinds = [Kind::Input, Kind::Fitted, Kind::HeldOut];
    let mut lines: Vec<String> =
        kinds.iter().map(|kind| summary(kind.word(), of(*kind, 0))).collect();
    lines.push(summary("held out, 1 MiB and more", of(Kind::HeldOut, 1 << 20)));
    lines.extend(table);
    let measured: BTreeSet<String> = rows().into_iter().map(|row| row.machine).collect();
    let names = machines().into_iter().map(|machine| machine.name);
    let without: BTreeSet<String> = names.filter(|name| !measured.contains(name)).collect();
    lines.extend(without.iter().map(|name| format!("* `{name}`")));
    lines
}

#[test]
fn the_page_holds_what_the_simulator_reaches() {
    let expected = expected();
    let page = page("docs/explanation/copy-bandwidth.md");
    let is_row = |line: &&str| {
        let head =
            line.starts_with("| machine") || line.starts_with("| kind") || line.starts_with("|---");
        (line.starts_with('|') && !head) || line.starts_with("* `")
    };
    let found: Vec<&str> = page.lines().filter(is_row).collect();
    // A machine without a figure may say why after its name.
    let name = |line: &str| match line.split_once("`: ") {
        Some((name, _)) if line.starts_with("* ") => format!("{name}`"),
        _ => line.to_owned(),
    };
    let found: Vec<String> = found.into_iter().map(name).collect();
    let (expected, found) = (expected.join("\n"), found.join("\n"));
    assert!(
        found == expected,
        "the rows of docs/explanation/copy-bandwidth.md must be:\n{expected}\n"
    );
}

#[test]
fn a_figure_that_was_put_in_comes_out_again() {
    // Large copies over one hop reach the spec's rate but for their set-up.
    for row in rows() {
        let machine = machine(&row.machine);
        let (from, to) = ends(&row, &machine);
        let routes = machine.routes().expect("it is joined");
        let whole = row.route.ends_with(" in place") || routes.hops(from, to).len() == 1;
        if whole && row.bytes >= 64 << 20 && kind(&row, &machine) == Kind::Input {
            let off = 100.0 * (simulated(&row, &machine) / row.measured - 1.0);
            assert!(off.abs() < 1.0, "{} {}: off by {off:.2} %", row.machine, row.route);
        }
    }
}
