//! Which columns of a table are what, as `-t` of libCacheSim's `cachesim` says it:
//! `time-col=2, obj-id-col=5, obj-size-col=4, delimiter=,, has-header=false`.
//!
//! Columns are counted from 1. Words may be in capitals, with `_` for `-` and `field` for `col`, as
//! there (`libCacheSim/bin/cli_reader_utils.c`).
//! Invariant: a word that is not heeded is refused, but for `obj-id-is-num`, on which nothing
//! depends.

use std::str::FromStr;

/// The last column that may be named.
const MOST: u16 = 1024;

/// What was said of a table's columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Columns {
    pub(super) object: Option<u16>,
    pub(super) size: Option<u16>,
    pub(super) time: Option<u16>,
    pub(super) delimiter: Option<u8>,
    pub(super) header: Option<bool>,
}

impl Columns {
    /// Of which nothing is said.
    pub(super) const NONE: Columns =
        Columns { object: None, size: None, time: None, delimiter: None, header: None };
}

/// What is wrong with what was said.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ColumnsError(String);

/// Every word.
const WORDS: &str = "time-col, obj-id-col, obj-size-col, delimiter, has-header and obj-id-is-num";

impl FromStr for Columns {
    type Err = ColumnsError;

    fn from_str(text: &str) -> Result<Columns, ColumnsError> {
        let (mut columns, mut rest, mut is_number) = (Columns::NONE, text.trim(), None);
        while !rest.is_empty() {
            // A value ends at a comma, and is one where nothing else is before it.
            let (key, after) = rest.split_once('=').unwrap_or((rest, ""));
            let (value, after) = after.split_once(',').unwrap_or((after, ""));
            rest = after.trim_start_matches([' ', ',']);
            let word = key.trim().to_ascii_lowercase().replace('_', "-").replace("field", "col");
            let again = match word.as_str() {
                "time-col" => columns.time.replace(column(&word, value)?).is_some(),
                "obj-id-col" => columns.object.replace(column(&word, value)?).is_some(),
                "obj-size-col" | "size-col" => {
                    columns.size.replace(column(&word, value)?).is_some()
                }
                "delimiter" => columns.delimiter.replace(delimiter(value)?).is_some(),
                "header" | "has-header" => columns.header.replace(truth(&word, value)?).is_some(),
                "obj-id-is-num" => is_number.replace(truth(&word, value)?).is_some(),
                _ => {
                    let shown: String = word.chars().take(40).collect();
                    return Err(ColumnsError(format!("{shown:?} is none of {WORDS}")));
                }
            };
            if again {
                return Err(ColumnsError(format!("{word} is said twice")));
            }
        }
        let all = [columns.time, columns.object, columns.size];
        let named = all.iter().filter(|column| column.is_some());
        if named.clone().enumerate().any(|(at, column)| all[..at].contains(column)) {
            return Err(ColumnsError("two columns have one number".to_owned()));
        }
        match columns.object {
            Some(_) => Ok(columns),
            None => Err(ColumnsError(format!("obj-id-col is missing; the words are {WORDS}"))),
        }
    }
}

fn column(word: &str, value: &str) -> Result<u16, ColumnsError> {
    let number = value.trim().parse().ok().filter(|number| (1..=MOST).contains(number));
    let error = || ColumnsError(format!("{word} is a number from 1 to {MOST}, not {value:?}"));
    number.ok_or_else(error)
}

fn delimiter(value: &str) -> Result<u8, ColumnsError> {
    match value.as_bytes() {
        // `delimiter=,` has its comma for the end of an empty value.
        [] | b"\\" => Ok(b','),
        b"\\t" => Ok(b'\t'),
        [byte] if byte.is_ascii_punctuation() && *byte != b'"' || matches!(byte, b' ' | b'\t') => {
            Ok(*byte)
        }
        _ => Err(ColumnsError(format!("delimiter is one sign, or \\t, not {value:?}"))),
    }
}

fn truth(word: &str, value: &str) -> Result<bool, ColumnsError> {
    match value.trim().to_ascii_lowercase().as_str() {
        "true" | "1" | "yes" | "y" => Ok(true),
        "false" | "0" | "no" | "n" => Ok(false),
        _ => Err(ColumnsError(format!("{word} is true or false, not {value:?}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_libcachesim_are_read() {
        let all = Columns {
            object: Some(5),
            size: Some(4),
            time: Some(2),
            delimiter: Some(b','),
            header: Some(false),
        };
        for text in [
            "time-col=2, obj-id-col=5, obj-size-col=4, delimiter=,, has-header=false",
            "time_field=2,OBJ-ID-COL=5,size-col=4,delimiter=\\,,header=n, obj-id-is-num=1",
            "has-header=0,time-col=2,obj-id-col=5,obj-size-col=4,delimiter=,",
        ] {
            assert_eq!(text.parse(), Ok(all), "{text}");
        }
        let tabs: Columns = "obj-id-col=1,delimiter=\\t".parse().unwrap();
        assert_eq!((tabs.object, tabs.delimiter, tabs.header), (Some(1), Some(b'\t'), None));
    }

    #[test]
    fn other_words_and_values_are_refused() {
        for (text, wanted) in [
            ("", "obj-id-col is missing"),
            ("time-col=2", "obj-id-col is missing"),
            ("obj-id-col=0", "from 1 to 1024, not \"0\""),
            ("obj-id-col=x", "from 1 to 1024, not \"x\""),
            ("obj-id-col", "from 1 to 1024, not \"\""),
            ("obj-id-col=1,obj-id-col=2", "obj-id-col is said twice"),
            ("obj-id-col=1,time-col=1", "two columns have one number"),
            ("obj-id-col=1,cnt-col=2", "\"cnt-col\" is none of"),
            ("obj-id-col=1,block-size=512", "\"block-size\" is none of"),
            ("obj-id-col=1,delimiter=ab", "delimiter is one sign"),
            ("obj-id-col=1,has-header=maybe", "true or false"),
        ] {
            let error = text.parse::<Columns>().unwrap_err().to_string();
            assert!(error.contains(wanted), "{text}: {error}");
        }
    }
}
