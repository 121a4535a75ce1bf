//! cargo-fuzz's way into `ensile_fuzz::log_blocks`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| ensile_fuzz::log_blocks(data));
