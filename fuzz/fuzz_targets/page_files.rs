//! cargo-fuzz's way into `ensile_fuzz::page_files`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| ensile_fuzz::page_files(data));
