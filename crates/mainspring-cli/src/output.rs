//! Where results are printed: stdout, or stderr while a document has stdout to itself.

use std::fmt::Display;
use std::io::{self, Write};

use crate::exit::Failure;

/// A stream for people.
#[derive(Debug)]
pub(crate) struct Output {
    to_stderr: bool,
    /// Go on in silence when the reader goes away: something else will still be written.
    outlive_reader: bool,
    reader_gone: bool,
}

impl Output {
    pub(crate) fn new(to_stderr: bool, outlive_reader: bool) -> Self {
        Self { to_stderr, outlive_reader, reader_gone: false }
    }

    /// Prints `what` and an empty line, at once.
    pub(crate) fn print(&mut self, what: impl Display) -> Result<(), Failure> {
        if self.reader_gone {
            return Ok(());
        }
        let text = format!("{what}\n\n", what = what.to_string().trim_end());
        let written =
            if self.to_stderr { write(io::stderr(), &text) } else { write(io::stdout(), &text) };
        match written.map_err(|error| Failure::output("the tables", error)) {
            Err(Failure::ReaderGone) if self.outlive_reader => {
                self.reader_gone = true;
                Ok(())
            }
            result => result,
        }
    }
}

fn write(mut stream: impl Write, text: &str) -> io::Result<()> {
    stream.write_all(text.as_bytes())?;
    stream.flush()
}
