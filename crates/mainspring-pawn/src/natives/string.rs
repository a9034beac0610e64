//! Strings: one character a cell, or packed four to a cell; read either way, written unpacked.

use super::{Native, cells, optional, text};

/// The longest string that is looked at.
const MOST: usize = 1 << 20;

pub(super) const TABLE: &[(&str, Native)] = &[
    ("strlen", |_, machine, arguments| {
        let length = machine.string(machine.argument(arguments, 0)?, MOST)?.len();
        Ok(length_of(length))
    }),
    ("strcmp", |_, machine, arguments| {
        let whole = |nth| machine.string(machine.argument(arguments, nth)?, MOST);
        let (mut left, mut right) = (whole(0)?, whole(1)?);
        if optional(machine, arguments, 2, 0)? != 0 {
            left.make_ascii_lowercase();
            right.make_ascii_lowercase();
        }
        let most =
            usize::try_from(optional(machine, arguments, 3, i32::MAX)?).unwrap_or(usize::MAX);
        left.truncate(most);
        right.truncate(most);
        Ok(left.cmp(&right) as i32)
    }),
    ("strcat", |_, machine, arguments| {
        let place = machine.argument(arguments, 0)?;
        let mut whole = text(machine, arguments, 0)?;
        whole.extend(text(machine, arguments, 1)?);
        let size = optional(machine, arguments, 2, length_of(whole.len() + 1))?;
        machine.set_string(place, &whole, cells(size))?;
        Ok(length_of(whole.len().min(cells(size).saturating_sub(1))))
    }),
    ("strfind", |_, machine, arguments| {
        let (mut whole, mut part) = (text(machine, arguments, 0)?, text(machine, arguments, 1)?);
        if optional(machine, arguments, 2, 0)? != 0 {
            whole.make_ascii_lowercase();
            part.make_ascii_lowercase();
        }
        let start = cells(optional(machine, arguments, 3, 0)?).min(whole.len());
        if part.is_empty() {
            return Ok(-1);
        }
        let found = whole[start..].windows(part.len()).position(|window| window == part);
        Ok(found.map_or(-1, |at| length_of(start + at)))
    }),
    ("strmid", |_, machine, arguments| {
        let place = machine.argument(arguments, 0)?;
        let source = text(machine, arguments, 1)?;
        let start = cells(machine.argument(arguments, 2)?).min(source.len());
        let end = cells(machine.argument(arguments, 3)?).clamp(start, source.len());
        let size = cells(optional(machine, arguments, 4, length_of(end - start + 1))?);
        machine.set_string(place, &source[start..end], size)?;
        Ok(length_of((end - start).min(size.saturating_sub(1))))
    }),
    ("strval", |_, machine, arguments| {
        let text = text(machine, arguments, 0)?;
        let text = text.trim_ascii_start();
        let (negative, digits) = match text.split_first() {
            Some((b'-', rest)) => (true, rest),
            Some((b'+', rest)) => (false, rest),
            _ => (false, text),
        };
        let digits = digits.iter().take_while(|byte| byte.is_ascii_digit());
        let value = digits.fold(0_i32, |value, digit| {
            value.wrapping_mul(10).wrapping_add(i32::from(digit - b'0'))
        });
        Ok(if negative { value.wrapping_neg() } else { value })
    }),
    ("valstr", |_, machine, arguments| {
        let place = machine.argument(arguments, 0)?;
        let text = machine.argument(arguments, 1)?.to_string();
        machine.set_string(place, text.as_bytes(), text.len() + 1)?;
        Ok(length_of(text.len()))
    }),
    ("ispacked", |_, machine, arguments| {
        let first = machine.cell(machine.argument(arguments, 0)?)?;
        Ok(i32::from(first.cast_unsigned() > 0x00ff_ffff))
    }),
];

fn length_of(length: usize) -> i32 {
    i32::try_from(length).unwrap_or(i32::MAX)
}
