//! Runs every part of the contract on the memory twin, on Redis, and on a Redis that refuses keys of two hash slots.

use futures_util::future::LocalBoxFuture;

/// Tests for each backend of the functions named.
macro_rules! contract {
    ($($module:ident: $($name:ident)+;)+) => {
        $(mod $module {
            $(mod $name {
                use crate::{$module::$name, bed::Bed};

                #[tokio::test]
                async fn in_memory() {
                    $name(&Bed::memory()).await;
                }

                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn on_redis() {
                    if let Some(bed) = Bed::redis().await {
                        $name(&bed).await;
                    }
                }
            })+
        })+

        /// A node that owns all slots, spoken to as one server: it refuses a script whose keys lie in two.
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn every_script_keeps_to_one_hash_slot() {
            if let Some(server) = crate::bed::Server::start_cluster_node() {
                all(server.url(), false, server).await;
            }
        }

        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn on_a_cluster() {
            if let Some(server) = crate::bed::Server::start_cluster_node() {
                all(server.tcp_url(), true, server).await;
            }
        }

        async fn all(url: String, cluster: bool, server: crate::bed::Server) {
            let server = std::sync::Arc::new(server);
            $($({
                let bed = crate::bed::Bed::at(&url, cluster, &server).await;
                // On the heap: all of them in one future would be a deep type.
                let test: LocalBoxFuture<'_, ()> = Box::pin(crate::$module::$name(&bed));
                test.await;
                assert_eq!(bed.state.status().failures, 0, stringify!($name));
            })+)+
        }
    };
}

contract! {
    admission:
        slots_are_never_more_than_the_limit
        a_second_take_changes_nothing
        a_refused_take_consumes_nothing
        leases_end_by_themselves_unless_renewed
        what_was_released_stays_released
        what_was_given_back_may_ask_again
        renewals_put_lost_leases_back_even_over_the_limit
        buckets_give_their_burst_and_come_back
        tokens_are_corrected_at_the_end
        a_refund_gives_all_back
        newcomers_step_back_for_waiters
        buckets_are_looked_at_without_taking
        each_attempt_holds_its_own_slot
        limits_per_second_and_per_minute_stand_side_by_side
        many_at_once_get_the_limit_and_no_more
        a_batch_of_many_places_is_released_at_once;
    purses:
        balance_for_ten_serves_ten
        a_hold_asks_every_purse
        unknown_purses_are_named_until_loaded
        an_older_value_never_replaces_a_newer
        not_strict_takes_what_is_left
        strict_takes_all_or_its_minimum
        a_settlement_ends_the_hold_and_sets_the_value
        what_was_voided_stays_void
        touches_keep_and_remake_holds
        silent_holds_are_found_with_their_draft
        huge_balances_are_exact
        debts_refuse
        many_at_once_never_hold_more_than_there_is;
    cache:
        entries_live_for_their_time
        an_entry_older_than_a_floor_is_refused_both_ways;
    health:
        what_is_observed_is_seen
        cooldowns_are_seen_and_lifted;
    hints:
        a_hint_reaches_all_listeners;
}
