//! cargo-fuzz's way into `ensile_fuzz::sandbox`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| ensile_fuzz::sandbox(data));
