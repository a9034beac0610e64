//! What the program asks of the operating system and no safe function offers.
//!
//! The only `unsafe` of the program lives here, one operation per block, each with its argument. Where the platform
//! lacks a thing, the function does nothing or says so.
#![allow(unsafe_code)]

use std::io;
use std::mem::MaybeUninit;

/// Asks for huge pages behind the whole pages of `memory`. Advice: failure changes nothing but the speed.
pub(crate) fn advise_huge_pages<T>(memory: &mut [MaybeUninit<T>]) {
    #[cfg(target_os = "linux")]
    {
        let page = rustix::param::page_size();
        let start = memory.as_mut_ptr().cast::<u8>();
        let head = start.align_offset(page);
        let whole = size_of_val(memory).saturating_sub(head) / page * page;
        if whole > 0 {
            let first = start.wrapping_add(head);
            // SAFETY: the range lies within `memory`, which is borrowed mutably. The advice only chooses the size of the
            // pages behind it: no byte is read, written or unmapped for the program.
            let _ = unsafe { libc::madvise(first.cast(), whole, libc::MADV_HUGEPAGE) };
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = memory;
}

/// No huge pages for this process until the guard is dropped, whatever it asks for. What it has stays as it is.
#[derive(Debug)]
pub(crate) struct NoHugePages(());

impl NoHugePages {
    /// An error where the system has no such switch.
    pub(crate) fn begin() -> io::Result<Self> {
        disable_huge_pages(true).map(|()| Self(()))
    }
}

impl Drop for NoHugePages {
    fn drop(&mut self) {
        // It could be switched a moment ago; if not back, later measurements say `huge_pages: false`, which is true.
        let _ = disable_huge_pages(false);
    }
}

fn disable_huge_pages(disable: bool) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    {
        let (switch, unused) = (libc::c_ulong::from(disable), 0 as libc::c_ulong);
        // SAFETY: this request takes plain numbers and sets a flag of the process; it touches no memory of it.
        match unsafe { libc::prctl(libc::PR_SET_THP_DISABLE, switch, unused, unused, unused) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }
    #[cfg(not(target_os = "linux"))]
    Err(io::ErrorKind::Unsupported.into())
}

/// Gives the allocator's free memory back to the system, where the allocator can.
pub(crate) fn trim_heap() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        // SAFETY: takes a number, locks the allocator itself, and touches only memory that nobody owns.
        let _ = unsafe { libc::malloc_trim(0) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advice_leaves_memory_as_it_was() {
        let mut numbers: Vec<u32> = Vec::with_capacity(1 << 20);
        numbers.push(7);
        advise_huge_pages(numbers.spare_capacity_mut());
        advise_huge_pages::<u8>(&mut []);
        trim_heap();
        assert_eq!(numbers, [7]);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn huge_pages_can_be_forbidden_for_a_while() {
        // Kernels without transparent huge pages still know the switch.
        drop(NoHugePages::begin().expect("every Linux since 3.15 has the switch"));
    }
}
