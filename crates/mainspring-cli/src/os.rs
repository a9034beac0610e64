//! What the program asks of the operating system and the processor directly: the readings that are measured.
//!
//! The only file of the program with unsafe code; each block is one call.

#![allow(unsafe_code, reason = "the calls that are measured have no safe form")]

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
        let bytes: Vec<u8> = [leaf.ebx, leaf.ecx, leaf.edx].iter().flat_map(|word| word.to_le_bytes()).collect();
        let name = String::from_utf8_lossy(&bytes);
        let name = name.trim_matches(|c: char| c == '\0' || c.is_whitespace());
        Some(if name.is_empty() { "a hypervisor".to_owned() } else { name.to_owned() })
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

fn nanos(seconds: libc::time_t, nanos: libc::c_long) -> u64 {
    let seconds = u64::try_from(seconds).unwrap_or(0);
    seconds.saturating_mul(1_000_000_000).saturating_add(u64::try_from(nanos).unwrap_or(0))
}

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
        let (before, between, after) = (clock_gettime(libc::CLOCK_REALTIME), gettimeofday(), clock_gettime(libc::CLOCK_REALTIME));
        assert!(before / 1000 <= between / 1000 && between <= after);
        // `time` may lag by the kernel's own tick.
        assert!(time().abs_diff(after / 1_000_000_000) <= 1);
    }

    #[test]
    fn getpid_is_this_process() {
        assert_eq!(getpid(), u64::from(std::process::id()));
    }
}
