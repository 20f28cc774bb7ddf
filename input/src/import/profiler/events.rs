//! One event of a Chrome trace at a time, as the profiler wrote it.
//!
//! Events are read as they stream by; what no importer asks for is skipped without being kept.
//! Profilers disagree on types (a stream is `7` or `"0x0"`, a process `41` or `"Spans"`), so every
//! field takes what it can use and nothing else fails.
//! Invariant: times are whole picoseconds, read from their digits: no float comes between.

use super::number::picoseconds;
use super::values::{Id, Key, Shapes, Text, Types, Whole, Word};
use crate::import::groups::Words;
use serde::Deserialize;
use serde::de::{Error, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;
use std::fmt;

/// What an event is of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Category {
    /// An op of the framework, on the host.
    Op,
    /// A range that the program named.
    Annotation,
    /// A call of the device's runtime or driver.
    Runtime,
    /// A kernel.
    Kernel,
    /// A copy by the device.
    Copy,
    /// A fill by the device.
    Fill,
    /// A wait between streams, or of the host.
    Sync,
    /// A Python function.
    Python,
    /// Something else.
    #[default]
    Other,
}

impl Category {
    fn of(text: &str) -> Category {
        // Until 2021 categories had capitals and no prefix.
        match text.to_ascii_lowercase().as_str() {
            "cpu_op" | "operator" => Category::Op,
            "user_annotation" => Category::Annotation,
            "cuda_runtime"
            | "cuda_driver"
            | "runtime"
            | "driver"
            | "privateuse1_runtime"
            | "privateuse1_driver"
            | "xpu_runtime"
            | "xpu_driver"
            | "mtia_runtime"
            | "mlu_runtime"
            | "gcu_runtime"
            | "gcu_driver"
            | "hip_runtime" => Category::Runtime,
            // Others than CUDA's profilers have words of their own.
            "kernel" | "mtia_ccp_events" | "hpu_op" => Category::Kernel,
            "gpu_memcpy" | "memcpy" | "mlu_memcpy" | "gcu_memcpy" => Category::Copy,
            "gpu_memset" | "memset" | "mlu_memset" | "gcu_memset" => Category::Fill,
            "cuda_sync" => Category::Sync,
            "python_function" => Category::Python,
            _ => Category::Other,
        }
    }
}

/// An event with what importers ask for.
#[derive(Clone, Debug, Default)]
pub(super) struct Event {
    /// `X`, `i`, `M` and so on.
    pub(super) phase: u8,
    pub(super) category: Category,
    pub(super) name: String,
    pub(super) process: Id,
    pub(super) thread: Id,
    /// When it began; picoseconds since whatever the profiler counts from.
    pub(super) start: Option<i128>,
    pub(super) span: Option<i128>,
    pub(super) args: Args,
}

/// What is asked for of `args`.
#[derive(Clone, Debug, Default)]
pub(super) struct Args {
    pub(super) correlation: Option<i64>,
    pub(super) stream: Option<i64>,
    pub(super) device: Option<i64>,
    pub(super) bytes: Option<i64>,
    /// Whether bytes are said, be it that they can be read or not.
    pub(super) sized: bool,
    pub(super) address: Option<i64>,
    pub(super) total_allocated: Option<i64>,
    pub(super) device_type: Option<i64>,
    pub(super) device_id: Option<i64>,
    pub(super) index: Option<i64>,
    pub(super) sequence: Option<i64>,
    pub(super) record_function: Option<i64>,
    pub(super) wait_on_stream: Option<i64>,
    pub(super) wait_on_record: Option<i64>,
    /// Sizes of the first inputs; empty where they are not recorded, or no tensor.
    pub(super) shapes: Vec<Vec<i64>>,
    /// Element types of the same.
    pub(super) types: Vec<String>,
    /// What is said of a collective, if anything is: of its `record_param_comms`, and again of its
    /// kernel.
    pub(super) collective: Option<Box<Words>>,
}

impl<'de> Deserialize<'de> for Event {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Event, D::Error> {
        struct Fields;
        impl<'de> Visitor<'de> for Fields {
            type Value = Event;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an event")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Event, A::Error> {
                let mut event = Event::default();
                while let Some(Key(key)) = map.next_key()? {
                    match key.as_str() {
                        "ph" => {
                            event.phase = map.next_value::<Text>()?.0.bytes().next().unwrap_or(0)
                        }
                        "cat" => event.category = Category::of(&map.next_value::<Text>()?.0),
                        "name" => event.name = map.next_value::<Text>()?.0,
                        "pid" => event.process = map.next_value()?,
                        "tid" => event.thread = map.next_value()?,
                        "ts" => event.start = time(&mut map)?,
                        "dur" => event.span = time(&mut map)?,
                        "args" => event.args = map.next_value()?,
                        _ => drop(map.next_value::<IgnoredAny>()?),
                    }
                }
                Ok(event)
            }
        }
        from.deserialize_map(Fields)
    }
}

/// Microseconds as picoseconds; none where they are no number.
fn time<'de, A: MapAccess<'de>>(map: &mut A) -> Result<Option<i128>, A::Error> {
    let text: Box<RawValue> = map.next_value()?;
    Ok(picoseconds(text.get().trim_matches('"')))
}

impl<'de> Deserialize<'de> for Args {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Args, D::Error> {
        struct Fields;
        impl<'de> Visitor<'de> for Fields {
            type Value = Args;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("arguments of an event")
            }

            fn visit_unit<E: Error>(self) -> Result<Args, E> {
                Ok(Args::default())
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Args, A::Error> {
                let mut args = Args::default();
                while let Some(Key(key)) = map.next_key()? {
                    args.take(&key, &mut map)?;
                }
                Ok(args)
            }
        }
        from.deserialize_any(Fields)
    }
}

impl Args {
    fn take<'de, A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<(), A::Error> {
        let field = match key {
            "correlation" => &mut self.correlation,
            // Intel's queues are what a stream is elsewhere.
            "stream" | "sycl queue" => &mut self.stream,
            "device" => &mut self.device,
            // What a launch on ROCm says of a copy, in the place of `bytes`.
            "bytes" | "Bytes" | "size" => {
                self.sized = true;
                &mut self.bytes
            }
            "Addr" => &mut self.address,
            "Total Allocated" => &mut self.total_allocated,
            "Device Type" => &mut self.device_type,
            "Device Id" => &mut self.device_id,
            "Ev Idx" => &mut self.index,
            "Sequence number" => &mut self.sequence,
            "Record function id" => &mut self.record_function,
            "wait_on_stream" => &mut self.wait_on_stream,
            "wait_on_cuda_event_record_corr_id" => &mut self.wait_on_record,
            "Input Dims" | "Input dims" => {
                self.shapes = map.next_value::<Shapes>()?.0;
                return Ok(());
            }
            "Input type" => {
                self.types = map.next_value::<Types>()?.0;
                return Ok(());
            }
            "Collective name"
            | "dtype"
            | "In msg nelems"
            | "Group size"
            | "Process Group Name"
            | "Process Group Ranks" => {
                return take_word(self.collective.get_or_insert_default(), key, map);
            }
            _ => {
                map.next_value::<IgnoredAny>()?;
                return Ok(());
            }
        };
        *field = map.next_value::<Whole>()?.0.or(*field);
        Ok(())
    }
}

/// Takes a field of what is said of a collective.
fn take_word<'de, A: MapAccess<'de>>(
    words: &mut Words,
    key: &str,
    map: &mut A,
) -> Result<(), A::Error> {
    let text = match key {
        "In msg nelems" => {
            words.numbers = map.next_value::<Whole>()?.0;
            return Ok(());
        }
        "Group size" => {
            words.size = map.next_value::<Whole>()?.0;
            return Ok(());
        }
        "Collective name" => &mut words.name,
        "dtype" => &mut words.dtype,
        "Process Group Name" => &mut words.group,
        _ => &mut words.ranks,
    };
    *text = map.next_value::<Word>()?.0;
    Ok(())
}
