#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz_entries::run("http1", bytes));
