//! Sweeps: what is drawn of a point is what the CSV says of it, and every point has a name of its
//! own.
//!
//! The chart is read back as a person reads it: from the labels of the ticks to values.

use crate::common::*;

const MACHINES: &str = r#"Scenario(
    schema: 2,
    about: "what the next machine saves, by policy",
    hardware: "h100-sxm-pcie5",
    workload: Trace(path: "traces/gpt2-train-cpu", time: roofline(precision: "tf32"), repeat: 3, warmup: 1),
    policies: [
        (name: "all in HBM", policy: AllHbm),
        (name: "lru", policy: Lru(spill: ["dram"]), hbm: share_of_peak(0.6)),
        (name: "lru, little", policy: Lru(spill: ["dram"]), hbm: share_of_peak(0.4)),
    ],
    sweep: (axes: [(name: "machine", path: "hardware", values: choices([
        ("H100", "\"h100-sxm-pcie5\""), ("H200", "\"h200-sxm-pcie5\""), ("A100", "\"a100-80g-pcie4\""),
    ]))]),
    seed: 1,
)
"#;

/// Rows of a CSV by column; no cell of these has a comma in quotes but `details` and `label`.
fn rows(csv: &str) -> Vec<BTreeMap<String, String>> {
    let cells = |line: &str| -> Vec<String> {
        let (mut cells, mut quoted) = (vec![String::new()], false);
        for c in line.chars() {
            match c {
                '"' => quoted = !quoted,
                ',' if !quoted => cells.push(String::new()),
                c => cells.last_mut().expect("there is one").push(c),
            }
        }
        cells
    };
    let mut lines = csv.lines().map(cells);
    let header = lines.next().expect("a header");
    lines.map(|line| header.iter().cloned().zip(line).collect()).collect()
}

/// One element of an SVG: its name, its attributes and its text.
struct Element {
    name: String,
    attributes: BTreeMap<String, String>,
    text: String,
}

impl Element {
    /// In pixels: the SVG has ten units of each.
    fn pixels(&self, attribute: &str) -> f64 {
        self.attributes[attribute].parse::<f64>().expect("a number") / 10.0
    }

    fn points(&self) -> Vec<(f64, f64)> {
        let pairs = self.attributes["points"].split_whitespace();
        let number = |text: &str| text.parse::<f64>().expect("a number") / 10.0;
        let pair = |pair: &str| pair.split_once(',').map(|(x, y)| (number(x), number(y)));
        pairs.map(|text| pair(text).expect("a pair")).collect()
    }
}

fn elements(svg: &str) -> Vec<Element> {
    let mut found = Vec::new();
    for piece in svg.split('<').skip(1).filter(|piece| !piece.starts_with('/')) {
        let (tag, text) = piece.split_once('>').expect("tags end");
        let (name, rest) = tag.split_once(' ').unwrap_or((tag, ""));
        let mut parts = rest.split('"');
        let mut attributes = BTreeMap::new();
        while let (Some(name), Some(value)) = (parts.next(), parts.next()) {
            attributes.insert(name.trim_matches([' ', '=']).to_owned(), value.to_owned());
        }
        let (name, text) = (name.to_owned(), text.trim().to_owned());
        found.push(Element { name, attributes, text });
    }
    found
}

/// A chart with its two axes.
struct Drawn {
    elements: Vec<Element>,
    x: [(f64, f64); 2],
    y: [(f64, f64); 2],
    log: bool,
}

impl Drawn {
    fn read(svg: &str) -> Drawn {
        let elements = elements(svg);
        let ticks = |anchor: &str| -> [(f64, f64); 2] {
            let own = elements.iter().filter(|e| {
                e.attributes.get("text-anchor").is_some_and(|own| own == anchor)
                    && e.attributes["font-size"] == "140"
            });
            // From the top of a text of 14 pixels to its baseline, which is 5 below its tick.
            let at = |e: &Element| match anchor {
                "end" => e.pixels("y") + 0.76 * 14.0 - 5.0,
                _ => e.pixels("x"),
            };
            let mut all: Vec<(f64, f64)> =
                own.filter_map(|e| Some((at(e), e.text.parse().ok()?))).collect();
            all.sort_by(|a, b| a.1.total_cmp(&b.1));
            [all[0], all[all.len() - 1]]
        };
        let (x, y) = (ticks("middle"), ticks("end"));
        let log = elements.iter().any(|e| e.text.contains("logarithmic"));
        Drawn { elements, x, y, log }
    }

    /// Where the axes say that a value is.
    fn at(&self, x: f64, y: f64) -> (f64, f64) {
        let linear = |[a, b]: [(f64, f64); 2], v: f64| a.0 + (b.0 - a.0) * (v - a.1) / (b.1 - a.1);
        let [a, b] = self.y;
        let share =
            if self.log { (y / a.1).ln() / (b.1 / a.1).ln() } else { (y - a.1) / (b.1 - a.1) };
        (linear(self.x, x), a.0 + (b.0 - a.0) * share)
    }

    /// Centres of markers, by the middle of what they cover.
    fn markers(&self) -> Vec<(f64, f64)> {
        let series = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#464646"];
        let own = |e: &&Element| {
            e.attributes.get("fill").is_some_and(|fill| series.contains(&fill.as_str()))
        };
        let centre = |e: &Element| match e.name.as_str() {
            "circle" => Some((e.pixels("cx"), e.pixels("cy"))),
            "polygon" => {
                let points = e.points();
                let middle = |of: fn(&(f64, f64)) -> f64| {
                    let most = points.iter().map(of).fold(f64::MIN, f64::max);
                    (points.iter().map(of).fold(f64::MAX, f64::min) + most) / 2.0
                };
                Some((middle(|p| p.0), middle(|p| p.1)))
            }
            _ => None,
        };
        let top = self.y[1].0 - 60.0;
        self.elements.iter().filter(own).filter_map(centre).filter(|at| at.1 > top).collect()
    }

    /// Bars of so many corners, by their middle.
    fn bars(&self, corners: usize) -> Vec<(f64, f64)> {
        let paths = self.elements.iter().filter(|e| e.name == "polyline");
        let paths = paths.map(Element::points).filter(|path| path.len() == corners);
        let level = paths.filter(|path| path[1].1 == path[corners - 2].1 && path[1].1 > 150.0);
        level.map(|path| ((path[0].0 + path[corners - 1].0) / 2.0, path[1].1)).collect()
    }
}

#[track_caller]
fn near(all: &[(f64, f64)], at: (f64, f64), what: &str) {
    let found = all.iter().any(|other| (other.0 - at.0).hypot(other.1 - at.1) < 2.0);
    assert!(found, "{what} is to be at {at:?}: {all:?}");
}

fn number(row: &BTreeMap<String, String>, column: &str) -> f64 {
    row[column].parse().unwrap_or_else(|_| panic!("{column}: {row:?}"))
}

#[test]
fn what_is_drawn_of_a_sweep_over_machines_is_what_the_csv_says() {
    let project = Project::shipped();
    project.write("scenarios/machines.ron", MACHINES);
    project.run(&["sweep", "scenarios/machines.ron", "--out", "out"]).ends_with(0);
    let rows = rows(&project.text("out/results.csv"));
    assert_eq!(rows.len(), 9);
    let baselines: Vec<&str> = rows.iter().map(|row| row["baseline_step_ms"].as_str()).collect();
    assert!(baselines.iter().any(|own| *own != baselines[0]), "the machines differ");
    let svg = project.text("out/latency-vs-memory.svg");
    let drawn = Drawn::read(&svg);
    let unit = if svg.contains("mean step time (s") { 1e3 } else { 1.0 };
    let size =
        if svg.contains("peak HBM (MiB") { f64::from(1u32 << 20) } else { f64::from(1u32 << 30) };
    let (markers, bounds) = (drawn.markers(), drawn.bars(4));
    let baseline_halves = drawn.bars(2);
    for row in &rows {
        let memory = number(row, "peak_bytes.hbm") / size;
        let at = |column: &str| drawn.at(memory, number(row, column) / unit);
        near(&markers, at("step_ms_mean"), "the point");
        near(&bounds, at("bound_step_ms"), "its bound");
        let (x, y) = at("baseline_step_ms");
        for side in [-6.75, 6.75] {
            near(&baseline_halves, (x + side, y), "its baseline");
        }
        let slowdown = number(row, "step_ms_mean") / number(row, "baseline_step_ms");
        assert!((number(row, "slowdown") - slowdown).abs() < 1e-9);
        assert!(row["hardware"].to_lowercase().starts_with(&row["param.machine"].to_lowercase()));
    }
    assert_eq!(markers.len(), rows.len(), "nothing else is drawn");
    // No axis and no line says of all what holds of one.
    assert!(!svg.contains("slowdown against") && !svg.contains(", no policy is faster"));
    for machine in ["h100-sxm-pcie5", "h200-sxm-pcie5", "a100-80g-pcie4"] {
        assert!(svg.contains(machine), "the footer names {machine}");
    }
    let summary = project.json("out/summary.json");
    for (result, row) in summary["results"].as_array().expect("a list").iter().zip(&rows) {
        assert_eq!(result["hardware"], row["hardware"].as_str());
        assert_eq!(result["baseline_step_ms"].as_f64(), row["baseline_step_ms"].parse().ok());
        assert_eq!(result["bound_step_ms"].as_f64(), row["bound_step_ms"].parse().ok());
        // Each machine has its own sources.
        let machines = summary["machines"].as_array().expect("a list");
        let own = machines.iter().find(|own| own["hardware"] == result["hardware"]);
        let own = own.expect("its machine is listed");
        assert_eq!(own["assumed_numbers"], result["assumed_numbers"]);
        assert!(own["assumed"].is_array() && own["power_and_price"].is_array());
    }
}

#[test]
fn one_machine_keeps_its_axis_and_its_line() {
    let project = Project::shipped();
    project.write("scenarios/machines.ron", MACHINES);
    project.run(&["run", "scenarios/machines.ron", "--out", "out"]).ends_with(0);
    let svg = project.text("out/latency-vs-memory.svg");
    assert!(svg.contains("slowdown against") && svg.contains("no policy is faster"));
}

#[test]
fn stages_of_zero_have_names_and_an_axis_that_changes_nothing_says_so() {
    let project = Project::new();
    let path = "policies.1.policy.cut.hbm";
    project.sweep(&format!("(name: \"share\", path: \"{path}\", values: list([0.1, 0.2, 0.3]))"));
    let ran = project.run(&["sweep", "scenarios/case.ron", "--out", "out"]).ends_with(0);
    let ran = ran.says(&["axis-without-effect: sweep.axes.share", "\"all\", \"lru\""]);
    let csv = project.text("out/results.csv");
    let mut labels: Vec<String> = rows(&csv).into_iter().map(|row| row["label"].clone()).collect();
    labels.sort();
    assert_eq!(labels, ["adam [share=0.1]", "adam [share=0.2]", "adam [share=0.3]", "all", "lru"]);
    for label in &labels {
        let rows = ran.stdout.lines().filter(|line| line.starts_with(&format!("{label}  ")));
        assert!(rows.count() > 0, "{label}: {}", ran.stdout);
    }
}

/// Points of an axis over ranks have devices of their own, and the footer says how many.
#[test]
fn a_sweep_over_ranks_says_how_many_devices_its_points_have() {
    let project = Project::shipped();
    project.write(
        "ranks.ron",
        "Scenario(schema: 2, about: \"ranks\", hardware: \"dgx-h100\", workload: Model(model: \"gpt2\", precision: bf16, \
         mode: train(batch: 1, sequence: 128, parallel: (data: 1)), time: roofline(precision: \"bf16\")), \
         policies: [(name: \"all\", policy: AllHbm)], sweep: (axes: [(name: \"ranks\", \
         path: \"workload.mode.parallel.data\", values: list([1, 2, 8]))]))",
    );
    let ran = project.run(&["sweep", "ranks.ron", "--no-png", "--out", "out"]).ends_with(0);
    let words = "1 to 8, by point: work per second is of all together";
    assert!(ran.stdout.replace("\n          ", " ").contains(words), "{}", ran.stdout);
    project.run(&["report", "out"]).ends_with(0);
    assert!(project.text("out/report.html").contains("1 to 8, by point"));
}
