//! What pages of a server promise: they are those of a report, and no name breaks out of them.

use super::*;
use crate::{Artefact, SUMMARY, common, report_page, summary_json};
use roxmltree::{Document, ParsingOptions};
use tiersim_models::results::{CaseRecord, Lookahead, RunRecord};

const HOSTILE: &str = "a\"><script>alert(1)</script>\u{202e}/..%2f#?";

fn folder() -> ResultFolder {
    let json = summary_json(&common::training(), "0").expect("a summary");
    ResultFolder { name: "a".to_owned(), files: vec![Artefact::new(SUMMARY, json)] }
}

fn read(page: &str) -> Document<'_> {
    let options = ParsingOptions { allow_dtd: true, ..ParsingOptions::default() };
    Document::parse_with_options(page, options).expect("well-formed")
}

#[test]
fn a_result_is_the_report_and_a_way_back() {
    let served = result_page(&folder()).expect("a page");
    let report = report_page(&[folder()], false).expect("a page");
    let back = "<li><a href=\"/\">All results</a></li>\n";
    assert_eq!(served.html.matches(back).count(), 1);
    assert_eq!(served.html.replace(back, ""), report);
    assert!(report.contains(&served.policy) && !served.policy.contains("connect-src"));
}

#[test]
fn names_stay_text_and_addresses_lead_below_the_results() {
    let summary = &folder().files[0].bytes;
    let found = overview("a", summary).expect("a summary");
    let results = [(HOSTILE.to_owned(), Ok(&found)), ("b".to_owned(), Err(HOSTILE.to_owned()))];
    let text = || HOSTILE.to_owned();
    let sweep =
        SweepShown { name: text(), scenario: text(), done: text(), rate: text(), left: text() };
    let index =
        Index { title: HOSTILE, scenario: Some(HOSTILE), results: &results, sweeps: &[sweep] };
    let page = index_page(&index);
    let document = read(&page.html);
    let links = document.descendants().filter_map(|node| node.attribute("href"));
    let away: Vec<&str> = links.filter(|to| !to.starts_with('#')).collect();
    let encoded = "/results/a%22%3E%3Cscript%3Ealert%281%29%3C/script%3E%E2%80%AE/..%252f%23%3F";
    assert_eq!(away, ["/scenario", encoded]);
    let scripts = document.descendants().filter(|node| node.tag_name().name() == "script");
    assert_eq!(scripts.count(), 2, "that of every page, and that of sweeps");
    assert!(page.policy.contains("connect-src 'self';") && page.html.contains(&page.policy));
}

#[test]
fn a_refusal_stays_text_and_leads_back() {
    let page = refused_page("Not Found", &[HOSTILE.to_owned(), HOSTILE.to_owned()]);
    let document = read(&page.html);
    let all =
        |name: &str| document.descendants().filter(|node| node.tag_name().name() == name).count();
    assert_eq!(
        (all("script"), all("li")),
        (1, 2),
        "one item of each list: a way back, and the second"
    );
    assert!(page.html.contains("<a href=\"/\">") && page.html.contains(&page.policy));
}

#[test]
fn a_text_is_edited_as_it_is_or_not_at_all() {
    let text = "\n\tScenario(<&>\"'\n\n  // é\n)\n\n";
    let page = what_if_page("a", "[]", Some((text, "tag")));
    let document = read(&page.html);
    let area = document.descendants().find(|node| node.tag_name().name() == "textarea");
    let held = area.and_then(|area| area.text()).expect("a text area");
    assert_eq!(held.strip_prefix('\n'), Some(text), "HTML leaves out the first line break");
    for other in ["a\r\nb", "a\u{0}", "\u{202e}"] {
        let page = what_if_page("a", "[]", Some((other, "tag")));
        assert!(!page.html.contains("<textarea") && page.html.contains("cannot be changed here"));
    }
    assert!(!what_if_page("a", "[]", None).html.contains("The scenario</"));
}

/// What stands first is what cases are ranked by, with the marks that reports give them.
#[test]
fn the_quickest_case_has_the_figure_that_cases_are_ranked_by() {
    let mut record = common::training();
    let of = |record: &RunRecord| {
        let json = summary_json(record, "0").expect("a summary");
        let found = overview("a", json.as_bytes()).expect("a summary");
        (found.ranked_by, found.quickest.expect("one fits"))
    };
    for case in &mut record.results {
        case.lookahead = Lookahead::Oracle;
        case.emulated = false;
    }
    let (ranked_by, (called, ms)) = of(&record);
    assert_eq!(ranked_by, "mean step time");
    assert!(called.ends_with(" (oracle)"), "{called}");
    let steps = record.results.iter().filter_map(|case| case.outcome.figures());
    let least = steps.map(|figures| figures.mean_step().as_ms()).fold(f64::INFINITY, f64::min);
    assert!((ms / least - 1.0).abs() < 1e-9, "{ms}");
    // Where steps differ in their work it is the time of a token.
    let machines = common::machines();
    let (ranked_by, (_, ms)) = of(&machines);
    let token = |case: &CaseRecord| 1e3 / machines.tokens_per_s(case).expect("it has tokens");
    let least = machines.results.iter().map(token).fold(f64::INFINITY, f64::min);
    assert_eq!(ranked_by, "mean time per token");
    assert!((ms / least - 1.0).abs() < 1e-6, "{ms} {least}");
}

#[test]
fn what_is_measured_is_what_the_summary_says() {
    for record in common::all() {
        let json = summary_json(&record, "0").expect("a summary");
        let all: Value = serde_json::from_str(&json).expect("JSON");
        let found = overview("a", json.as_bytes()).expect("a summary");
        assert_eq!(found.cases.len(), record.results.len());
        for (case, own) in found.cases.iter().zip(all["results"].as_array().expect("a list")) {
            assert_eq!(case.step_ms, own["step_ms"]["mean"].as_f64());
            for (tier, bytes) in &case.peak_bytes {
                assert_eq!(Some(*bytes), own["peak_bytes"][tier].as_f64());
            }
            let tiers = own["peak_bytes"].as_object().map_or(0, serde_json::Map::len);
            assert_eq!(case.peak_bytes.len(), tiers);
            let allocators = own["allocators"].as_array().map_or(0, Vec::len);
            assert_eq!(case.fragmentation.len(), allocators);
        }
    }
}
