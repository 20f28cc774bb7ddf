//! What a trace says and Chakra has no word for, as attributes of a prefix of our own: their names,
//! and how lists are spelled in them.
//!
//! They complete the attributes that other programs read and repeat none of them, so a program that
//! changes a time or a size changes it for us too.
//! Invariant: what is spelled here is read as it was.

use super::wire::{Attribute, Value};
use std::fmt::Write;
use std::num::NonZeroU32;
use tiersim_models::ids::{ObjectId, OpId};
use tiersim_models::kernel::Kernel;
use tiersim_models::workload::{Known, Mode, PartialUse, Statistics, Use};

/// The version of these attributes, in the head of a file that has them.
pub(crate) const VERSION: u32 = 1;

/// Names of the attributes.
pub(crate) mod names {
    // Of the head.
    pub(crate) const SCHEMA: &str = "tiersim_schema";
    pub(crate) const NAME: &str = "tiersim_name";
    pub(crate) const ABOUT: &str = "tiersim_about";
    pub(crate) const PRECISION: &str = "tiersim_precision";
    pub(crate) const BATCH: &str = "tiersim_batch";
    pub(crate) const SEQUENCE: &str = "tiersim_sequence";
    pub(crate) const HOW: &str = "tiersim_recorded_how";
    pub(crate) const WHEN: &str = "tiersim_recorded_when";
    pub(crate) const ON: &str = "tiersim_recorded_on";
    pub(crate) const MODULES: &str = "tiersim_modules";
    pub(crate) const OBJECTS: &str = "tiersim_objects";
    pub(crate) const OPS: &str = "tiersim_ops";
    pub(crate) const STATISTICS_ROWS: &str = "tiersim_statistics_rows";
    // What a node is: one of these says it.
    pub(crate) const MODULE_ID: &str = "tiersim_module_id";
    pub(crate) const OBJECT_ID: &str = "tiersim_object_id";
    pub(crate) const STATISTICS_OF: &str = "tiersim_statistics_of";
    pub(crate) const MOVE_OF: &str = "tiersim_move_of";
    pub(crate) const OP_ID: &str = "tiersim_op_id";
    // Of objects.
    pub(crate) const KIND: &str = "tiersim_kind";
    pub(crate) const BYTES: &str = "tiersim_bytes";
    pub(crate) const DTYPE: &str = "tiersim_dtype";
    pub(crate) const PERSISTENT: &str = "tiersim_persistent";
    pub(crate) const ADAM_M: &str = "tiersim_adam_m";
    pub(crate) const ADAM_V: &str = "tiersim_adam_v";
    pub(crate) const GRAD_NORM: &str = "tiersim_grad_norm";
    pub(crate) const FREED_AFTER: &str = "tiersim_freed_after";
    pub(crate) const STATISTICS: &str = "tiersim_statistics";
    // Of objects and ops.
    pub(crate) const MODULE: &str = "tiersim_module";
    // Of ops.
    pub(crate) const STEP: &str = "tiersim_step";
    pub(crate) const PHASE: &str = "tiersim_phase";
    pub(crate) const UNIT: &str = "tiersim_unit";
    pub(crate) const REST_PS: &str = "tiersim_rest_ps";
    pub(crate) const FLOPS: &str = "tiersim_flops";
    pub(crate) const AT_PS: &str = "tiersim_at_ps";
    pub(crate) const RELEASE_PS: &str = "tiersim_release_ps";
    pub(crate) const AFTER: &str = "tiersim_after";
    pub(crate) const COLLECTIVE_BYTES: &str = "tiersim_collective_bytes";
    pub(crate) const GROUP: &str = "tiersim_group";
    pub(crate) const KERNELS: &str = "tiersim_kernels";
    pub(crate) const USES: &str = "tiersim_uses";
}

/// The value of [`names::UNIT`] for an op on nothing.
pub(crate) const IDLE: &str = "idle";

/// A text.
pub(crate) fn text(name: &str, text: impl Into<String>) -> Attribute {
    Attribute::new(name, Value::Text(text.into()))
}

/// Ids of ops, such as `3;17`.
pub(crate) fn after_text(after: &[OpId]) -> String {
    let ids: Vec<String> = after.iter().map(|op| op.0.to_string()).collect();
    ids.join(";")
}

/// What [`after_text`] spelled.
pub(crate) fn after_of(text: &str) -> Option<Vec<OpId>> {
    text.split(';').map(|id| digits(id).map(OpId)).collect()
}

/// Kernels, as in `ops.csv`.
pub(crate) fn kernels_text(kernels: &[Kernel]) -> String {
    kernels.iter().map(Kernel::to_string).collect::<Vec<String>>().join(";")
}

/// What [`kernels_text`] spelled.
pub(crate) fn kernels_of(text: &str) -> Option<Vec<Kernel>> {
    if text.is_empty() {
        return Some(Vec::new());
    }
    text.split(';').map(|one| one.parse().ok()).collect()
}

/// Uses, such as `12:r;13:rw:4x512:inferred`: object, mode, pieces, and how it is known if it was
/// not seen.
pub(crate) fn uses_text(uses: &[Use]) -> String {
    let mut text = String::with_capacity(8 * uses.len());
    for Use { object, mode, part, known } in uses {
        if !text.is_empty() {
            text.push(';');
        }
        // Writing to a text does not fail.
        let _ = write!(text, "{}:{}", object.0, mode.word());
        if let Some(PartialUse { pieces, piece }) = part {
            let _ = write!(text, ":{pieces}x{piece}");
        }
        if *known != Known::Seen {
            let _ = write!(text, ":{}", known.word());
        }
    }
    text
}

/// What [`uses_text`] spelled.
pub(crate) fn uses_of(text: &str, uses: &mut Vec<Use>) -> Option<()> {
    for one in text.split(';') {
        let mut fields = one.split(':');
        let object = ObjectId(digits(fields.next()?)?);
        let mode = Mode::from_word(fields.next()?)?;
        let (mut part, mut known) = (None, Known::Seen);
        for field in fields {
            match field.split_once('x') {
                Some((pieces, piece)) if part.is_none() && known == Known::Seen => {
                    let number = |text| digits(text).and_then(NonZeroU32::new);
                    part = Some(PartialUse { pieces: number(pieces)?, piece: number(piece)? });
                }
                None if known == Known::Seen => known = Known::from_word(field)?,
                _ => return None,
            }
        }
        uses.push(Use { object, mode, part, known });
    }
    Some(())
}

/// Statistics of several steps, such as `0.5 - 1e-3;0.25 - -`: what is not known is a dash.
pub(crate) fn statistics_text(steps: &[Statistics]) -> String {
    let number = |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{value:?}"));
    let one = |of: &Statistics| [of.adam_m, of.adam_v, of.grad_norm].map(number).join(" ");
    steps.iter().map(one).collect::<Vec<String>>().join(";")
}

/// What [`statistics_text`] spelled.
pub(crate) fn statistics_of(text: &str, steps: &mut Vec<Statistics>) -> Option<()> {
    let number = |text: &str| match text {
        "-" => Some(None),
        text => text.parse().ok().map(Some),
    };
    for one in text.split(';') {
        let fields: Option<Vec<Option<f64>>> = one.split(' ').map(number).collect();
        let [adam_m, adam_v, grad_norm] = fields?[..] else { return None };
        steps.push(Statistics { adam_m, adam_v, grad_norm });
    }
    Some(())
}

/// A whole number in digits alone: no sign, no space.
fn digits(text: &str) -> Option<u32> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_spelled_as_they_stand_here() {
        let part = PartialUse::of(4, 512, tiersim_models::units::Bytes::new(1 << 20));
        let uses = [
            Use::whole(ObjectId(12), Mode::Read),
            Use { part, known: Known::Inferred, ..Use::whole(ObjectId(13), Mode::ReadWrite) },
            Use { known: Known::Unknown, ..Use::whole(ObjectId(0), Mode::Write) },
        ];
        let text = uses_text(&uses);
        assert_eq!(text, "12:r;13:rw:4x512:inferred;0:w:unknown");
        let mut read = Vec::new();
        assert_eq!(uses_of(&text, &mut read), Some(()));
        assert_eq!(read, uses);
        for wrong in ["", "1", "1:x", "-1:r", "1:r:0x4", "1:r:4", "1:r:2x2:2x2", "1:r:inferred:2x2"]
        {
            assert_eq!(uses_of(wrong, &mut Vec::new()), None, "{wrong}");
        }
    }

    #[test]
    fn statistics_keep_every_bit() {
        let of = |adam_m, grad_norm| Statistics { adam_m, adam_v: None, grad_norm };
        let steps = [of(Some(0.1 + 0.2), None), of(None, Some(5e-324)), of(Some(f64::MAX), None)];
        let mut read = Vec::new();
        assert_eq!(statistics_of(&statistics_text(&steps), &mut read), Some(()));
        assert_eq!(read, steps);
        for wrong in ["", "1", "1 2", "1 2 3 4", "a b c"] {
            assert_eq!(statistics_of(wrong, &mut Vec::new()), None, "{wrong}");
        }
    }
}
