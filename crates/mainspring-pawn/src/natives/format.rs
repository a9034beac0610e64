//! `printf`, `format`, `print`: texts made by a template.
//!
//! A specifier is `%`, then `-` and `0` in any order, a width, a dot and a precision, either of which may be `*`, and a
//! letter. The arguments are passed by their addresses.

use super::{Native, TEXT_BYTES, cells, text};
use crate::error::Code;
use crate::host::{Call, Profile};
use crate::machine::{Arguments, Machine};

pub(super) const TABLE: &[(&str, Native)] = &[
    ("print", |call, machine, arguments| {
        let line = text(machine, arguments, 0)?;
        call.print(&line);
        Ok(0)
    }),
    ("printf", |call, machine, arguments| {
        if let Some(line) = formatted(call, machine, arguments, 0)? {
            call.print(&line);
        }
        Ok(0)
    }),
    ("format", |call, machine, arguments| {
        let (place, size) = (machine.argument(arguments, 0)?, machine.argument(arguments, 1)?);
        if let Some(text) = formatted(call, machine, arguments, 2)? {
            machine.set_string(place, &text, cells(size))?;
        }
        Ok(0)
    }),
];

/// A width or a precision, and a text, at most.
const MOST: usize = 4096;

/// The text of the template at argument `nth`; `None`, and a line that says so, if arguments are missing.
fn formatted(
    call: &mut Call<'_>,
    machine: &Machine,
    arguments: Arguments,
    nth: usize,
) -> Result<Option<Vec<u8>>, Code> {
    let template = text(machine, arguments, nth)?;
    let mut source =
        Source { machine, arguments, next: nth + 1, truncates: call.profile() == Profile::OpenMp };
    let mut out = Vec::with_capacity(template.len() + 32);
    let mut rest = template.as_slice();
    while let Some((&byte, behind)) = rest.split_first() {
        rest = behind;
        if byte != b'%' {
            out.push(byte);
            continue;
        }
        match source.specifier(&mut rest, &mut out) {
            Ok(()) => {}
            Err(Code::Parameters) => {
                let line = format!(
                    "error: {} arguments are too few for \"{}\"",
                    arguments.count.saturating_sub(nth + 1),
                    String::from_utf8_lossy(&template)
                );
                call.complain(&line);
                return Ok(None);
            }
            Err(code) => return Err(code),
        }
        if out.len() > MOST {
            out.truncate(MOST);
            break;
        }
    }
    Ok(Some(out))
}

/// Where the values come from.
struct Source<'m> {
    machine: &'m Machine,
    arguments: Arguments,
    next: usize,
    /// Fractions are cut off, not rounded.
    truncates: bool,
}

impl Source<'_> {
    fn address(&mut self) -> Result<i32, Code> {
        self.next += 1;
        self.machine.argument(self.arguments, self.next - 1)
    }

    fn value(&mut self) -> Result<i32, Code> {
        let address = self.address()?;
        self.machine.cell(address)
    }

    /// What stands behind a `%`.
    fn specifier(&mut self, rest: &mut &[u8], out: &mut Vec<u8>) -> Result<(), Code> {
        let (mut left, mut zero) = (false, false);
        loop {
            match rest.first() {
                Some(b'-') => left = true,
                Some(b'0') => zero = true,
                _ => break,
            }
            *rest = &rest[1..];
        }
        let width = self.size(rest)?.unwrap_or(0);
        let mut precision = None;
        if rest.first() == Some(&b'.') {
            *rest = &rest[1..];
            precision = Some(self.size(rest)?.unwrap_or(0));
        }
        let Some((&letter, behind)) = rest.split_first() else { return Ok(()) };
        *rest = behind;
        let number = |text: String| Field { text: text.into_bytes(), width, left, zero };
        let field = match letter {
            b'd' | b'i' => number(self.value()?.to_string()),
            b'u' => number(self.value()?.cast_unsigned().to_string()),
            b'x' => number(format!("{:X}", self.value()?)),
            b'h' => number(format!("{:x}", self.value()?)),
            b'o' => number(format!("{:o}", self.value()?)),
            b'b' => number(format!("{:b}", self.value()?)),
            b'f' => {
                let value = f32::from_bits(self.value()?.cast_unsigned());
                number(decimal(value, precision.unwrap_or(6).min(64), self.truncates))
            }
            b'c' => {
                let character = self.value()?.to_le_bytes()[0];
                Field { text: vec![character], width, left, zero: false }
            }
            b's' | b'q' => {
                let address = self.address()?;
                let most = precision.unwrap_or(TEXT_BYTES);
                let mut text = self.machine.string(address, most)?;
                if letter == b'q' {
                    text = text.iter().flat_map(|&byte| quoted(byte)).copied().collect();
                }
                // Texts are filled up on the other side than numbers.
                Field { text, width, left: !left, zero: false }
            }
            other => {
                out.push(other);
                return Ok(());
            }
        };
        field.write(out);
        Ok(())
    }

    /// A number in the template, or the next argument.
    fn size(&mut self, rest: &mut &[u8]) -> Result<Option<usize>, Code> {
        if rest.first() == Some(&b'*') {
            *rest = &rest[1..];
            return Ok(Some(cells(self.value()?).min(MOST)));
        }
        let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        if digits == 0 {
            return Ok(None);
        }
        let number = rest[..digits]
            .iter()
            .fold(0_usize, |number, digit| (number * 10 + usize::from(digit - b'0')).min(MOST));
        *rest = &rest[digits..];
        Ok(Some(number))
    }
}

/// A text on its way into a width.
struct Field {
    text: Vec<u8>,
    width: usize,
    left: bool,
    zero: bool,
}

impl Field {
    fn write(&self, out: &mut Vec<u8>) {
        let fill = self.width.saturating_sub(self.text.len());
        if self.left {
            out.extend_from_slice(&self.text);
            out.extend(std::iter::repeat_n(b' ', fill));
        } else if self.zero {
            // The sign stands before the zeros.
            let sign = usize::from(self.text.first() == Some(&b'-'));
            out.extend_from_slice(&self.text[..sign]);
            out.extend(std::iter::repeat_n(b'0', fill));
            out.extend_from_slice(&self.text[sign..]);
        } else {
            out.extend(std::iter::repeat_n(b' ', fill));
            out.extend_from_slice(&self.text);
        }
    }
}

fn quoted(byte: u8) -> &'static [u8] {
    const BYTES: [u8; 256] = {
        let mut bytes = [0; 256];
        let mut at = 0;
        while at < 256 {
            bytes[at] = at.to_le_bytes()[0];
            at += 1;
        }
        bytes
    };
    if byte == b'\'' { b"''" } else { &BYTES[usize::from(byte)..=usize::from(byte)] }
}

/// A fraction with this many digits behind the dot.
fn decimal(value: f32, precision: usize, truncates: bool) -> String {
    if !truncates || !value.is_finite() {
        return format!("{value:.precision$}");
    }
    // No single has more digits than that behind the dot, so nothing is rounded here.
    let mut exact = format!("{:.150}", f64::from(value));
    let dot = exact.find('.').unwrap_or(exact.len());
    exact.truncate(if precision == 0 { dot } else { dot + 1 + precision });
    exact
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fractions_are_cut_off_or_rounded() {
        assert_eq!(decimal(0.999, 2, true), "0.99");
        assert_eq!(decimal(0.999, 2, false), "1.00");
        assert_eq!(decimal(0.7, 6, true), "0.699999");
        assert_eq!(decimal(-2.25, 3, true), "-2.250");
        assert_eq!(decimal(1.5, 0, true), "1");
        assert_eq!(decimal(f32::INFINITY, 2, true), "inf");
    }
}
