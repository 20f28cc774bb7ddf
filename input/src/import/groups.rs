//! Who takes part in a collective: what PyTorch says of the process group that it is of.
//!
//! `record_param_comms`, kernels of NCCL and nodes of execution traces carry the name of the group, its size and its ranks; of
//! more than 30 ranks the middle is left out, as in `[0, 2, 4, ..., 126]`. The head of the file, or an
//! execution trace, may list all of them.
//! Invariant: a list of ranks that is returned is whole: it rises, and has as many as the group.

use std::collections::BTreeMap;
use tiersim_models::collective::{CollectiveKind, MAX_GROUP};

/// A group of ranks.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Group {
    pub(crate) name: String,
    /// All of its ranks; empty where they are not said.
    pub(crate) ranks: Vec<u32>,
    /// How many they are; 0 where that is not said.
    pub(crate) size: u64,
}

/// What a file says of a collective, as it says it.
#[derive(Clone, Debug, Default)]
pub(super) struct Words {
    pub(super) name: String,
    pub(super) dtype: String,
    /// Numbers that go in on this rank.
    pub(super) numbers: Option<i64>,
    pub(super) size: Option<i64>,
    pub(super) group: String,
    /// `[0, 1, 2]`; the middle of a long list is left out.
    pub(super) ranks: String,
}

impl Words {
    fn number(number: Option<i64>) -> u64 {
        number.and_then(|number| u64::try_from(number).ok()).unwrap_or(0)
    }

    /// How many ranks; 0 where that is not said.
    pub(super) fn size(&self) -> u64 {
        Words::number(self.size)
    }

    /// What goes in on this rank; 0 where that is not said.
    pub(super) fn bytes(&self) -> u64 {
        let numbers = Words::number(self.numbers);
        number_bytes(&self.dtype).and_then(|bytes| bytes.checked_mul(numbers)).unwrap_or(0)
    }

    /// What it is.
    pub(super) fn kind(&self) -> Option<CollectiveKind> {
        kind_of(&self.name.to_ascii_lowercase())
    }
}

/// What is said of one collective.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Said {
    pub(super) kind: Option<CollectiveKind>,
    /// What goes in on this rank; 0 where that is not said.
    pub(super) bytes: u64,
    /// Which of [`Groups`]; none where nothing is said of it.
    pub(super) group: Option<u32>,
}

/// Groups by what is said of them.
#[derive(Debug, Default)]
pub(super) struct Groups {
    list: Vec<(String, String, u64)>,
    ids: BTreeMap<(String, String, u64), u32>,
}

impl Groups {
    /// Takes what an event says; what that is, and bytes that are kept for it.
    pub(super) fn said(&mut self, said: &Words) -> (Said, usize) {
        let size = said.size();
        let key = (said.group.clone(), said.ranks.clone(), size);
        let none = said.group.is_empty() && said.ranks.is_empty() && size == 0;
        let next = self.list.len() as u32;
        let id = match none {
            true => None,
            false => Some(*self.ids.entry(key.clone()).or_insert(next)),
        };
        let mut kept = 96;
        if id == Some(next) {
            kept += 2 * (key.0.len() + key.1.len() + 96);
            // Ranks of a list take two letters or more, and four bytes.
            kept += 2 * key.1.len();
            self.list.push(key);
        }
        (Said { kind: said.kind(), bytes: said.bytes(), group: id }, kept)
    }

    /// All of them, with the ranks that are said or listed under their names.
    pub(super) fn resolved(&self, listed: &[&BTreeMap<String, Vec<u32>>]) -> Vec<Group> {
        let of = |(name, text, size): &(String, String, u64)| {
            let fits = |ranks: &Vec<u32>| {
                let rises = ranks.windows(2).all(|pair| pair[0] < pair[1]);
                rises && ranks.len() > 1 && (*size == 0 || ranks.len() as u64 == *size)
            };
            let sorted = |mut ranks: Vec<u32>| {
                ranks.sort_unstable();
                ranks
            };
            let said = ranks_of(text, *size).map(sorted).filter(fits);
            let known = || {
                let found = listed.iter().filter_map(|listed| listed.get(name));
                found.map(|ranks| sorted(ranks.clone())).find(fits)
            };
            let ranks = said.or_else(known).unwrap_or_default();
            let size = if ranks.is_empty() { *size } else { ranks.len() as u64 };
            Group { name: name.clone(), ranks, size }
        };
        self.list.iter().map(of).collect()
    }
}

/// The groups of a list as execution traces begin with, whose ranks are listed there: none is where all
/// take part.
pub(super) fn listed(text: &str) -> Vec<(String, Vec<u32>)> {
    #[derive(serde::Deserialize)]
    struct Listed {
        pg_name: String,
        #[serde(default)]
        ranks: Vec<u32>,
    }
    let all: Vec<Listed> = serde_json::from_str(text).unwrap_or_default();
    let some = all.into_iter().filter(|group| !group.ranks.is_empty());
    some.map(|group| (group.pg_name, group.ranks)).collect()
}

/// `[0, 1, 2]`, or `[0, 2, 4, ..., 126]` of so many ranks that are equally far apart.
fn ranks_of(text: &str, size: u64) -> Option<Vec<u32>> {
    let list = text.trim().strip_prefix('[')?.strip_suffix(']')?;
    let numbers = |text: &str| -> Option<Vec<u32>> {
        let words = text.split(',').map(str::trim).filter(|word| !word.is_empty());
        words.map(|word| word.parse().ok()).collect()
    };
    let Some((first, last)) = list.split_once("...") else { return numbers(list) };
    let (first, last) = (numbers(first)?, numbers(last)?);
    let (&[one, two, ..], &[last]) = (&first[..], &last[..]) else { return None };
    let step = two.checked_sub(one).filter(|&step| step > 0)?;
    let even = first.windows(2).all(|pair| pair[1].checked_sub(pair[0]) == Some(step));
    let count = u64::from(last.checked_sub(one)?) / u64::from(step) + 1;
    let whole = u64::from(last - one).is_multiple_of(u64::from(step));
    let fits = even && whole && count == size && count <= MAX_GROUP;
    fits.then(|| (one..=last).step_by(step as usize).collect())
}

/// Bytes of a number of a type, as PyTorch spells it here.
fn number_bytes(word: &str) -> Option<u64> {
    Some(match word {
        "Double" | "Long" | "ComplexFloat" | "UInt64" => 8,
        "Float" | "Int" | "ComplexHalf" | "UInt32" => 4,
        "Half" | "BFloat16" | "Short" | "UInt16" => 2,
        "Byte" | "Char" | "Bool" => 1,
        "ComplexDouble" => 16,
        _ if word.starts_with("Float8_") => 1,
        _ => return None,
    })
}

/// By the name of a call, or of a kernel in small letters.
pub(super) fn kind_of(name: &str) -> Option<CollectiveKind> {
    let words = [
        (["all_reduce", "allreduce"], CollectiveKind::AllReduce),
        (["all_gather", "allgather"], CollectiveKind::AllGather),
        (["reduce_scatter", "reducescatter"], CollectiveKind::ReduceScatter),
        (["all_to_all", "alltoall"], CollectiveKind::AllToAll),
        (["broadcast", "broadcast"], CollectiveKind::Broadcast),
    ];
    let found = words.iter().find(|(words, _)| words.iter().any(|word| name.contains(word)));
    found.map(|&(_, kind)| kind)
}

#[cfg(test)]
mod tests {
    use super::{BTreeMap, CollectiveKind, Groups, Words, kind_of, number_bytes, ranks_of};

    #[test]
    fn ranks_are_whole_or_none() {
        let evens: Vec<u32> = (0..64).map(|rank| 2 * rank).collect();
        for (text, size, wanted) in [
            ("[0, 1, 2]", 3, Some(vec![0, 1, 2])),
            ("[]", 0, Some(vec![])),
            ("[0, 2, 4, ..., 126]", 64, Some(evens)),
            ("[0, 2, 4, ..., 126]", 63, None),
            ("[0, 2, 5, ..., 126]", 64, None),
            ("[0, ..., 126]", 64, None),
            ("[1, 0, ..., 126]", 64, None),
            ("[0, 1, ..., 4294967295]", 1 << 32, None),
            ("0, 1", 2, None),
            ("[a]", 1, None),
        ] {
            assert_eq!(ranks_of(text, size), wanted, "{text}");
        }
    }

    #[test]
    fn a_group_has_the_ranks_that_are_said_or_listed() {
        let mut groups = Groups::default();
        let mut id = |group: &str, ranks: &str, size: i64| {
            let (name, dtype) = ("_allgather_base".to_owned(), "BFloat16".to_owned());
            let (group, ranks) = (group.to_owned(), ranks.to_owned());
            let said = Words { name, dtype, numbers: Some(10), size: Some(size), group, ranks };
            let said = groups.said(&said).0;
            assert_eq!((said.kind, said.bytes), (Some(CollectiveKind::AllGather), 20));
            said.group
        };
        let asked =
            [id("a", "[4, 0]", 2), id("b", "", 2), id("c", "[0, 1]", 4), id("a", "[4, 0]", 2)];
        assert_eq!(asked, [Some(0), Some(1), Some(2), Some(0)]);
        let listed = BTreeMap::from([("b".to_owned(), vec![7, 5]), ("c".to_owned(), vec![1])]);
        let found = groups.resolved(&[&BTreeMap::new(), &listed]);
        let ranks: Vec<(&[u32], u64)> =
            found.iter().map(|one| (&one.ranks[..], one.size)).collect();
        assert_eq!(ranks, [(&[0, 4][..], 2), (&[5, 7], 2), (&[], 4)]);
        assert_eq!(number_bytes("Float8_e4m3fn"), Some(1));
    }

    #[test]
    fn names_of_calls_and_kernels_say_what_they_are() {
        for (name, kind) in [
            ("nccl:all_to_all", Some(CollectiveKind::AllToAll)),
            ("nccl:_all_gather_base", Some(CollectiveKind::AllGather)),
            ("nccl:_reduce_scatter_base", Some(CollectiveKind::ReduceScatter)),
            ("nccl:send 0->1", None),
            ("nccldevkernel_allreduce_sum_bf16_ring_ll(", Some(CollectiveKind::AllReduce)),
            ("ncclkernel_sendrecv_ring_simple_sum_int8_t(", None),
        ] {
            assert_eq!(kind_of(name), kind, "{name}");
        }
    }
}
