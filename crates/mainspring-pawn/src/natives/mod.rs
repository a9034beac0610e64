//! What scripts call, by name: one table, and the families behind it.

mod core;
mod float;
mod format;
mod string;
mod timer;

use crate::error::Code;
use crate::host::Call;
use crate::machine::{Arguments, Machine};

/// A native: what it does with the host, the machine that calls it and its arguments.
pub(crate) type Native = fn(&mut Call<'_>, &mut Machine, Arguments) -> Result<i32, Code>;

/// The native with this name.
pub(crate) fn find(name: &str) -> Option<Native> {
    [core::TABLE, float::TABLE, string::TABLE, format::TABLE, timer::TABLE]
        .into_iter()
        .flatten()
        .find(|(known, _)| *known == name)
        .map(|(_, native)| *native)
}

/// What takes the place of a native that is not here, where the profile allows that.
pub(crate) fn missing(_: &mut Call<'_>, _: &mut Machine, _: Arguments) -> Result<i32, Code> {
    Ok(0)
}

/// A name or a text that a script gives, at most.
const TEXT_BYTES: usize = 4096;

/// The string that an argument points at.
fn text(machine: &Machine, arguments: Arguments, nth: usize) -> Result<Vec<u8>, Code> {
    machine.string(machine.argument(arguments, nth)?, TEXT_BYTES)
}

/// The same, as the name of a public: names are Latin-1 at most.
fn name(machine: &Machine, arguments: Arguments, nth: usize) -> Result<String, Code> {
    Ok(text(machine, arguments, nth)?.into_iter().map(char::from).collect())
}

/// An argument that need not be passed.
fn optional(
    machine: &Machine,
    arguments: Arguments,
    nth: usize,
    default: i32,
) -> Result<i32, Code> {
    if nth < arguments.count { machine.argument(arguments, nth) } else { Ok(default) }
}

/// A size in cells that a script gives; negative ones are nothing.
fn cells(value: i32) -> usize {
    usize::try_from(value).unwrap_or(0)
}
