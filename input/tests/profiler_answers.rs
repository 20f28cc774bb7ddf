//! Answers about traces of the profiler that nothing else would find wrong: what is joined with what,
//! how much products on the host are, which steps there are.
//!
//! Real files lie in `../shared/data` beside the checkout; where they are not there, the test says so
//! and has passed.

use crate::import_profiler::real;
use tiersim_input::import::profiler::{Gaps, import_joined};

#[test]
fn an_execution_trace_of_another_run_is_refused() {
    let at = |name: &str| real(&format!("execution-trace/{name}"));
    let (Some(linear), Some(resnet), Some(right), Some(other)) = (
        at("linear_kineto.json.gz"),
        at("resnet_kineto.json.gz"),
        at("linear_et.json.gz"),
        at("resnet_1gpu_et.json.tar.gz"),
    ) else {
        return;
    };
    // One iteration of many.
    let joined = import_joined(&linear, &right, Gaps::Keep).unwrap().account.joined;
    assert_eq!(joined, Some((770, 931, "order and name")));
    for (profile, execution, found, rows) in
        [(&linear, &other, "1627", "14392"), (&resnet, &right, "22", "931")]
    {
        let error = import_joined(profile, execution, Gaps::Keep).unwrap_err().to_string();
        assert!(error.contains("an execution trace is of the same steps"), "{error}");
        assert!(error.contains(&format!("{found} rows are in both")), "{error}");
        assert!(error.contains(&format!("{rows} nodes of the execution trace")), "{error}");
    }
}
