#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| sparring_fuzz_targets::run("auth", bytes));
