//! The named scenarios: what a whole Switchboard must do, run on every topology that each of them names.
//!
//! A scenario is a function that takes a [`Builder`](switchboard_integration_tests::stack::Builder); `scenario!` makes a
//! test of it for each topology, so that names read `…::in_process::a_whole_answer_…`.

/// Tests of one module on several topologies: `scenarios! { [in_process, split] name_of_function … }`.
macro_rules! scenarios {
    ([$($topology:ident),+] $tests:tt) => {
        $(scenarios!(@of $topology $tests);)+
    };
    (@of $topology:ident { $($test:ident),+ $(,)? }) => {
        mod $topology {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
                async fn $test() {
                    let builder = switchboard_integration_tests::stack::Stack::$topology();
                    Box::pin(super::$test(builder)).await;
                }
            )+
        }
    };
}

mod s01_answers;
mod s02_slots;
mod s03_balance;
mod s04_leaving;
mod s05_failover;
mod s06_forwarder_killed;
mod s07_killed_and_back;
mod s08_redis;
mod s09_changes;
mod s10_stalled;
mod s11_catalogue;
mod s12_rates;
mod s13_broken_streams;
mod s14_unread;
mod s15_ways;
mod s16_hops;
mod s17_endpoints;
mod s18_secrets;
mod s18_translation;
mod s19_free;
mod tracing;
