//! What a block trace is, by its first lines.
//!
//! Invariant: a table without a header is told only where the number of its columns and what is in
//! each leave no doubt, in as many lines as are looked at: one that is wrong further on is then
//! named as what it is.

use super::Reader;
use tiersim_models::trace_rules::MAX_NAME_BYTES;

/// Columns of our own table of requests.
pub(super) const TABLE: [&str; 4] = ["at_ns", "object", "bytes", "mode"];
/// What a log of fio's begins with: of version 2, without times, and of version 3.
pub(super) const FIO: [&str; 2] = ["fio version 2 iolog", "fio version 3 iolog"];
/// What Twitter's caches were asked to do.
pub(super) const OPERATIONS: [&str; 11] =
    ["get", "gets", "set", "add", "replace", "cas", "append", "prepend", "delete", "incr", "decr"];

/// Lines that must agree.
const LINES: usize = 3;

/// The reader of a text that begins so, if that can be told.
pub(crate) fn of_text(text: &str) -> Option<Reader> {
    let first = text.lines().next()?;
    if FIO.contains(&first) {
        return Some(Reader::Fio);
    }
    let mut columns = first.split(',');
    if columns.clone().any(|column| column == "object")
        && columns.all(|column| TABLE.contains(&column))
    {
        return Some(Reader::Table);
    }
    // The end of what is looked at may lie within a line.
    let whole = text.rsplit_once('\n').map_or(text, |(whole, _)| whole);
    let all = |is: fn(&str) -> bool| whole.lines().take(LINES).all(is);
    if all(is_msr) {
        Some(Reader::Msr)
    } else if all(is_alibaba) {
        Some(Reader::Alibaba)
    } else if all(is_twitter) {
        Some(Reader::Twitter)
    } else {
        None
    }
}

fn fields<const N: usize>(line: &str) -> Option<[&str; N]> {
    line.split(',').collect::<Vec<_>>().try_into().ok()
}

fn numbers<const N: usize>(fields: [&str; N]) -> bool {
    fields.iter().all(|field| is_number(field, 1..=20))
}

fn is_number(field: &str, digits: std::ops::RangeInclusive<usize>) -> bool {
    digits.contains(&field.len()) && field.bytes().all(|byte| byte.is_ascii_digit())
}

/// A time since 1601 in 100 ns has 18 digits from 1917 to 4770.
fn is_msr(line: &str) -> bool {
    fields(line).is_some_and(|[at, host, disk, kind, offset, size, response]| {
        let known = matches!(kind, "Read" | "Write") && !host.is_empty();
        known && is_number(at, 18..=18) && numbers([disk, offset, size, response])
    })
}

/// A time since 1970 in microseconds has 16 digits from 2001 to 2286.
fn is_alibaba(line: &str) -> bool {
    fields(line).is_some_and(|[device, kind, offset, length, at]| {
        let known = matches!(kind, "R" | "W") && is_number(at, 16..=16);
        known && numbers([device, offset, length])
    })
}

fn is_twitter(line: &str) -> bool {
    fields(line).is_some_and(|[at, key, key_size, size, client, operation, lives]| {
        let known =
            (1..=MAX_NAME_BYTES * 4).contains(&key.len()) && OPERATIONS.contains(&operation);
        known && numbers([at, key_size, size, client, lives])
    })
}

/// Whether a first line is that of our own table, right or wrong.
pub(super) fn is_table(first: &str) -> bool {
    first.split(',').any(|column| TABLE.contains(&column))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_leaves_no_doubt_is_told_and_nothing_else() {
        for (text, wanted) in [
            ("object,bytes\n1,2\n", Some(Reader::Table)),
            ("fio version 2 iolog\n/dev/sda add\n", Some(Reader::Fio)),
            ("fio version 3 iolog\n", Some(Reader::Fio)),
            ("fio version 1 iolog\n", None),
            ("128166372003061629,hm,0,Write,7014912,4096,26\n", Some(Reader::Msr)),
            // The last line was cut off by the end of what is looked at.
            ("128166372003061629,hm,0,Write,7014912,4096,26\n1281663720030", Some(Reader::Msr)),
            ("128166372003061629,hm,0,Write,7014912,4096,26\nx\n", None),
            ("12816637200306162,hm,0,Write,7014912,4096,26\n", None),
            ("0,R,126703644672,4096,1577808000000626\n", Some(Reader::Alibaba)),
            ("0,R,126703644672,4096,1577808000\n", None),
            ("0,nz:u:eeW5,22,304,127,get,0\n", Some(Reader::Twitter)),
            ("0,nz:u:eeW5,22,304,127,fetch,0\n", None),
            // Five numbers a line may be anything.
            ("1538323200,12910952,128,0,1063\n", None),
            ("42932745\n42932746\n", None),
            ("version,time,op,size,lbn\n1,33898,2a,512,42932745\n", None),
            ("", None),
        ] {
            assert_eq!(of_text(text), wanted, "{text}");
        }
    }
}
