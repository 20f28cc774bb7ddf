//! Every row of the table of miss counts that libCacheSim gave for two traces, line by line.
//!
//! Table and traces lie in `../shared/data/cache-oracle` beside the checkout.

use flate2::read::GzDecoder;
use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use tiersim_policies::replacement::{Algorithm, Cache, NEVER, Outcome, Replacement, Visit};

/// A request: object, bytes, next use.
pub(crate) type Request = (u32, u64, u64);

fn folder() -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace");
    let folders = root.ancestors().skip(1).map(|above| above.join("shared/data/cache-oracle"));
    folders.into_iter().find(|folder| folder.is_dir())
}

/// The requests of an `oracleGeneral` file: u32 time, u64 object, u32 bytes, i64 next use.
fn requests(path: &Path) -> Vec<Request> {
    let file = fs::File::open(path).expect("the trace is there");
    let mut raw = Vec::new();
    GzDecoder::new(file).read_to_end(&mut raw).expect("it is gzip");
    assert_eq!(raw.len() % 24, 0, "records of 24 bytes");
    let mut ids = BTreeMap::new();
    let record = |record: &[u8]| {
        let long = |at: usize| u64::from_le_bytes(record[at..at + 8].try_into().expect("8 bytes"));
        let bytes = u32::from_le_bytes(record[12..16].try_into().expect("4 bytes"));
        let next = long(16) as i64;
        let fresh = ids.len() as u32;
        let id = *ids.entry(long(4)).or_insert(fresh);
        (id, u64::from(bytes), if next < 0 { NEVER } else { next as u64 })
    };
    raw.chunks_exact(24).map(record).collect()
}

/// Requests and bytes that missed.
pub(crate) struct Replay<'a> {
    pub(crate) requests: &'a [Request],
    pub(crate) capacity: u64,
}

impl Visit for Replay<'_> {
    type Out = (u64, u64);

    fn visit<R: Replacement + 'static>(self, rule: R) -> (u64, u64) {
        let mut cache = Cache::new(rule, self.capacity);
        let mut missed = (0, 0);
        for &(id, bytes, next) in self.requests {
            if cache.access_knowing(id, bytes, next) == Outcome::Miss {
                missed = (missed.0 + 1, missed.1 + bytes);
            }
            assert!(cache.occupied() <= self.capacity);
        }
        missed
    }
}

#[test]
fn miss_counts_equal_libcachesim_line_by_line() {
    let Some(folder) = folder() else {
        eprintln!("no shared/data/cache-oracle beside the checkout: nothing is compared");
        return;
    };
    let table = fs::read_to_string(folder.join("oracle.csv")).expect("the table is there");
    let mut traces: BTreeMap<&str, Vec<Request>> = BTreeMap::new();
    let mut wrong = Vec::new();
    for line in table.lines().skip(1) {
        let fields: Vec<&str> = line.split(',').collect();
        let [file, mode, algorithm, capacity, n_req, n_miss, _, byte_ratio] = fields[..] else {
            panic!("{line}");
        };
        assert_eq!(mode, "oracleGeneral", "sizes are those of the file");
        let trace =
            traces.entry(file).or_insert_with(|| requests(&folder.join(format!("{file}.gz"))));
        let algorithm = Algorithm::by_name(algorithm).expect("an algorithm of ours");
        let capacity = capacity.parse().expect("a number");
        let (missed, missed_bytes) = algorithm.with(capacity, Replay { requests: trace, capacity });
        let bytes: u64 = trace.iter().map(|&(_, bytes, _)| bytes).sum();
        let ratio = format!("{:.6}", missed_bytes as f64 / bytes as f64);
        let ours = (trace.len().to_string(), missed.to_string(), ratio.as_str());
        if (ours.0.as_str(), ours.1.as_str(), ours.2) != (n_req, n_miss, byte_ratio) {
            wrong.push(format!("{line}: ours {missed}"));
        }
    }
    assert!(wrong.is_empty(), "{} rows differ:\n{}", wrong.len(), wrong.join("\n"));
}
