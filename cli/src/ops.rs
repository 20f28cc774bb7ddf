//! `ops`: a table of single ops, priced on a machine and graded where it holds measured times.

use crate::VERSION;
use crate::args::Format;
use crate::output::{Failure, print, stem, write_all, written};
use clap::{ArgAction, Args};
use std::path::PathBuf;
use tiersim_input::op_table::read_ops;
use tiersim_models::results::op_grades::{OpGrades, PricedOp};
use tiersim_reports::{ops_artefacts, ops_json, ops_text};

#[derive(Debug, Args)]
pub(crate) struct OpsArgs {
    /// A table of ops (.csv), packed (.gz, .zst) or not: products (dtype, m, n, k), attention,
    /// experts or collectives; measured times in a column us.
    #[arg(value_name = "FILE")]
    table: PathBuf,
    /// The machine: a name below hardware-specs, or a file.
    #[arg(long, value_name = "NAME")]
    hardware: String,
    /// Folder to write to [default: out/FILE, without its endings].
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// What to print on stdout.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// Print nothing but problems.
    #[arg(short, long, action = ArgAction::SetTrue)]
    quiet: bool,
}

/// Prices, grades, prints, writes.
pub(crate) fn ops(args: &OpsArgs) -> Result<(), Failure> {
    let (_, hardware) = crate::hardware::machine(&args.hardware)?;
    let Some(compute) = &hardware.compute else {
        let rule = format!("`{}` has no `compute`, and so no device that runs ops", hardware.name);
        return Err(Failure::Input(format!("{rule}; name another machine")));
    };
    let mut graded = OpGrades {
        machine: hardware.name.clone(),
        device: compute.name.clone(),
        table: args.table.file_name().unwrap_or_default().to_string_lossy().into_owned(),
        ops: Vec::new(),
        unpriced: 0,
    };
    for op in read_ops(&args.table)? {
        let (kind, line, precision) = (op.kind(), op.line, op.precision);
        match op.on(&hardware) {
            Some((predicted, by)) => {
                let measured = op.seconds;
                graded.ops.push(PricedOp { line, kind, precision, predicted, by, measured });
            }
            None => graded.unpriced += 1,
        }
    }
    let files = ops_artefacts(&graded, VERSION)?;
    let out =
        args.out.clone().unwrap_or_else(|| PathBuf::from("out").join(stem(&args.table, "ops")));
    write_all(&out, &files)?;
    match args.format {
        _ if args.quiet => Ok(()),
        Format::Json => print(&ops_json(&graded, VERSION)?),
        Format::Text => print(&format!("{}{}\n", ops_text(&graded), written(&out, &files))),
    }
}
