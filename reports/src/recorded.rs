//! What the copies of a recording show, as text and as JSON.
//!
//! Invariant: no figure is worked out here; both say what a calibration from the recording says.

use crate::text_table::{Side, cells, text_table};
use crate::{ChartError, pretty};
use serde::Serialize;
use serde_json::{Value, json};
use tiersim_models::recorded::ShownCopies;
use tiersim_models::results::calibration::Law;
use tiersim_models::units::Bytes;

/// A table of the roads that copies took; nothing of a trace without copies.
pub fn copies_text(all: &[ShownCopies]) -> String {
    if all.is_empty() {
        return String::new();
    }
    let mut rows = vec![cells(["copies", "number", "bytes", "rate", "setup", "from"])];
    rows.extend(all.iter().map(|shown| {
        let (rate, setup, from) = match &shown.law {
            Ok(law) => told(shown, law),
            Err(why) => ("-".to_owned(), "-".to_owned(), why.clone()),
        };
        let (count, bytes) = (shown.copies.to_string(), Bytes::new(shown.bytes).to_string());
        vec![shown.road.short().to_owned(), count, bytes, rate, setup, from]
    }));
    let right = Side::Right;
    format!("\n{}", text_table(0, &[Side::Left, right, right, right, right], &rows))
}

fn told(shown: &ShownCopies, law: &Law) -> (String, String, String) {
    let setup = match shown.has_setup {
        true => format!("{:.2} us", law.setup.0 * 1e6),
        false => "-".to_owned(),
    };
    let (least, most) = law.sizes;
    let from = format!(
        "{} copies of {least} to {most}; error median {:.1} %, p95 {:.1} %",
        law.repeats,
        law.error.0 * 100.0,
        law.error.1 * 100.0
    );
    (format!("{:.3} GB/s", law.rate.0 / 1e9), setup, from)
}

/// A document with a list `copies` behind what it has.
///
/// # Errors
/// As the writer of JSON does.
pub fn with_copies_json(info: &impl Serialize, all: &[ShownCopies]) -> Result<String, ChartError> {
    #[derive(Serialize)]
    struct With<'i, Info: Serialize> {
        #[serde(flatten)]
        info: &'i Info,
        copies: Vec<Value>,
    }
    pretty(&With { info, copies: all.iter().map(one_json).collect() })
}

fn one_json(shown: &ShownCopies) -> Value {
    let ShownCopies { road, copies, bytes, told, law, has_setup } = shown;
    let fitted = law.as_ref().ok();
    json!({
        "road": road.short(), "copies": copies, "bytes": bytes, "told": told,
        "bytes_per_s": fitted.map(|law| law.rate.0),
        "bytes_per_s_error": fitted.map(|law| law.rate.1),
        "setup_us": fitted.filter(|_| *has_setup).map(|law| law.setup.0 * 1e6),
        "error": fitted.map(|law| json!({ "median": law.error.0, "p95": law.error.1 })),
        "refused": law.as_ref().err(),
    })
}
