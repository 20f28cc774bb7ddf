//! `report`, and `--report` of `run` and `sweep`: one page, the same however it is made, and what it
//! does in a browser.

use crate::common::*;
use std::process::Command;

/// What works on a page that Chromium opened, and writes what came of it into the page.
const WORK: &str = r#"
(function () {
  "use strict";
  var said = [];
  var say = function (what, is) { said.push((is ? "ok " : "FAILED ") + what); };
  var first = function (what) { return document.querySelector(what); };
  var head = first(".wide thead th.number");
  var table = head.closest("table");
  var values = function () {
    return Array.prototype.map.call(table.tBodies[0].rows, function (row) {
      return parseFloat(row.cells[head.cellIndex].textContent);
    }).filter(function (value) { return !isNaN(value); });
  };
  var sorted = function (list, sign) {
    return list.every(function (value, at) { return at === 0 || sign * (value - list[at - 1]) >= 0; });
  };
  head.querySelector("button").click();
  say("ascending", head.getAttribute("aria-sort") === "ascending" && sorted(values(), 1));
  head.querySelector("button").click();
  say("descending", head.getAttribute("aria-sort") === "descending" && sorted(values(), -1));
  Array.prototype.forEach.call(document.querySelectorAll('#units th button'), function (button, at) {
    button.click();
    var rows = document.querySelectorAll('#units tbody tr');
    var order = Array.prototype.map.call(rows, function (row) { return row.cells[at].dataset.at; });
    say("units " + at, rows.length === 7 && sorted(order.map(Number), 1));
  });
  var link = first(".marks a");
  // A browser tells of the focus only while its window has the focus itself, which a browser without
  // a screen may not have yet: so the page is told, after the link has shown that it can be reached.
  link.focus();
  var reached = document.activeElement === link;
  link.dispatchEvent(new FocusEvent("focus"));
  say("focus", reached && !first(".tip").hidden
    && first(".tip").textContent === link.getAttribute("aria-label"));
  link.blur();
  link.dispatchEvent(new FocusEvent("blur"));
  say("blur", document.activeElement !== link && first(".tip").hidden);
  var key = first(".keys button");
  var series = key.parentNode.getAttribute("data-series");
  var off = function () {
    return document.querySelectorAll(".sheet .off[data-series='" + series + "']").length;
  };
  key.click();
  say("hidden", off() > 1 && off() === document.querySelectorAll(".sheet .off").length);
  key.click();
  say("shown", off() === 0);
  var copied = "";
  document.execCommand = function () { copied = document.activeElement.value; return true; };
  Object.defineProperty(navigator, "clipboard", { value: undefined });
  var buttons = table.closest(".wide").nextElementSibling.querySelectorAll("button");
  buttons[0].click();
  say("tsv", copied.split("\n").length === table.rows.length + 1 && copied.indexOf("\n'=1+1\t") > 0);
  buttons[1].click();
  say("markdown", /^\|(-+:?\|)+$/.test(copied.split("\n")[1]));
  var name = document.createElement("p");
  name.id = "work";
  name.textContent = said.join("; ");
  document.body.appendChild(name);
}());
"#;

/// Cells of one kind to a column, in their order; the page gets them shuffled.
const UNITS: [[&str; 7]; 4] = [
    ["12.0 ns", "3.00 us", "4.50 µs", "1.90 ms", "464 ms", "1.09 s", "-"],
    ["999 B", "1.00 KiB", "900 KiB", "1.00 MB", "1.00 MiB", "2.00 GiB", "1.00 TiB"],
    ["-50.00 %", "+1.50 %", "90.00 %", "12.0 times", "+1200.00 %", "differs", "equal"],
    ["-3", "1.5e-7", "0.25", "2 of 300", "12", "1.2e3", "words"],
];

/// A table of these that the page's own script makes one to sort.
fn table_of_units() -> String {
    let cell = |column: &[&str; 7], at: usize| format!("<td data-at=\"{at}\">{}</td>", column[at]);
    let row = |at: usize| -> String { UNITS.iter().map(|column| cell(column, at)).collect() };
    let rows: String = [4, 1, 6, 0, 3, 5, 2].map(|at| format!("<tr>{}</tr>", row(at))).concat();
    let heads = "<th>of a kind</th>".repeat(UNITS.len());
    format!(
        "<div class=\"wide\" id=\"units\"><table><caption>units</caption><thead><tr>{heads}</tr>\
         </thead><tbody>{rows}</tbody></table></div>"
    )
}

/// A run of the small project whose page is written too.
fn ran(args: &[&str]) -> Project {
    let project = Project::new();
    let all = ["run", CASE, "--report", "--out", "o"];
    project.run(&[&all[..], args].concat()).ends_with(0).shows(&["report.html"]);
    project
}

#[test]
fn the_page_of_a_run_and_that_of_its_folder_are_the_same_bytes() {
    let project = ran(&[]);
    let page = project.text("o/report.html");
    project.run(&["report", "o", "--out", "again"]).ends_with(0).shows(&["written to again"]);
    assert_eq!(project.text("again/report.html"), page);
    project.run(&["report", "o", "-q"]).ends_with(0);
    assert_eq!(project.text("o/report.html"), page);
    // A run that does not make one leaves none of an older run behind.
    project.run(&["run", CASE, "--out", "o"]).ends_with(0);
    assert!(!project.path("o/report.html").exists());
}

#[test]
fn the_page_of_a_sweep_and_that_of_its_folder_are_the_same_bytes() {
    let project = Project::new();
    project.sweep(
        "(name: \"share\", path: \"policies.1.policy.cut.hbm\", values: list([0.1, 0.2, 0.3]))",
    );
    project.run(&["sweep", CASE, "--report", "--out", "s"]).ends_with(0).shows(&["report.html"]);
    let page = project.text("s/report.html");
    assert!(page.contains("a sweep"));
    project.run(&["report", "s", "-q"]).ends_with(0);
    assert_eq!(project.text("s/report.html"), page);
}

/// The table of a terminal and the page have the same figures of a shipped scenario.
#[test]
fn the_page_has_the_figures_of_the_text_table() {
    let project = Project::shipped();
    let scenario = "scenarios/gpt2-adam-tiering.ron";
    let ran = project.run(&["run", scenario, "--report", "--wide", "--out", "o"]).ends_with(0);
    let (page, summary) = (project.text("o/report.html"), project.json("o/summary.json"));
    let mut seen = 0;
    for case in summary["results"].as_array().unwrap() {
        let label = case["label"].as_str().unwrap();
        let rows = ran.stdout.lines().filter(|line| line.starts_with(&format!("{label}  ")));
        for cell in rows.flat_map(|row| row[label.len()..].split_whitespace()) {
            // Words, such as how far a policy sees, are said otherwise.
            if cell.parse::<f64>().is_ok() && cell.contains('.') {
                assert!(page.contains(&format!(">{cell}</td>")), "{label}: {cell}");
                seen += 1;
            }
        }
    }
    assert!(seen > 100, "{seen} figures");
    for said in summary["verdict"].as_array().unwrap() {
        let text = said["text"].as_str().unwrap();
        let words: Vec<&str> = ran.stdout.split_whitespace().collect();
        assert!(words.join(" ").contains(text), "{text}");
        assert!(page.contains(&text.replace('\'', "&#39;")), "{text}");
    }
}

#[test]
fn several_folders_stand_side_by_side_and_two_are_compared() {
    let project = ran(&[]);
    let slower = ["run", CASE, "--out", "p", "--set", "policies.lru.hbm=share_of_peak(0.6)"];
    project.run(&slower).ends_with(0);
    project.run(&["report", "o", "p", "o"]).ends_with(0).shows(&["written to out/report"]);
    let page = project.text("out/report/report.html");
    assert!(
        page.contains("case (o)") && page.contains("case (p)") && page.contains("case (o) (2)")
    );
    project.run(&["report", "o", "p", "--compare", "--out", "q", "-q"]).ends_with(0);
    let page = project.text("q/report.html");
    let differs = |case: &str| {
        let (_, table) = page.split_once("Figures of summary.json that differ").unwrap();
        let (table, _) = table.split_once("</table>").unwrap();
        table.contains(&format!("<th scope=\"row\">{case}</th><td>step_ms.mean</td>"))
    };
    assert!(differs("lru") && !differs("all"));
    let wrong = project.run(&["report", "o", "--compare"]).ends_with(2);
    wrong.says(&["--compare", "two results can be compared, not 1", "name two folders"]);
}

#[test]
fn what_is_no_result_folder_is_refused_and_nothing_is_written() {
    let project = ran(&[]);
    fs::create_dir(project.path("empty")).unwrap();
    let before = project.files("");
    let said = |args: &[&str], pieces: &[&str]| {
        let ran = project.run(&[&["report"], args].concat()).ends_with(2);
        ran.says(pieces);
    };
    said(&["nowhere"], &["nowhere/summary.json: there is none", "tiersim run"]);
    said(&["o", "empty", "--out", "q"], &["empty/summary.json: there is none"]);
    said(&["scenarios/case.ron"], &["scenarios/case.ron/summary.json: cannot read"]);
    said(&[&["o"; 17][..], &["--out", "q"]].concat(), &["17 folders", "16", "name fewer"]);
    assert_eq!(project.files(""), before);
}

#[test]
#[cfg(unix)]
fn links_pipes_and_what_is_too_large_are_not_read() {
    let project = ran(&[]);
    let said = |what: &str, pieces: &[&str]| {
        project.run(&["report", what, "--out", "q"]).ends_with(2).says(pieces);
        assert!(!project.path("q").exists());
    };
    fs::create_dir(project.path("link")).unwrap();
    std::os::unix::fs::symlink(project.path("o/summary.json"), project.path("link/summary.json"))
        .unwrap();
    said("link", &["link/summary.json: is no plain file"]);
    fs::create_dir(project.path("pipe")).unwrap();
    let made = Command::new("mkfifo").arg(project.path("pipe/summary.json")).status().unwrap();
    assert!(made.success());
    said("pipe", &["pipe/summary.json: is no plain file"]);
    fs::create_dir(project.path("large")).unwrap();
    let large = fs::File::create(project.path("large/summary.json")).unwrap();
    large.set_len(65 << 20).unwrap();
    said("large", &["large/summary.json: is larger than the 64 MiB"]);
}

/// A page with a name that a spreadsheet would run and one that a browser would.
#[test]
fn a_browser_runs_the_page_and_nothing_else() {
    let project = ran(&[
        "--set",
        "policies.2.name=\"=1+1\"",
        "--set",
        "policies.1.name=\"<script>document.title='run'</script>\"",
        "--set",
        "expect=[]",
    ]);
    let page = project.text("o/report.html");
    assert!(page.contains("&lt;script&gt;document.title"));
    let Some(dom) = opened(&project, "o/report.html") else { return };
    assert!(dom.contains("Copy as Markdown"), "the page's own script ran: {dom}");
    assert!(dom.contains("<title>case</title>"), "and no other");
    let (head, rest) = page.split_once("script-src 'sha256-").unwrap();
    let (_, rest) = rest.split_once('\'').unwrap();
    let open = format!("{head}script-src 'unsafe-inline'{rest}");
    let work = format!("<script>\n//<![CDATA[\n{WORK}//]]>\n</script>\n</body>");
    let open = open.replacen("</main>", &(table_of_units() + "</main>"), 1);
    project.write("o/worked.html", open.replace("</body>", &work));
    let dom = opened(&project, "o/worked.html").expect("it opened the other");
    let (_, said) = dom.split_once("<p id=\"work\">").unwrap_or_else(|| panic!("{dom}"));
    let said = said.split_once("</p>").unwrap().0;
    assert!(!said.contains("FAILED") && said.matches("ok ").count() == 12, "{said}");
}

/// What a page is after its scripts have run; `None`, and a line on stderr, without Chromium.
fn opened(project: &Project, page: &str) -> Option<String> {
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let there = |name: &&&str| {
        Command::new(name).arg("--version").output().is_ok_and(|ran| ran.status.success())
    };
    let Some(browser) = names.iter().find(there) else {
        eprintln!("no Chromium here: that a browser runs the page was not checked");
        return None;
    };
    let ran = Command::new("timeout")
        .args(["60", browser, "--headless=new", "--no-sandbox", "--disable-gpu", "--dump-dom"])
        .arg(format!("--user-data-dir={}", project.path("browser").display()))
        .arg(format!("file://{}", project.path(page).canonicalize().unwrap().display()))
        .output()
        .expect("timeout is there");
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    Some(String::from_utf8(ran.stdout).expect("text"))
}
