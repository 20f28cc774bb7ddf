//! The curves behind the charts of a file of requests.
//!
//! Invariant: reads the requests only; an interval is a round time, and there are about a hundred.

use crate::trace::distribution;
use tiersim_models::requests::ServingRequests;
use tiersim_models::results::trace_shape::{Distribution, RequestsShape};

/// As many intervals at most.
const INTERVALS: u64 = 120;
/// A millisecond in ps: traces have no finer times.
const SHORTEST: u64 = 1_000_000_000;

/// The curves of requests that `name` holds.
pub fn requests_shape(name: &str, requests: &ServingRequests) -> RequestsShape {
    let list = &requests.list;
    let first = list.first().map_or(0, |one| one.arrival.ps());
    let span = list.last().map_or(0, |one| one.arrival.ps()) - first;
    let interval = round(span.div_ceil(INTERVALS));
    let mut arrivals = vec![0u64; (span / interval) as usize + 1];
    for one in list {
        arrivals[((one.arrival.ps() - first) / interval) as usize] += 1;
    }
    RequestsShape {
        name: name.to_owned(),
        requests: list.len() as u64,
        span,
        interval,
        arrivals,
        prompt: of(list.iter().map(|one| one.prompt).collect()),
        output: of(list.iter().map(|one| one.output).collect()),
    }
}

/// The next of 1, 2 and 5 ms, 10, 20 and 50 ms and so on.
fn round(ps: u64) -> u64 {
    let powers = (0..).map_while(|power| SHORTEST.checked_mul(10u64.checked_pow(power)?));
    let mut all = powers.flat_map(|power| [1, 2, 5].map(|step| power.saturating_mul(step)));
    all.find(|&one| one >= ps).unwrap_or(u64::MAX)
}

fn of(mut tokens: Vec<u32>) -> Distribution {
    tokens.sort_unstable();
    distribution(tokens.iter().map(|&count| (u64::from(count), 1)))
}

#[cfg(test)]
mod tests {
    use super::{requests_shape, round};
    use tiersim_models::requests::ServingRequests;
    use tiersim_models::units::Time;

    #[test]
    fn arrivals_fall_into_round_intervals_from_the_first() {
        let mut requests = ServingRequests::new(None);
        for ms in [500, 900, 1600, 240_499] {
            requests.push(Time::from_ps(ms * 1_000_000_000), 8, ms, &[]).expect("it is one");
        }
        let shape = requests_shape("a", &requests);
        assert_eq!((shape.interval, shape.arrivals.len()), (2_000_000_000_000, 120));
        assert_eq!((shape.arrivals[0], shape.arrivals[119]), (3, 1));
        assert_eq!((shape.prompt, shape.output.len()), (vec![(8, 1.0)], 4));
        let one = ServingRequests { list: requests.list[..1].to_vec(), ..requests };
        assert_eq!(requests_shape("a", &one).arrivals, [1]);
        assert_eq!((round(0), round(u64::MAX)), (1_000_000_000, u64::MAX));
    }
}
