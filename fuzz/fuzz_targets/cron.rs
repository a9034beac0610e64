//! See `mainspring_fuzz::cron`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| mainspring_fuzz::cron::cron(data));
