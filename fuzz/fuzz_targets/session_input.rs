//! See `mainspring_fuzz::session::input`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| mainspring_fuzz::session::input(data));
