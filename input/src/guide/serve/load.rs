//! How many requests are under way at once, and how long they are.
//!
//! Several flags bound the requests: how many may run, and how much room there is for their keys
//! and values. Invariant: each of them tells the same number, that of the tightest.

use super::Load;
use super::names::{BLOCK, BLOCKS, CACHE, CACHED, LENGTH, REPLICAS, REQUESTS};
use super::{Fate, Reader};
use crate::guide::settings::Generate;

/// `32k` is 32,000 and `32K` is 32,768, as vLLM has it.
fn whole(value: &str) -> Option<u64> {
    let (digits, unit) = match value.char_indices().last()? {
        (at, 'k') => (&value[..at], 1e3),
        (at, 'K') => (&value[..at], 1024.0),
        (at, 'm') => (&value[..at], 1e6),
        (at, 'M') => (&value[..at], 1024.0 * 1024.0),
        (at, 'g') => (&value[..at], 1e9),
        (at, 'G') => (&value[..at], 1024.0 * 1024.0 * 1024.0),
        _ => (value, 1.0),
    };
    let number: f64 = digits.parse().ok()?;
    let number = number * unit;
    (number.fract() == 0.0 && (1.0..=1e12).contains(&number)).then_some(number as u64)
}

fn no_number(of: &mut Reader<'_>, key: &str) {
    let (_, entry) = of.find(key).expect("it was read");
    let rule = format!("`{}` is a whole number", of.named(key));
    of.wrong(entry.place, &rule, entry.value.as_deref().unwrap_or(""), "write such a number");
}

/// Copies of the model over `devices` each, of which one is modelled with its part of the requests.
pub(super) fn replicas(of: &mut Reader<'_>, load: &Load<'_>, devices: u64) -> u64 {
    let many = of.value(REPLICAS).and_then(|many| many.parse().ok()).unwrap_or(1_u64).max(1);
    let all = devices.saturating_mul(many);
    let part = load.requests.div_ceil(many);
    let mut told = format!("{part} of {} requests: this is one of {{}} replicas", load.requests);
    if (load.machine)(all).is_none() {
        told += &format!("; no machine with {all} of the devices ships, for all of them");
    }
    of.number(REPLICAS, [1, 1024], &told).unwrap_or(1)
}

/// The requests that run at once, and whether they are too long. `cached` is how many bytes of a
/// device a request's keys and values take in blocks of so many tokens.
pub(super) fn requests(
    of: &mut Reader<'_>,
    load: &Load<'_>,
    replicas: u64,
    cached: impl Fn(u64) -> u64,
    text: &mut Generate,
) {
    let part = load.requests.div_ceil(replicas);
    let length = load.prompt + load.tokens;
    // vLLM's blocks, and SGLang's pages.
    let [block, page] = [16, 1].map(|own| of.value(BLOCK).and_then(whole).unwrap_or(own));
    let bounds = [
        (REQUESTS, 1, String::new()),
        (BLOCKS, length.div_ceil(block), format!(", each in blocks of {block} tokens")),
        (CACHED, length.div_ceil(page) * page, format!(", each of {length} tokens")),
        (CACHE, cached(block), format!(", each of {} bytes, and hbm: all of it", cached(block))),
    ];
    let most = |(key, each, _): &(&str, u64, String)| Some(whole(of.value(key)?)? / each);
    text.batch = bounds.iter().filter_map(most).fold(part, u64::min);
    for (key, each, why) in bounds {
        let told = format!("batch: {}, of {part} requests{why}", text.batch);
        match of.text(key, |_| Fate::Taken(told)).map(|(value, place)| (whole(value), value, place))
        {
            None => {}
            Some((None, ..)) => no_number(of, key),
            Some((Some(most), value, place)) if most < each => {
                let rule = format!("`{}` has room for one request{why}", of.named(key));
                let remedy = "write more, or pass a shorter --prompt or fewer --tokens";
                of.wrong(place, &rule, value, remedy);
            }
            Some(_) => {}
        }
    }
    if matches!(of.value(LENGTH), Some("auto" | "-1")) {
        of.ignore(LENGTH, "what fits: --prompt and --tokens say how long requests are");
        return;
    }
    let told = format!("prompt and tokens, {length} here, are no more");
    let Some((value, place)) = of.text(LENGTH, |_| Fate::Taken(told)) else { return };
    match whole(value) {
        None => no_number(of, LENGTH),
        Some(most) if most < length => {
            let name = of.named(LENGTH);
            let rule = format!("prompt and tokens are `{name}` at most, here {length}");
            of.wrong(place, &rule, value, "pass a shorter --prompt or fewer --tokens");
        }
        Some(_) => {}
    }
}
