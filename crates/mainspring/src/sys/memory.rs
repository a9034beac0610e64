//! Hints about memory, which change how fast the program is and never what it does, and pages of it.

use core::ptr::NonNull;

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

/// Memory of its own for as long as the program wants it: all zeros, and none of it touched yet where the system gives
/// memory page by page.
///
/// An allocator would do for the zeros. But one that reuses memory writes them itself, and so touches megabytes that
/// may never be used.
pub(crate) struct Pages {
    start: NonNull<u8>,
    bytes: usize,
}

impl Pages {
    /// `bytes` bytes that start at a multiple of `align`; `None` if the system has no more.
    ///
    /// `bytes` is not zero and a multiple of `align`, which is a power of two.
    pub(crate) fn zeroed(bytes: usize, align: usize) -> Option<Self> {
        debug_assert!(bytes != 0 && align.is_power_of_two() && bytes.is_multiple_of(align));
        pages::map(bytes, align).map(|start| Self { start, bytes })
    }

    /// The first byte.
    pub(crate) fn start(&self) -> NonNull<u8> {
        self.start
    }
}

// SAFETY: the pages belong to the value alone, wherever it is.
unsafe impl Send for Pages {}
// SAFETY: a shared `Pages` gives nothing but an address.
unsafe impl Sync for Pages {}

/// Pages from the system itself.
#[cfg(all(unix, feature = "std", not(miri)))]
mod pages {
    use super::{NonNull, Pages};
    use core::ptr;

    pub(super) fn map(bytes: usize, align: usize) -> Option<NonNull<u8>> {
        // Mapped longer by the alignment; what lies before and behind is given back.
        let mapped = bytes.checked_add(align)?;
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a new anonymous mapping, at an address of the system's choice, touches nothing that exists.
        let address = unsafe { libc::mmap(ptr::null_mut(), mapped, access, kind, -1, 0) };
        if address == libc::MAP_FAILED {
            return None;
        }
        let address: *mut u8 = address.cast();
        let before = address.align_offset(align);
        let start = address.wrapping_add(before);
        unmap(address, before);
        unmap(start.wrapping_add(bytes), mapped - before - bytes);
        NonNull::new(start)
    }

    /// Gives back a part of a mapping that nothing uses.
    fn unmap(start: *mut u8, bytes: usize) {
        if bytes > 0 {
            // SAFETY: called for the unused ends of a mapping made here, and for one that its owner drops.
            let _ = unsafe { libc::munmap(start.cast(), bytes) };
        }
    }

    impl Drop for Pages {
        fn drop(&mut self) {
            unmap(self.start.as_ptr(), self.bytes);
        }
    }
}

/// Pages from the allocator, aligned to what it can do.
#[cfg(not(all(unix, feature = "std", not(miri))))]
mod pages {
    use super::{NonNull, Pages};
    use alloc::alloc::{alloc_zeroed, dealloc};
    use core::alloc::Layout;

    /// Enough for every type the crate stores in pages, and for a cache line.
    const ALIGN: usize = 4096;

    /// A larger alignment is for huge pages, which there are none of here.
    pub(super) fn map(bytes: usize, _align: usize) -> Option<NonNull<u8>> {
        let layout = Layout::from_size_align(bytes, ALIGN).ok()?;
        // SAFETY: the size is not zero.
        NonNull::new(unsafe { alloc_zeroed(layout) })
    }

    impl Drop for Pages {
        fn drop(&mut self) {
            if let Ok(layout) = Layout::from_size_align(self.bytes, ALIGN) {
                // SAFETY: allocated with this layout, by `map`.
                unsafe { dealloc(self.start.as_ptr(), layout) };
            }
        }
    }
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
