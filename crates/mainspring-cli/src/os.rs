//! What the program asks of the operating system and the processor and no safe function offers: the readings that are
//! measured, and advice about memory.
//!
//! The only `unsafe` of the program lives here, one operation per block, each with its argument. Where the platform
//! lacks a thing, the function does nothing or says so.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::io;
use std::mem::MaybeUninit;

/// The system's allocator, and an account of what each thread asks of it.
#[derive(Debug)]
pub(crate) struct CountingAllocator;

thread_local! {
    /// Bytes that this thread has asked for, and bytes that it has given back.
    static ACCOUNT: Cell<(u64, u64)> = const { Cell::new((0, 0)) };
}

/// Bytes that the calling thread has allocated since its start, and bytes that it has freed.
pub(crate) fn allocated_and_freed() -> (u64, u64) {
    ACCOUNT.get()
}

fn note(allocated: usize, freed: usize) {
    // A thread that is ending has no account any more, and needs none.
    let _ = ACCOUNT.try_with(|account| {
        let (all, back) = account.get();
        account.set((all + allocated as u64, back + freed as u64));
    });
}

// SAFETY: every call is passed on to the system's allocator as it came; the account neither allocates nor unwinds.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note(layout.size(), 0);
        // SAFETY: the caller's promises are those that are needed.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        note(layout.size(), 0);
        // SAFETY: the caller's promises are those that are needed.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        note(size, layout.size());
        // SAFETY: the caller's promises are those that are needed.
        unsafe { System.realloc(block, layout, size) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        note(0, layout.size());
        // SAFETY: the caller's promises are those that are needed.
        unsafe { System.dealloc(block, layout) }
    }
}

/// The clock of the processor time that the whole process has used.
pub(crate) const PROCESS_CPUTIME: libc::clockid_t = libc::CLOCK_PROCESS_CPUTIME_ID;

/// Reads the clock `id` as a C program would, in nanoseconds since its origin. A clock that the kernel does not know
/// reads 0; [`has_clock`] tells.
#[inline]
pub(crate) fn clock_gettime(id: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a timespec that outlives the call, the only memory the call writes.
    unsafe { libc::clock_gettime(id, &raw mut time) };
    nanos(time.tv_sec, time.tv_nsec)
}

pub(crate) fn has_clock(id: libc::clockid_t) -> bool {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a timespec that outlives the call, the only memory the call writes.
    unsafe { libc::clock_gettime(id, &raw mut time) == 0 }
}

/// Seconds of wall time.
#[inline]
pub(crate) fn time() -> u64 {
    // SAFETY: a null pointer is allowed: the result is then only returned.
    let seconds = unsafe { libc::time(std::ptr::null_mut()) };
    u64::try_from(seconds).unwrap_or(0)
}

/// Wall time in nanoseconds, told in microseconds.
#[inline]
pub(crate) fn gettimeofday() -> u64 {
    let mut time = libc::timeval { tv_sec: 0, tv_usec: 0 };
    // SAFETY: `time` is a timeval that outlives the call, the only memory written; no time zone is asked for.
    unsafe { libc::gettimeofday(&raw mut time, std::ptr::null_mut()) };
    nanos(time.tv_sec, time.tv_usec * 1000)
}

/// The cheapest system call there is, made for real: no library remembers its answer.
#[inline]
pub(crate) fn getpid() -> u64 {
    // SAFETY: getpid takes no arguments and touches no memory.
    let pid = unsafe { libc::syscall(libc::SYS_getpid) };
    u64::try_from(pid).unwrap_or(0)
}

/// The clocks of `clock_gettime` that a server might read, by name.
pub(crate) const CLOCKS: &[(&str, libc::clockid_t)] = &[
    ("MONOTONIC", libc::CLOCK_MONOTONIC),
    ("REALTIME", libc::CLOCK_REALTIME),
    ("MONOTONIC_RAW", libc::CLOCK_MONOTONIC_RAW),
    ("BOOTTIME", libc::CLOCK_BOOTTIME),
    ("TAI", libc::CLOCK_TAI),
    ("MONOTONIC_COARSE", libc::CLOCK_MONOTONIC_COARSE),
    ("REALTIME_COARSE", libc::CLOCK_REALTIME_COARSE),
    ("PROCESS_CPUTIME_ID", libc::CLOCK_PROCESS_CPUTIME_ID),
    ("THREAD_CPUTIME_ID", libc::CLOCK_THREAD_CPUTIME_ID),
];

pub(crate) use counter::{hypervisor, rdtsc, rdtscp};

/// The processor's own counter.
#[cfg(target_arch = "x86_64")]
mod counter {
    use std::arch::x86_64::{__cpuid, __rdtscp, _rdtsc};

    /// Reads the time stamp counter; `None` where there is none.
    #[inline]
    pub(crate) fn rdtsc() -> Option<u64> {
        // SAFETY: every x86-64 processor has the instruction; Linux leaves it enabled for user code.
        Some(unsafe { _rdtsc() })
    }

    /// The same, read after everything before it is done: after the load that was waited for.
    #[inline]
    pub(crate) fn rdtscp() -> Option<u64> {
        let mut processor = 0;
        // SAFETY: every x86-64 processor that Linux runs multi-core on has the instruction; it writes `processor` only.
        Some(unsafe { __rdtscp(&raw mut processor) })
    }

    /// The hypervisor's signature (CPUID 1, ECX bit 31; leaf 4000_0000h), if we are under one.
    pub(crate) fn hypervisor() -> Option<String> {
        if __cpuid(1).ecx & (1 << 31) == 0 {
            return None;
        }
        let leaf = __cpuid(0x4000_0000);
        let bytes: Vec<u8> =
            [leaf.ebx, leaf.ecx, leaf.edx].iter().flat_map(|word| word.to_le_bytes()).collect();
        let name = String::from_utf8_lossy(&bytes);
        Some(match name.trim_matches(|c: char| c == '\0' || c.is_whitespace()) {
            "" => "a hypervisor".to_owned(),
            "KVMKVMKVM" => "KVM".to_owned(),
            "Microsoft Hv" => "Hyper-V".to_owned(),
            "VMwareVMware" => "VMware".to_owned(),
            "XenVMMXenVMM" => "Xen".to_owned(),
            other => other.to_owned(),
        })
    }
}

#[cfg(not(target_arch = "x86_64"))]
mod counter {
    pub(crate) fn rdtsc() -> Option<u64> {
        None
    }

    pub(crate) fn rdtscp() -> Option<u64> {
        None
    }

    pub(crate) fn hypervisor() -> Option<String> {
        None
    }
}

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

/// Gives the allocator's free memory back to the system, where the allocator can, and has it keep large blocks apart.
///
/// The GNU allocator would otherwise serve large blocks from its heap once some were freed, where the advice on huge pages
/// that an earlier owner gave still holds: a later one is then charged whole huge pages it never asked for.
pub(crate) fn trim_heap() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        // SAFETY: takes two numbers and sets a threshold of the allocator under the allocator's own lock.
        let _ = unsafe { libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE_BLOCK_BYTES) };
        // SAFETY: takes a number, locks the allocator itself, and touches only memory that nobody owns.
        let _ = unsafe { libc::malloc_trim(0) };
    }
}

fn nanos(seconds: libc::time_t, nanos: libc::c_long) -> u64 {
    let seconds = u64::try_from(seconds).unwrap_or(0);
    seconds.saturating_mul(1_000_000_000).saturating_add(u64::try_from(nanos).unwrap_or(0))
}

/// Blocks from this size on are mapped, and unmapped, by themselves: the GNU allocator's own first threshold.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const LARGE_BLOCK_BYTES: libc::c_int = 128 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clocks_of_the_list_tell_the_time() {
        assert!(has_clock(libc::CLOCK_MONOTONIC));
        assert!(!has_clock(12_345));
        for (name, id) in CLOCKS {
            assert!(!has_clock(*id) || clock_gettime(*id) > 0, "{name}");
        }
    }

    #[test]
    fn wall_clocks_agree_to_the_second() {
        let (before, between, after) = (
            clock_gettime(libc::CLOCK_REALTIME),
            gettimeofday(),
            clock_gettime(libc::CLOCK_REALTIME),
        );
        assert!(before / 1000 <= between / 1000 && between <= after);
        // `time` may lag by the kernel's own tick.
        assert!(time().abs_diff(after / 1_000_000_000) <= 1);
    }

    #[test]
    fn getpid_is_this_process() {
        assert_eq!(getpid(), u64::from(std::process::id()));
    }

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
