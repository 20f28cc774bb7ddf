//! `serve`: pages, answers and metrics over real sockets, and what hostile requests get.
//!
//! The server is the real binary under the limits of every run, on a free port, and is ended as
//! people end it. That its page works is asked of a real browser, where this computer has one.

mod changes;

use crate::common::*;
use serde_json::json;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, ExitStatus};
use std::time::Duration;

/// A server, ended with this.
struct Served {
    child: Child,
    at: SocketAddr,
}

/// A status, the head and the body.
#[derive(Debug)]
struct Response {
    status: u16,
    head: String,
    body: String,
}

impl Served {
    fn begin(project: &Project, args: &[&str]) -> Served {
        let all = [&["serve", "--listen", "127.0.0.1:0"], args].concat();
        let mut child = limited(&project.root, &all).spawn().expect("it starts");
        let mut lines = BufReader::new(child.stderr.take().expect("it is read here")).lines();
        let line = lines.next().expect("it says where it is").expect("it is text");
        // What else it says must not stop it.
        std::thread::spawn(move || lines.for_each(drop));
        let address = line.split("http://").nth(1).and_then(|rest| rest.split('/').next());
        let at = address.and_then(|at| at.parse().ok()).unwrap_or_else(|| panic!("{line}"));
        Served { child, at }
    }

    /// Sends bytes as they are, and reads until the server ends the connection.
    fn raw(&self, bytes: &[u8]) -> String {
        let mut stream = TcpStream::connect(self.at).expect("it listens");
        stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a limit");
        // Who refuses may do so before all of it is there.
        let _ = stream.write_all(bytes);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8_lossy(&answer).into_owned()
    }

    fn ask(&self, method: &str, to: &str, headers: &[(&str, &str)], body: &str) -> Response {
        let named = headers.iter().any(|(name, _)| *name == "Host");
        let own = if named { String::new() } else { format!("Host: {}\r\n", self.at) };
        let more: String =
            headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let length = body.len();
        let request = format!(
            "{method} {to} HTTP/1.1\r\n{own}{more}Content-Length: {length}\r\nConnection: close\r\n\r\n{body}"
        );
        let answer = self.raw(request.as_bytes());
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{answer:?}"));
        let status = head.split(' ').nth(1).and_then(|code| code.parse().ok());
        Response {
            status: status.expect("a status"),
            head: head.to_lowercase(),
            body: body.to_owned(),
        }
    }

    fn get(&self, to: &str) -> Response {
        self.ask("GET", to, &[], "")
    }

    /// What comes of these overrides.
    fn turned(&self, set: &Value) -> Response {
        self.ask("POST", "/what-if", &[("Content-Type", "application/json")], &set.to_string())
    }

    /// Ends it as a signal does.
    fn end(mut self, signal: &str) -> ExitStatus {
        let id = self.child.id().to_string();
        let sent = Command::new("kill").args([signal, &id]).status().expect("there is a kill");
        assert!(sent.success());
        self.child.wait().expect("it is ours")
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // One that has ended cannot be killed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Response {
    #[track_caller]
    fn is(self, status: u16) -> Response {
        assert_eq!(self.status, status, "{}\n{}", self.head, self.body);
        if status >= 400 {
            assert!(self.problem()["message"].is_string(), "{}", self.body);
        }
        self.guarded()
    }

    /// What every answer says to a browser.
    #[track_caller]
    fn guarded(self) -> Response {
        for header in [
            "x-content-type-options: nosniff",
            "x-frame-options: deny",
            "referrer-policy: no-referrer",
            "cache-control: no-store",
            "content-security-policy: default-src 'none'; ",
            "frame-ancestors 'none'",
        ] {
            assert!(self.head.contains(header), "no {header} in {}", self.head);
        }
        assert!(!self.head.contains("access-control-"), "{}", self.head);
        self
    }

    #[track_caller]
    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }

    /// The first problem.
    #[track_caller]
    fn problem(&self) -> Value {
        let json = self.json();
        assert_eq!(json["error"], json["errors"][0]["error"]["message"]);
        json["errors"][0]["error"].clone()
    }
}

/// The figures of a page's table by case, from what the server or the command says.
fn answered(answer: &Value) -> Vec<Vec<f64>> {
    let case = |case: &Value| {
        let figures = case["figures"].as_array().expect("a list").iter();
        figures.map(|figure| figure["value"].as_f64().expect("a number")).collect()
    };
    answer["cases"].as_array().expect("a list").iter().map(case).collect()
}

fn commanded(summary: &Value) -> Vec<Vec<f64>> {
    let case = |case: &Value| {
        if case["oom"] == true {
            return Vec::new();
        }
        let peak = case["peak_bytes"].as_object().expect("tiers").values().next();
        [&case["step_ms"]["mean"], peak.expect("a tier")].map(|f| f.as_f64().expect("one")).to_vec()
    };
    summary["results"].as_array().expect("a list").iter().map(case).collect()
}

#[test]
fn a_turned_slider_gives_the_numbers_of_the_command_to_the_last_digit() {
    let project = Project::new();
    let served = Served::begin(&project, &[CASE]);
    let begun = served.get("/what-if").is(200).json();
    let plain = project.run(&["run", CASE, "--format", "json", "--no-png"]).ends_with(0).json();
    assert_eq!(answered(&begun["ok"]["answer"]), commanded(&plain));
    let knobs = begun["ok"]["knobs"].as_array().expect("a list");
    assert!(knobs.len() > 5, "{}", knobs.len());
    let mut differ = 0;
    for knob in knobs {
        let stops = knob["stops"].as_array().expect("a list");
        let set = &stops[stops.len() / 3]["set"];
        let said = served.turned(set).is(200).json();
        let pairs = set.as_array().expect("a list").iter();
        let set: Vec<String> = pairs
            .map(|pair| format!("{}={}", pair[0].as_str().unwrap(), pair[1].as_str().unwrap()))
            .collect();
        let mut args = vec!["run", CASE, "--format", "json", "--no-png", "--set", "expect=[]"];
        set.iter().for_each(|set| args.extend(["--set", set]));
        // Out of memory is an answer as well, and exit 1.
        let ran = project.run(&args).json();
        assert_eq!(answered(&said["ok"]), commanded(&ran), "{set:?}");
        differ += usize::from(commanded(&ran) != commanded(&plain));
    }
    assert!(differ > 2, "only {differ} knobs change anything");
    // A file that is written anew is read anew.
    project.edit_scenario("share_of_peak(0.75)", "share_of_peak(0.5)");
    let ran = project.run(&["run", CASE, "--format", "json", "--no-png"]).ends_with(0).json();
    let again = served.get("/what-if").is(200).json();
    assert_eq!(answered(&again["ok"]["answer"]), commanded(&ran));
    assert_ne!(answered(&again["ok"]["answer"]), commanded(&plain));
    project.edit_scenario("schema: 2,", "schema: 2, frob: 1,");
    let problem = served.get("/what-if").is(422).problem();
    assert_eq!((&problem["file"], &problem["line"]), (&json!(CASE), &json!(2)));
    assert!(problem["rule"].to_string().contains("frob") && problem["remedy"].is_string());
}

#[test]
fn pages_are_those_of_a_report() {
    let project = Project::new();
    project.run(&["run", CASE, "-q", "--no-png", "--report"]).ends_with(0);
    project.run(&["run", CASE, "-q", "--no-png", "--out", "out/a b/<i>"]).ends_with(0);
    project.write("out/broken/summary.json", "{}");
    let served = Served::begin(&project, &[]);
    let index = served.get("/").is(200).body;
    assert!(index.contains("href=\"/results/case\"") && index.contains("/results/a%20b/%3Ci%3E"));
    assert!(index.contains("broken/summary.json: line 1, column 2: missing field"), "{index}");
    let page = served.get("/results/case").is(200);
    let back = "<li><a href=\"/\">All results</a></li>\n";
    assert_eq!(page.body.replace(back, ""), project.text("out/case/report.html"));
    assert!(page.head.contains("script-src 'sha256-") && !page.head.contains("connect-src"));
    served.get("/results/a%20b/%3Ci%3E").is(200);
    // People end the address of a folder so; programs are told that there is nothing of this name.
    let html = [("Accept", "text/html")];
    let moved = served.ask("GET", "/results/a%20b/%3Ci%3E/", &html, "").is(308);
    assert!(moved.head.contains("\r\nlocation: /results/a%20b/%3ci%3e\r\n"), "{}", moved.head);
    served.ask("GET", "/results/nowhere//", &html, "").is(308);
    assert_eq!(served.ask("GET", "/results/nowhere", &html, "").status, 404);
    served.get("/results/case/").is(404);
    let problem = served.get("/results/broken").is(422).problem();
    assert!(problem["message"].to_string().contains("missing field `schema`"));
    served.get("/scenario").is(404);
    served.get("/what-if").is(404);
    assert!(served.end("-INT").success(), "who ends it gets exit 0");
}

#[test]
fn a_sweep_on_its_way_is_told_and_measured() {
    let project = Project::new();
    project.sweep(
        "(name: \"s\", path: \"policies.1.policy.cut.hbm\", values: range(from: 0.1, to: 0.5, step: 0.1))",
    );
    project.run(&["sweep", CASE, "--shard", "1/2", "-q", "--out", "out/parts"]).ends_with(0);
    let served = Served::begin(&project, &["out"]);
    let name = "parts/1-of-2";
    let journal = project.text(&format!("out/{name}/points.journal"));
    let cases = |text: &str| {
        let lines = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
        lines
            .filter(|line| line[9..].starts_with("{\"case") || line[9..].starts_with("{\"like"))
            .count()
    };
    let all = cases(&journal);
    assert!(all > 3, "{journal}");
    let told = |served: &Served| {
        let sweeps = served.get("/sweeps").is(200).json();
        (sweeps["ok"][0]["name"].clone(), sweeps["ok"][0]["done"].as_str().map(str::to_owned))
    };
    let done = |count: usize| (json!(name), Some(format!("{count} (part 1/2 of 7)")));
    assert_eq!(told(&served), done(all));
    // It grows, a line may be cut off or damaged, and another may begin in its place.
    let file = format!("out/{name}/points.journal");
    let half = &journal[..journal.len() * 2 / 3];
    for text in [half, &journal, &journal.replacen("{\"case\"", "{\"cose\"", 1)] {
        project.write(&file, text);
        let whole = if text == half || text == journal { cases(text) } else { all - 1 };
        if text.len() == journal.len() && whole < all {
            // The same length: what was counted before stays, as lines are only ever added.
            assert_eq!(told(&served), done(all));
            continue;
        }
        assert_eq!(told(&served), done(whole));
    }
    assert!(served.get("/").is(200).body.contains("Sweeps on their way"));
    let metrics = served.get("/metrics").is(200).body;
    let line = format!("tiersim_sweep_cases_done{{part=\"1/2\",sweep=\"{name}\"}} {all}\n");
    assert!(metrics.contains(&line), "{metrics}");
    project.write(&file, "nonsense\n");
    assert_eq!(served.get("/sweeps").is(200).json(), json!({ "ok": [] }));
}

/// The samples of Prometheus's text format 0.0.4, read strictly, by name and labels.
fn samples(text: &str) -> BTreeMap<(String, String), f64> {
    let (mut types, mut found) = (BTreeMap::new(), BTreeMap::new());
    assert!(text.ends_with('\n'));
    for line in text.lines() {
        if let Some(said) = line.strip_prefix("# TYPE ") {
            let (name, kind) = said.split_once(' ').expect("a name and a type");
            assert!(["counter", "gauge", "histogram"].contains(&kind), "{line}");
            assert!(types.insert(name.to_owned(), kind.to_owned()).is_none(), "twice: {line}");
            continue;
        }
        if line.starts_with("# HELP ") {
            continue;
        }
        let (series, value) = line.rsplit_once(' ').expect("a value");
        let (name, labels) = series.split_once('{').unwrap_or((series, ""));
        let legal = |c: char| c.is_ascii_alphanumeric() || c == '_';
        assert!(name.starts_with("tiersim_") && name.chars().all(legal), "{line}");
        let family = ["_bucket", "_sum", "_count"].iter().find_map(|end| name.strip_suffix(end));
        let family = family.filter(|family| types.get(*family).is_some_and(|k| k == "histogram"));
        assert!(types.contains_key(family.unwrap_or(name)), "no type: {line}");
        let value = value.parse().unwrap_or_else(|_| panic!("{line}"));
        let before =
            found.insert((name.to_owned(), labels.trim_end_matches('}').to_owned()), value);
        assert!(before.is_none(), "twice: {line}");
    }
    found
}

#[test]
fn metrics_are_the_figures_of_the_summary_in_the_format_of_prometheus() {
    let project = Project::new();
    project.run(&["run", CASE, "-q", "--no-png", "--out", "out/a\"b\\c"]).ends_with(0);
    let served = Served::begin(&project, &[CASE]);
    served.turned(&json!([])).is(200);
    served.turned(&json!([["seed", "2"]])).is(422);
    let text = served.get("/metrics").is(200);
    assert!(text.head.contains("content-type: text/plain; version=0.0.4"));
    let found = samples(&text.body);
    let value = |name: &str, labels: &str| {
        let key = (format!("tiersim_{name}"), labels.to_owned());
        *found.get(&key).unwrap_or_else(|| panic!("no {key:?} in {}", text.body))
    };
    let summary = project.json("out/a\"b\\c/summary.json");
    let result = r#"result="a\"b\\c""#;
    for (at, case) in summary["results"].as_array().expect("a list").iter().enumerate() {
        let name = format!("case=\"{} {}\"", at + 1, case["label"].as_str().expect("a label"));
        let step = value("case_step_seconds", &format!("{name},{result}"));
        assert_eq!(step * 1e3, case["step_ms"]["mean"].as_f64().expect("a mean"));
        for (tier, bytes) in case["peak_bytes"].as_object().expect("tiers") {
            let labels = format!("{name},{result},tier=\"{tier}\"");
            assert_eq!(value("case_peak_bytes", &labels), bytes.as_f64().expect("bytes"));
        }
    }
    let cases = summary["results"].as_array().map_or(0, Vec::len) as f64;
    for histogram in ["result_copies", "result_stall_ratio"] {
        assert_eq!(value(&format!("{histogram}_count"), result), cases);
        assert_eq!(value(&format!("{histogram}_bucket"), &format!("{result},le=\"+Inf\"")), cases);
    }
    assert_eq!(value("simulations_total", "outcome=\"answered\""), 1.0);
    assert_eq!(value("simulations_total", "outcome=\"refused\""), 1.0);
    assert_eq!(value("simulation_seconds_count", ""), 2.0);
    let Ok(mut promtool) = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
    else {
        return eprintln!("no promtool here: the metrics were read by this test alone");
    };
    promtool.stdin.take().expect("piped").write_all(text.body.as_bytes()).expect("it reads");
    let said = promtool.wait_with_output().expect("it ends");
    assert!(said.status.success() && said.stderr.is_empty(), "{said:?}");
}

/// What cannot be served is refused with what to do: a port that somebody has, a name of nothing.
#[test]
fn what_cannot_be_served_is_refused_with_a_remedy() {
    let project = Project::new();
    let held = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = held.local_addr().expect("it is bound").to_string();
    let ran = project.run(&["serve", CASE, "--listen", &address]).ends_with(2);
    ran.says(&["Address already in use", "choose another port, or 0 for a free one"]);
    let ran = project.run(&["serve", "no-such-thing"]).ends_with(2);
    ran.says(&["no-such-thing: there is neither a folder of results nor a scenario"]);
    let several = Project::shipped();
    let file = "scenarios/hbm4-cxl3-against-hbm3e-serving.ron";
    let ran = several.run(&["serve", file, "--listen", "127.0.0.1:0"]).ends_with(2);
    ran.says(&[&format!("error: {file}: it names several machines"), "--set hardware=NAME"]);
}

#[test]
fn nothing_outside_the_folder_is_ever_read() {
    let project = Project::new();
    project.run(&["run", CASE, "-q", "--no-png"]).ends_with(0);
    // Results beside the folder, and links to them from within.
    project.run(&["run", CASE, "-q", "--no-png", "--out", "secret"]).ends_with(0);
    std::os::unix::fs::symlink("../secret", project.path("out/link")).expect("a link");
    project.write("out/file/x", "");
    std::os::unix::fs::symlink("../../secret/summary.json", project.path("out/file/summary.json"))
        .expect("a link");
    let served = Served::begin(&project, &["out"]);
    served.get("/results/case").is(200);
    for name in [
        "link",
        "file",
        "../secret",
        "..%2fsecret",
        "%2e%2e/secret",
        "%2e%2e%2fsecret",
        "case/../case",
        "case/../../secret",
        "./case",
        "case/",
        "/case",
        "case%00",
        "case%00.html",
        "%00",
        "%ff%fe",
        "case/summary.json",
        "case%2fsummary.json",
        "..%5csecret",
        "..%252fsecret",
        "%",
        "%zz",
        "",
        "...",
        "CASE",
        "case;a",
        "/etc/passwd",
        "%2fetc%2fpasswd",
    ] {
        let said = served.get(&format!("/results/{name}"));
        assert!([400, 404].contains(&said.status), "{name}: {said:?}");
        assert!(said.problem()["message"].is_string(), "{name}: {said:?}");
        assert!(!said.body.contains("secret/") && !said.body.contains("root:"), "{name}");
        said.guarded();
    }
    let index = served.get("/").is(200).body;
    assert!(!index.contains("/results/link") && !index.contains("secret"), "{index}");
}

#[test]
fn hostile_requests_are_refused_and_the_server_goes_on() {
    let project = Project::new();
    let before = project.files(".");
    let served = Served::begin(&project, &[CASE]);
    let host = served.at.to_string();
    let own = format!("http://{host}");
    for to in ["/", "/scenario", "/metrics", "/what-if", "/sweeps", "/nothing"] {
        for evil in ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "10.0.0.1"]
        {
            let problem = served.ask("GET", to, &[("Host", evil)], "").is(403).problem();
            assert!(problem["message"].to_string().contains("Host"));
        }
        for evil in ["http://evil.example", "null", "https://localhost"] {
            let problem = served.ask("GET", to, &[("Origin", evil)], "").is(403).problem();
            assert!(problem["message"].to_string().contains("Origin"));
        }
    }
    served.ask("POST", "/what-if", &[("Origin", &own)], "[]").is(200);
    served.ask("GET", "/what-if", &[("Host", "localhost")], "").is(200);
    served.ask("GET", "/what-if", &[("Host", &host), ("Host", "evil.example")], "").is(403);
    for method in ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "FROB"] {
        served.ask(method, "/", &[], "").is(405);
    }
    for body in ["", "{}", "[1]", "[[\"a\"]]", "[[\"a\",\"b\",\"c\"]]", &"[".repeat(10_000)] {
        served.ask("POST", "/what-if", &[], body).is(400);
    }
    for set in [
        json!([["workload.repeat", "1000000"]]),
        json!([["hardware", "\"/etc/passwd\""]]),
        json!([["workload", "Trace(path: \"../../etc\")"]]),
    ] {
        let problem = served.turned(&set).is(422).problem();
        assert!(problem["message"].to_string().contains("no stop of a slider"));
    }
    served.ask("POST", "/what-if", &[], &" ".repeat((64 << 10) + 1)).is(413);
    served.ask("PUT", "/scenario", &[("If-Match", "x")], SCENARIO).is(403);
    // What is no HTTP, or too much of it.
    let long = "a".repeat(100_000);
    for bytes in [
        "\0\0\0\0".to_owned(),
        "GET / HTTP/9.9\r\n\r\n".to_owned(),
        "GET / HTTP/1.1\r\n\r\n".to_owned(),
        format!("GET /{long} HTTP/1.1\r\nHost: {host}\r\n\r\n"),
        format!("GET / HTTP/1.1\r\nHost: {host}\r\nX: {long}\r\n\r\n"),
        format!(
            "POST /what-if HTTP/1.1\r\nHost: {host}\r\nContent-Length: 1\r\nTransfer-Encoding: x\r\n\r\n"
        ),
        "\u{16}\u{3}\u{1}".to_owned(),
    ] {
        let said = served.raw(bytes.as_bytes());
        let refused =
            said.is_empty() || said.starts_with("HTTP/1.1 4") || said.starts_with("HTTP/1.0 4");
        assert!(refused, "{bytes:.80}: {said}");
    }
    // Who says nothing more does not keep others out.
    let idle: Vec<TcpStream> = (0..20).map(|_| TcpStream::connect(served.at).unwrap()).collect();
    served.get("/what-if").is(200);
    drop(idle);
    // Too many at once: a bucket of 200 that gains 100 a second cannot answer 3,000 in under 28 s.
    let many = format!("GET /nothing HTTP/1.1\r\nHost: {host}\r\n\r\n").repeat(2999);
    let last = format!("GET /nothing HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    let said = served.raw((many + &last).as_bytes());
    assert!(said.contains("HTTP/1.1 429") && said.contains("retry-after: 1"), "{said:.400}");
    assert!(served.end("-TERM").success());
    assert_eq!(project.files("."), before, "nothing was written");
}

#[test]
fn what_is_saved_was_checked_and_is_the_scenario_alone() {
    let project = Project::new();
    let served = Served::begin(&project, &[CASE, "--edit"]);
    let before = project.files(".");
    let tag = |served: &Served| {
        let page = served.get("/scenario").is(200).body;
        page.split("data-tag=\"").nth(1).and_then(|rest| rest.split('"').next()).unwrap().to_owned()
    };
    let first = tag(&served);
    let save = |tag: &str, text: &str| served.ask("PUT", "/scenario", &[("If-Match", tag)], text);
    // Bad texts leave everything as it was.
    let wrong = SCENARIO.replacen("seed: 1", "seed: -1", 1);
    let problem = save(&first, &wrong).is(422).problem();
    let line = 1 + wrong.lines().position(|line| line.contains("seed: -1")).unwrap();
    assert_eq!((&problem["file"], &problem["line"]), (&json!(CASE), &json!(line)), "{problem}");
    assert!(problem["found"].is_string() && problem["remedy"].is_string());
    for text in ["", "\0", "Hardware(", &SCENARIO.replacen("traces/tiny", "../../etc", 1)] {
        save(&first, text).is(422);
    }
    save("00000000", SCENARIO).is(412);
    served.ask("PUT", "/scenario", &[], SCENARIO).is(428);
    save(&first, &" ".repeat((1 << 20) + 1)).is(413);
    let evil = [("Origin", "http://evil.example"), ("If-Match", &first)];
    served.ask("PUT", "/scenario", &evil, SCENARIO).is(403);
    assert_eq!(project.files("."), before);
    // A good one is the file, and is what is simulated from then on.
    let better = SCENARIO.replacen("share_of_peak(0.75)", "share_of_peak(0.5)", 1);
    save(&first, &better).is(200);
    assert_eq!(project.text(CASE), better);
    let mut expected = before.clone();
    expected.insert(CASE.to_owned(), better.into_bytes());
    assert_eq!(project.files("."), expected, "and nothing else has changed");
    save(&first, SCENARIO).is(412);
    let ran = project.run(&["run", CASE, "--format", "json", "--no-png"]).ends_with(0).json();
    let again = served.get("/what-if").is(200).json();
    assert_eq!(answered(&again["ok"]["answer"]), commanded(&ran));
    let second = tag(&served);
    assert_ne!(first, second);
    save(&second, SCENARIO).is(200);
}

#[test]
fn what_cannot_be_served_is_said_before_anything_listens() {
    let project = Project::new();
    let said = |args: &[&str], pieces: &[&str]| {
        project
            .run(&[&["serve", "--listen", "127.0.0.1:0"], args].concat())
            .ends_with(2)
            .says(pieces);
    };
    said(&[], &["out: there is no such folder", "tiersim serve SCENARIO"]);
    said(&["nowhere.ron"], &["nowhere.ron"]);
    said(&["scenarios", "--edit"], &["--edit: scenarios is a folder of results"]);
    said(&["scenarios", "--set", "seed=2"], &["--set: scenarios is a folder of results"]);
    said(&["gpt2-adam-tiering", "--edit"], &["--edit", "it ships", "tiersim scenario show"]);
    let open = ["serve", CASE, "--edit", "--listen", "0.0.0.0:0"];
    project.run(&open).ends_with(2).says(&["--edit with --listen 0.0.0.0:0", "127.0.0.1"]);
    std::os::unix::fs::symlink(project.path(CASE), project.path("link.ron")).expect("a link");
    said(&["link.ron", "--edit"], &["link.ron: is no plain file"]);
    project.edit_scenario("seed: 1", "seed: -1");
    said(&[CASE], &["scenarios/case.ron:12:11", "found `-1`"]);
    let served = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let taken = served.local_addr().expect("an address").to_string();
    project.write("out/x/y", "");
    project.run(&["serve", "--listen", &taken]).ends_with(2).says(&["--listen", &taken]);
}

const NONE_FITS: &str = r#"Scenario(
    schema: 2,
    about: "one case, which does not fit",
    hardware: "h100-sxm-pcie5",
    workload: Trace(path: "traces/gpt2-train-cpu", time: roofline(device: "h100-sxm-pcie5", precision: "tf32"), repeat: 2, warmup: 1),
    policies: [(name: "all in HBM", policy: AllHbm, hbm: mib(2600))],
    seed: 1,
)"#;

/// Sliders of the page of a server, turned by pointer and keyboard in Chromium.
#[test]
fn a_browser_gets_the_numbers_of_the_command_from_the_server() {
    let there = |name: &str| {
        Command::new(name).arg("--version").output().is_ok_and(|ran| ran.status.success())
    };
    let browsers = ["chromium", "chromium-browser", "google-chrome"];
    let browser = browsers.into_iter().find(|name| there(name)).filter(|_| there("node"));
    let Some(browser) = browser else {
        return eprintln!("no Chromium and node here: that the pages work was not checked");
    };
    let project = Project::shipped();
    let scenario = "scenarios/gpt2-adam-tiering.ron";
    project.run(&["run", scenario, "-q", "--no-png"]).ends_with(0);
    let served = Served::begin(&project, &[scenario, "--edit"]);
    let page = |to: &str| format!("http://{}{to}", served.at);
    let checked = |pages: &[String], more: &[&str]| {
        let ran = Command::new("node")
            .arg(shipped("tests/browser").join("check.mjs"))
            .args(["--tiersim", env!("CARGO_BIN_EXE_tiersim")])
            .args(more)
            .args(pages)
            .current_dir(project.path(""))
            .env("CHROMIUM", browser)
            .output()
            .expect("node is there");
        let said = String::from_utf8_lossy(&ran.stdout).into_owned();
        assert!(ran.status.success() && said.contains("in a server"), "{said}");
        println!("{said}");
    };
    let pages = ["/scenario", "/results/gpt2-adam-tiering", "/"].map(page);
    checked(&pages, &["--file", scenario]);
    // No case fits as the scenario has it, and one does at the end of its slider.
    let scenario = "scenarios/none-fits.ron";
    project.write(scenario, NONE_FITS);
    let served = Served::begin(&project, &[scenario]);
    checked(&[format!("http://{}/scenario", served.at)], &[]);
}
