//! See `mainspring_fuzz::time`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| mainspring_fuzz::time(data));
