//! The event queue against a sorted list that cannot be wrong.

use std::rc::Rc;

use proptest::prelude::*;
use rand::rngs::ChaCha12Rng;
use rand::{RngExt, SeedableRng};
use tiersim_models::units::Time;
use tiersim_sim::queue::{EventId, EventQueue};

fn at(ps: u64) -> Time {
    Time::from_ps(ps)
}

/// The queue and its model side by side; every step compares the two.
#[derive(Default)]
struct Pair {
    queue: EventQueue<u64>,
    /// Pending events in order, the first last, under the id that the queue gave out.
    model: Vec<(Time, u8, u64, EventId)>,
    /// The last ids that have come or been cancelled.
    gone: Vec<EventId>,
    pushed: u64,
}

impl Pair {
    fn push(&mut self, time: Time, class: u8) {
        let event = self.pushed;
        self.pushed += 1;
        let id = self.queue.push(time, class, event);
        let place = self.model.partition_point(|&(t, c, e, _)| (t, c, e) > (time, class, event));
        self.model.insert(place, (time, class, event, id));
    }

    fn pop(&mut self) {
        let first = self.model.pop();
        assert_eq!(self.queue.pop(), first.map(|(time, _, event, _)| (time, event)));
        self.remember(first.map(|(.., id)| id));
    }

    fn cancel(&mut self, place: usize) {
        let (_, _, event, id) = self.model.remove(place);
        assert_eq!(self.queue.cancel(id), Some(event));
        self.remember(Some(id));
    }

    fn remember(&mut self, id: Option<EventId>) {
        if self.gone.len() == 32 {
            self.gone.remove(0);
        }
        self.gone.extend(id);
    }

    fn check(&mut self) {
        assert_eq!(self.queue.len(), self.model.len());
        assert_eq!(self.queue.is_empty(), self.model.is_empty());
        assert_eq!(self.queue.peek_time(), self.model.last().map(|&(time, ..)| time));
    }

    fn check_gone(&mut self) {
        for &id in &self.gone {
            assert_eq!(self.queue.cancel(id), None);
        }
    }
}

#[test]
fn a_million_random_operations_agree_with_a_sorted_list() {
    let mut rng = ChaCha12Rng::seed_from_u64(20_260_401);
    let mut pair = Pair::default();
    let mut most = 0;
    for step in 0..1_000_000u32 {
        // The number pending swells to a thousand and ebbs to nothing, over and over.
        let swelling = step / 5_000 % 2 == 0;
        let pops = if swelling { 30..60 } else { 30..90 };
        // Few distinct moments, so most keys tie; now and then the far ends of the range.
        let time = match rng.random_range(0..100) {
            0 => Time::ZERO,
            1 => Time::MAX,
            _ => at(rng.random_range(0..40)),
        };
        match rng.random_range(0..100) {
            90..100 if !pair.model.is_empty() => {
                let place = rng.random_range(0..pair.model.len());
                pair.cancel(place);
                if rng.random() {
                    pair.push(time, 1);
                }
            }
            dice if pops.contains(&dice) => pair.pop(),
            dice if dice % 2 == 0 => pair.push(time, rng.random_range(0..3)),
            _ => pair.push(time, rng.random()),
        }
        most = most.max(pair.model.len());
        pair.check();
        if step % 64 == 0 {
            pair.check_gone();
        }
    }
    assert!(most > 1_000, "only {most} were ever pending");
    while !pair.model.is_empty() {
        pair.pop();
    }
    pair.check();
    pair.pop();
}

#[derive(Clone, Debug)]
enum Operation {
    Push(u64, u8),
    Pop,
    Cancel(prop::sample::Index),
}

fn operation() -> impl Strategy<Value = Operation> {
    prop_oneof![
        4 => (0..6u64, 0..3u8).prop_map(|(time, class)| Operation::Push(time, class)),
        1 => (any::<u64>(), any::<u8>()).prop_map(|(time, class)| Operation::Push(time, class)),
        3 => Just(Operation::Pop),
        2 => any::<prop::sample::Index>().prop_map(Operation::Cancel),
    ]
}

proptest! {
    #[test]
    fn any_operations_agree_with_a_sorted_list(
        operations in prop::collection::vec(operation(), 0..400),
    ) {
        let mut pair = Pair::default();
        for operation in operations {
            match operation {
                Operation::Push(time, class) => pair.push(at(time), class),
                Operation::Cancel(index) if !pair.model.is_empty() => {
                    pair.cancel(index.index(pair.model.len()));
                }
                Operation::Pop | Operation::Cancel(_) => pair.pop(),
            }
            pair.check();
            pair.check_gone();
        }
    }
}

#[test]
fn equals_come_first_in_first_out() {
    let mut queue = EventQueue::new();
    for event in 0..1_000 {
        queue.push(at(5), 7, event);
    }
    // Reusing the leaf of a popped event must not jump the line.
    for event in 1_000..2_000 {
        assert_eq!(queue.pop(), Some((at(5), event - 1_000)));
        queue.push(at(5), 7, event);
    }
    for event in 1_000..2_000 {
        assert_eq!(queue.pop(), Some((at(5), event)));
    }
    assert_eq!(queue.pop(), None);
}

#[test]
fn at_one_moment_the_lower_class_comes_first() {
    let mut queue = EventQueue::new();
    for class in (0..=255).rev() {
        queue.push(at(1), class, class);
    }
    queue.push(at(0), 255, 255);
    assert_eq!(queue.pop(), Some((at(0), 255)), "an earlier moment beats any class");
    for class in 0..=255 {
        assert_eq!(queue.pop(), Some((at(1), class)));
    }
}

#[test]
fn a_cancelled_event_never_comes() {
    let mut queue = EventQueue::new();
    let first = queue.push(at(1), 0, "first");
    let second = queue.push(at(2), 0, "second");
    assert_eq!(queue.cancel(first), Some("first"));
    assert_eq!((queue.len(), queue.peek_time()), (1, Some(at(2))));
    assert_eq!(queue.cancel(first), None, "only once");
    assert_eq!(queue.pop(), Some((at(2), "second")));
    assert_eq!(queue.cancel(second), None, "it has come already");
    assert_eq!((queue.pop(), queue.peek_time()), (None, None));
    assert!(queue.is_empty());
}

#[test]
fn a_stale_id_does_not_cancel_the_next_user_of_its_place() {
    let mut queue = EventQueue::new();
    let mut stale = vec![queue.push(at(0), 0, 0)];
    for event in 1..100 {
        if event % 2 == 0 {
            queue.pop();
        } else {
            queue.cancel(stale[stale.len() - 1]);
        }
        let id = queue.push(at(0), 0, event);
        for &old in &stale {
            assert_eq!(queue.cancel(old), None);
        }
        assert_eq!(queue.len(), 1);
        stale.push(id);
    }
    assert_eq!(queue.pop(), Some((at(0), 99)));
}

#[test]
fn an_id_means_nothing_to_an_empty_queue() {
    let id = EventQueue::new().push(at(0), 0, ());
    assert_eq!(EventQueue::<()>::new().cancel(id), None);
}

#[test]
fn events_are_dropped_exactly_once() {
    let token = Rc::new(());
    let mut queue = EventQueue::new();
    let ids: Vec<EventId> = (0..9).map(|i| queue.push(at(i), 0, Rc::clone(&token))).collect();
    assert_eq!(Rc::strong_count(&token), 10);
    drop(queue.pop());
    drop(queue.cancel(ids[4]));
    assert_eq!(Rc::strong_count(&token), 8, "nothing lingers in the queue");
    drop(queue);
    assert_eq!(Rc::strong_count(&token), 1);
}
