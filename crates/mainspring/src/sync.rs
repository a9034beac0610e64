//! The primitives that threads meet at: the standard library's, or loom's where interleavings are explored.
//!
//! `--cfg mainspring_loom` switches; the name is ours, so that a user's own loom build does not.

#[cfg(not(mainspring_loom))]
pub(crate) use std::sync::atomic;
#[cfg(not(mainspring_loom))]
pub(crate) use std::sync::{Arc, Condvar, Mutex, MutexGuard};

#[cfg(mainspring_loom)]
pub(crate) use loom::sync::atomic;
#[cfg(mainspring_loom)]
pub(crate) use loom::sync::{Arc, Condvar, Mutex, MutexGuard};

/// Locks, whatever became of those who held it before: nothing here is left half-done while user code can panic.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
