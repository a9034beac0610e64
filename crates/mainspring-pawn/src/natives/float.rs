//! Floating point numbers: the bits of an IEEE single in a cell.

use super::{Native, optional};
use crate::error::Code;
use crate::machine::{Arguments, Machine};

pub(super) const TABLE: &[(&str, Native)] = &[
    ("float", |_, machine, arguments| Ok(bits(machine.argument(arguments, 0)? as f32))),
    ("floatstr", |_, machine, arguments| {
        let text = super::text(machine, arguments, 0)?;
        Ok(bits(leading_number(&text)))
    }),
    ("floatadd", |_, machine, arguments| two(machine, arguments, |a, b| a + b)),
    ("floatsub", |_, machine, arguments| two(machine, arguments, |a, b| a - b)),
    ("floatmul", |_, machine, arguments| two(machine, arguments, |a, b| a * b)),
    ("floatdiv", |_, machine, arguments| two(machine, arguments, |a, b| a / b)),
    ("floatpower", |_, machine, arguments| two(machine, arguments, f32::powf)),
    ("floatabs", |_, machine, arguments| one(machine, arguments, f32::abs)),
    ("floatsqroot", |_, machine, arguments| {
        if number(machine, arguments, 0)? < 0.0 {
            return Err(Code::Domain);
        }
        one(machine, arguments, f32::sqrt)
    }),
    ("floatfract", |_, machine, arguments| one(machine, arguments, |a| a - a.floor())),
    ("floatlog", |_, machine, arguments| {
        let value = number(machine, arguments, 0)?;
        let base = f32::from_bits(optional(machine, arguments, 1, bits(10.0))?.cast_unsigned());
        if value <= 0.0 || base <= 0.0 {
            return Err(Code::Domain);
        }
        Ok(bits(value.log(base)))
    }),
    ("floatsin", |_, machine, arguments| angle(machine, arguments, f32::sin)),
    ("floatcos", |_, machine, arguments| angle(machine, arguments, f32::cos)),
    ("floattan", |_, machine, arguments| angle(machine, arguments, f32::tan)),
    ("floatcmp", |_, machine, arguments| {
        let (a, b) = (number(machine, arguments, 0)?, number(machine, arguments, 1)?);
        Ok(if a == b {
            0
        } else if a > b {
            1
        } else {
            -1
        })
    }),
    ("floatround", |_, machine, arguments| {
        let value = number(machine, arguments, 0)?;
        let rounded = match optional(machine, arguments, 1, 0)? {
            1 => value.floor(),
            2 => value.ceil(),
            3 => value.trunc(),
            4 => value.round_ties_even(),
            _ => (value + 0.5).floor(),
        };
        #[allow(clippy::cast_possible_truncation, reason = "saturates, and not-a-number is 0")]
        let cell = rounded as i32;
        Ok(cell)
    }),
];

fn bits(value: f32) -> i32 {
    value.to_bits().cast_signed()
}

fn number(machine: &Machine, arguments: Arguments, nth: usize) -> Result<f32, Code> {
    Ok(f32::from_bits(machine.argument(arguments, nth)?.cast_unsigned()))
}

fn one(machine: &Machine, arguments: Arguments, of: fn(f32) -> f32) -> Result<i32, Code> {
    Ok(bits(of(number(machine, arguments, 0)?)))
}

fn two(machine: &Machine, arguments: Arguments, of: fn(f32, f32) -> f32) -> Result<i32, Code> {
    Ok(bits(of(number(machine, arguments, 0)?, number(machine, arguments, 1)?)))
}

/// A function of an angle, in radians unless the mode says degrees or grades.
fn angle(machine: &Machine, arguments: Arguments, of: fn(f32) -> f32) -> Result<i32, Code> {
    let value = number(machine, arguments, 0)?;
    let radians = match optional(machine, arguments, 1, 0)? {
        1 => value.to_radians(),
        2 => value * std::f32::consts::PI / 200.0,
        _ => value,
    };
    Ok(bits(of(radians)))
}

/// The number that a text starts with, or 0.
fn leading_number(text: &[u8]) -> f32 {
    let text: String = text.iter().map(|&byte| char::from(byte)).collect();
    let text = text.trim_start();
    let mut dots = 0;
    let end = text
        .char_indices()
        .find(|(at, c)| {
            dots += usize::from(*c == '.');
            let is_part = c.is_ascii_digit() || *c == '.' && dots == 1;
            !(is_part || *at == 0 && matches!(c, '-' | '+'))
        })
        .map_or(text.len(), |(at, _)| at);
    text[..end].parse().unwrap_or(0.0)
}
