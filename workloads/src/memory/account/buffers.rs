//! Lines of what is neither state nor activations: what is gathered, reduced, at work, pinned or
//! reserved.

use super::job::Training;
use super::push;
use crate::memory::rank::Rank;
use crate::memory::zero::MILLION;
use crate::memory::{Overflow, product, share};
use crate::transformer::training::Zero;
use tiersim_models::results::memory_account::{Line, Place};

pub(super) fn lines(job: &Training, lines: &mut Vec<Line>) -> Result<(), Overflow> {
    // Beside activations it counts; model state alone is the bare formula.
    let rank = job.rank().filter(|_| job.step.is_some());
    gathered(job, rank.as_ref(), lines)?;
    match &rank {
        Some(rank) if job.stage >= 2 => {
            let bucket = job.bucket.unwrap_or(Zero::default().bucket.get());
            let several = job.step.as_ref().is_some_and(|step| step.batch > step.micro_batch);
            let leave = job.offload.optimizer != Place::Gpu;
            let bytes = rank.waiting(job.gradients, bucket, several, leave)?;
            let formula = match job.data() {
                1 => "one is made and one leaves: a module each".to_owned(),
                _ => format!("one fills and one is sent: {bucket} bytes and a module each"),
            };
            push(lines, ("buckets", "gradients to be reduced"), formula, Place::Gpu, bytes);
        }
        _ => {
            let bytes = job.bucket.unwrap_or(0).into();
            push(lines, ("buckets", "buckets"), "as given".to_owned(), Place::Gpu, bytes);
        }
    }
    // In stage 1 gradients stay whole on the GPU, and the host is handed a copy of the rank's part.
    if rank.is_some() && job.stage == 1 && job.offload.optimizer != Place::Gpu {
        let part = product(&[job.state(2)?.gradients, job.offload.ratio.into()])?;
        let names = ("handed_gradients", "gradients for the host's update");
        push(lines, names, "g P / N".to_owned(), Place::Cpu, share(part, MILLION.into()));
    }
    if let Some((bytes, _)) = job.working() {
        let formula = "most at once in a block's ops, forward and backward".to_owned();
        push(lines, ("working", "working buffers"), formula, Place::Gpu, bytes.into());
    }
    let given = "as given".to_owned();
    push(lines, ("pinned", "pinned buffers"), given.clone(), Place::Cpu, job.pinned.into());
    push(lines, ("reserved", "reserved"), given, Place::Gpu, job.reserved.into());
    Ok(())
}

fn gathered(job: &Training, rank: Option<&Rank>, lines: &mut Vec<Line>) -> Result<(), Overflow> {
    if job.stage < 3 {
        return Ok(());
    }
    let ahead = job.prefetch;
    let (bytes, formula) = match rank.filter(|_| job.largest_layer == 0) {
        Some(rank) => {
            let formula = match job.reshard {
                true => format!("w x the largest of {} block(s) or tables in turn", ahead + 1),
                false => "w x all blocks and what is behind them".to_owned(),
            };
            let sides = [job.offload.weights != Place::Gpu, !job.reshard];
            (rank.gathered((job.weights, job.packed), ahead, sides)?, formula)
        }
        None => {
            let largest = share(job.largest_layer.into(), job.split.tensor.into());
            let all = [largest, job.weights.bytes().into(), u128::from(ahead) + 1];
            let over = if job.split.tensor > 1 { " / t" } else { "" };
            (product(&all)?, format!("w x largest layer{over} x (1 + {ahead} ahead)"))
        }
    };
    push(lines, ("gathered_weights", "gathered weights"), formula, Place::Gpu, bytes);
    Ok(())
}
