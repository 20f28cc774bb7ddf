//! `trace memory`: what a trace asks of memory under an allocator.

use crate::VERSION;
use crate::output::{Failure, Format, print_as};
use crate::typed::{capacity, share};
use clap::{Args as ClapArgs, ValueEnum};
use std::path::PathBuf;
use tiersim_input::project::typed;
use tiersim_input::scenario::allocators::typed_allocator;
use tiersim_input::trace::read_trace;
use tiersim_models::allocator::{AllocatorSpec, COMPACT_ABOVE, Compaction, Fragmentation};
use tiersim_models::lifetime::Workload;
use tiersim_models::units::Bytes;
use tiersim_policies::trace_memory::trace_memory;
use tiersim_reports::{leak_words, trace_memory_json, trace_memory_text};

#[derive(Debug, ClapArgs)]
pub(crate) struct TraceMemoryArgs {
    /// The trace's folder.
    #[arg(value_name = "TRACE")]
    trace: PathBuf,
    /// The allocator, spelled as `model` of `allocators` in scenarios: pool, caching(), buckets(),
    /// buddy(), or with fields.
    #[arg(long, value_name = "MODEL", default_value = "caching()")]
    allocator: String,
    /// Serve the trace in so much, such as 80GiB, and say how fragmented it is [default: the least
    /// pool].
    #[arg(long, value_name = "SIZE", value_parser = capacity)]
    capacity: Option<u64>,
    /// Move live blocks together above this fragmentation [default with --compact-by: 0.3].
    #[arg(long, value_name = "SHARE", value_parser = share)]
    compact_above: Option<f64>,
    /// Which fragmentation moves blocks [default with --compact-above: external].
    #[arg(long, value_enum, value_name = "WHICH")]
    compact_by: Option<By>,
    /// Leaks are a failure: exit 1.
    #[arg(long)]
    deny_leaks: bool,
    /// What to print.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum By {
    /// Of free memory.
    External,
    /// The mean of external and internal.
    Total,
}

/// Serves the trace, searches the least pool, plans ahead, looks for leaks.
pub(crate) fn memory(args: &TraceMemoryArgs) -> Result<(), Failure> {
    let spec = AllocatorSpec { compaction: compaction(args), ..typed_allocator(&args.allocator)? };
    if spec.compaction.is_some() && !spec.model.moves() {
        let name = spec.model.name();
        return Err(Failure::Input(format!(
            "--allocator {}: `{name}` cannot move its blocks; leave --compact-above and \
             --compact-by out, or choose pool, buckets() or buddy()",
            args.allocator
        )));
    }
    let workload = Workload::new(read_trace(&typed(&args.trace))?);
    let found = trace_memory(&workload, &spec, args.capacity.map(Bytes::new));
    let found =
        found.map_err(|problem| Failure::Input(format!("{}: {problem}", args.trace.display())))?;
    let text = match args.format {
        Format::Text => trace_memory_text(&found),
        Format::Json => trace_memory_json(&found, VERSION)?,
    };
    print_as(args.format, &text)?;
    let mut failed = Vec::new();
    if let (Err(_), Some(bytes)) = (&found.served, args.capacity) {
        let (bytes, least) = (Bytes::new(bytes), found.least.bytes);
        failed.push(format!("{bytes} do not serve the trace; the least pool is {least}"));
    }
    if args.deny_leaks {
        let words = |leak| format!("{} leaked", leak_words(leak));
        failed.extend(found.leaks.sites.iter().map(words));
    }
    if failed.is_empty() { Ok(()) } else { Err(Failure::Expectation(failed)) }
}

fn compaction(args: &TraceMemoryArgs) -> Option<Compaction> {
    if args.compact_above.is_none() && args.compact_by.is_none() {
        return None;
    }
    let by = match args.compact_by {
        Some(By::Total) => Fragmentation::Total,
        _ => Fragmentation::External,
    };
    Some(Compaction { above: args.compact_above.unwrap_or(COMPACT_ABOVE), by, at_once: None })
}
