//! Values of events that take what profilers write in their place.
//!
//! A number may stand in quotes, a shape may be a list of shapes, a process may have a name.
//! Invariant: a value of another type is skipped, whatever it is, and nothing of it is kept.

use serde::Deserialize;
use serde::de::{DeserializeSeed, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use std::fmt;

/// Most inputs of an op whose shapes are kept, and most dimensions of one.
const MOST_INPUTS: usize = 6;
const MOST_DIMENSIONS: usize = 8;
/// Most ranks of a group that are listed.
const MOST_RANKS: usize = 1 << 16;

/// A process or thread: a number, or a name.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Id {
    /// Not said.
    #[default]
    None,
    /// A number.
    Number(i64),
    /// A name.
    Name(String),
}

/// A text; empty for any other value.
pub(super) struct Text(pub(super) String);
/// A key of a map, which is always a text.
pub(super) struct Key(pub(super) String);
/// A whole number, also as a text; none for anything else.
#[derive(Default)]
pub(super) struct Whole(pub(super) Option<i64>);
/// A text, also of a number or of a list of numbers; empty for anything else.
#[derive(Default)]
pub(super) struct Word(pub(super) String);
/// Ranks of a list; what is none in it is left out.
#[derive(Clone, Debug, Default)]
pub(super) struct Ranks(pub(super) Vec<u32>);
/// Shapes of the first inputs.
pub(super) struct Shapes(pub(super) Vec<Vec<i64>>);
/// Types of the first inputs.
pub(super) struct Types(pub(super) Vec<String>);
/// The dimensions of one input; empty where it is a list of tensors or no tensor.
struct Dimensions(Vec<i64>);

impl<'de> Deserialize<'de> for Key {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Key, D::Error> {
        struct Words;
        impl Visitor<'_> for Words {
            type Value = Key;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a key")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Key, E> {
                Ok(Key(text.to_owned()))
            }
        }
        from.deserialize_str(Words)
    }
}

/// What a visitor does with values of no use: it takes and forgets them.
macro_rules! forget {
    ($value:ty, $none:expr; $($method:ident($type:ty))*) => {
        $(fn $method<E: Error>(self, _: $type) -> Result<$value, E> { Ok($none) })*

        fn visit_unit<E: Error>(self) -> Result<$value, E> { Ok($none) }
    };
}

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Text, D::Error> {
        struct Any;
        impl<'de> Visitor<'de> for Any {
            type Value = Text;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Text, E> {
                Ok(Text(text.to_owned()))
            }

            forget! { Text, Text(String::new());
            visit_bool(bool) visit_i64(i64) visit_u64(u64) visit_f64(f64) }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Text, A::Error> {
                while seq.next_element::<IgnoredAny>()?.is_some() {}
                Ok(Text(String::new()))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Text, A::Error> {
                while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                Ok(Text(String::new()))
            }
        }
        from.deserialize_any(Any)
    }
}

impl<'de> Deserialize<'de> for Id {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Id, D::Error> {
        struct Any;
        impl<'de> Visitor<'de> for Any {
            type Value = Id;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a process or thread")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Id, E> {
                // A number in quotes is the same thread as the number.
                Ok(text.parse().map_or_else(|_| Id::Name(text.to_owned()), Id::Number))
            }

            fn visit_i64<E: Error>(self, number: i64) -> Result<Id, E> {
                Ok(Id::Number(number))
            }

            fn visit_u64<E: Error>(self, number: u64) -> Result<Id, E> {
                Ok(Id::Number(number.cast_signed()))
            }

            forget! { Id, Id::None; visit_bool(bool) visit_f64(f64) }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Id, A::Error> {
                while seq.next_element::<IgnoredAny>()?.is_some() {}
                Ok(Id::None)
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Id, A::Error> {
                while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                Ok(Id::None)
            }
        }
        from.deserialize_any(Any)
    }
}

impl<'de> Deserialize<'de> for Whole {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Whole, D::Error> {
        struct Any;
        impl<'de> Visitor<'de> for Any {
            type Value = Whole;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a whole number")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Whole, E> {
                Ok(Whole(match text.strip_prefix("0x") {
                    Some(digits) => u64::from_str_radix(digits, 16).ok().map(u64::cast_signed),
                    None => text.parse().ok(),
                }))
            }

            fn visit_i64<E: Error>(self, number: i64) -> Result<Whole, E> {
                Ok(Whole(Some(number)))
            }

            fn visit_u64<E: Error>(self, number: u64) -> Result<Whole, E> {
                Ok(Whole(Some(number.cast_signed())))
            }

            fn visit_f64<E: Error>(self, number: f64) -> Result<Whole, E> {
                let exact = number.fract() == 0.0 && number.abs() < 9e15;
                Ok(Whole(exact.then_some(number as i64)))
            }

            forget! { Whole, Whole(None); visit_bool(bool) }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Whole, A::Error> {
                while seq.next_element::<IgnoredAny>()?.is_some() {}
                Ok(Whole(None))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Whole, A::Error> {
                while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                Ok(Whole(None))
            }
        }
        from.deserialize_any(Any)
    }
}

impl<'de> Deserialize<'de> for Word {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Word, D::Error> {
        struct Any;
        impl<'de> Visitor<'de> for Any {
            type Value = Word;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a word")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Word, E> {
                // Some versions quote a text twice.
                Ok(Word(text.trim_matches('"').to_owned()))
            }

            fn visit_i64<E: Error>(self, number: i64) -> Result<Word, E> {
                Ok(Word(number.to_string()))
            }

            fn visit_u64<E: Error>(self, number: u64) -> Result<Word, E> {
                Ok(Word(number.to_string()))
            }

            forget! { Word, Word(String::new()); visit_bool(bool) visit_f64(f64) }

            fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<Word, A::Error> {
                Ok(Word(format!("{:?}", first::<Rank>(MOST_RANKS).visit_seq(seq)?)))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Word, A::Error> {
                while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                Ok(Word(String::new()))
            }
        }
        from.deserialize_any(Any)
    }
}

/// One rank; the highest number for what is none.
#[derive(Clone, Copy)]
struct Rank(u32);

impl fmt::Debug for Rank {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<'de> Deserialize<'de> for Rank {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Rank, D::Error> {
        let number = Whole::deserialize(from)?.0;
        Ok(Rank(number.and_then(|number| u32::try_from(number).ok()).unwrap_or(u32::MAX)))
    }
}

impl<'de> Deserialize<'de> for Ranks {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Ranks, D::Error> {
        let all = first::<Rank>(MOST_RANKS).deserialize(from)?;
        Ok(Ranks(all.into_iter().map(|rank| rank.0).filter(|&rank| rank < u32::MAX).collect()))
    }
}

/// The first elements of a list; none of what is no list.
pub(super) fn some_of<'de, T: Deserialize<'de>, D: serde::Deserializer<'de>>(
    from: D,
) -> Result<Vec<T>, D::Error> {
    first(MOST_RANKS).deserialize(from)
}

/// A list of which the first elements are kept; empty for what is no list.
struct First<T> {
    most: usize,
    of: std::marker::PhantomData<T>,
}

impl<'de, T: Deserialize<'de>> DeserializeSeed<'de> for First<T> {
    type Value = Vec<T>;

    fn deserialize<D: serde::Deserializer<'de>>(self, from: D) -> Result<Vec<T>, D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de, T: Deserialize<'de>> Visitor<'de> for First<T> {
    type Value = Vec<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Vec<T>, A::Error> {
        let mut all = Vec::new();
        while all.len() < self.most {
            match seq.next_element()? {
                Some(element) => all.push(element),
                None => return Ok(all),
            }
        }
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(all)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Vec<T>, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Vec::new())
    }

    forget! { Vec<T>, Vec::new();
    visit_bool(bool) visit_i64(i64) visit_u64(u64) visit_f64(f64) visit_str(&str) }
}

fn first<T>(most: usize) -> First<T> {
    First { most, of: std::marker::PhantomData }
}

impl<'de> Deserialize<'de> for Shapes {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Shapes, D::Error> {
        let all: Vec<Dimensions> = first(MOST_INPUTS).deserialize(from)?;
        Ok(Shapes(all.into_iter().map(|one| one.0).collect()))
    }
}

impl<'de> Deserialize<'de> for Dimensions {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Dimensions, D::Error> {
        let all: Vec<Whole> = first(MOST_DIMENSIONS).deserialize(from)?;
        let all: Option<Vec<i64>> = all.into_iter().map(|one| one.0).collect();
        Ok(Dimensions(all.unwrap_or_default()))
    }
}

impl<'de> Deserialize<'de> for Types {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Types, D::Error> {
        let all: Vec<Text> = first(MOST_INPUTS).deserialize(from)?;
        Ok(Types(all.into_iter().map(|one| one.0).collect()))
    }
}
