//! A timeline of slots, one per op: how much memory is needed in each ([`Heights`]), and how much of
//! it a channel of a link is still idle ([`Idle`]).
//!
//! Both answer in logarithmic time for what plans ask: bytes over a range are raised and lowered
//! at once, the memory above the line is summed without looking at every slot, and the end of a
//! copy is found from sums. Ranges are half-open and do not wrap; callers cut those that do.
//! Invariant: idle time is never negative.

mod heights;
mod idle;

pub(super) use heights::Heights;
pub(super) use idle::Idle;

#[cfg(test)]
mod tests {
    use super::{Heights, Idle};

    /// Small numbers from a seed (Knuth's MMIX constants).
    fn draw(seed: &mut u64, below: u64) -> u64 {
        *seed =
            seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (*seed >> 33) % below
    }

    #[test]
    fn heights_are_what_a_plain_list_says() {
        for seed in 0..200 {
            let mut seed = seed;
            let slots = 1 + draw(&mut seed, 90) as usize;
            let mut plain: Vec<i64> = (0..slots).map(|_| draw(&mut seed, 40) as i64 - 20).collect();
            let times: Vec<u64> = (0..slots).map(|_| 1 + draw(&mut seed, 9)).collect();
            let mut tree = Heights::new(&plain, &times);
            for _ in 0..30 {
                let from = draw(&mut seed, slots as u64) as usize;
                let until = from + draw(&mut seed, (slots - from) as u64 + 1) as usize;
                let bytes = draw(&mut seed, 15) as i64;
                let (change, line) =
                    (draw(&mut seed, 11) as i64 - 5, draw(&mut seed, 30) as i64 - 15);
                let removable: i64 = (from..until)
                    .map(|slot| plain[slot].clamp(0, bytes) * times[slot] as i64)
                    .sum();
                assert_eq!(tree.removable(from, until, bytes), i128::from(removable));
                let last = (from..until).rev().find(|&slot| plain[slot] > line);
                assert_eq!(tree.last_above(from, until, line), last);
                tree.raise(from, until, change);
                plain[from..until].iter_mut().for_each(|height| *height += change);
            }
        }
    }

    #[test]
    fn idle_time_is_found_and_taken_once() {
        for seed in 0..200 {
            let mut seed = seed;
            let slots = 1 + draw(&mut seed, 150) as usize;
            let mut plain: Vec<u64> = (0..slots).map(|_| draw(&mut seed, 9)).collect();
            let mut idle = Idle::new(&plain);
            for _ in 0..20 {
                let from = draw(&mut seed, slots as u64) as usize;
                let there: u64 = plain[from..].iter().sum();
                let keep = draw(&mut seed, 4).min(there);
                let time = draw(&mut seed, 60).min(there - keep);
                let (mut skip, mut left) = (keep, time);
                for value in &mut plain[from..] {
                    let kept = skip.min(*value);
                    let taken = left.min(*value - kept);
                    skip -= kept;
                    left -= taken;
                    *value -= taken;
                }
                idle.take(from, keep, time);
                for slot in 0..=slots {
                    assert_eq!(idle.before(slot), plain[..slot].iter().sum::<u64>());
                }
                assert_eq!(idle.total(), plain.iter().sum::<u64>());
                let asked = draw(&mut seed, 700);
                let last = (0..=slots).rev().find(|&s| plain[..s].iter().sum::<u64>() <= asked);
                assert_eq!(Some(idle.slot_of(asked)), last);
            }
        }
    }
}
