//! The list of cases, by module, and the tests and the table that are generated from it.

use crate::Adapter;
use crate::servers::{
    admission, bad_input, borrowed, cancelled, change, clocks, cluster, contention, costs, crowd, extension,
    failover, failovers, fencing, forgotten, grace, grants, healthy, interop, jumps, keepalive, limits,
    losses, majority_down, minority_down, node_lists, observing, one_thread, outages, pauses, positions,
    prefixes, processes, programs, readers, reconnect, rights, runtimes, split_votes, stale, waiting, work,
};
use crate::{
    connect, connection, counters, hostile, modes, native, node, plain, preflight, queued, tls, watch,
};

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
        /// The contract of a backend, with scripts even if the server has native commands for the same operations.
        mod conformance_by_commands {
            use super::$adapter;

            $crate::redlock_testkit::conformance!($crate::server_by_commands::<$adapter>(), without: [places, admission]);
        }
        $crate::__cases! { $crate::__tests, $adapter }
    };
}

/// Generates more tests, for an adapter that owns the sockets to its servers: it bounds the replies, and makes the TLS
/// handshake.
#[macro_export]
macro_rules! socket_tests {
    ($adapter:ident) => {
        $crate::__socket_cases! { $crate::__tests, $adapter }
    };
}

/// Generates tests for another way from the adapter to its servers, beside those of [`adapter_tests!`]: the cases that
/// depend on it.
///
/// They connect, send and read, lose connections, end with their runtime, and use TLS.
#[macro_export]
macro_rules! connection_tests {
    ($adapter:ident) => {
        $crate::__tests! { [
            connect {
                an_attempt_that_is_dropped_anywhere_leaves_nothing
                a_dropped_attempt_that_falls_back_to_resp2_leaves_nothing
                an_attempt_at_a_server_that_never_replies_leaves_nothing
            }
            connection {
                set_if_absent_and_its_replies
                a_pipeline_returns_every_reply_even_if_one_is_an_error
                a_dropped_connection_leaves_neither_task_nor_socket
                a_lost_connection_fails_its_requests_in_flight_and_all_later_ones
                requests_fail_with_the_runtime_of_their_connection
                a_command_whose_reply_is_lost_is_never_sent_again
                a_dropped_call_does_not_disturb_those_after_it
                speaks_resp3_and_falls_back_to_resp2_if_hello_is_rejected
                connects_over_ipv6
            }
            node {
                one_resource_is_locked_extended_and_released
                a_killed_server_is_down_at_once_and_votes_again_without_traffic
                a_server_that_starts_later_is_used
                a_hung_server_is_disconnected_after_some_requests_and_recovers
                requests_in_flight_when_the_server_dies_have_an_unknown_outcome
                requests_dropped_at_once_do_not_end_the_connection
                a_rotated_password_is_used_by_the_next_connection
                a_server_without_resp3_works_and_recovers
                #[cfg(unix)]
                a_unix_socket_works
                a_dropped_node_leaves_neither_task_nor_connection
                a_node_outlives_its_runtime
                a_node_leaves_a_runtime_that_is_no_longer_driven
                no_secret_is_printed
                a_request_whose_reply_is_lost_is_not_repeated
            }
            watch {
                every_change_of_a_key_completes_its_watch
                a_lost_connection_completes_its_watches_and_the_next_one_accepts_watches
                disconnecting_a_hung_server_completes_its_watches
                thousands_of_keys_are_watched_over_one_connection_under_load
            }
            cancelled {
                after_two_replies
                a_release_dropped_at_once_still_releases
            }
            crowd {
                requests_dropped_at_once_by_many_threads_end_no_connection
                a_stalled_thread_does_not_end_the_connection
                many_tasks_on_one_thread_leave_no_key_on_failing_servers
                many_tasks_on_several_threads_leave_no_key_on_failing_servers
            }
            forgotten {
                three_servers_hang_between_the_two_calls
            }
            healthy {
                a_lock_is_granted_denied_extended_and_released
                close_right_after_a_release_leaves_no_key_and_no_task
            }
            majority_down {
                writes_carried_out_after_the_ttl_are_cleaned_up
            }
            runtimes {
                the_shutdown_of_the_connecting_runtime_is_reported_after_a_warning
            }
            #[cfg(any(feature = "tls-rustls", feature = "tls-native-tls"))]
            tls {
                a_certificate_of_an_unknown_authority_is_rejected
                chosen_certificates_are_used
            }
        ] $adapter }
    };
}

/// Passes the cases for owned sockets to another macro.
#[doc(hidden)]
#[macro_export]
macro_rules! __socket_cases {
    ($then:path, $($with:tt)*) => {
        $then! { [
            hostile {
                an_endless_reply_before_the_login_ends_the_connection
                an_endless_reply_on_an_idle_connection_ends_it
                large_replies_are_read;
                an_endlessly_nested_reply_ends_the_connection
                #[ignore = "run by the test above, in a separate process"]
                survives_endlessly_nested_replies
            }
            queued {
                ;
                a_queued_request_is_not_sent_after_the_node_has_given_up_its_connection
            }
            #[cfg(any(feature = "tls-rustls", feature = "tls-native-tls"))]
            plain {
                a_plain_server_that_waits_for_a_line_is_named_at_the_time_limit
                a_reply_that_is_not_tls_is_reported_as_such
            }
        ] $($with)* }
    };
}

/// Passes the other cases to another macro. Both lists are the only ones; the compiler reports a case that they lack as
/// dead code.
///
/// A case runs on a runtime with one thread. Those behind a semicolon start their runtimes themselves.
#[doc(hidden)]
#[macro_export]
macro_rules! __cases {
    ($then:path, $($with:tt)*) => {
        $then! { [
            connect {
                an_attempt_that_is_dropped_anywhere_leaves_nothing
                a_dropped_attempt_that_falls_back_to_resp2_leaves_nothing
                an_attempt_at_a_server_that_never_replies_leaves_nothing
            }
            connection {
                set_if_absent_and_its_replies
                a_pipeline_returns_every_reply_even_if_one_is_an_error
                a_dropped_connection_leaves_neither_task_nor_socket
                a_lost_connection_fails_its_requests_in_flight_and_all_later_ones
                a_command_whose_reply_is_lost_is_never_sent_again
                a_dropped_call_does_not_disturb_those_after_it
                speaks_resp3_and_falls_back_to_resp2_if_hello_is_rejected
                connects_over_ipv6;
                requests_fail_with_the_runtime_of_their_connection
            }
            counters {
                a_counter_is_a_number_in_a_separate_key
                a_plain_lock_raises_no_counter
                the_prefix_and_the_retention_can_be_chosen
                a_confirmation_is_granted_unless_a_counter_is_greater
                flushed_scripts_of_fenced_locks_cause_no_error
                an_invalid_counter_is_an_error_that_names_the_resource
                a_counter_far_ahead_of_the_clock_is_an_error
                a_token_far_ahead_of_the_clock_is_an_error
                the_retention_limits_how_far_a_counter_may_be_ahead
                existing_keys_are_extended_even_without_free_memory
                a_read_only_replica_raises_no_counter
                a_user_with_few_rights_can_acquire_fenced_locks
                a_counter_without_write_permission_fails_the_request_before_any_write
            }
            modes {
                a_sentinel_is_rejected_as_such
                a_cluster_node_is_rejected_as_such
            }
            native {
                one_resource_needs_no_script_if_the_server_has_the_commands
                scripts_are_the_default
                one_resource_is_locked_on_a_server_that_forbids_scripts
                a_key_of_another_type_is_not_changed
                redis_8_4_locks_without_scripts
                a_rejected_command_is_replaced_by_the_script_permanently
                a_reader_is_released_by_the_script_and_a_writer_by_the_command
            }
            node {
                one_resource_is_locked_extended_and_released
                several_resources_are_locked_all_or_none
                names_and_tokens_are_bytes
                a_key_without_expiry_gets_none
                a_key_of_another_type_is_an_error_that_names_it
                an_inspection_only_reads
                the_key_starts_with_the_prefix
                flushed_scripts_cause_no_error
                a_killed_server_is_down_at_once_and_votes_again_without_traffic
                a_server_that_starts_later_is_used
                a_hung_server_is_disconnected_after_some_requests_and_recovers
                requests_in_flight_when_the_server_dies_have_an_unknown_outcome
                requests_dropped_at_once_do_not_end_the_connection
                a_node_recovers_when_its_password_is_corrected
                a_password_that_is_set_later_is_the_reason_of_the_failure
                a_rotated_password_is_used_by_the_next_connection
                a_server_without_resp3_works_and_recovers
                a_user_with_few_rights_can_lock
                out_of_memory_is_a_rejection
                #[cfg(unix)]
                a_unix_socket_works
                identity_is_the_servers_run_id_and_shared_by_its_databases
                a_dropped_node_leaves_neither_task_nor_connection
                no_secret_is_printed
                a_server_that_echoes_its_input_reveals_neither_password_nor_token
                a_user_without_the_right_to_release_cannot_lock
                a_read_only_replica_is_a_rejection
                a_request_whose_reply_is_lost_is_not_repeated
                the_first_command_of_a_connection_is_not_tracked;
                a_node_outlives_its_runtime
                a_node_leaves_a_runtime_that_is_no_longer_driven
            }
            preflight {
                findings_name_the_server
                servers_without_faults_have_no_errors
                an_unreachable_server_is_a_finding
                a_server_that_denies_info_or_ping_is_reachable
                rights_are_checked_under_the_prefix_and_for_the_locks_in_use
                rights_are_checked_for_fenced_locks
                the_settings_of_the_disk_are_read
                the_clocks_are_observed_for_any_time
                #[cfg(target_os = "linux")]
                the_speed_of_each_clock_is_found_and_a_right_clock_has_no_finding
            }
            watch {
                every_change_of_a_key_completes_its_watch
                an_expiry_is_notified_or_seen_by_the_next_watch
                changes_over_the_same_connection_complete_a_watch
                a_lost_connection_completes_its_watches_and_the_next_one_accepts_watches
                disconnecting_a_hung_server_completes_its_watches
                thousands_of_keys_are_watched_over_one_connection_under_load
                an_overflowing_tracking_table_completes_watches_without_a_hot_loop
                a_user_without_the_right_to_track_can_lock
                a_server_without_resp3_can_lock
            }
            admission {
                new_servers_count_after_the_wait_or_when_vouched_for
                a_majority_that_restarts_empty_grants_no_second_lock
                a_majority_that_restarts_from_a_snapshot_grants_no_second_lock
                a_majority_that_loses_the_end_of_its_log_grants_no_second_lock
                a_majority_that_is_flushed_grants_no_second_lock
                a_flush_is_noticed_without_pushes
                a_majority_that_fails_over_and_back_grants_no_second_lock
                a_failover_and_back_is_noticed_without_pushes
                a_replica_that_is_promoted_before_it_has_synchronized_is_noticed
                servers_may_restart_one_after_another
                without_rights_to_the_stamp_the_uptime_counts
                a_stamp_of_a_later_version_is_not_overwritten
                ttls_above_longest_ttl_send_nothing
                a_longer_ttl_of_another_program_is_shown_until_it_is_lowered
                without_longest_ttl_nothing_is_checked
            }
            bad_input {
                bad_input_names_the_value_and_the_limit_and_sends_nothing
                a_bad_ttl_of_an_extension_sends_nothing
                certificates_without_tls_name_the_scheme_of_the_same_kind
                fakes_reject_the_names_that_servers_reserve
                bad_nodes_are_rejected_at_build
                two_addresses_of_one_server_are_one_node
                a_key_of_another_type_is_an_error_that_names_the_key
                no_secret_is_shown
            }
            borrowed {
                a_majority_that_restarts_empty_grants_no_second_lock
                a_majority_that_is_flushed_grants_no_second_lock
                a_majority_that_fails_over_and_back_grants_no_second_lock
                a_flush_of_the_scripts_denies_no_vote
            }
            cancelled {
                an_acquire_dropped_before_its_first_poll_sends_nothing
                an_acquire_dropped_right_after_its_first_poll_is_cleaned_up
                after_no_reply
                after_one_reply
                after_two_replies
                after_three_replies
                after_four_replies
                after_all_replies
                an_acquire_dropped_while_it_waits_to_retry_is_cleaned_up
                a_release_dropped_at_once_still_releases
            }
            change {
                a_server_in_both_lists_has_one_connection;
                programs_in_neighbouring_steps_exclude_each_other
                programs_that_must_agree_go_through_a_change
                programs_of_the_first_and_the_last_step_exclude_each_other
            }
            clocks {
                clocks_that_step_let_no_second_client_acquire_a_held_lock
                an_idle_program_learns_of_a_step_and_a_step_back_is_safe
                a_server_whose_clock_runs_fast_does_not_count
                a_pause_of_the_servers_is_no_step
                without_the_right_to_read_the_clock_votes_count
                health_reports_a_clock_that_runs_fast;
                the_watch_of_a_clock_passes_the_conformance_suite
            }
            cluster {
                a_server_that_is_in_no_cluster_is_rejected_as_such
                a_check_looks_at_each_master_of_a_cluster;
                each_shard_grants_locks_that_exclude_other_clients
                several_resources_need_a_common_hash_tag
                a_held_lock_moves_with_its_slot
                a_lock_is_kept_alive_while_its_slot_moves_to_and_fro
                programs_that_list_other_servers_of_a_cluster_agree
                a_shard_whose_stamp_moves_is_in_quarantine
                a_promoted_replica_grants_no_lock_that_the_former_master_has_granted
                leases_never_overlap_while_their_slot_moves
            }
            contention {
                ;
                holders_in_two_processes_never_overlap
            }
            costs {
                a_cycle_is_two_commands_on_each_server
            }
            crowd {
                requests_dropped_at_once_one_by_one_end_no_connection
                requests_dropped_at_once_many_at_a_time_end_no_connection
                requests_dropped_by_a_busy_thread_end_no_connection
                a_stalled_thread_does_not_end_the_connection
                a_hot_loop_of_attempts_does_not_prevent_connecting
                many_tasks_on_one_thread_leave_no_key_on_failing_servers;
                a_burst_of_locks_succeeds_and_ends_no_connection
                requests_dropped_at_once_by_many_threads_end_no_connection
                contention_ends_no_connection
                locks_released_right_after_an_extension_end_no_connection
                many_tasks_on_several_threads_leave_no_key_on_failing_servers
            }
            extension {
                a_failed_extension_does_not_change_the_lease
                no_extension_ever_shortens_a_key
                an_extension_needs_a_quorum_of_all_nodes_and_writes_lost_keys_again
                a_lock_of_another_client_is_neither_extended_nor_released
            }
            fencing {
                a_steady_fenced_cycle_is_two_scripts_on_each_server
                counters_that_differ_cost_one_more_script_once
                tokens_increase_when_the_servers_forget_their_scripts
                several_resources_have_one_token
                fenced_and_plain_locks_exclude_each_other
                the_error_names_an_invalid_counter
                a_damaged_counter_only_disables_its_node
                an_evicted_counter_is_written_back_by_the_holder
                a_minority_that_lost_its_data_grants_again_unless_a_newer_claim_raised_its_counters
                a_majority_that_lost_its_data_loses_the_lock
                a_superseded_lease_is_held_and_never_extended
                a_fenced_lease_is_resumed_with_its_token
                a_counter_can_be_neither_locked_nor_deleted
            }
            forgotten {
                a_lock_dropped_at_any_poll_while_scripts_are_unknown_is_cleaned_up
                two_servers_hang_between_the_two_calls
                three_servers_hang_between_the_two_calls
                two_servers_hang_between_the_two_calls_of_a_fenced_lock
                three_servers_hang_between_the_two_calls_of_a_fenced_lock;
                nothing_is_denied_or_left_behind_while_servers_forget_scripts
                attempts_lost_between_the_two_calls_are_cleaned_up
            }
            grants {
                ;
                tokens_increase_in_the_order_of_grants
                tokens_increase_while_nodes_are_killed_stopped_and_restarted
            }
            healthy {
                a_lock_is_granted_denied_extended_and_released
                several_resources_are_locked_all_or_none_on_five_servers
                dropping_a_guard_releases_it
                close_right_after_a_release_leaves_no_key_and_no_task
                nodes_that_cannot_release_locks_are_not_healthy
            }
            interop {
                a_key_set_by_hand_excludes_this_client
                a_lock_excludes_other_clients_and_can_be_released_by_hand
                the_owner_is_visible_in_the_key_and_in_the_inspection
                names_are_bytes
            }
            grace {
                work_is_signaled_a_grace_period_before_its_lock_ends
            }
            jumps {
                ;
                leases_never_overlap_while_clocks_jump
            }
            keepalive {
                work_several_times_as_long_as_the_ttl_keeps_the_lock
                sixty_locks_are_kept_at_once
                a_majority_that_hangs_is_reported_before_the_deadline_and_stops_the_work
                keys_deleted_on_a_majority_are_reported_by_the_next_renewal
                the_new_holder_is_reported_by_name_and_keeps_its_lock
                the_next_renewal_repairs_a_failed_one
                a_release_during_a_renewal_leaves_no_key;
                no_task_remains_after_the_last_guard_and_handle
            }
            limits {
                retrying_without_delay_is_no_hot_loop
                retries_after_errors_are_no_hot_loop
                max_attempts_limits_the_attempts
                ttls_near_the_minimum_work
                servers_that_forbid_scripts_lock_without_extending
            }
            failover {
                a_connection_to_a_replica_is_opened_again
                a_check_finds_what_is_wrong_with_sentinels;
                a_promoted_server_grants_no_lock_that_the_former_master_has_granted
                a_master_that_its_sentinels_cannot_reach_is_given_up
                a_master_is_used_only_while_a_majority_of_the_sentinels_replies
            }
            failovers {
                ;
                leases_never_overlap_while_masters_fail
                leases_never_overlap_while_shards_fail_over
            }
            losses {
                ;
                leases_never_overlap_while_servers_lose_data
                leases_overlap_without_restart_admission
            }
            majority_down {
                three_hung_are_no_quorum
                three_killed_are_no_quorum
                one_denial_and_three_hung_are_no_quorum
                a_request_gives_up_after_three_rounds_without_a_quorum
                writes_carried_out_after_the_ttl_are_cleaned_up;
                rounds_that_fail_at_once_leave_no_key
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
            node_lists {
                both_programs_notice_that_their_lists_differ
                programs_with_the_same_servers_agree_across_restarts;
                lists_that_must_agree_exclude_each_other
            }
            observing {
                twenty_observers_see_each_holder_and_a_quiet_lock_costs_nothing
                an_observer_sees_a_crashed_holder_expire_and_survives_restarts
                a_broken_lock_is_free_and_its_holder_learns_of_it
            }
            outages {
                after_a_power_cut_locks_are_granted_when_the_quarantine_is_over
                after_a_power_cut_vouching_ends_the_quarantine;
                a_rolling_restart_under_load_fails_no_lock
            }
            pauses {
                ;
                pauses_and_delays_are_no_jump_of_a_clock
            }
            positions {
                three_waiters_are_counted_and_a_fourth_knows_its_position
                a_waiter_that_died_long_ago_is_forgotten_although_others_wait
                without_the_rights_to_count_the_number_is_unknown
                waiters_have_their_places_while_two_servers_are_down
            }
            prefixes {
                every_node_receives_keys_with_its_prefix
                counters_have_the_prefix_and_retention_of_their_node
                nodes_with_different_prefixes_on_one_server_do_not_exclude_each_other
                claims_interleave_on_one_thread;
                claims_interleave_on_many_threads
            }
            processes {
                a_stopped_process_learns_of_the_loss_before_its_work_continues
                a_lease_is_passed_between_processes
                a_fencing_token_is_passed_with_its_lease
                a_stale_lease_is_neither_resumed_nor_released_in_another_process
            }
            programs {
                a_waiter_acquires_the_slot_that_a_program_in_another_language_releases
                a_leader_that_closes_is_replaced_at_once
                leadership_ends_in_an_outage_and_returns_after_it
                a_job_runs_once_a_period_on_one_of_two_machines;
                each_slot_has_one_holder_at_a_time_and_every_task_gets_one
                a_synchronous_program_keeps_its_lock_while_it_computes
                an_undriven_runtime_causes_a_warning
            }
            readers {
                a_reader_is_kept_alive_extended_and_lost
                scripts_of_other_clients_neither_lock_nor_delete_a_key_of_readers
                a_sorted_set_without_the_mark_is_no_lock_and_stays
                readers_and_writers_that_wait_are_notified;
                readers_and_writers_exclude_each_other
            }
            reconnect {
                a_program_that_starts_while_a_minority_is_down_works
                a_node_that_recovers_votes_again_before_a_request_fails
                nodes_recover_when_a_wrong_password_is_corrected
            }
            rights {
                the_documented_rights_are_enough
                the_documented_rights_of_features_are_enough
                the_documented_rights_in_a_cluster_are_enough
                the_documented_rights_at_sentinels_are_enough
            }
            runtimes {
                ;
                paused_time_causes_no_hot_loop
                build_needs_no_runtime_and_one_redlock_works_across_two
                one_redlock_works_in_two_runtimes_at_once
                over_a_dedicated_runtime_parallel_runtimes_never_fail
                the_shutdown_of_the_connecting_runtime_is_reported_after_a_warning
                a_redlock_leaves_a_runtime_that_is_no_longer_driven
                a_guard_dropped_outside_a_runtime_is_released
                the_keys_of_a_guard_dropped_after_its_runtime_expire
            }
            split_votes {
                ;
                a_job_runs_exactly_once_in_each_period_on_ten_machines
                exactly_one_of_ten_single_attempts_acquires_a_free_lock
            }
            stale {
                ;
                the_resource_rejects_a_holder_that_was_stopped_past_its_ttl
                without_the_check_a_stale_holder_overwrites_newer_data
            }
            waiting {
                a_waiter_is_notified_of_a_release_in_another_language
                waiters_do_not_poll_for_a_lock_on_a_bare_quorum_with_a_hung_node
                restarted_nodes_are_watched_again
                a_cut_connection_does_not_mean_a_free_lock_and_is_watched_again
                without_tracking_waiters_poll_and_each_node_warns_once
                a_tracking_table_of_one_key_causes_no_hot_loop
                flushed_servers_notify_a_waiter
                a_waiter_is_notified_of_writes_over_its_connection
                claims_in_either_order_do_not_wait_for_each_other
            }
            work {
                work_that_blocks_the_only_thread_for_several_ttls_ends_with_an_error_and_its_output
                work_on_a_blocking_thread_keeps_the_lock
                an_error_of_the_work_is_returned_even_if_the_release_fails
                a_panic_of_the_work_propagates_and_the_lock_is_released
                dropped_work_leaves_no_key;
                work_that_blocks_a_worker_for_several_ttls_keeps_the_lock
            }
            #[cfg(any(feature = "tls-rustls", feature = "tls-native-tls"))]
            tls {
                a_certificate_of_an_unknown_authority_is_rejected
                chosen_certificates_are_used
                sentinels_and_the_master_that_they_name_are_reached
                #[ignore = "run by the test above, in a process whose roots include the server's authority"]
                connects_to_the_server_in_the_environment;
                the_authorities_of_the_system_are_trusted
            }
        ] $($with)* }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __tests {
    ([$(
        $(#[$cfg:meta])* $module:ident {
            $($(#[$attribute:meta])* $case:ident)* $(; $($(#[$more:meta])* $own:ident)*)?
        }
    )*] $adapter:ident) => {$(
        $(#[$cfg])*
        mod $module {
            use super::$adapter;

            $crate::__tests! { $adapter $module $($(#[$attribute])* $case)* $($($(#[$more])* $own)*)? }
        }
    )*};
    ($adapter:ident $module:ident $($(#[$attribute:meta])* $case:ident)*) => {$(
        #[test]
        $(#[$attribute])*
        fn $case() {
            $crate::run::<$adapter>(concat!(stringify!($module), "::", stringify!($case)));
        }
    )*};
}

macro_rules! table {
    ([$(
        $(#[$cfg:meta])* $module:ident {
            $($(#[$attribute:meta])* $case:ident)* $(; $($(#[$more:meta])* $own:ident)*)?
        }
    )*] $run:ident) => {
        /// Runs one case. Returns `false` if it is not in this list.
        fn $run<A: Adapter>(case: &str) -> bool {
            match case {
                $(
                    $(concat!(stringify!($module), "::", stringify!($case)) => {
                        one_thread().block_on($module::$case::<A>());
                    })*
                    $($(concat!(stringify!($module), "::", stringify!($own)) => $module::$own::<A>(),)*)?
                )*
                _ => return false,
            }
            true
        }
    };
}
__cases! { table, run_usual }
__socket_cases! { table, run_socket }

/// Runs one case, such as `node::a_unix_socket_works`.
///
/// # Panics
///
/// Panics if the case fails, or if there is no such case.
pub fn run<A: Adapter>(case: &str) {
    assert!(run_usual::<A>(case) || run_socket::<A>(case), "there is no case {case:?}");
}
