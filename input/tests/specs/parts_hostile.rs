//! Parts from anywhere: what is out of reach, of the wrong kind, too large or broken is told.

use crate::specs::parts::{CARD, DRIVE, MACHINE, Parts};
use crate::specs::project::{assert_says, edited};
use proptest::prelude::*;

#[test]
fn paths_of_parts_stay_in_their_folder() {
    let parts = Parts::new();
    #[cfg(unix)]
    {
        let link = parts.project.root.join("hardware-specs/parts/out.ron");
        std::os::unix::fs::symlink("/etc/passwd", link).unwrap();
        parts.check("\"parts/card\"", "\"parts/out\"", &["follows a link out of its folder"]);
    }
    std::fs::create_dir_all(parts.project.root.join("hardware-specs/parts/dir.ron")).unwrap();
    parts.check("\"parts/card\"", "\"parts/dir\"", &["parts/dir.ron: not a regular file"]);
}

#[test]
fn machines_and_parts_are_not_each_other() {
    let parts = Parts::new();
    let machine = "this is a machine, and a part of one must stand here";
    parts.check("\"parts/card\"", "\"h200-sxm-pcie5\"", &["h200-sxm-pcie5.ron:", machine]);
    // Around in a circle: a machine is no part, and a part includes nothing.
    parts.check("\"parts/card\"", "\"m\"", &["m.ron:1:1: ", machine]);
    parts.part("card", CARD.replace("tiers:", "parts: [(file: \"parts/card\")], tiers:"));
    parts.check("us(3.4)", "us(3)", &["parts/card.ron:5:5: `Part` has no field `parts`"]);
    let part = "a machine is wanted here, and this is a part of a machine";
    let named = edited("hardware: \"h100-sxm-pcie5\"", "hardware: \"parts/drive\"");
    assert_says(&parts.project.read(&named).unwrap_err(), &["parts/drive.ron:1:1: ", part]);
    let named = edited("hardware: \"h100-sxm-pcie5\"", "hardware: \"driv\"");
    let said = parts.project.read(&named).unwrap_err().to_string();
    assert!(!said.contains("parts/"), "a part is no choice for a machine: {said}");
}

#[test]
fn what_is_too_large_is_refused() {
    let parts = Parts::new();
    parts.part("huge", vec![b' '; (1 << 20) + 1]);
    parts.check("parts/card", "parts/huge", &["parts/huge.ron: a file may have at most 1048576"]);
    parts.part("big", format!("{}{DRIVE}", " ".repeat(600_000)));
    let twice = "\"parts/big\"), (file: \"parts/big\", rename: {\"nvme\": \"n\", \"bus\": \"b\"}";
    parts.check("\"parts/card\"", twice, &["m.ron:5:37: a machine and its parts have at most"]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn whatever_is_cut_out_of_a_machine_or_a_part_is_read_or_told(
        at in 0..1500usize,
        length in 1..40usize,
        instead in "[(){}\\[\\]:,\"a-z0-9. ]{0,6}",
        part in any::<bool>(),
    ) {
        let parts = Parts::new();
        let mut text = if part { DRIVE } else { MACHINE }.to_owned();
        let from = at % text.len();
        text.replace_range(from..(from + length).min(text.len()), &instead);
        let machine = if part { MACHINE } else { &text };
        if part {
            parts.part("drive", &text);
        }
        // Whatever it is: a machine, or problems that say something.
        if let Err(problems) = parts.read(machine) {
            prop_assert!(!problems.0.is_empty());
        }
    }
}
