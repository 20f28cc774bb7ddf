//! Names that exist, for somebody who wrote one that does not.

/// Most names that one message lists.
const MAX_LISTED: usize = 40;
/// Most names that are searched for a near one.
const MAX_SEARCHED: usize = 200;

/// Schema of hardware and scenario files that this program reads and writes.
pub const SCHEMA: u32 = 2;

/// What to do with a file of another schema.
pub fn other_schema() -> String {
    format!("write {SCHEMA}: the words that are others since schema 1 are named where they stand")
}

/// Words of schema 1 of hardware and scenario files, each with its word of today.
const RENAMED: [(&str, &str); 14] = [
    ("lanes", "max_in_flight"),
    ("fetch", "read"),
    ("evict", "write"),
    ("evict_setup", "write_setup"),
    ("fetch_sizes", "read_sizes"),
    ("evict_sizes", "write_sizes"),
    ("fetch_depths", "read_depths"),
    ("evict_depths", "write_depths"),
    ("fetch_tail", "read_tail"),
    ("evict_tail", "write_tail"),
    ("others", "background"),
    ("lane", "channel"),
    ("staging", "prefetch_budget"),
    ("materialised", "eager"),
];

/// Variants of files that are gone, each with what is written now.
const REPLACED: [(&str, &str); 1] = [(
    "Layered",
    "write Model(card: (family: ..., layers: ..., ...), mode: train(...)) or generate(...)",
)];

/// The `known` names, with the name that `found` has now, or the nearest one, first.
pub fn choices(found: &str, known: &[&str]) -> String {
    let renamed = RENAMED.iter().find(|(old, new)| *old == found && known.contains(new));
    if let Some((_, new)) = renamed {
        return format!("since schema 2 it is called `{new}`");
    }
    if let Some((_, now)) = REPLACED.iter().find(|(old, _)| *old == found) {
        return (*now).to_owned();
    }
    let mut list = known[..known.len().min(MAX_LISTED)].join(", ");
    if known.len() > MAX_LISTED {
        list.push_str(", ...");
    }
    match nearest(found, known) {
        Some(near) => format!("did you mean `{near}`? known: {list}"),
        None => format!("known: {list}"),
    }
}

/// The known word that differs from `found` by the fewest letters, if that is not most of them, or
/// the only one that begins with it.
pub fn nearest<'k>(found: &str, known: &[&'k str]) -> Option<&'k str> {
    let known = &known[..known.len().min(MAX_SEARCHED)];
    let mut longer = known.iter().filter(|word| found.len() >= 3 && word.starts_with(found));
    if let (Some(only), None) = (longer.next(), longer.next()) {
        return Some(only);
    }
    let limit = (found.chars().count() / 3).max(1);
    known
        .iter()
        .map(|word| (distance(&found.to_ascii_lowercase(), &word.to_ascii_lowercase()), *word))
        .filter(|(distance, _)| *distance <= limit)
        .min()
        .map(|(_, word)| word)
}

/// How many letters are missing, extra, different or swapped with their neighbour.
fn distance(a: &str, b: &str) -> usize {
    let a: Vec<char> = a.chars().take(64).collect();
    let b: Vec<char> = b.chars().take(64).collect();
    // Row i + 1 is the distance of a[..=i] to every beginning of b.
    let mut rows = vec![(0..=b.len()).collect::<Vec<usize>>()];
    for i in 0..a.len() {
        let mut row = vec![i + 1];
        for j in 0..b.len() {
            let changed = rows[i][j] + usize::from(a[i] != b[j]);
            let mut least = changed.min(row[j] + 1).min(rows[i][j + 1] + 1);
            if i > 0 && j > 0 && a[i] == b[j - 1] && a[i - 1] == b[j] {
                least = least.min(rows[i - 1][j - 1] + 1);
            }
            row.push(least);
        }
        rows.push(row);
    }
    rows[a.len()][b.len()]
}
