//! Writes the artefacts of hand-made records under a folder, in every style, to be looked at.
//!
//! `cargo run -p tiersim-reports --example gallery -- FOLDER`

#[path = "../tests/common/mod.rs"]
mod common;

use std::path::Path;
use tiersim_reports::{Detail, Made, Style};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = std::env::args().nth(1).ok_or("usage: gallery FOLDER")?;
    for (index, record) in common::all().iter().enumerate() {
        let folder = Path::new(&folder).join(format!("{index}"));
        let styles = [(Style::Screen, ""), (Style::Slide, "slide"), (Style::Paper, "paper")];
        for (style, within) in styles {
            let folder = folder.join(within);
            std::fs::create_dir_all(&folder)?;
            for file in tiersim_reports::artefacts(record, Made { version: "0.1.0", style })? {
                std::fs::write(folder.join(&file.name), &file.bytes)?;
            }
        }
        std::fs::write(
            folder.join("table.txt"),
            tiersim_reports::text(record, "0.1.0", Detail::Narrow),
        )?;
    }
    Ok(())
}
