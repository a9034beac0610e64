//! See `mainspring_fuzz::wheel`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| mainspring_fuzz::wheel(data));
