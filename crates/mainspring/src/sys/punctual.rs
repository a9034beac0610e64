//! How late the system may wake a thread.

/// Asks the system to wake this thread as soon after the end of a sleep as it can, instead of up to 50 us later so that
/// wake-ups can be shared. Whoever has tolerant timers shares wake-ups by itself. Does nothing outside Linux; a failure
/// changes nothing but lateness, and is ignored.
pub(crate) fn be_punctual() {
    #[cfg(target_os = "linux")]
    {
        let nanoseconds: libc::c_ulong = 1;
        // SAFETY: this request sets one number of the calling thread, and takes it by value.
        let _ = unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, nanoseconds) };
    }
}
