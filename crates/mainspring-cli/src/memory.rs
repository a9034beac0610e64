//! What the process holds of the machine's memory, as the system counts it.

use std::fs;
use std::mem::MaybeUninit;
use std::ops::AddAssign;

use anyhow::{Result, ensure};

/// What the process holds at one moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Usage {
    resident: u64,
    huge: u64,
}

/// How much more (or less) it holds than at an earlier moment, in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Growth {
    pub(crate) resident: i64,
    /// In huge pages.
    pub(crate) huge: i64,
}

impl Usage {
    pub(crate) fn now() -> Self {
        Self { resident: resident_bytes(), huge: huge_page_bytes() }
    }

    /// What has been gained since.
    pub(crate) fn growth(self) -> Growth {
        let now = Self::now();
        Growth {
            resident: now.resident.wrapping_sub(self.resident).cast_signed(),
            huge: now.huge.wrapping_sub(self.huge).cast_signed(),
        }
    }
}

impl AddAssign for Growth {
    fn add_assign(&mut self, more: Self) {
        self.resident += more.resident;
        self.huge += more.huge;
    }
}

/// Bytes resident; 0 where the system does not tell.
///
/// Cheap enough to be asked between two ticks: one small file, no page walk.
pub(crate) fn resident_bytes() -> u64 {
    fs::read_to_string("/proc/self/statm")
        .ok()
        .and_then(|statm| resident_pages(&statm))
        .map_or(0, |pages| pages * rustix::param::page_size() as u64)
}

/// Bytes of anonymous memory that huge pages back at present; 0 where the system does not tell.
///
/// The kernel walks the page tables for it: not for the inside of a measurement.
pub(crate) fn huge_page_bytes() -> u64 {
    fs::read_to_string("/proc/self/smaps_rollup")
        .ok()
        .and_then(|rollup| anon_huge_kib(&rollup))
        .map_or(0, |kib| kib * 1024)
}

/// An error if the machine says that it cannot give `bytes` without swapping.
pub(crate) fn require(bytes: u64) -> Result<()> {
    let available = available_bytes().unwrap_or(u64::MAX);
    ensure!(
        bytes <= available,
        "this needs about {} MiB of memory and {} MiB are available: choose fewer timers or fewer engines",
        bytes >> 20,
        available >> 20
    );
    Ok(())
}

fn available_bytes() -> Option<u64> {
    let meminfo = fs::read_to_string("/proc/meminfo").ok()?;
    kib_of(&meminfo, "MemAvailable:").map(|kib| kib * 1024)
}

/// A vector with room for `capacity` elements in memory for which huge pages were asked.
///
/// All large arrays of a measurement come from here, the rivals' as well as the caller's: otherwise the size of pages
/// would be compared, not the engines.
pub(crate) fn roomy_vec<T>(capacity: usize) -> Vec<T> {
    let mut vec = Vec::with_capacity(capacity);
    crate::os::advise_huge_pages(vec.spare_capacity_mut());
    vec
}

/// A [`roomy_vec`] whose memory is resident already, so that filling it is no growth.
pub(crate) fn touched_vec<T: Copy>(capacity: usize) -> Vec<T> {
    let mut vec = roomy_vec(capacity);
    vec.spare_capacity_mut().fill(MaybeUninit::zeroed());
    vec
}

/// Gives freed memory back to the system, so that the next measurement's growth is its own.
pub(crate) fn release_freed() {
    crate::os::trim_heap();
}

fn resident_pages(statm: &str) -> Option<u64> {
    statm.split_whitespace().nth(1)?.parse().ok()
}

fn anon_huge_kib(rollup: &str) -> Option<u64> {
    kib_of(rollup, "AnonHugePages:")
}

fn kib_of(table: &str, key: &str) -> Option<u64> {
    let rest = table.lines().find_map(|line| line.strip_prefix(key))?;
    rest.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_systems_tables_are_understood() {
        assert_eq!(resident_pages("5120 731 512 1 0 90 0\n"), Some(731));
        assert_eq!(resident_pages(""), None);
        let rollup = "00400000-7ffc [rollup]\nRss:   904 kB\nAnonHugePages:      2048 kB\n";
        assert_eq!(anon_huge_kib(rollup), Some(2048));
        assert_eq!(anon_huge_kib("Rss: 3 kB\n"), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn memory_that_is_written_to_is_resident() {
        let before = resident_bytes();
        let mut block: Vec<u8> = roomy_vec(64 << 20);
        block.resize(64 << 20, 1);
        let grown = resident_bytes().saturating_sub(before);
        // Other tests run beside this one and may free some; they hold nothing near this size.
        assert!(grown > 32 << 20, "grew by {grown}");
        assert_eq!(block[block.len() / 2], 1);
    }
}
