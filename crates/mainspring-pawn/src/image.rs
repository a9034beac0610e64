//! The file: header, tables, names, code and data, every offset checked before it is followed.
//!
//! ```text
//!  0        56                                                 cod       dat      hea      stp
//!  | header | publics natives libraries pubvars tags | names  | code    | data   | heap ->  <- stack |
//!  `--------------------------- in the file -----------------------------------' `- memory only ----'
//! ```
//!
//! Code and data may be packed: each cell in one to five bytes. Nothing is allocated by a size that the file merely declares,
//! but for stack and heap, which have a bound.

use crate::debug::DebugInfo;
use crate::error::LoadError;

/// A whole script, as it stands in a file.
#[derive(Clone, Debug)]
pub struct Image {
    /// Version of the file's layout.
    pub file_version: u8,
    /// The oldest machine that may run it.
    pub amx_version: u8,
    /// The header's flags.
    pub flags: u16,
    /// Functions that a host may call, sorted by name.
    pub publics: Vec<Entry>,
    /// Functions that the host has to have, in the order of their numbers.
    pub natives: Vec<Entry>,
    /// Names of libraries.
    pub libraries: Vec<Entry>,
    /// Variables that a host may read and write.
    pub pubvars: Vec<Entry>,
    /// Tags, their ids as addresses.
    pub tags: Vec<Entry>,
    /// Where `main` starts, if there is one.
    pub main: Option<u32>,
    pub(crate) code: Vec<i32>,
    pub(crate) data: Vec<i32>,
    /// Bytes of data, heap and stack.
    pub(crate) memory_bytes: u32,
    pub(crate) debug: Option<DebugInfo>,
}

/// A name and what it stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Bytes in the code, bytes in the data, or an id.
    pub address: u32,
    /// As it stands in the file; bytes that are no ASCII are replaced.
    pub name: String,
}

const HEADER: usize = 56;
const HEADER_BYTES: u32 = 56;
const MAGIC_32: u16 = 0xf1e0;
const FLAG_DEBUG: u16 = 0x02;
const FLAG_COMPACT: u16 = 0x04;
/// Data, heap and stack of one script, at most.
const MEMORY_BYTES: u32 = 64 << 20;
/// A file, at most.
const FILE_BYTES: usize = 64 << 20;
/// Bytes of a name, at most; the compilers allow 63.
const NAME_BYTES: usize = 63;
/// Cells of code and data together, at most: a packed file may hold as many as it has bytes.
const CELLS: usize = 16 << 20;

impl Image {
    /// Reads a file. O(its length).
    ///
    /// # Errors
    ///
    /// What is wrong with it.
    pub fn parse(file: &[u8]) -> Result<Self, LoadError> {
        if file.len() > FILE_BYTES {
            return Err(LoadError::format("longer than 64 MiB, which no script is"));
        }
        if file.len() < HEADER {
            return Err(LoadError::format(format!(
                "no .amx file: {} bytes are less than a header",
                file.len()
            )));
        }
        let magic = u16_at(file, 4);
        match magic {
            MAGIC_32 => {}
            0xf1e1 | 0xf1e2 => {
                return Err(LoadError::format(
                    "cells of 64 or 16 bits; compile for 32 bits, as SA:MP and open.mp do",
                ));
            }
            _ => return Err(LoadError::format("no .amx file: it does not start like one")),
        }
        let (file_version, amx_version) = (file[6], file[7]);
        if file_version > 9 {
            return Err(LoadError::version(format!(
                "file version {file_version} is of Pawn 4; compile with the SA:MP or open.mp compiler (version 8)"
            )));
        }
        if !(6..=9).contains(&file_version) || !(6..=10).contains(&amx_version) {
            return Err(LoadError::version(format!(
                "file version {file_version} for machine version {amx_version}; 6 to 9 for 6 to 10 can be run"
            )));
        }
        let layout = Layout::read(file)?;
        let table = |from, to| layout.table(file, from, to);
        let publics = table(layout.publics, layout.natives)?;
        let natives = table(layout.natives, layout.libraries)?;
        let libraries = table(layout.libraries, layout.pubvars)?;
        let pubvars = table(layout.pubvars, layout.tags)?;
        let tags = table(layout.tags, layout.nametable)?;
        let (code, data) = layout.cells(file)?;
        let code_bytes = layout.dat - layout.cod;
        for public in &publics {
            check_address("public", public, code_bytes)?;
        }
        for variable in &pubvars {
            check_address("public variable", variable, layout.hea - layout.dat)?;
        }
        if !publics.is_sorted_by(|a, b| a.name < b.name) {
            return Err(LoadError::format("the table of publics is not sorted"));
        }
        let debug = (layout.flags & FLAG_DEBUG != 0)
            .then(|| DebugInfo::parse(&file[layout.size as usize..]))
            .transpose()?;
        Ok(Self {
            file_version,
            amx_version,
            flags: layout.flags,
            publics,
            natives,
            libraries,
            pubvars,
            tags,
            main: layout.main()?,
            code,
            data,
            memory_bytes: layout.stp - layout.dat,
            debug,
        })
    }

    /// Bytes of code.
    #[must_use]
    pub fn code_bytes(&self) -> usize {
        self.code.len() * 4
    }

    /// Bytes of initialized data.
    #[must_use]
    pub fn data_bytes(&self) -> usize {
        self.data.len() * 4
    }

    /// Bytes of heap and stack together.
    #[must_use]
    pub fn stack_bytes(&self) -> usize {
        self.memory_bytes as usize - self.data_bytes()
    }

    /// Whether code and data are packed in the file.
    #[must_use]
    pub fn is_compact(&self) -> bool {
        self.flags & FLAG_COMPACT != 0
    }

    /// Whether it tells lines and files of the source.
    #[must_use]
    pub fn has_debug_info(&self) -> bool {
        self.debug.is_some()
    }

    /// The index of a public. O(log n).
    #[must_use]
    pub fn find_public(&self, name: &str) -> Option<usize> {
        self.publics.binary_search_by(|entry| entry.name.as_str().cmp(name)).ok()
    }
}

/// The header's numbers, in order and within the file.
struct Layout {
    size: u32,
    flags: u16,
    entry: u32,
    cod: u32,
    dat: u32,
    hea: u32,
    stp: u32,
    cip: i32,
    publics: u32,
    natives: u32,
    libraries: u32,
    pubvars: u32,
    tags: u32,
    nametable: u32,
}

impl Layout {
    fn read(file: &[u8]) -> Result<Self, LoadError> {
        let layout = Self {
            size: u32_at(file, 0),
            flags: u16_at(file, 8),
            entry: u16_at(file, 10).into(),
            cod: u32_at(file, 12),
            dat: u32_at(file, 16),
            hea: u32_at(file, 20),
            stp: u32_at(file, 24),
            cip: u32_at(file, 28).cast_signed(),
            publics: u32_at(file, 32),
            natives: u32_at(file, 36),
            libraries: u32_at(file, 40),
            pubvars: u32_at(file, 44),
            tags: u32_at(file, 48),
            nametable: u32_at(file, 52),
        };
        let length = u32::try_from(file.len()).expect("files are bounded");
        if layout.size > length {
            return Err(LoadError::format(format!(
                "truncated: {length} bytes of {}; copy or compile it again",
                layout.size
            )));
        }
        let is_compact = layout.flags & FLAG_COMPACT != 0;
        let end = if is_compact { layout.cod } else { layout.hea };
        let order = [
            HEADER_BYTES,
            layout.publics,
            layout.natives,
            layout.libraries,
            layout.pubvars,
            layout.tags,
            layout.nametable,
            layout.cod,
        ];
        if !order.is_sorted() || end > layout.size {
            return Err(LoadError::format("its tables overlap or lie outside of it"));
        }
        if layout.entry != 8 && layout.entry != 24 {
            return Err(LoadError::format("entries of its tables are neither 8 nor 24 bytes long"));
        }
        if !(layout.cod < layout.dat && layout.dat <= layout.hea && layout.hea < layout.stp) {
            return Err(LoadError::format("code, data and stack overlap"));
        }
        let aligned = [layout.dat - layout.cod, layout.hea - layout.dat, layout.stp - layout.dat];
        if aligned.iter().any(|bytes| !bytes.is_multiple_of(4)) {
            return Err(LoadError::format("code, data and stack are not made of whole cells"));
        }
        if layout.stp - layout.dat > MEMORY_BYTES {
            return Err(LoadError::format("data and stack take more than 64 MiB"));
        }
        Ok(layout)
    }

    fn main(&self) -> Result<Option<u32>, LoadError> {
        if self.cip == -1 {
            return Ok(None);
        }
        let main = u32::try_from(self.cip).ok().filter(|&main| main < self.dat - self.cod);
        main.map(Some).ok_or_else(|| LoadError::format("main lies outside the code"))
    }

    fn table(&self, file: &[u8], from: u32, to: u32) -> Result<Vec<Entry>, LoadError> {
        if !(to - from).is_multiple_of(self.entry) {
            return Err(LoadError::format("a table is not made of whole entries"));
        }
        file[from as usize..to as usize]
            .chunks_exact(self.entry as usize)
            .map(|entry| {
                let name = if self.entry == 8 {
                    let start = u32_at(entry, 4);
                    if start < HEADER_BYTES || start >= self.cod {
                        return Err(LoadError::format("a name lies outside the table of names"));
                    }
                    &file[start as usize..self.cod as usize]
                } else {
                    &entry[4..]
                };
                let end = name.iter().take(NAME_BYTES + 1).position(|&byte| byte == 0);
                let end = end.ok_or_else(|| LoadError::format("a name does not end"))?;
                let name = name[..end].iter().map(|&byte| char::from(byte)).collect();
                Ok(Entry { address: u32_at(entry, 0), name })
            })
            .collect()
    }

    /// Code and data, unpacked.
    fn cells(&self, file: &[u8]) -> Result<(Vec<i32>, Vec<i32>), LoadError> {
        let code = (self.dat - self.cod) as usize / 4;
        let count = (self.hea - self.cod) as usize / 4;
        let mut cells = if self.flags & FLAG_COMPACT != 0 {
            unpack(&file[self.cod as usize..self.size as usize], count)?
        } else {
            let bytes = &file[self.cod as usize..self.hea as usize];
            bytes.as_chunks::<4>().0.iter().map(|cell| i32::from_le_bytes(*cell)).collect()
        };
        let data = cells.split_off(code);
        Ok((cells, data))
    }
}

/// Cells of one to five bytes: seven bits each, the highest first, all but the last with their top bit set, and the sign in
/// the second bit of the first.
fn unpack(bytes: &[u8], count: usize) -> Result<Vec<i32>, LoadError> {
    let wrong = || LoadError::format("its packed code is damaged; compile it again");
    if count > bytes.len() || count > CELLS {
        return Err(wrong());
    }
    let mut cells = Vec::with_capacity(count);
    let mut rest = bytes.iter();
    while let Some(&first) = rest.next() {
        let mut byte = first;
        let mut cell = i32::from(byte & 0x7f);
        if byte & 0x40 != 0 {
            cell |= -1 << 7;
        }
        let mut length = 1;
        while byte & 0x80 != 0 {
            byte = *rest.next().ok_or_else(wrong)?;
            cell = cell << 7 | i32::from(byte & 0x7f);
            length += 1;
            if length > 5 {
                return Err(wrong());
            }
        }
        cells.push(cell);
    }
    if cells.len() == count { Ok(cells) } else { Err(wrong()) }
}

fn check_address(what: &str, entry: &Entry, bytes: u32) -> Result<(), LoadError> {
    if entry.address < bytes {
        return Ok(());
    }
    Err(LoadError::format(format!("the {what} {} lies outside", entry.name)))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packed_cells_of_every_length() {
        let cases: [(&[u8], i32); 8] = [
            (&[0x00], 0),
            (&[0x3f], 63),
            (&[0x7f], -1),
            (&[0x40], -64),
            (&[0x80, 0x40], 64),
            (&[0x81, 0x00], 128),
            (&[0x87, 0xff, 0xff, 0xff, 0x7f], i32::MAX),
            (&[0xf8, 0x80, 0x80, 0x80, 0x00], i32::MIN),
        ];
        for (bytes, cell) in cases {
            assert_eq!(unpack(bytes, 1).unwrap(), [cell], "{bytes:?}");
        }
    }

    #[test]
    fn packed_code_of_another_length_than_declared_is_refused() {
        assert!(unpack(&[0, 0], 1).is_err());
        assert!(unpack(&[0], 2).is_err());
        assert!(unpack(&[0x80], 1).is_err());
        assert!(unpack(&[0x80, 0x80, 0x80, 0x80, 0x80, 0x00], 1).is_err());
    }
}
