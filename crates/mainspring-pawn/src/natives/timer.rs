//! Timers, and what a script asks about time.

use super::{Native, name};
use crate::error::Code;
use crate::host::Value;
use crate::machine::{Arguments, Machine};

pub(super) const TABLE: &[(&str, Native)] = &[
    ("SetTimer", |call, machine, arguments| {
        let public = name(machine, arguments, 0)?;
        let interval = machine.argument(arguments, 1)?;
        let repeating = machine.argument(arguments, 2)? != 0;
        call.set_timer(machine, &public, interval, repeating, Vec::new())
    }),
    ("SetTimerEx", |call, machine, arguments| {
        let public = name(machine, arguments, 0)?;
        let interval = machine.argument(arguments, 1)?;
        let repeating = machine.argument(arguments, 2)? != 0;
        let values = capture(machine, arguments, 3)?;
        call.set_timer(machine, &public, interval, repeating, values)
    }),
    ("KillTimer", |call, machine, arguments| {
        Ok(i32::from(call.kill_timer(machine.argument(arguments, 0)?)))
    }),
    ("IsValidTimer", |call, machine, arguments| {
        Ok(i32::from(call.is_timer(machine.argument(arguments, 0)?)))
    }),
    ("GetTimerRemaining", |call, machine, arguments| {
        Ok(call.remaining_ms(machine.argument(arguments, 0)?))
    }),
    ("GetTimerInterval", |call, machine, arguments| {
        Ok(call.interval_ms(machine.argument(arguments, 0)?))
    }),
    ("SetTimerInterval", |call, machine, arguments| {
        let (id, interval) = (machine.argument(arguments, 0)?, machine.argument(arguments, 1)?);
        Ok(i32::from(call.set_interval(id, interval)))
    }),
    ("PauseTimer", |call, machine, arguments| {
        Ok(i32::from(call.pause_timer(machine.argument(arguments, 0)?)))
    }),
    ("ResumeTimer", |call, machine, arguments| {
        Ok(i32::from(call.resume_timer(machine.argument(arguments, 0)?)))
    }),
    ("GetTickCount", |call, _, _| Ok(call.tick_count())),
    ("GetServerTickRate", |call, _, _| Ok(call.tick_rate())),
];

/// What one timer or one call may carry: values, and cells in all of them.
const MOST_VALUES: usize = 128;
const MOST_CELLS: usize = 65_536;

/// The values that a list of letters at argument `nth` describes and that follow it, as they are now.
pub(super) fn capture(
    machine: &Machine,
    arguments: Arguments,
    nth: usize,
) -> Result<Vec<Value>, Code> {
    let letters = super::text(machine, arguments, nth)?;
    if letters.len() > MOST_VALUES {
        return Err(Code::Parameters);
    }
    let mut room = MOST_CELLS;
    let mut values = Vec::with_capacity(letters.len());
    for (at, letter) in letters.iter().enumerate() {
        let address = machine.argument(arguments, nth + 1 + at)?;
        let value = match letter {
            b's' => {
                let text = machine.string(address, room)?;
                room = room.saturating_sub(text.len());
                Value::Text(text.into())
            }
            b'a' => {
                // The next value is the array's size.
                if !matches!(letters.get(at + 1), Some(b'i' | b'd')) {
                    return Err(Code::Parameters);
                }
                let size = machine.cell(machine.argument(arguments, nth + 2 + at)?)?;
                let size = usize::try_from(size).ok().filter(|&size| size <= room);
                let size = size.ok_or(Code::Parameters)?;
                room -= size;
                // Where it starts is looked at before any place behind it is named.
                if size > 0 {
                    machine.cell(address)?;
                }
                let places = (address..).step_by(4).take(size);
                Value::Array(places.map(|place| machine.cell(place)).collect::<Result<_, _>>()?)
            }
            b'v' => Value::Reference(machine.cell(address)?),
            _ => Value::Cell(machine.cell(address)?),
        };
        values.push(value);
    }
    Ok(values)
}
