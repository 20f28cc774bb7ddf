//! `critical-path.csv`: the path itself, a row for each segment, in order of time.
//!
//! Times are whole picoseconds, so that anybody can add them up: spans of one step add up to it.
//! Names come from somebody else's trace: cells that a spreadsheet would run are led by an
//! apostrophe, as in `results.csv`.

use crate::ChartError;
use crate::csv::guarded;
use crate::split::part_name;
use tiersim_models::results::PathPart;
use tiersim_models::results::explain::Explanation;

const HEAD: [&str; 13] = [
    "step",
    "start_ps",
    "end_ps",
    "span_ps",
    "setup_ps",
    "part",
    "phase",
    "op",
    "op_module",
    "object",
    "bytes",
    "channel",
    "behind",
];

/// The table with its header row.
pub(super) fn critical_path(of: &Explanation) -> Result<Vec<u8>, ChartError> {
    let mut writer = ::csv::Writer::from_writer(Vec::new());
    writer.write_record(HEAD)?;
    let channels = of.on().channel_names();
    let base = of.path.segments.first().map_or(0, |first| first.start.ps());
    for segment in &of.path.segments {
        let start = segment.start.ps() - base;
        let op = segment.op.map(|op| &of.path.ops[op]);
        let object = segment.object.map(|object| of.path.objects[object].name.as_str());
        let behind = segment.behind.map(|object| of.path.objects[object].name.as_str());
        let channel = match segment.part {
            PathPart::Copy(channel) | PathPart::Queue(channel) => channels[channel].as_str(),
            _ => "",
        };
        let cells = [
            segment.step.to_string(),
            start.to_string(),
            (start + segment.span.ps()).to_string(),
            segment.span.ps().to_string(),
            segment.setup.ps().to_string(),
            part_name(of.on(), segment.part),
            segment.phase.word().to_owned(),
            op.map_or_else(String::new, |op| op.name.clone()),
            op.map_or_else(String::new, |op| op.module.clone()),
            object.unwrap_or_default().to_owned(),
            segment.bytes.get().to_string(),
            channel.to_owned(),
            behind.unwrap_or_default().to_owned(),
        ];
        writer.write_record(cells.iter().map(|cell| guarded(cell)))?;
    }
    writer.into_inner().map_err(|error| ChartError::Csv(error.into_error().into()))
}
