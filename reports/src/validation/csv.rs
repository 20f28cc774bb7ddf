//! `validation.csv`: one row per step, class of ops and channel of every case and mode.

use std::fmt::Write;
use tiersim_models::results::comparison::{Compared, Row};

/// The table. New columns are added at the end only.
pub(super) fn csv(compared: &[Compared]) -> String {
    let mut text =
        "case,policy,class,name,predicted_ms,measured_ms,error,spread,in_place,scenario\n"
            .to_owned();
    for one in compared {
        let (scenario, channels) = (quoted(&one.scenario), one.channels());
        for (result, ran) in one.ran() {
            let (label, policy) = (quoted(&result.label), quoted(&result.policy));
            for mode in ran.modes() {
                for row in ran.rows(mode, &channels) {
                    let error = row.error();
                    let Row { class, name, predicted, measured, spread } = row;
                    let (p, m, name) = (predicted.as_ms(), measured.as_ms(), quoted(&name));
                    let mode = mode.word();
                    let _ = writeln!(
                        text,
                        "{label},{policy},{class},{name},{p},{m},{error},{spread},{mode},{scenario}"
                    );
                }
            }
        }
    }
    text
}

/// A field in quotes if it needs them (RFC 4180).
fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r', ' ']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}
