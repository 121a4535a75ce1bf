//! cargo-fuzz's way into `ensile_fuzz::index`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| ensile_fuzz::index(data));
