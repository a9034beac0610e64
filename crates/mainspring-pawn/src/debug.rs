//! Debug information: which line of which file an address in the code belongs to.

use crate::error::LoadError;

/// Files and lines by address. Of the symbols nothing is kept.
#[derive(Clone, Debug, Default)]
pub(crate) struct DebugInfo {
    files: Vec<(u32, String)>,
    /// Lines count from 1 here.
    lines: Vec<(u32, u32)>,
}

const HEADER: usize = 22;
const MAGIC: u16 = 0xf1ef;

impl DebugInfo {
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, LoadError> {
        let wrong = || LoadError::format("its debug information is damaged; compile it again");
        let header = bytes.first_chunk::<HEADER>().ok_or_else(wrong)?;
        let u16_at = |at: usize| u16::from_le_bytes([header[at], header[at + 1]]);
        if u16_at(4) != MAGIC {
            return Err(wrong());
        }
        let mut rest = &bytes[HEADER..];
        let mut info = Self::default();
        for _ in 0..u16_at(10) {
            let (address, behind) = rest.split_first_chunk().ok_or_else(wrong)?;
            let end = behind.iter().position(|&byte| byte == 0).ok_or_else(wrong)?;
            let name = behind[..end].iter().map(|&byte| char::from(byte)).collect();
            info.files.push((u32::from_le_bytes(*address), name));
            rest = &behind[end + 1..];
        }
        for _ in 0..u16_at(12) {
            let (address, behind) = rest.split_first_chunk().ok_or_else(wrong)?;
            let (line, behind) = behind.split_first_chunk().ok_or_else(wrong)?;
            let line = u32::from_le_bytes(*line).saturating_add(1);
            info.lines.push((u32::from_le_bytes(*address), line));
            rest = behind;
        }
        // The compilers write both in the order of addresses; a search must not depend on it.
        info.files.sort_by_key(|file| file.0);
        info.lines.sort_by_key(|line| line.0);
        Ok(info)
    }

    /// File and line of an address, as far as they are known. O(log n).
    pub(crate) fn place(&self, address: u32) -> Option<(&str, u32)> {
        let file = last_until(&self.files, address)?;
        let line = last_until(&self.lines, address)?;
        Some((file, *line))
    }
}

/// What stands at the last address that is not behind this one.
fn last_until<T>(table: &[(u32, T)], address: u32) -> Option<&T> {
    let behind = table.partition_point(|(start, _)| *start <= address);
    Some(&table.get(behind.checked_sub(1)?)?.1)
}
