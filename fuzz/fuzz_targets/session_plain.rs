//! See `mainspring_fuzz::session::plain_peer`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| mainspring_fuzz::session::plain_peer(data));
