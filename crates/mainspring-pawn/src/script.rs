//! Runs that are told line by line, in virtual time: for tests of scripts.
//!
//! | line | does | prints |
//! |---|---|---|
//! | `main` | runs main | `= main: err=E ret=R` |
//! | `call PUBLIC [i:INT] [f:FLOAT] [s:TEXT] [p:TEXT] [a:1,2,3] [r:INT]` | calls the public | for each array and reference `  argN = cells`, then `= PUBLIC: err=E ret=R` or `= PUBLIC: not found` |
//! | `cont` | goes on after a sleep | `= cont: err=E ret=R` |
//! | `advance MS` | lets time pass, runs what falls due | `= t=NOW` |
//! | `pubvar NAME` | | `= pubvar NAME @ADDRESS = VALUE` or `= pubvar NAME: not found` |
//! | `tags` | | `= tag NAME ID` for each |
//!
//! R is 0 unless E is 0 or 12, which is sleep.

use std::time::Duration;

use mainspring::time::{Instant, saturating_nanos};

use crate::host::{Host, Value};
use crate::machine::{Entry, Fault, Outcome};

/// The tick rate that scripts are told here.
const RATE: u32 = 200;

/// Runs a line. Empty lines do nothing.
///
/// # Errors
///
/// What is wrong with it.
pub fn run_line(host: &mut Host, line: &str) -> Result<(), String> {
    let mut words = line.split_whitespace();
    match words.next() {
        None => {}
        Some("main") => {
            let result = host.main(Entry::Main);
            host.write_line(&ending("main", &result));
        }
        Some("cont") => {
            let result = host.main(Entry::Continue);
            host.write_line(&ending("cont", &result));
        }
        Some("advance") => {
            let ms = words.next().and_then(|ms| ms.parse().ok());
            let ms: u32 = ms.ok_or("advance needs a number of milliseconds")?;
            let end = host.now().saturating_add(Duration::from_millis(ms.into()));
            advance(host, end);
            let now = saturating_nanos(end.saturating_duration_since(Instant::ORIGIN));
            host.write_line(&format!("= t={}", now / 1_000_000));
        }
        Some("pubvar") => {
            let name = words.next().ok_or("pubvar needs a name")?;
            let line = match host.variable(name) {
                Some((address, value)) => format!("= pubvar {name} @{address} = {value}"),
                None => format!("= pubvar {name}: not found"),
            };
            host.write_line(&line);
        }
        Some("tags") => {
            let tags = &host.machine().image().tags;
            let lines: Vec<String> =
                tags.iter().map(|tag| format!("= tag {} {:08x}", tag.name, tag.address)).collect();
            lines.iter().for_each(|line| host.write_line(line));
        }
        Some("call") => {
            let name = words.next().ok_or("call needs the name of a public")?;
            let mut values = words.map(value).collect::<Result<Vec<_>, _>>()?;
            let Some(index) = host.machine().image().find_public(name) else {
                host.write_line(&format!("= {name}: not found"));
                return Ok(());
            };
            let result = host.call_public(index, &mut values);
            for (nth, value) in values.iter().enumerate() {
                let cells = match value {
                    Value::Array(cells) => &cells[..],
                    Value::Reference(cell) => std::slice::from_ref(cell),
                    _ => continue,
                };
                let cells: Vec<String> = cells.iter().map(i32::to_string).collect();
                host.write_line(&format!("  arg{nth} = {}", cells.join(" ")));
            }
            host.write_line(&ending(name, &result));
        }
        Some(other) => {
            return Err(format!("{other:?} is none of main, call, cont, advance, pubvar and tags"));
        }
    }
    Ok(())
}

/// Lets virtual time pass until `end`, from one due timer to the next.
pub fn advance(host: &mut Host, end: Instant) {
    while let Some(next) = host.next_wake().filter(|next| *next <= end) {
        host.tick(next.max(host.now()), RATE);
    }
    host.tick(end, RATE);
}

fn ending(what: &str, result: &Result<Outcome, Fault>) -> String {
    let (error, value) = match result {
        Ok(Outcome::Returned(value)) => (0, *value),
        Ok(Outcome::Sleeping(value)) => (12, *value),
        Err(fault) => (fault.code.number(), 0),
    };
    format!("= {what}: err={error} ret={value}")
}

/// An argument: its kind, a colon, and what it is.
fn value(word: &str) -> Result<Value, String> {
    let wrong =
        || format!("{word:?} is no argument such as i:5, f:1.5, s:text, p:text, a:1,2 or r:7");
    let (kind, text) = word.split_once(':').ok_or_else(wrong)?;
    let cells = || -> Result<Box<[i32]>, String> {
        text.split(',').map(|cell| cell.parse().map_err(|_| wrong())).collect()
    };
    Ok(match kind {
        "i" => Value::Cell(text.parse().map_err(|_| wrong())?),
        "f" => Value::Cell(text.parse::<f32>().map_err(|_| wrong())?.to_bits().cast_signed()),
        "s" => Value::Text(text.as_bytes().into()),
        "p" => Value::Packed(text.as_bytes().into()),
        "a" | "r" => Value::Array(cells()?),
        _ => return Err(wrong()),
    })
}
