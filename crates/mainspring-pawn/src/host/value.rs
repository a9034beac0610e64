//! Arguments on their way into a script: onto its heap, its stack, and back.

use super::Call;
use crate::error::Code;
use crate::machine::{Entry, Fault, Machine, Outcome};

/// An argument that a timer carries or a host passes.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A number, or the bits of a float.
    Cell(i32),
    /// A number passed by its address.
    Reference(i32),
    /// A string, passed unpacked.
    Text(Box<[u8]>),
    /// A string, passed packed.
    Packed(Box<[u8]>),
    /// An array.
    Array(Box<[i32]>),
}

/// Puts values on heap and stack, calls, and gives the heap back.
pub(super) fn pass_and_call(
    machine: &mut Machine,
    call: &mut Call<'_>,
    index: usize,
    values: &mut [Value],
    reads_back: bool,
) -> Result<Outcome, Fault> {
    let heap = machine.heap_end();
    let fault = |code| Fault { code, place: None, address: 0 };
    let mut places = vec![0; if reads_back { values.len() } else { 0 }];
    for (at, value) in values.iter().enumerate().rev() {
        let result = pass(machine, value).and_then(|address| {
            if reads_back {
                places[at] = address;
            }
            machine.push(address)
        });
        if let Err(code) = result {
            machine.forget_arguments();
            machine.release(heap);
            return Err(fault(code));
        }
    }
    let outcome = machine.call(call, Entry::Public(index));
    for (value, place) in values.iter_mut().zip(places) {
        read_back(machine, value, place);
    }
    machine.release(heap);
    outcome
}

/// What is to be pushed for a value: itself, or its address on the heap.
fn pass(machine: &mut Machine, value: &Value) -> Result<i32, Code> {
    match value {
        Value::Cell(cell) => Ok(*cell),
        Value::Reference(cell) => {
            let address = machine.allot(1)?;
            machine.set_cell(address, *cell)?;
            Ok(address)
        }
        Value::Text(text) => {
            let address = machine.allot(text.len() + 1)?;
            machine.set_string(address, text, text.len() + 1)?;
            Ok(address)
        }
        Value::Packed(text) => {
            let mut bytes = text.to_vec();
            bytes.push(0);
            bytes.resize(bytes.len().next_multiple_of(4), 0);
            let cells = bytes.as_chunks::<4>().0;
            let address = machine.allot(cells.len())?;
            for (cell, place) in cells.iter().zip((address..).step_by(4)) {
                machine.set_cell(place, i32::from_be_bytes(*cell))?;
            }
            Ok(address)
        }
        Value::Array(cells) => {
            let address = machine.allot(cells.len())?;
            for (cell, place) in cells.iter().zip((address..).step_by(4)) {
                machine.set_cell(place, *cell)?;
            }
            Ok(address)
        }
    }
}

fn read_back(machine: &Machine, value: &mut Value, place: i32) {
    match value {
        Value::Reference(cell) => *cell = machine.cell(place).unwrap_or(*cell),
        Value::Array(cells) => {
            for (cell, place) in cells.iter_mut().zip((place..).step_by(4)) {
                *cell = machine.cell(place).unwrap_or(*cell);
            }
        }
        Value::Cell(_) | Value::Text(_) | Value::Packed(_) => {}
    }
}

/// Cells and characters of some values together.
pub(super) fn size(values: &[Value]) -> usize {
    let size = |value: &Value| match value {
        Value::Cell(_) | Value::Reference(_) => 1,
        Value::Text(text) | Value::Packed(text) => text.len(),
        Value::Array(cells) => cells.len(),
    };
    values.iter().map(size).sum()
}
