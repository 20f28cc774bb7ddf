//! Who takes part in which collective, and in which order ranks come to them.
//!
//! A group is its ranks and its name, for groups of the same ranks call collectives each in an order of
//! its own. The first collective of a group on one of its ranks is the first on every other. Ranks call
//! those of several groups in different orders only where nothing waits, so orders are put together one
//! collective at a time, each when all that take part have come to it.
//! Invariant: in the order that is returned every rank comes to what it takes part in, in its own
//! order: nothing waits for each other.

use super::Rank;
use crate::import::groups::Group;
use std::collections::{BTreeMap, BTreeSet};

/// Who takes part, as it is said; ranks are none where all do, or where who is not said.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Party {
    pub(super) ranks: Vec<u32>,
    pub(super) name: String,
    /// How many, if it is neither all nor listed.
    pub(super) some: Option<u64>,
    /// The place of the file whose own they are, where nothing says whose they are beside it.
    pub(super) own: Option<usize>,
}

/// One collective: who takes part, and where it is in the list of each rank that was given.
#[derive(Clone, Debug)]
pub(super) struct Meeting {
    pub(super) party: Party,
    /// Place of the rank, and of the collective in its list.
    pub(super) at: Vec<(usize, usize)>,
}

/// What ranks do together.
pub(super) struct Meetings {
    /// In an order that all ranks can come to them in.
    pub(super) list: Vec<Meeting>,
    /// Collectives that are of one rank, that some of a group have and others have not, or that ranks
    /// come to in orders that contradict each other.
    pub(super) left: u64,
}

/// Of a rank's collective the group, if it takes more than one.
fn party(group: Option<&Group>, world: u64, place: usize) -> Option<Party> {
    let Some(group) = group else { return Some(Party::default()) };
    let name = group.name.clone();
    if group.size == 1 {
        return None;
    }
    if group.ranks.is_empty() && group.size > 0 && group.size != world {
        return Some(Party { name, some: Some(group.size), own: Some(place), ..Party::default() });
    }
    // All are all, listed or not.
    let listed = if group.size == world { Vec::new() } else { group.ranks.clone() };
    Some(Party { name, ranks: listed, ..Party::default() })
}

/// Finds which collectives of all ranks are the same.
pub(super) fn meetings(ranks: &[Rank<'_>], world: u64) -> Meetings {
    let mut parties: BTreeMap<Party, BTreeMap<usize, Vec<usize>>> = BTreeMap::new();
    let mut left = 0u64;
    for (place, rank) in ranks.iter().enumerate() {
        for (index, seen) in rank.of.collectives.iter().enumerate() {
            let group = seen.group.map(|id| &rank.of.groups[id as usize]);
            match party(group, world, place) {
                Some(party) => {
                    parties.entry(party).or_default().entry(place).or_default().push(index);
                }
                None => left += 1,
            }
        }
    }
    let mut list = Vec::new();
    for (party, lists) in parties {
        let is_in = |rank: &Rank<'_>| {
            party.ranks.is_empty()
                || u32::try_from(rank.number).is_ok_and(|number| party.ranks.contains(&number))
        };
        let members: Vec<usize> = match party.own {
            Some(place) => vec![place],
            None => (0..ranks.len()).filter(|&place| is_in(&ranks[place])).collect(),
        };
        let count = |place: &usize| lists.get(place).map_or(0, Vec::len);
        let common = members.iter().map(count).min().unwrap_or(0);
        left +=
            lists.values().map(|list| (list.len() - common.min(list.len())) as u64).sum::<u64>();
        for index in 0..common {
            let at = members.iter().filter_map(|place| Some((*place, lists.get(place)?[index])));
            list.push(Meeting { party: party.clone(), at: at.collect() });
        }
    }
    let mut meetings = Meetings { list: Vec::with_capacity(list.len()), left };
    meetings.order(list, ranks.len());
    meetings
}

impl Meetings {
    /// Puts them in an order in which all come to all of theirs.
    fn order(&mut self, list: Vec<Meeting>, ranks: usize) {
        let mut queues: Vec<Vec<(usize, usize)>> = vec![Vec::new(); ranks];
        for (id, meeting) in list.iter().enumerate() {
            meeting.at.iter().for_each(|&(place, index)| queues[place].push((index, id)));
        }
        queues.iter_mut().for_each(|queue| queue.sort_unstable());
        let mut next = vec![0; ranks];
        let mut come = vec![0usize; list.len()];
        let mut gone = vec![false; list.len()];
        let mut heads: BTreeSet<usize> = BTreeSet::new();
        let mut ready: BTreeSet<usize> = BTreeSet::new();
        let mut moved: Vec<usize> = (0..ranks).collect();
        loop {
            for place in moved.drain(..) {
                while let Some(&(_, id)) = queues[place].get(next[place]) {
                    if gone[id] {
                        next[place] += 1;
                        continue;
                    }
                    come[id] += 1;
                    heads.insert(id);
                    if come[id] == list[id].at.len() {
                        ready.insert(id);
                    }
                    break;
                }
            }
            let (id, whole) = match (ready.pop_first(), heads.first()) {
                (Some(id), _) => (id, true),
                (None, Some(&id)) => (id, false),
                (None, None) => return,
            };
            heads.remove(&id);
            gone[id] = true;
            let waits = |&(place, index): &(usize, usize)| {
                queues[place].get(next[place]) == Some(&(index, id))
            };
            moved = list[id].at.iter().filter(|at| waits(at)).map(|at| at.0).collect();
            match whole {
                true => self.list.push(list[id].clone()),
                false => self.left += list[id].at.len() as u64,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Meeting, Meetings, Party};

    fn met(lists: &[&[(usize, usize)]], ranks: usize) -> (Vec<Vec<(usize, usize)>>, u64) {
        let party = Party::default;
        let list = lists.iter().map(|at| Meeting { party: party(), at: at.to_vec() }).collect();
        let mut meetings = Meetings { list: Vec::new(), left: 0 };
        meetings.order(list, ranks);
        (meetings.list.into_iter().map(|one| one.at).collect(), meetings.left)
    }

    #[test]
    fn ranks_come_to_each_in_their_own_order_or_it_is_left_out() {
        // Ranks 0 and 1 meet after rank 1 and 2 have.
        let (late, early) = ([(0, 0), (1, 1)], [(1, 0), (2, 0)]);
        assert_eq!(met(&[&late, &early], 3), (vec![early.to_vec(), late.to_vec()], 0));
        // Two that contradict each other, and one behind both.
        let (one, other, last) = ([(0, 0), (1, 1)], [(0, 1), (1, 0)], [(0, 2), (1, 2)]);
        let found = met(&[&one, &other, &last], 2);
        assert_eq!(found, (vec![other.to_vec(), last.to_vec()], 2));
    }
}
