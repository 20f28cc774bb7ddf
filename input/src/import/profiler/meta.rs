//! What the trace says of itself: its name, what it holds, when and on what it was recorded.

use super::Gaps;
use super::account::Account;
use super::tables::Tables;
use crate::trace::tables::unpacked_name;
use std::path::Path;
use tiersim_models::workload::{Recorded, TraceMeta};

pub(super) fn meta(path: &Path, tables: &Tables, gaps: Gaps, account: &Account) -> TraceMeta {
    let name = unpacked_name(path);
    let name = name.trim_end_matches(".json").trim_end_matches(".pt.trace");
    let name = name.trim_end_matches(".sqlite");
    let rank = match (tables.rank, tables.ranks) {
        (Some(rank), Some(ranks)) => format!(" Rank {rank} of {ranks}."),
        _ => String::new(),
    };
    let kept = match gaps {
        Gaps::Keep => "waits for the host are kept as idle ops",
        Gaps::Drop => "time in which nothing ran is left out",
    };
    let on = account.device.clone().unwrap_or_else(|| "host".to_owned());
    let from = tables.source.of("a trace of the PyTorch profiler", "an export of Nsight Systems");
    let about = format!(
        "Imported from {from}.{rank} Durations are those of {on}; {kept}. \
         {} objects, {} parameters; {} bytes of state of which nothing is known.",
        account.objects.0, account.parameters.0, account.unknown
    );
    let how = tables.source.of("torch.profiler (Kineto)", "Nsight Systems").to_owned();
    let recorded = Recorded { how, when: date(tables).unwrap_or_default(), on };
    let (batch, sequence, precision) = (1, 1, "recorded".to_owned());
    TraceMeta { name: name.to_owned(), about, precision, batch, sequence, recorded }
}

/// The day of the first event, if times count from 1970.
fn date(tables: &Tables) -> Option<String> {
    let epoch = i128::from(tables.epoch.unwrap_or(0)) * 1000;
    day(epoch + tables.base())
}

/// The day of so many picoseconds since 1970.
pub(crate) fn day(ps: i128) -> Option<String> {
    const DAY_PS: i128 = 86_400 * 1_000_000_000_000;
    let days = ps / DAY_PS;
    // From 2015 to 2100: other times count from the start of a machine.
    if !(16_436..47_482).contains(&days) {
        return None;
    }
    // The civil calendar counted from 0000-03-01, in eras of 400 years.
    let shifted = i64::try_from(days).ok()? + 719_468;
    let (era, day) = (shifted / 146_097, shifted % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let in_year = day - (365 * year + year / 4 - year / 100);
    let month = (5 * in_year + 2) / 153;
    let in_month = in_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = era * 400 + year + i64::from(month <= 2);
    Some(format!("{year}-{month:02}-{in_month:02}"))
}

#[cfg(test)]
mod tests {
    use super::day;

    #[test]
    fn days_are_those_of_the_calendar() {
        for (seconds, wanted) in [
            (1_669_783_687, Some("2022-11-30")),
            (1_709_164_800, Some("2024-02-29")),
            (1_735_632_360, Some("2024-12-31")),
            (4_000_000, None),
        ] {
            assert_eq!(day(seconds * 1_000_000_000_000).as_deref(), wanted);
        }
    }
}
