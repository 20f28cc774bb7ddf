//! Sized objects: misses as libCacheSim counts them, line by line.
//!
//! `sized.csv` is what `bench-cache/sized.py` prints; the traces are drawn here again.

use crate::replacement::oracle::Replay;
use tiersim_models::random::{SplitMix, split_mix};
use tiersim_policies::replacement::{Algorithm, NEVER};

/// The one row that differs: with sizes above a tenth of the cache, which is the small queue of
/// S3-FIFO, ours lets fewer objects in.
const OURS: (&str, &str) = ("1000,100,7,S3FIFO,449,19081", "19096");

fn requests(objects: u64, most: u64, seed: u64) -> Vec<(u32, u64, u64)> {
    let mut draw = SplitMix::new(seed);
    let mut trace: Vec<(u32, u64, u64)> = Vec::new();
    for _ in 0..20_000 {
        let [one, two, three] = [(); 3].map(|()| draw.draw() % objects);
        let object = one.min(two).min(three);
        trace.push((object as u32, 1 + split_mix(object * 977 + seed, 0) % most, NEVER));
    }
    let mut last = vec![NEVER; objects as usize];
    for (index, (object, _, next)) in trace.iter_mut().enumerate().rev() {
        *next = std::mem::replace(&mut last[*object as usize], index as u64);
    }
    trace
}

#[test]
fn misses_of_sized_objects_equal_libcachesim_line_by_line() {
    let mut drawn = (String::new(), Vec::new());
    let (mut wrong, mut rows) = (Vec::new(), 0);
    for line in include_str!("sized.csv").lines().skip(1) {
        let fields: Vec<&str> = line.split(',').collect();
        let [objects, most, seed, name, capacity, misses] = fields[..] else { panic!("{line}") };
        let key = [objects, most, seed].join(",");
        if drawn.0 != key {
            let number = |text: &str| text.parse().expect("a number");
            drawn = (key, requests(number(objects), number(most), number(seed)));
        }
        let capacity = capacity.parse().expect("a number");
        let algorithm = Algorithm::by_name(name).expect("an algorithm of ours");
        let replay = Replay { requests: &drawn.1, capacity };
        let (missed, _) = algorithm.with(capacity, replay);
        rows += 1;
        let expected = if line == OURS.0 { OURS.1 } else { misses };
        if missed.to_string() != expected {
            wrong.push(format!("{line}: ours {missed}"));
        }
    }
    assert_eq!(rows, 2 * 8 * 11);
    assert!(wrong.is_empty(), "{} rows differ:\n{}", wrong.len(), wrong.join("\n"));
}
