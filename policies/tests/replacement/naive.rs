//! The algorithms written down from their papers, with vectors and searches, on unit sizes.
//!
//! Nothing here is shared with the crate. Each takes a trace and a capacity and says which
//! requests miss. The newest is last in every vector.

type Misses = Vec<bool>;

fn position(list: &[u32], id: u32) -> Option<usize> {
    list.iter().position(|&other| other == id)
}

fn take(list: &mut Vec<u32>, id: u32) -> bool {
    position(list, id).map(|at| list.remove(at)).is_some()
}

pub(crate) fn lru(trace: &[u32], capacity: usize) -> Misses {
    let mut held = Vec::new();
    let one = |&id: &u32| {
        let missed = !take(&mut held, id);
        held.push(id);
        if held.len() > capacity {
            held.remove(0);
        }
        missed
    };
    trace.iter().map(one).collect()
}

pub(crate) fn fifo(trace: &[u32], capacity: usize) -> Misses {
    let mut held = Vec::new();
    let one = |&id: &u32| {
        let missed = position(&held, id).is_none();
        if missed {
            held.push(id);
            if held.len() > capacity {
                held.remove(0);
            }
        }
        missed
    };
    trace.iter().map(one).collect()
}

pub(crate) fn lfu(trace: &[u32], capacity: usize) -> Misses {
    // Uses since it entered, last use, object.
    let mut held: Vec<(usize, usize, u32)> = Vec::new();
    let one = |(now, &id): (usize, &u32)| {
        if let Some(found) = held.iter_mut().find(|(_, _, other)| *other == id) {
            *found = (found.0 + 1, now, id);
            return false;
        }
        if held.len() == capacity {
            let least = *held.iter().min().expect("it is full");
            held.retain(|&other| other != least);
        }
        held.push((1, now, id));
        true
    };
    trace.iter().enumerate().map(one).collect()
}

/// Frames in a circle and a hand, as an operating system has them.
pub(crate) fn clock(trace: &[u32], capacity: usize) -> Misses {
    let mut frames: Vec<(u32, bool)> = Vec::new();
    let mut hand = 0;
    let one = |&id: &u32| {
        if let Some(frame) = frames.iter_mut().find(|(other, _)| *other == id) {
            frame.1 = true;
            return false;
        }
        if frames.len() < capacity {
            frames.push((id, false));
            return true;
        }
        while frames[hand].1 {
            frames[hand].1 = false;
            hand = (hand + 1) % capacity;
        }
        frames[hand] = (id, false);
        hand = (hand + 1) % capacity;
        true
    };
    trace.iter().map(one).collect()
}

pub(crate) fn sieve(trace: &[u32], capacity: usize) -> Misses {
    let mut held: Vec<(u32, bool)> = Vec::new();
    let mut hand = 0;
    let one = |&id: &u32| {
        if let Some(found) = held.iter_mut().find(|(other, _)| *other == id) {
            found.1 = true;
            return false;
        }
        if held.len() == capacity {
            hand %= capacity;
            while held[hand].1 {
                held[hand].1 = false;
                hand = (hand + 1) % capacity;
            }
            held.remove(hand);
            // At the newest end the search starts over, though something newer enters now.
            if hand == held.len() {
                hand = 0;
            }
        }
        held.push((id, false));
        true
    };
    trace.iter().map(one).collect()
}

pub(crate) fn belady(trace: &[u32], capacity: usize) -> Misses {
    let mut held: Vec<u32> = Vec::new();
    let one = |(now, &id): (usize, &u32)| {
        if position(&held, id).is_some() {
            return false;
        }
        if held.len() == capacity {
            let next = |id: u32| position(&trace[now..], id).unwrap_or(usize::MAX);
            let last = *held.iter().max_by_key(|&&id| next(id)).expect("it is full");
            take(&mut held, last);
        }
        held.push(id);
        true
    };
    trace.iter().enumerate().map(one).collect()
}

/// The pseudocode of figure 4 of the paper, case by case.
pub(crate) fn arc(trace: &[u32], c: usize) -> Misses {
    let (mut t1, mut t2, mut b1, mut b2) = (vec![], vec![], vec![], vec![]);
    let mut p = 0.0_f64;
    let replace = |t1: &mut Vec<u32>,
                   t2: &mut Vec<u32>,
                   b1: &mut Vec<u32>,
                   b2: &mut Vec<u32>,
                   p: f64,
                   in_b2: bool| {
        let n = t1.len() as f64;
        if !t1.is_empty() && ((in_b2 && n == p) || n > p) {
            b1.push(t1.remove(0));
        } else {
            b2.push(t2.remove(0));
        }
    };
    let one = |&x: &u32| {
        if take(&mut t1, x) || take(&mut t2, x) {
            t2.push(x);
            return false;
        }
        let (n1, n2) = (b1.len() as f64, b2.len() as f64);
        if position(&b1, x).is_some() {
            let delta = if n1 >= n2 { 1.0 } else { n2 / n1 };
            p = (c as f64).min(p + delta);
            replace(&mut t1, &mut t2, &mut b1, &mut b2, p, false);
            take(&mut b1, x);
            t2.push(x);
            return true;
        }
        if position(&b2, x).is_some() {
            let delta = if n2 >= n1 { 1.0 } else { n1 / n2 };
            p = 0.0_f64.max(p - delta);
            replace(&mut t1, &mut t2, &mut b1, &mut b2, p, true);
            take(&mut b2, x);
            t2.push(x);
            return true;
        }
        let l1 = t1.len() + b1.len();
        let all = l1 + t2.len() + b2.len();
        if l1 == c {
            if t1.len() < c {
                b1.remove(0);
                replace(&mut t1, &mut t2, &mut b1, &mut b2, p, false);
            } else {
                t1.remove(0);
            }
        } else if all >= c {
            if all == 2 * c {
                b2.remove(0);
            }
            replace(&mut t1, &mut t2, &mut b1, &mut b2, p, false);
        }
        t1.push(x);
        true
    };
    trace.iter().map(one).collect()
}

/// Algorithm 1 of the paper with the two rules that the crate's page names.
pub(crate) fn s3_fifo(trace: &[u32], capacity: usize) -> Misses {
    let (small_share, ghosts) = (capacity / 10, capacity * 9 / 10);
    let main_share = capacity - small_share;
    // Object and uses.
    let mut s: Vec<(u32, u32)> = vec![];
    let mut m: Vec<(u32, u32)> = vec![];
    let mut g: Vec<u32> = vec![];
    let mut evicted = false;
    let one = |&x: &u32| {
        if let Some(found) = s.iter_mut().chain(m.iter_mut()).find(|(id, _)| *id == x) {
            found.1 = 3.min(found.1 + 1);
            return false;
        }
        let remembered = take(&mut g, x);
        if small_share < 2 && !(remembered && small_share == 1) {
            return true;
        }
        while s.len() + m.len() >= capacity {
            evicted = true;
            if m.len() > main_share || s.is_empty() {
                while m[0].1 > 0 {
                    let (id, uses) = m.remove(0);
                    m.push((id, uses - 1));
                }
                m.remove(0);
                continue;
            }
            while !s.is_empty() {
                let (id, uses) = s.remove(0);
                if uses > 1 {
                    m.push((id, 0));
                    continue;
                }
                g.push(id);
                if g.len() > ghosts {
                    g.remove(0);
                }
                break;
            }
        }
        if remembered || (!evicted && s.len() >= small_share) {
            m.push((x, 0));
        } else {
            s.push((x, 0));
        }
        true
    };
    trace.iter().map(one).collect()
}

pub(crate) fn slru(trace: &[u32], capacity: usize) -> Misses {
    let share = capacity / 4;
    let mut segments: [Vec<u32>; 4] = Default::default();
    let one = |&x: &u32| {
        if let Some(at) = segments.iter().position(|segment| position(segment, x).is_some()) {
            take(&mut segments[at], x);
            segments[3.min(at + 1)].push(x);
            // Down the stairs, and out at the bottom; only as far as something came down.
            let mut level = 3.min(at + 1);
            while at < 3 && level > 0 && segments[level].len() > share {
                let cold = segments[level].remove(0);
                level -= 1;
                segments[level].push(cold);
            }
            while at < 3 && level == 0 && segments[0].len() > share {
                segments[0].remove(0);
            }
            return false;
        }
        if share == 0 {
            return true;
        }
        if segments.iter().map(Vec::len).sum::<usize>() == capacity {
            let lowest = segments.iter_mut().find(|segment| !segment.is_empty());
            lowest.expect("it is full").remove(0);
        }
        let open = segments.iter().position(|segment| segment.len() < share).unwrap_or(0);
        segments[open].push(x);
        true
    };
    trace.iter().map(one).collect()
}

pub(crate) fn two_q(trace: &[u32], capacity: usize) -> Misses {
    let (k_in, k_out) = (capacity / 4, capacity / 2);
    let (mut a1_in, mut a1_out, mut am) = (vec![], vec![], vec![]);
    let one = |&x: &u32| {
        if position(&a1_in, x).is_some() {
            return false;
        }
        if take(&mut am, x) {
            am.push(x);
            return false;
        }
        let remembered = take(&mut a1_out, x);
        if k_in == 0 {
            return true;
        }
        if a1_in.len() + am.len() == capacity {
            if a1_in.len() > k_in {
                a1_out.push(a1_in.remove(0));
                if a1_out.len() > k_out {
                    a1_out.remove(0);
                }
            } else {
                am.remove(0);
            }
        }
        if remembered {
            am.push(x)
        } else {
            a1_in.push(x)
        }
        true
    };
    trace.iter().map(one).collect()
}

/// Section 3 of the paper; of what the stack remembers, the longest gone is dropped beyond two
/// caches.
pub(crate) fn lirs(trace: &[u32], capacity: usize) -> Misses {
    let high_share = (capacity / 100).max(1);
    let low_share = capacity - high_share;
    let (mut s, mut q, mut low): (Vec<u32>, Vec<u32>, Vec<u32>) = (vec![], vec![], vec![]);
    let mut gone: Vec<u32> = vec![];
    let one = |&x: &u32| {
        let in_s = position(&s, x).is_some();
        let is_low = position(&low, x).is_some();
        let missed = !is_low && position(&q, x).is_none();
        if low_share == 0 {
            // Objects must fit into both parts, and a cache of one has only one.
            return true;
        }
        if missed && low.len() + q.len() == capacity {
            let front = q.remove(0);
            if position(&s, front).is_some() {
                gone.push(front);
            }
        }
        take(&mut s, x);
        s.push(x);
        take(&mut gone, x);
        let warm = missed && low.len() < low_share;
        if !is_low && (in_s || warm) {
            take(&mut q, x);
            if low.len() == low_share {
                let bottom = s[0];
                take(&mut low, bottom);
                q.push(bottom);
            }
            low.push(x);
        } else if !is_low {
            take(&mut q, x);
            q.push(x);
        }
        while position(&low, s[0]).is_none() {
            let pruned = s.remove(0);
            take(&mut gone, pruned);
        }
        while s.len() > 2 * capacity && !gone.is_empty() {
            let forgotten = gone.remove(0);
            take(&mut s, forgotten);
        }
        missed
    };
    trace.iter().map(one).collect()
}
