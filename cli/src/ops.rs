//! `ops`: a table of single ops, priced on a machine and graded where it holds measured times,
//! which may also be fitted.

use crate::VERSION;
use crate::output::{Failure, Format, print, print_exact, stem, write_all, written};
use clap::{ArgAction, Args};
use std::path::{Path, PathBuf};
use tiersim_input::op_table::read_ops;
use tiersim_models::hardware::{Compute, Hardware};
use tiersim_models::measured_op::MeasuredOp;
use tiersim_models::op_times::{AttentionKernel, OpTimes};
use tiersim_models::results::op_fit::OpFit;
use tiersim_models::results::op_grades::OpGrades;
use tiersim_reports::{
    Artefact, fit_ron, fit_text, operators_artefacts, operators_json, operators_text,
    ops_artefacts, ops_json, ops_text,
};
use tiersim_validation::op_fit::fit_ops;
use tiersim_workloads::operators::operator_times;

#[derive(Debug, Args)]
pub(crate) struct OpsArgs {
    /// A table of ops (.csv), packed (.gz, .zst) or not: products (dtype, m, n, k), attention,
    /// experts, kernels that stream or collectives; measured times in a column us.
    #[arg(value_name = "FILE", required_unless_present = "structured")]
    table: Option<PathBuf>,
    /// In the place of a table: structured operators against dense ones and attention, for N from
    /// 512 to 131,072.
    #[arg(long, conflicts_with_all = ["table", "fit"])]
    structured: bool,
    /// Vectors that go through an operator at once, which is a head's width of attention.
    #[arg(long, value_name = "B", default_value_t = 128, requires = "structured",
        value_parser = clap::value_parser!(u64).range(1..=256))]
    vectors: u64,
    /// Operators, or heads, at once: one kernel of flash attention, else one behind the other.
    #[arg(long, value_name = "H", default_value_t = 1, requires = "structured",
        value_parser = clap::value_parser!(u32).range(1..=1024))]
    heads: u32,
    /// The machine: a name below hardware-specs, or a file.
    #[arg(long, value_name = "NAME")]
    hardware: String,
    /// The kernels that attention to many new tokens runs on, of those that the machine has numbers
    /// for: flash_attention_2, flash_attention_3, cudnn [default: the engine's].
    #[arg(long, value_name = "NAME", conflicts_with_all = ["structured", "fit"],
        value_parser = attention_kernel)]
    attention: Option<AttentionKernel>,
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
    let (_, mut hardware) = crate::hardware::machine(&args.hardware)?;
    if let Some(attention) = args.attention {
        attend(&mut hardware, attention)?;
    }
    let Some(compute) = &hardware.compute else {
        let rule = format!("`{}` has no `compute`, and so no device that runs ops", hardware.name);
        return Err(Failure::Input(format!("{rule}; name another machine")));
    };
    let Some(file) = &args.table else { return structured(args, &hardware) };
    let ops = read_ops(file)?;
    let fit = match args.fit {
        true => Some(fitted(file, &ops, compute)?),
        false => None,
    };
    let table = file.file_name().unwrap_or_default().to_string_lossy();
    let graded = OpGrades::of(&hardware, &table, &ops);
    // Of a large table it is most of what is held, and what follows needs as much.
    drop(ops);
    let mut files = ops_artefacts(&graded, fit.as_ref(), VERSION)?;
    if let Some(fit) = &fit {
        files.push(Artefact::new("op-times.ron", fit_ron(fit, &graded.table, compute)));
    }
    let out = args.out.clone().unwrap_or_else(|| PathBuf::from("out").join(stem(file, "ops")));
    write_all(&out, &files)?;
    match args.format {
        _ if args.quiet => Ok(()),
        Format::Json => print_exact(&ops_json(&graded, fit.as_ref(), VERSION)?),
        Format::Text => {
            let fit =
                fit.map(|fit| format!("\n{}\n", fit_text(&fit, &graded.table, &compute.name)));
            let text = ops_text(&graded) + &fit.unwrap_or_default();
            print(&format!("{text}{}\n", written(&out, &files)))
        }
    }
}

fn attention_kernel(text: &str) -> Result<AttentionKernel, String> {
    let unknown = || format!("write one of {}", AttentionKernel::WORDS.join(", "));
    AttentionKernel::from_word(text).ok_or_else(unknown)
}

/// Has its attention run on these kernels.
fn attend(hardware: &mut Hardware, attention: AttentionKernel) -> Result<(), Failure> {
    let without = |times: Option<&OpTimes>| match times {
        Some(times) => times.without(attention),
        None => Some(("it has no op times".to_owned(), "name another machine".to_owned())),
    };
    let times = hardware.compute.as_ref().and_then(|compute| compute.op_times.as_deref());
    if let Some((rule, remedy)) = without(times) {
        let rule = format!("`--attention {}` on `{}`: {rule}", attention.word(), hardware.name);
        return Err(Failure::Input(format!("{rule}; {remedy}")));
    }
    hardware.compute.iter_mut().for_each(|compute| compute.attention = Some(attention));
    Ok(())
}

/// Structured operators against dense ones and attention.
fn structured(args: &OpsArgs, hardware: &Hardware) -> Result<(), Failure> {
    let Some(of) = operator_times(hardware, args.vectors, args.heads) else {
        let rule = format!("the device of `{}` has no peak in 16 bits", hardware.name);
        return Err(Failure::Input(format!("{rule}; name another machine")));
    };
    let files = operators_artefacts(&of, VERSION)?;
    let out = args.out.clone();
    let own = || PathBuf::from("out").join(format!("{}-operators", hardware.name));
    let out = out.unwrap_or_else(own);
    write_all(&out, &files)?;
    match args.format {
        _ if args.quiet => Ok(()),
        Format::Json => print_exact(&operators_json(&of, VERSION)?),
        Format::Text => print(&format!("{}{}\n", operators_text(&of), written(&out, &files))),
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
