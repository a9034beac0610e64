//! The JSON document, and the file it becomes: whole or not at all.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

use super::machine::Machine;
use crate::exit::Failure;

/// What every document says, around what it is about.
#[derive(Debug, Serialize)]
pub(crate) struct Document<'a, Body> {
    schema: u32,
    machine: &'a Machine,
    commit: &'static str,
    #[serde(flatten)]
    body: Body,
}

impl<'a, Body: Serialize> Document<'a, Body> {
    pub(crate) fn new(machine: &'a Machine, body: Body) -> Self {
        Self { schema: SCHEMA, machine, commit: COMMIT, body }
    }
}

/// The body of a bench document.
#[derive(Debug, Serialize)]
pub(crate) struct Results {
    pub(crate) seed: u64,
    #[serde(serialize_with = "as_map")]
    pub(crate) experiments: Vec<(&'static str, Rows)>,
}

/// The rows of one experiment, already JSON: one line each, so that two documents can be compared by eye.
#[derive(Debug, Serialize)]
pub(crate) struct Rows {
    rows: Box<RawValue>,
}

impl Rows {
    pub(crate) fn new<Row: Serialize>(rows: &[Row]) -> serde_json::Result<Self> {
        let lines: Vec<String> =
            rows.iter().map(serde_json::to_string).collect::<Result<_, _>>()?;
        let text =
            if lines.is_empty() { "[]".to_owned() } else { format!("[\n{}\n]", lines.join(",\n")) };
        Ok(Self { rows: RawValue::from_string(text)? })
    }
}

/// Where a document goes.
#[derive(Debug)]
pub(crate) struct Sink {
    /// The option that named it.
    flag: &'static str,
    place: Place,
}

#[derive(Debug)]
enum Place {
    Nowhere,
    Stdout,
    /// A device or a pipe, written as it is.
    Device(PathBuf),
    /// A file, replaced as a whole when the document is complete.
    File {
        path: PathBuf,
        partial: PathBuf,
    },
}

impl Sink {
    /// Where `--json` says.
    pub(crate) fn open(path: Option<&Path>) -> Result<Self, Failure> {
        Self::open_for("--json", path)
    }

    /// Finds out now, before a long run, whether the document can be written in the end. Leaves nothing behind.
    pub(crate) fn open_for(flag: &'static str, path: Option<&Path>) -> Result<Self, Failure> {
        let place = match path {
            None => Place::Nowhere,
            Some(path) if path == Path::new("-") => Place::Stdout,
            Some(path) => Place::file(path)
                .map_err(|error| Failure::output(format!("{flag} {}", path.display()), error))?,
        };
        Ok(Self { flag, place })
    }

    pub(crate) fn is_nowhere(&self) -> bool {
        matches!(self.place, Place::Nowhere)
    }

    pub(crate) fn is_stdout(&self) -> bool {
        matches!(self.place, Place::Stdout)
    }

    /// Whether the document will outlive the terminal's reader.
    pub(crate) fn is_file(&self) -> bool {
        matches!(self.place, Place::File { .. } | Place::Device(_))
    }

    pub(crate) fn write<Body: Serialize>(
        &self,
        document: &Document<'_, Body>,
    ) -> Result<(), Failure> {
        if self.is_nowhere() {
            return Ok(());
        }
        let mut text =
            serde_json::to_vec_pretty(document).map_err(|error| Failure::Output(error.into()))?;
        text.push(b'\n');
        self.write_text(&text)
    }

    /// Writes all of it, or nothing.
    pub(crate) fn write_text(&self, text: &[u8]) -> Result<(), Failure> {
        let flag = self.flag;
        match &self.place {
            Place::Nowhere => Ok(()),
            Place::Stdout => {
                let mut out = io::stdout().lock();
                out.write_all(text)
                    .and_then(|()| out.flush())
                    .map_err(|e| Failure::output("standard output", e))
            }
            Place::Device(path) => OpenOptions::new()
                .append(true)
                .open(path)
                .and_then(|mut file| file.write_all(text))
                .map_err(|error| Failure::output(format!("{flag} {}", path.display()), error)),
            Place::File { path, partial } => replace(path, partial, text).map_err(|error| {
                // The error that matters is the first one.
                drop(fs::remove_file(partial));
                Failure::output(format!("{flag} {}", path.display()), error)
            }),
        }
    }
}

impl Place {
    fn file(path: &Path) -> io::Result<Self> {
        // A link is written through, not replaced.
        let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        if let Ok(existing) = fs::metadata(&path) {
            if existing.is_dir() {
                return Err(io::Error::new(
                    io::ErrorKind::IsADirectory,
                    "it is a directory; name a file in it",
                ));
            }
            // Whoever may not write a file should not replace it either.
            OpenOptions::new().append(true).open(&path)?;
            if !existing.is_file() {
                return Ok(Self::Device(path));
            }
        }
        let name = path
            .file_name()
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "it names no file"))?;
        let mut partial = OsString::from(".");
        partial.push(name);
        partial.push(format!(".{}.partial", std::process::id()));
        let partial = path.with_file_name(partial);
        File::create(&partial)?;
        fs::remove_file(&partial)?;
        Ok(Self::File { path, partial })
    }
}

/// Writes all of `text` beside the file, then gives it the file's name.
fn replace(path: &Path, partial: &Path, text: &[u8]) -> io::Result<()> {
    let mut file = File::create(partial)?;
    file.write_all(text)?;
    file.sync_all()?;
    fs::rename(partial, path)
}

fn as_map<S: Serializer>(
    experiments: &[(&'static str, Rows)],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_map(experiments.iter().map(|(name, rows)| (name, rows)))
}

const SCHEMA: u32 = 1;
pub(crate) const COMMIT: &str = env!("MAINSPRING_COMMIT");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn experiments_keep_their_order_and_rows_their_lines() {
        #[derive(Serialize)]
        struct Row {
            zeta_ns: u32,
            alpha_ms: u32,
        }
        let rows =
            Rows::new(&[Row { zeta_ns: 1, alpha_ms: 2 }, Row { zeta_ns: 3, alpha_ms: 4 }]).unwrap();
        let results = Results {
            seed: 7,
            experiments: vec![("ticks", rows), ("clocks", Rows::new::<Row>(&[]).unwrap())],
        };
        let text = serde_json::to_string(&results).unwrap();
        assert_eq!(
            text,
            "{\"seed\":7,\"experiments\":{\"ticks\":{\"rows\":[\n{\"zeta_ns\":1,\"alpha_ms\":2},\n\
             {\"zeta_ns\":3,\"alpha_ms\":4}\n]},\"clocks\":{\"rows\":[]}}}"
        );
    }

    #[test]
    fn a_document_replaces_a_file_and_leaves_nothing_beside_it() {
        let directory =
            std::env::temp_dir().join(format!("mainspring-json-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let path = directory.join("result.json");
        fs::write(&path, "old").unwrap();
        let sink = Sink::open(Some(&path)).unwrap();
        assert_eq!(
            fs::read_to_string(&path).unwrap(),
            "old",
            "asking whether it can be written changes nothing"
        );
        sink.write(&Document::new(
            &Machine::default(),
            Results { seed: 1, experiments: Vec::new() },
        ))
        .unwrap();
        let written: serde_json::Value =
            serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
        assert_eq!(written["schema"], 1);
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 1);
        fs::remove_dir_all(&directory).unwrap();
    }
}
