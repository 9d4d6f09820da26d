//! The list of cases, by module, and the tests and the table that are generated from it.

use crate::Adapter;
use crate::servers::{
    admission, bad_input, borrowed, cancelled, contention, costs, crowd, extension, fencing, forgotten,
    grants, healthy, interop, keepalive, limits, losses, majority_down, minority_down, outages, prefixes,
    processes, programs, readers, reconnect, runtimes, stale, waiting, work,
};
use crate::{connect, connection, counters, hostile, native, node, preflight, tls, watch};

/// Generates a `#[test]` for each case, in a module for each topic.
///
/// The argument is the name of a type in scope that implements [`Adapter`].
#[macro_export]
macro_rules! adapter_tests {
    ($adapter:ident) => {
        /// The contract of a backend.
        mod conformance {
            use super::$adapter;

            $crate::redlock_testkit::conformance!($crate::server::<$adapter>(), without: [admission]);
        }
        /// The contract of a backend, with scripts even if the server has commands that replace them.
        mod conformance_by_scripts {
            use super::$adapter;

            $crate::redlock_testkit::conformance!($crate::server_by_scripts::<$adapter>(), without: [admission]);
        }
        $crate::__cases! { $crate::__tests, $adapter }
    };
}

/// Passes the cases to another macro. This is the only list of them; the compiler reports a case that it lacks as dead
/// code.
#[doc(hidden)]
#[macro_export]
macro_rules! __cases {
    ($then:path, $($with:tt)*) => {
        $then! { [
            connect {
                an_attempt_that_is_dropped_anywhere_leaves_nothing
                nor_does_one_that_falls_back_to_resp2
                an_attempt_at_a_server_that_never_answers_leaves_nothing
            }
            connection {
                set_if_absent_and_its_answers
                a_pipeline_tells_each_reply_also_when_one_is_an_error
                a_dropped_connection_leaves_neither_task_nor_socket
                a_lost_connection_fails_what_is_in_flight_and_is_over
                a_command_whose_reply_is_lost_is_never_sent_again
                a_dropped_call_does_not_disturb_those_after_it
                speaks_resp3_and_falls_back_to_resp2_where_hello_is_denied
                connects_over_ipv6
            }
            counters {
                a_counter_is_a_number_in_a_key_of_its_own
                a_plain_lock_counts_nothing
                the_prefix_and_the_retention_can_be_chosen
                a_confirmation_counts_where_no_counter_is_greater
                forgotten_scripts_of_fenced_locks_cost_no_error
                what_is_no_counter_is_an_error_that_names_the_resource
                a_counter_far_ahead_of_the_clock_is_an_error
                a_token_far_ahead_of_the_clock_is_an_error
                how_far_ahead_a_counter_may_be_follows_the_retention
                without_memory_what_exists_is_still_extended
                a_read_only_replica_counts_nothing
                a_user_with_few_rights_can_take_fenced_locks
                a_counter_that_may_only_be_read_stops_the_request_before_any_write
            }
            hostile {
                an_endless_reply_before_the_login_ends_the_connection
                an_endless_reply_on_an_idle_connection_ends_it
                a_reply_that_is_nested_without_end_ends_the_connection
                #[ignore = "run by the test above, in a process of its own"]
                survives_replies_that_are_nested_without_end
                large_replies_are_read
            }
            native {
                one_resource_needs_no_script_where_the_server_has_the_commands
                the_option_selects_scripts
                a_server_that_forbids_scripts_locks_one_resource
                a_key_of_another_type_is_left_as_it_is
                redis_8_4_locks_without_scripts
                a_rejected_command_is_replaced_by_the_script_for_good
                a_reader_is_released_by_the_script_and_a_writer_by_the_command
            }
            node {
                one_resource_is_locked_extended_and_released
                several_resources_are_locked_all_or_none
                names_and_tokens_are_bytes
                a_key_without_expiry_stays_without
                a_key_of_another_type_is_an_error_that_names_it
                an_inspection_reads_what_is_there_and_writes_nothing
                a_prefix_makes_the_key
                forgotten_scripts_cost_no_error
                a_killed_server_is_down_at_once_and_votes_again_without_traffic
                a_server_that_starts_later_joins
                a_hung_server_is_given_up_after_some_requests_and_comes_back
                what_is_in_flight_when_the_server_dies_has_an_unknown_outcome
                requests_given_up_at_once_do_not_count
                a_password_that_is_corrected_later_heals
                a_password_that_is_set_later_is_the_reason_of_the_failure
                a_rotated_password_is_used_by_the_next_connection
                a_server_without_resp3_serves_and_heals
                a_user_with_few_rights_can_lock
                out_of_memory_is_a_rejection
                #[cfg(unix)]
                a_unix_socket_serves
                identity_is_the_servers_run_id_and_shared_by_its_databases
                a_dropped_node_leaves_neither_task_nor_connection
                a_node_outlives_its_runtime
                a_runtime_that_is_not_driven_any_more_is_left
                nothing_secret_is_printed
                a_server_that_repeats_what_it_gets_reveals_neither_password_nor_token
                a_user_who_may_not_release_does_not_lock
                a_read_only_replica_is_a_rejection
                a_request_whose_reply_is_lost_is_not_repeated
                the_first_command_of_a_connection_is_not_tracked
            }
            preflight {
                findings_name_the_server
                servers_without_faults_have_no_errors
                an_unreachable_server_is_a_finding
                rights_are_checked_under_the_prefix_and_for_the_locks_in_use
            }
            watch {
                whatever_happens_to_a_key_completes_its_watch
                an_expiry_is_notified_or_seen_by_the_next_watch
                what_this_very_connection_does_completes_a_watch_too
                a_lost_connection_completes_its_watches_and_the_next_one_watches
                a_hung_server_that_is_given_up_completes_its_watches
                thousands_of_keys_are_watched_over_one_connection_under_load
                a_table_that_overflows_completes_watches_and_makes_nobody_loop
                a_user_who_may_not_track_locks_all_the_same
                a_server_without_resp3_locks_all_the_same
            }
            admission {
                new_servers_count_after_the_wait_or_when_vouched_for
                a_majority_that_restarts_empty_grants_no_second_lock
                a_majority_that_restarts_from_a_snapshot_grants_no_second_lock
                a_majority_that_loses_the_end_of_its_log_grants_no_second_lock
                a_majority_that_is_flushed_grants_no_second_lock
                a_flush_is_noticed_without_pushes
                a_majority_that_fails_over_and_back_grants_no_second_lock
                one_server_after_the_other_may_restart
                without_rights_to_the_stamp_the_uptime_counts
                a_stamp_of_a_later_version_is_left_alone
                ttls_above_the_longest_send_nothing
                without_longest_ttl_nothing_is_checked
            }
            bad_input {
                bad_input_names_the_value_and_the_limit_and_sends_nothing
                a_bad_ttl_of_an_extension_sends_nothing
                bad_nodes_are_rejected_at_build
                two_addresses_of_one_server_are_one_node
                a_key_of_another_type_is_an_error_that_names_the_key
                secrets_are_shown_nowhere
            }
            borrowed {
                a_majority_that_restarts_empty_grants_no_second_lock
                a_majority_that_is_flushed_grants_no_second_lock
                a_majority_that_fails_over_and_back_grants_no_second_lock
            }
            cancelled {
                an_acquire_dropped_before_its_first_poll_sends_nothing
                an_acquire_dropped_right_after_its_first_poll_is_undone
                after_no_reply
                after_one_reply
                after_two_replies
                after_three_replies
                after_four_replies
                after_all_replies
                an_acquire_dropped_while_it_waits_to_retry_is_undone
                a_release_dropped_at_once_still_releases
            }
            contention {
                holders_in_two_processes_never_overlap
            }
            costs {
                a_cycle_is_two_commands_on_each_server
            }
            crowd {
                requests_dropped_at_once_one_by_one_break_nothing
                requests_dropped_at_once_many_at_a_time_break_nothing
                requests_dropped_at_once_by_many_threads_break_nothing
                requests_dropped_by_a_thread_that_is_kept_busy_break_nothing
                a_stalled_thread_says_nothing_about_the_server
                a_hot_loop_of_attempts_does_not_keep_the_runtime_from_connecting
                contention_breaks_no_connection
                locks_that_are_released_right_after_an_extension_break_no_connection
                many_tasks_on_one_thread_leave_nothing_on_servers_in_trouble
                many_tasks_on_several_threads_leave_nothing_on_servers_in_trouble
                a_burst_of_locks_succeeds_and_costs_no_connection
            }
            extension {
                a_failed_extension_leaves_the_lease_as_it_was
                no_extension_ever_shortens_a_key
                a_quorum_of_all_nodes_counts_and_lost_keys_are_refilled
                a_lock_of_another_is_neither_extended_nor_released
            }
            fencing {
                a_steady_fenced_cycle_is_two_scripts_on_each_server
                counters_that_differ_cost_one_more_script_once
                tokens_grow_when_the_servers_forget_their_scripts
                several_resources_have_one_token
                fenced_and_plain_locks_exclude_each_other
                a_value_that_is_no_counter_is_named_by_the_error
                a_damaged_counter_costs_the_vote_of_its_node_and_nothing_else
                an_evicted_counter_is_written_back_by_the_holder
                a_minority_that_lost_everything_counts_again_unless_others_have_counted_there
                a_majority_that_lost_everything_loses_the_lock
                a_lease_that_was_superseded_is_held_and_never_extended
                a_fenced_lease_is_resumed_with_its_token
                a_counter_can_be_neither_locked_nor_deleted
            }
            forgotten {
                nothing_is_denied_or_left_behind_while_servers_forget
                what_is_lost_between_the_two_calls_is_undone
                a_lock_dropped_at_any_poll_while_scripts_are_unknown_is_undone
                two_servers_hang_between_the_two_calls
                three_servers_hang_between_the_two_calls
                two_servers_hang_between_the_two_calls_of_a_fenced_lock
                three_servers_hang_between_the_two_calls_of_a_fenced_lock
            }
            grants {
                tokens_grow_in_the_order_of_grants
                tokens_grow_while_nodes_are_killed_stopped_and_started_again
            }
            healthy {
                a_lock_is_granted_denied_extended_and_released
                several_resources_are_taken_all_or_none
                dropping_a_guard_releases_it
                close_right_after_a_release_leaves_no_key_and_no_task
                nodes_where_nothing_can_be_released_are_not_healthy
            }
            interop {
                a_key_set_by_hand_excludes_us
                our_lock_excludes_and_is_released_by_hand
                the_owner_is_seen_by_hand_and_by_inspection
                names_are_bytes
            }
            keepalive {
                work_several_times_as_long_as_the_ttl_keeps_the_lock
                sixty_locks_are_kept_at_once
                a_majority_that_hangs_is_reported_before_the_deadline_and_stops_the_work
                keys_deleted_on_a_majority_are_told_with_the_next_renewal
                another_holder_in_place_is_reported_by_name_and_left_alone
                a_renewal_that_fails_is_made_good_by_the_next
                a_release_while_a_renewal_is_under_way_leaves_no_key
                no_task_is_left_behind_the_last_guard_and_handle
            }
            limits {
                retrying_without_delay_is_no_hot_loop
                rounds_lost_through_errors_are_no_hot_loop
                attempts_are_counted
                ttls_near_the_minimum_work
                the_documented_rights_are_enough
                servers_that_forbid_scripts_keep_locks_alive
            }
            losses {
                leases_never_overlap_while_servers_lose_data
                leases_overlap_without_restart_admission
            }
            majority_down {
                three_hung_are_no_quorum
                three_killed_are_no_quorum
                rounds_that_are_lost_at_once_leave_nothing_behind
                one_denial_and_three_hung_are_no_quorum
                a_request_gives_up_after_three_rounds_without_a_quorum
                writes_that_land_after_the_ttl_are_undone
            }
            minority_down {
                one_hung
                two_hung
                one_killed
                two_killed
                hung_from_the_start
                killed_and_hung_while_a_lock_is_held
                a_slow_node_leaves_no_key_behind_in_200_cycles
                cold_connections_to_a_hung_node_delay_ten_locks_no_more_than_one
            }
            outages {
                a_rolling_restart_under_load_fails_no_lock
                after_a_power_cut_locks_are_granted_when_the_quarantine_is_over
                after_a_power_cut_vouching_ends_the_quarantine
            }
            prefixes {
                every_node_is_asked_with_its_own_prefix
                every_node_counts_under_its_own_prefix_for_its_own_time
                nodes_with_different_prefixes_on_one_server_do_not_exclude_each_other
                claims_interleave_on_one_thread
                claims_interleave_on_many_threads
            }
            processes {
                a_process_that_was_stopped_learns_of_the_loss_before_its_work_goes_on
                a_lease_goes_from_process_to_process
                a_fencing_token_goes_with_its_lease_from_process_to_process
                a_stale_lease_is_neither_resumed_nor_released_in_another_process
            }
            programs {
                each_slot_has_one_holder_at_a_time_and_every_task_gets_one
                a_waiter_gets_the_slot_that_a_program_in_another_language_gives_up
                a_leader_that_closes_is_followed_at_once
                leadership_ends_in_an_outage_and_returns_after_it
                a_job_runs_once_a_period_on_one_of_two_machines
                a_synchronous_program_keeps_its_lock_while_it_computes
                a_runtime_that_is_not_driven_is_warned_of
            }
            readers {
                no_reader_is_beside_a_writer
                a_reader_is_kept_alive_extended_and_lost
                scripts_of_other_clients_neither_lock_nor_delete_what_is_read
                a_sorted_set_without_the_mark_is_no_lock_and_stays
                readers_and_writers_that_wait_are_notified
            }
            reconnect {
                a_program_that_starts_while_a_minority_is_down_works
                a_node_that_comes_back_votes_again_before_a_request_fails
                a_wrong_password_that_is_corrected_heals
            }
            runtimes {
                build_needs_no_runtime_and_one_redlock_works_across_two
                one_redlock_works_in_two_runtimes_at_once
                over_a_dedicated_runtime_parallel_runtimes_never_fail
                the_end_of_the_runtime_that_opened_the_connections_is_named_and_was_warned_of
                a_runtime_that_is_not_driven_any_more_is_left_behind
                a_guard_dropped_outside_a_runtime_is_released
                a_guard_dropped_after_its_runtime_is_left_to_its_ttl
                paused_time_makes_no_hot_loop
            }
            stale {
                a_holder_that_was_stopped_past_its_ttl_is_denied_by_the_resource
                without_the_check_it_overwrites_what_the_next_one_wrote
            }
            waiting {
                a_waiter_is_woken_by_a_program_in_another_language
                a_holder_on_exactly_a_quorum_with_one_of_its_nodes_hung_is_waited_for_without_polling
                nodes_that_restart_while_a_waiter_waits_are_watched_again
                connections_that_are_cut_are_not_free_and_watch_again
                where_tracking_is_not_allowed_waiters_poll_and_each_node_warns_once
                a_table_of_watches_with_room_for_one_key_makes_nobody_loop
                flushed_servers_wake_a_waiter
                a_holder_in_the_same_process_writes_over_the_same_connection
                claims_in_either_order_do_not_wait_for_each_other
            }
            work {
                work_that_blocks_a_worker_for_several_ttls_keeps_the_lock
                work_that_blocks_the_only_thread_for_several_ttls_is_returned_in_an_error
                work_that_blocked_for_too_long_is_not_polled_again
                work_that_blocks_elsewhere_keeps_the_lock
                an_error_of_the_work_comes_through_whatever_becomes_of_the_release
                a_panic_of_the_work_comes_through_and_the_lock_is_released
                work_that_is_dropped_from_outside_leaves_no_key
            }
            #[cfg(any(feature = "tls-rustls", feature = "tls-native-tls"))]
            tls {
                a_certificate_of_an_unknown_authority_is_rejected
                the_authorities_of_the_system_are_trusted
                chosen_certificates_are_used
                #[ignore = "run by the test above, in a process whose roots include the server's authority"]
                connects_to_the_server_in_the_environment
            }
        ] $($with)* }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __tests {
    ([$($(#[$cfg:meta])* $module:ident { $($(#[$attribute:meta])* $case:ident)* })*] $adapter:ident) => {$(
        $(#[$cfg])*
        mod $module {
            use super::$adapter;

            $(
                #[test]
                $(#[$attribute])*
                fn $case() {
                    $crate::run::<$adapter>(concat!(stringify!($module), "::", stringify!($case)));
                }
            )*
        }
    )*};
}

macro_rules! table {
    ([$($(#[$cfg:meta])* $module:ident { $($(#[$attribute:meta])* $case:ident)* })*]) => {
        /// Runs one case, such as `node::a_unix_socket_serves`.
        ///
        /// # Panics
        ///
        /// Panics if the case fails, or if there is no such case.
        pub fn run<A: Adapter>(case: &str) {
            match case {
                $($(concat!(stringify!($module), "::", stringify!($case)) => $module::$case::<A>(),)*)*
                _ => panic!("there is no case {case:?}"),
            }
        }
    };
}
__cases! { table, }
