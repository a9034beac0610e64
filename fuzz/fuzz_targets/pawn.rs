//! See `mainspring_fuzz::pawn::pawn`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| mainspring_fuzz::pawn::pawn(data));
