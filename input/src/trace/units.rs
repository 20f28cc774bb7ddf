//! The columns of `ops.csv` that say what an op runs on.
//!
//! `unit` is empty for the device, `cpu`, `idle` or the word of a collective, whose bytes and group
//! are in two more columns; a group that does the same several times in a row says how often. They
//! are the last of the table and are left out where all is on the device.

use super::rows::{Row, whole_number};
use tiersim_models::units::Bytes;
use tiersim_models::workload::{Collective, CollectiveKind, Unit};

/// How many columns there are.
pub(super) const COLUMNS: usize = 3;

/// `unit`, `collective_bytes` and `group` of an op.
pub(super) fn fields(unit: Unit) -> [String; COLUMNS] {
    let word = |word: &str| [word.to_owned(), String::new(), String::new()];
    match unit {
        Unit::Device => word(""),
        Unit::Cpu => word("cpu"),
        Unit::Idle => word("idle"),
        Unit::Network(of) => {
            [of.kind.word().to_owned(), of.bytes.get().to_string(), group_text(of)]
        }
    }
}

/// What the op of a row runs on.
pub(super) fn read_unit(row: &mut Row<'_>) -> Unit {
    let collective = |kind: CollectiveKind| {
        (kind.word(), Unit::Network(Collective::within(kind, Bytes::ZERO, 1)))
    };
    let mut units = vec![("device", Unit::Device), ("cpu", Unit::Cpu), ("idle", Unit::Idle)];
    units.extend(CollectiveKind::ALL.map(collective));
    let device = row.text("unit").is_empty();
    let unit = if device { Unit::Device } else { row.word("unit", &units, Unit::Device) };
    let Unit::Network(Collective { kind, .. }) = unit else {
        for column in ["collective_bytes", "group"] {
            let text = row.text(column).to_owned();
            if !text.is_empty() {
                let rule = format!("{column} is of collectives");
                row.problem(rule, text, "leave it empty, or name the collective in `unit`");
            }
        }
        return unit;
    };
    let bytes = Bytes::new(row.whole("collective_bytes"));
    let text = row.text("group").to_owned();
    let Some((within, servers, times)) = group_of(&text) else {
        let rule = "group is ranks within a server x servers, such as 8x64, and x how often, if more \
                    than once";
        row.problem(rule, text, "write two whole numbers, or three, with an x between them");
        return unit;
    };
    Unit::Network(Collective { kind, bytes, within, servers, times })
}

/// A group's text, `8x64x3`, as ranks within a server, servers and how often.
pub(crate) fn group_text(of: Collective) -> String {
    let Collective { within, servers, times, .. } = of;
    let again = if times == 1 { String::new() } else { format!("x{times}") };
    format!("{within}x{servers}{again}")
}

/// What [`group_text`] spelled.
pub(crate) fn group_of(text: &str) -> Option<(u32, u32, u32)> {
    let number = |text: &str| whole_number(text).and_then(|number| u32::try_from(number).ok());
    let numbers: Option<Vec<u32>> = text.split('x').map(number).collect();
    match numbers?[..] {
        [within, servers] => Some((within, servers, 1)),
        [within, servers, times] => Some((within, servers, times)),
        _ => None,
    }
}
