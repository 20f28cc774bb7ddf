//! `ops`: a table of single ops, priced on a machine and graded where it holds measured times,
//! which may also be fitted.

use crate::VERSION;
use crate::args::Format;
use crate::output::{Failure, print, stem, write_all, written};
use clap::{ArgAction, Args};
use std::path::{Path, PathBuf};
use tiersim_input::op_table::read_ops;
use tiersim_models::hardware::Compute;
use tiersim_models::measured_op::MeasuredOp;
use tiersim_models::results::op_fit::OpFit;
use tiersim_models::results::op_grades::OpGrades;
use tiersim_reports::{Artefact, fit_ron, fit_text, ops_artefacts, ops_json, ops_text};
use tiersim_validation::op_fit::fit_ops;

#[derive(Debug, Args)]
pub(crate) struct OpsArgs {
    /// A table of ops (.csv), packed (.gz, .zst) or not: products (dtype, m, n, k), attention,
    /// experts or collectives; measured times in a column us.
    #[arg(value_name = "FILE")]
    table: PathBuf,
    /// The machine: a name below hardware-specs, or a file.
    #[arg(long, value_name = "NAME")]
    hardware: String,
    /// Propose numbers of the machine's formulas from the measured times: at least 50 of one kind.
    #[arg(long)]
    fit: bool,
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
    let ops = read_ops(&args.table)?;
    let fit = match args.fit {
        true => Some(fitted(&args.table, &ops, compute)?),
        false => None,
    };
    let table = args.table.file_name().unwrap_or_default().to_string_lossy();
    let graded = OpGrades::of(&hardware, &table, &ops);
    let mut files = ops_artefacts(&graded, fit.as_ref(), VERSION)?;
    if let Some(fit) = &fit {
        files.push(Artefact::new("op-times.ron", fit_ron(fit, &graded.table, compute)));
    }
    let out =
        args.out.clone().unwrap_or_else(|| PathBuf::from("out").join(stem(&args.table, "ops")));
    write_all(&out, &files)?;
    match args.format {
        _ if args.quiet => Ok(()),
        Format::Json => print(&ops_json(&graded, fit.as_ref(), VERSION)?),
        Format::Text => {
            let fit =
                fit.map(|fit| format!("\n{}\n", fit_text(&fit, &graded.table, &compute.name)));
            let text = ops_text(&graded) + &fit.unwrap_or_default();
            print(&format!("{text}{}\n", written(&out, &files)))
        }
    }
}

/// Numbers that come nearest to the measured times, from those that the machine has.
fn fitted(table: &Path, ops: &[MeasuredOp], compute: &Compute) -> Result<OpFit, Failure> {
    let Some(start) = &compute.op_times else {
        let rule = format!("`{}` has no `compute.op_times`, and so nothing to fit", compute.name);
        let remedy = "add op_times: (of: \"op-times/h100\") to it, or name another machine";
        return Err(Failure::Input(format!("{rule}; {remedy}")));
    };
    fit_ops(ops, start).map_err(|why| Failure::Input(format!("{}: {why}", table.display())))
}
