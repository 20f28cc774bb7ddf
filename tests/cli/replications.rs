//! Replications of a run with jitter, against runs with each seed by itself and Student's t.

use crate::common::*;
use statrs::distribution::{ContinuousCDF, StudentsT};

/// The tiny trace with times that are 10 % off, in one standard deviation.
fn project() -> Project {
    let project = Project::new();
    project.edit_scenario("repeat: 3, warmup: 1", "repeat: 6, warmup: 1, jitter: 0.1");
    project
}

fn steps(summary: &Value) -> Vec<f64> {
    let cases = summary["results"].as_array().unwrap();
    cases.iter().map(|case| case["step_ms"]["mean"].as_f64().unwrap()).collect()
}

/// Mean and half of the 95 % confidence interval of some values.
fn interval(values: &[f64]) -> (f64, f64) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (n - 1.0);
    let t = StudentsT::new(0.0, 1.0, n - 1.0).unwrap().inverse_cdf(0.975);
    (mean, t * (variance / n).sqrt())
}

#[test]
fn replications_end_at_the_first_number_that_meets_the_criterion_for_every_case() {
    const SHARE: f64 = 0.02;
    let project = project();
    let ran = project.run(&["run", CASE, "--half-width", "0.02", "--out", "o"]).ends_with(0);
    assert!(ran.stdout.contains("replications with seeds from 1"), "{}", ran.stdout);
    let found = &project.json("o/summary.json")["replications"];
    let count = found["count"].as_u64().unwrap() as usize;
    assert!((3..=100).contains(&count), "{count}");
    assert_eq!((&found["reached"], &found["exact"]), (&true.into(), &false.into()));
    let mut alone: Vec<Vec<f64>> = Vec::new();
    for seed in 1..=count {
        let seed = seed.to_string();
        project.run(&["run", CASE, "--seed", &seed, "--out", "one"]).ends_with(0);
        alone.push(steps(&project.json("one/summary.json")));
    }
    let of = |case: usize, count: usize| -> Vec<f64> {
        alone[..count].iter().map(|steps| steps[case]).collect()
    };
    let enough = |count: usize| {
        (0..alone[0].len()).all(|case| {
            let (mean, half) = interval(&of(case, count));
            half <= SHARE * mean
        })
    };
    let first = (3..=count).find(|&count| enough(count));
    assert_eq!(first, Some(count), "the first number of runs that is enough");
    for (case, own) in found["means"].as_array().unwrap().iter().enumerate() {
        let (mean, half) = interval(&of(case, count));
        let near = |key: &str, value: f64| (own[key].as_f64().unwrap() / value - 1.0).abs() < 1e-9;
        assert!(near("mean_step_ms", mean) && near("half_width_ms", half), "{own}");
    }
}

#[test]
fn the_mean_without_jitter_lies_in_the_interval() {
    let project = project();
    project.run(&["run", CASE, "--half-width", "0.005", "--out", "o"]).ends_with(0);
    let own = project.json("o/summary.json")["replications"]["means"][0].clone();
    let (mean, half) = (own["mean_step_ms"].as_f64(), own["half_width_ms"].as_f64());
    let (mean, half) = (mean.unwrap(), half.unwrap());
    // With everything in HBM ops run one after the other, and draws keep the mean of each.
    let nominal: f64 = [0.1, 0.1, 0.2, 0.2, 0.2, 0.05, 0.05, 0.05].iter().sum();
    assert!((mean - nominal).abs() <= half, "{mean} ms within {half}, not {nominal}");
    let csv = project.text("o/results.csv");
    assert!(csv.contains("replications_step_ms_half_width"), "{csv}");
}

#[test]
fn what_is_not_reached_is_said_and_one_run_without_jitter_is_exact() {
    let project = project();
    let command = ["--half-width", "0.00001", "--most-replications", "4", "--out", "o"];
    let mut files = Vec::new();
    for jobs in ["1", "8"] {
        let ran = project.run(&[&["run", CASE, "--jobs", jobs][..], &command].concat());
        let ran = ran.ends_with(0).shows(&["4 replications", "not reached"]);
        files.push((project.files("o"), ran.stdout));
    }
    assert!(files[0] == files[1], "threads change results");
    let found = &project.json("o/summary.json")["replications"];
    assert_eq!((&found["count"], &found["reached"]), (&4.into(), &false.into()));
    let exact = Project::new();
    let ran = exact.run(&["run", CASE, "--half-width", "0.01", "--out", "o"]).ends_with(0);
    let ran = ran.shows(&["one run is exact"]);
    let found = &exact.json("o/summary.json")["replications"];
    assert_eq!((&found["count"], &found["exact"]), (&1.into(), &true.into()), "{}", ran.stdout);
    for share in ["0", "2", "-0.1", "much"] {
        let option = format!("--half-width={share}");
        exact
            .run(&["run", CASE, &option, "--out", "p"])
            .ends_with(2)
            .says(&["a share of the mean"]);
    }
    assert!(!exact.path("p").exists());
}
