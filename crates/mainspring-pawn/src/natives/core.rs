//! Arguments of the caller, publics by name, numbers.

use super::Native;
use crate::error::Code;

pub(super) const TABLE: &[(&str, Native)] = &[
    ("numargs", |_, machine, _| Ok(machine.cell(machine.frame().wrapping_add(8))? / 4)),
    ("getarg", |_, machine, arguments| {
        let place = variadic(machine, arguments)?;
        machine.cell(place)
    }),
    ("setarg", |_, machine, arguments| {
        let place = variadic(machine, arguments)?;
        let value = machine.argument(arguments, 2)?;
        machine.set_cell(place, value)?;
        Ok(1)
    }),
    ("heapspace", |_, machine, _| Ok(machine.heap_space())),
    ("funcidx", |_, machine, arguments| {
        let name = super::name(machine, arguments, 0)?;
        let index = machine.image().find_public(&name);
        Ok(index.and_then(|index| i32::try_from(index).ok()).unwrap_or(-1))
    }),
    ("CallLocalFunction", |call, machine, arguments| {
        let name = super::name(machine, arguments, 0)?;
        let values = super::timer::capture(machine, arguments, 1)?;
        call.call_public(machine, &name, &values)
    }),
    ("tolower", |_, machine, arguments| {
        character(machine.argument(arguments, 0)?, |c| c.to_ascii_lowercase())
    }),
    ("toupper", |_, machine, arguments| {
        character(machine.argument(arguments, 0)?, |c| c.to_ascii_uppercase())
    }),
    ("min", |_, machine, arguments| {
        Ok(machine.argument(arguments, 0)?.min(machine.argument(arguments, 1)?))
    }),
    ("max", |_, machine, arguments| {
        Ok(machine.argument(arguments, 0)?.max(machine.argument(arguments, 1)?))
    }),
    ("clamp", |_, machine, arguments| {
        let low = super::optional(machine, arguments, 1, i32::MIN)?;
        let high = super::optional(machine, arguments, 2, i32::MAX)?;
        Ok(machine.argument(arguments, 0)?.min(high).max(low))
    }),
    ("random", |call, machine, arguments| {
        let bound = machine.argument(arguments, 0)?;
        Ok(if bound <= 0 { 0 } else { call.random(bound) })
    }),
    ("TestRaise", |call, machine, arguments| {
        let number = machine.argument(arguments, 0)?;
        if !call.is_scripted() {
            return Err(Code::NotFound);
        }
        Code::from_number(number).map_or(Ok(77), Err)
    }),
];

/// Where the caller's argument that a native asks for stands, and how far into it.
fn variadic(machine: &crate::Machine, arguments: crate::Arguments) -> Result<i32, Code> {
    let nth = machine.argument(arguments, 0)?;
    let index = machine.argument(arguments, 1)?;
    let slot = machine.frame().wrapping_add(12).wrapping_add(nth.wrapping_mul(4));
    Ok(machine.cell(slot)?.wrapping_add(index.wrapping_mul(4)))
}

fn character(value: i32, change: fn(u8) -> u8) -> Result<i32, Code> {
    Ok(u8::try_from(value).map_or(value, |byte| i32::from(change(byte))))
}
