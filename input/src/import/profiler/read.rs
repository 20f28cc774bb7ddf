//! Reads the file: streams over its events and fills the tables.
//!
//! Invariant: of the text one buffer and one event are held at a time; what is kept of the events
//! stays within the budget of every reader.

use super::events::Event;
use super::tables::Tables;
use super::values::{Ranks, Whole, Word, some_of};
use crate::import::names::told;
use crate::import::repaired::Passed;
use crate::import::stream::{opened, refused};
use crate::trace::tables::ReadBudget;
use serde::Deserialize;
use serde::de::{DeserializeSeed, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use std::fmt;
use std::io::BufRead;
use std::path::Path;
use tiersim_models::diagnostic::Diagnostics;

/// Reads a profiler's trace, of a file that was opened, if it was; returns its tables, and how many
/// places in it were no JSON.
///
/// # Errors
/// What is wrong with the file, with line and column and the number of the event.
pub(super) fn read(
    path: &Path,
    file: Option<(u64, Box<dyn BufRead>)>,
) -> Result<(Tables, u64), Diagnostics> {
    let (text, passed) = opened(path, file)?;
    let mut reading = Reading {
        tables: Tables::default(),
        budget: ReadBudget::default(),
        told: 0,
        passed: passed.clone(),
        found: false,
    };
    let mut parser = serde_json::Deserializer::from_reader(text);
    let result = Document(&mut reading).deserialize(&mut parser).and_then(|()| parser.end());
    if let Err(error) = result {
        return Err(refused(path, error, &format!("event {}", reading.tables.events)));
    }
    if !reading.found {
        let rule = "a trace of the PyTorch profiler has a list `traceEvents`";
        let remedy = "export it with `prof.export_chrome_trace(\"trace.json\")`";
        return Err(Diagnostics::one(path, None, rule, "", remedy));
    }
    Ok((reading.tables, passed.mended.get()))
}

struct Reading {
    tables: Tables,
    budget: ReadBudget,
    /// Bytes of text that the budget knows of.
    told: u64,
    passed: Passed,
    found: bool,
}

impl Reading {
    fn take(&mut self, event: &Event) -> Result<(), String> {
        let kept = self.tables.take(event);
        let bytes = self.passed.bytes.get();
        let more = usize::try_from(bytes - self.told).unwrap_or(usize::MAX);
        self.told = bytes;
        self.budget.take(more, kept)
    }
}

struct Document<'a>(&'a mut Reading);
struct Events<'a>(&'a mut Reading);

impl<'de> DeserializeSeed<'de> for Document<'_> {
    type Value = ();

    fn deserialize<D: serde::Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Document<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a trace of the PyTorch profiler")
    }

    /// A bare list of events is a trace as well.
    fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<(), A::Error> {
        Events(self.0).visit_seq(seq)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let reading = self.0;
        while let Some(key) = map.next_key::<String>()? {
            let tables = &mut reading.tables;
            match key.as_str() {
                "traceEvents" => map.next_value_seed(Events(reading))?,
                "deviceProperties" => {
                    for device in map.next_value::<Vec<Device>>()?.into_iter().take(64) {
                        let bytes = device.memory.and_then(|memory| u64::try_from(memory.0?).ok());
                        tables.devices.insert(device.id, (told(&device.name), bytes));
                    }
                }
                "distributedInfo" => {
                    let world = map.next_value::<Option<World>>()?.unwrap_or_default();
                    (tables.rank, tables.ranks) = (world.rank.0, world.world_size.0);
                    let groups = world.pg_config.into_iter();
                    // Every rank takes part where none is listed.
                    let listed = groups.filter(|group| !group.ranks.0.is_empty());
                    tables.listed.extend(listed.map(|group| (group.pg_name.0, group.ranks.0)));
                }
                "baseTimeNanoseconds" => tables.epoch = Some(map.next_value()?),
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(())
    }
}

#[derive(Deserialize)]
struct Device {
    #[serde(default)]
    id: i64,
    #[serde(default)]
    name: String,
    #[serde(default, rename = "totalGlobalMem")]
    memory: Option<Whole>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct World {
    rank: Whole,
    world_size: Whole,
    #[serde(deserialize_with = "some_of")]
    pg_config: Vec<Listed>,
}

/// A group of ranks.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Listed {
    pg_name: Word,
    ranks: Ranks,
}

impl<'de> DeserializeSeed<'de> for Events<'_> {
    type Value = ();

    fn deserialize<D: serde::Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Events<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of events")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        self.0.found = true;
        while let Some(event) = seq.next_element::<Event>()? {
            self.0.take(&event).map_err(A::Error::custom)?;
        }
        Ok(())
    }
}
