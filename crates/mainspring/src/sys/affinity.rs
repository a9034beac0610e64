//! Which processors a thread runs on. Known on Linux; elsewhere nobody can say, and nobody can choose.

/// The processors this thread may run on, in rising order. `None` where that cannot be told.
pub(crate) fn allowed_cpus() -> Option<std::vec::Vec<usize>> {
    #[cfg(target_os = "linux")]
    {
        let mut set = empty_set();
        // SAFETY: thread 0 is the calling one, and `set` is a valid place for a mask of the size that is given.
        let status = unsafe { libc::sched_getaffinity(0, SET_BYTES, &raw mut set) };
        let cpus = 0..SET_BYTES * 8;
        // SAFETY: every index is below the number of bits in the mask.
        let allowed = cpus.filter(|&cpu| unsafe { libc::CPU_ISSET(cpu, &set) });
        (status == 0).then(|| allowed.collect())
    }
    #[cfg(not(target_os = "linux"))]
    None
}

/// Moves this thread to processor `cpu` and keeps it there; returns once it runs there. False where that is not possible.
pub(crate) fn pin_to(cpu: usize) -> bool {
    #[cfg(target_os = "linux")]
    {
        if cpu >= SET_BYTES * 8 {
            return false;
        }
        let mut set = empty_set();
        // SAFETY: `cpu` is below the number of bits in the mask.
        unsafe { libc::CPU_SET(cpu, &mut set) };
        // SAFETY: thread 0 is the calling one, and `set` is a valid mask of the size that is given.
        unsafe { libc::sched_setaffinity(0, SET_BYTES, &raw const set) == 0 }
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = cpu;
        false
    }
}

#[cfg(target_os = "linux")]
const SET_BYTES: usize = size_of::<libc::cpu_set_t>();

#[cfg(target_os = "linux")]
fn empty_set() -> libc::cpu_set_t {
    // SAFETY: the mask is an array of plain integers, for which all zeros is a value: the empty set.
    unsafe { core::mem::zeroed() }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_thread_goes_where_it_is_sent_and_nowhere_else() {
        std::thread::spawn(|| {
            let cpus = allowed_cpus().expect("Linux tells");
            for cpu in cpus {
                assert!(pin_to(cpu));
                assert_eq!(allowed_cpus(), Some(std::vec![cpu]));
            }
            assert!(!pin_to(usize::MAX));
        })
        .join()
        .expect("no assertion failed");
    }
}
