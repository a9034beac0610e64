//! `mainspring pawn`: runs the scripts of SA:MP and open.mp servers, and looks into them.

mod inspect;
mod run;

use std::fs;
use std::path::Path;

use anyhow::Context as _;
use mainspring_pawn::Image;

use crate::exit::Failure;
use crate::options::Pawn;

pub(crate) fn run(pawn: &Pawn) -> Result<(), Failure> {
    match pawn {
        Pawn::Run(options) => run::run(options),
        Pawn::Inspect(file) => inspect::run(file),
    }
}

/// A script's file, read and checked.
fn load(file: &Path) -> Result<Image, Failure> {
    let name = file.display();
    let bytes = fs::read(file)
        .with_context(|| format!("cannot read {name}"))
        .map_err(|error| Failure::Usage(format!("{error:#}")))?;
    Image::parse(&bytes).map_err(|error| Failure::Script(format!("{name}: {error}")))
}
