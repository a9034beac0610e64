//! `mainspring pawn inspect`: what is in an `.amx`, and what it would miss here.

use std::path::Path;

use mainspring_pawn::Image;
use mainspring_pawn::host::missing_natives;

use super::load;
use crate::exit::Failure;
use crate::output::Output;
use crate::report::table::Table;

pub(super) fn run(file: &Path) -> Result<(), Failure> {
    let image = load(file)?;
    let mut output = Output::new(false, false);
    output.print(facts(file, &image))?;
    let mut publics = Table::new("Publics").words("name").numbers("at");
    for public in &image.publics {
        publics.row([public.name.clone(), format!("{:#08x}", public.address)]);
    }
    output.print(publics)?;
    let missing: Vec<&str> = missing_natives(&image).collect();
    let mut natives = Table::new("Natives").words("name").words("");
    for native in &image.natives {
        let is_missing = missing.contains(&native.name.as_str());
        natives.row([native.name.as_str(), if is_missing { "missing here" } else { "" }]);
    }
    if missing.is_empty() {
        natives.note("All of them are here.");
    } else {
        natives.note(format!(
            "{} missing: --profile openmp runs the script with stubs for them, --profile samp does not start it.",
            missing.len()
        ));
    }
    output.print(natives)?;
    if image.pubvars.is_empty() {
        return Ok(());
    }
    let mut variables = Table::new("Public variables").words("name").numbers("at");
    for variable in &image.pubvars {
        variables.row([variable.name.clone(), variable.address.to_string()]);
    }
    output.print(variables)
}

fn facts(file: &Path, image: &Image) -> String {
    format!(
        "{}: file version {}, machine version {}{}{}\ncode {} bytes, data {} bytes, heap and stack {} bytes{}",
        file.display(),
        image.file_version,
        image.amx_version,
        if image.is_compact() { ", packed" } else { "" },
        if image.has_debug_info() { ", with lines for errors" } else { "" },
        image.code_bytes(),
        image.data_bytes(),
        image.stack_bytes(),
        if image.main.is_some() { "" } else { "; no main" },
    )
}
