//! Values that many points of a sweep have alike, held once.
//!
//! Invariant: equality and what is printed or written are those of the value, whether it is shared
//! or not.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::ops::{Deref, DerefMut, Index};
use std::sync::Arc;

/// A value that others may have, too; who changes it has one of its own from then on.
#[derive(Default, Eq)]
pub struct Shared<T>(Arc<T>);

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Shared<T> {
        Shared(self.0.clone())
    }
}

impl<T: fmt::Debug> fmt::Debug for Shared<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<T: fmt::Display> fmt::Display for Shared<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<T: PartialEq> PartialEq for Shared<T> {
    fn eq(&self, other: &Shared<T>) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || *self.0 == *other.0
    }
}

impl<T> From<T> for Shared<T> {
    fn from(value: T) -> Shared<T> {
        Shared(Arc::new(value))
    }
}

impl<T, const N: usize> From<[T; N]> for Shared<Vec<T>> {
    fn from(list: [T; N]) -> Shared<Vec<T>> {
        Vec::from(list).into()
    }
}

impl<T> FromIterator<T> for Shared<Vec<T>> {
    fn from_iter<I: IntoIterator<Item = T>>(list: I) -> Shared<Vec<T>> {
        list.into_iter().collect::<Vec<T>>().into()
    }
}

impl<T> Deref for Shared<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: Clone> DerefMut for Shared<T> {
    fn deref_mut(&mut self) -> &mut T {
        Arc::make_mut(&mut self.0)
    }
}

impl<'s, T> IntoIterator for &'s Shared<Vec<T>> {
    type Item = &'s T;
    type IntoIter = std::slice::Iter<'s, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

impl<'s, T: Clone> IntoIterator for &'s mut Shared<Vec<T>> {
    type Item = &'s mut T;
    type IntoIter = std::slice::IterMut<'s, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter_mut()
    }
}

impl<T: Serialize> Serialize for Shared<T> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(to)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Shared<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Shared<T>, D::Error> {
        T::deserialize(from).map(Shared::from)
    }
}

impl<T: Clone> Shared<T> {
    /// The value alone.
    pub fn own(self) -> T {
        Arc::unwrap_or_clone(self.0)
    }
}

impl<T: PartialEq> Shared<T> {
    /// Holds the other one's value, if they are equal.
    pub fn share(&mut self, other: &Shared<T>) {
        if self == other {
            self.0 = other.0.clone();
        }
    }
}

/// A list that differs in few places from one that others have, too.
#[derive(Clone)]
pub struct Few<T> {
    most: Arc<Vec<T>>,
    /// By rising place, what stands there in the place of what most have.
    own: Vec<(usize, T)>,
}

impl<T> Default for Few<T> {
    fn default() -> Few<T> {
        Few { most: Arc::default(), own: Vec::new() }
    }
}

impl<T: fmt::Debug> fmt::Debug for Few<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self).finish()
    }
}

impl<T: PartialEq> PartialEq for Few<T> {
    fn eq(&self, other: &Few<T>) -> bool {
        match Arc::ptr_eq(&self.most, &other.most) {
            true if self.own == other.own => true,
            _ => self.len() == other.len() && self.iter().eq(other),
        }
    }
}

impl<T> From<Vec<T>> for Few<T> {
    fn from(list: Vec<T>) -> Few<T> {
        Few { most: Arc::new(list), own: Vec::new() }
    }
}

impl<'s, T> IntoIterator for &'s Few<T> {
    type Item = &'s T;
    type IntoIter = std::iter::Map<
        std::iter::Zip<std::ops::Range<usize>, std::iter::Repeat<&'s Few<T>>>,
        fn((usize, &'s Few<T>)) -> &'s T,
    >;

    fn into_iter(self) -> Self::IntoIter {
        (0..self.len()).zip(std::iter::repeat(self)).map(|(place, list)| &list[place])
    }
}

impl<T> Index<usize> for Few<T> {
    type Output = T;

    fn index(&self, place: usize) -> &T {
        match self.own.binary_search_by_key(&place, |(own, _)| *own) {
            Ok(own) => &self.own[own].1,
            Err(_) => &self.most[place],
        }
    }
}

impl<T> Few<T> {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.most.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.most.is_empty()
    }

    /// All of them, in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &T> + ExactSizeIterator {
        (0..self.len()).map(|place| &self[place])
    }
}

impl<T: Clone> Few<T> {
    /// The list, to be changed: from then on nobody else has it.
    pub fn all(&mut self) -> &mut Vec<T> {
        let most = Arc::make_mut(&mut self.most);
        self.own.drain(..).for_each(|(place, own)| most[place] = own);
        most
    }
}

impl<T> Few<T> {
    /// How many it has of its own.
    pub fn owned(&self) -> usize {
        match Arc::strong_count(&self.most) {
            1 => self.len(),
            _ => self.own.len(),
        }
    }
}

impl<T: PartialEq + Clone> Few<T> {
    /// Holds what the other one has, but for what differs, if that is little.
    pub fn share(&mut self, other: &Few<T>) {
        if self.len() != other.len() || Arc::ptr_eq(&self.most, &other.most) {
            return;
        }
        let differs = |place: &usize| self[*place] != other.most[*place];
        let own: Vec<usize> = (0..self.len()).filter(differs).collect();
        if 4 * own.len() <= self.len() {
            let own = own.into_iter().map(|place| (place, self[place].clone())).collect();
            *self = Few { most: other.most.clone(), own };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(list: impl IntoIterator<Item = u32>) -> Few<u32> {
        list.into_iter().collect::<Vec<u32>>().into()
    }

    #[test]
    fn a_list_is_the_same_whatever_it_shares() {
        let most = listed(0..100);
        for changed in
            [vec![], vec![0], vec![99], vec![3, 50, 97], (0..25).collect(), (0..26).collect()]
        {
            let own = |place: u32| if changed.contains(&place) { 1000 + place } else { place };
            let alone = listed((0..100).map(own));
            let mut sharing = alone.clone();
            sharing.share(&most);
            let plain: Vec<u32> = (0..100).map(own).collect();
            assert_eq!(sharing, alone);
            assert_eq!(sharing == most, changed.is_empty());
            assert_eq!(sharing.iter().copied().collect::<Vec<_>>(), plain);
            assert_eq!(format!("{sharing:?}"), format!("{plain:?}"));
            assert_eq!(sharing.iter().rev().count(), 100);
            let kept = if changed.len() <= 25 { changed.len() } else { 0 };
            assert_eq!(sharing.own.len(), kept, "{} differ", changed.len());
            // Once more, as a point of a sweep is shared by two readers.
            let mut twice = sharing.clone();
            twice.share(&listed(0..100));
            assert_eq!(twice, alone);
            sharing.all().push(7);
            assert_eq!((sharing.len(), most.len()), (101, 100));
            assert_eq!(sharing[100], 7);
            assert_eq!(sharing.all()[..100], plain[..]);
        }
        assert_eq!(most, listed(0..100), "nobody changed it");
        let mut shorter = listed(0..99);
        shorter.share(&most);
        assert_eq!((shorter.len(), shorter.owned()), (99, 99));
    }

    #[test]
    fn who_changes_what_is_shared_changes_it_for_nobody_else() {
        let one: Shared<Vec<u8>> = vec![1, 2].into();
        let mut other: Shared<Vec<u8>> = vec![1, 2].into();
        other.share(&one);
        assert!(std::ptr::eq(&*one, &*other));
        other.push(3);
        assert_eq!((&**one, &**other), (&[1, 2][..], &[1, 2, 3][..]));
        other.share(&one);
        assert_eq!(other.len(), 3, "what differs is not shared");
    }
}
