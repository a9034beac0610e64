//! See `mainspring_fuzz::session::peer`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| mainspring_fuzz::session::peer(data));
