//! Hints about memory. They change how fast the program is, never what it does.

/// Asks the processor to bring `target` into its caches, without waiting for it.
///
/// Does nothing where no such instruction is at hand.
#[inline(always)]
pub(crate) fn prefetch<T>(target: &T) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let address = core::ptr::from_ref(target).cast::<i8>();
        // SAFETY: a prefetch reads nothing the program can see and never faults, whatever the address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(address) };
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = target;
}

/// Asks the system to back the whole pages within `[start, start + bytes)` by huge ones.
///
/// A failure is ignored, on purpose: it is advice. The kernel may not know it (built without transparent huge pages),
/// forbid it, or be short of memory; in every case the pages keep their contents and work as before, only slower.
/// There is nothing a caller could do about it but go on. Does nothing outside Linux and without the feature `std`.
pub(crate) fn advise_huge_pages(start: *mut u8, bytes: usize) {
    #[cfg(all(target_os = "linux", feature = "std", not(miri)))]
    {
        // The call wants an address at the start of a page. 4 KiB divides the page size of every Linux, and where pages
        // are larger an address that is no page start is refused without effect.
        const PAGE: usize = 4096;
        let head = start.align_offset(PAGE);
        let Some(whole) = bytes.checked_sub(head).filter(|&rest| rest >= PAGE) else {
            return;
        };
        let first = start.wrapping_add(head);
        // SAFETY: this advice only chooses page sizes. It neither reads nor writes nor unmaps the range for the program,
        // and the kernel refuses ranges that are not mapped instead of touching them.
        let _ = unsafe { libc::madvise(first.cast(), whole & !(PAGE - 1), libc::MADV_HUGEPAGE) };
    }
    #[cfg(not(all(target_os = "linux", feature = "std", not(miri))))]
    let _ = (start, bytes);
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    #[test]
    fn hints_leave_memory_as_it_was() {
        let mut bytes = vec![7_u8; 3 << 20];
        prefetch(&bytes[1 << 20]);
        for (skip, length) in [(0, 3 << 20), (1, 4096), (5, 4095), (0, 0), (4095, 1)] {
            advise_huge_pages(bytes.as_mut_ptr().wrapping_add(skip), length);
        }
        assert!(bytes.iter().all(|&byte| byte == 7));
    }
}
