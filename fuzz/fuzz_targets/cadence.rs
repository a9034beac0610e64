//! See `mainspring_fuzz::cadence`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| mainspring_fuzz::cadence(data));
