//! The conformance suite can fail. Every node that is broken on purpose is caught by the case for the violated sentence
//! of the contract. Every case catches such a node.

/// Declares the flaws of a node, the cases that catch each, and a part of the message of each case.
///
/// A test requires them, and another one that a sound server passes the cases after `sound`.
macro_rules! flaws {
    (sound: $passes:expr; $($flaw:ident: $($case:literal => $sentence:literal),+;)+) => {
        #[derive(Clone, Copy, Debug, PartialEq)]
        enum Flaw {
            /// Keeps the contract.
            Sound,
            $($flaw,)+
        }

        const CAUGHT: &[(Flaw, &str, &str)] = &[$($(($flaw, $case, $sentence),)+)+];

        /// Returns whether a case catches one of these flaws.
        pub(crate) fn catches(case: &str) -> bool {
            CAUGHT.iter().any(|(_, by, _)| *by == case)
        }

        #[test]
        fn every_flaw_is_caught_by_the_case_for_it() {
            crate::assert_all_caught(CAUGHT, server);
        }

        #[test]
        fn a_node_without_a_flaw_passes() {
            crate::assert_none_caught($passes, || server(Sound));
        }
    };
}

mod admission;
mod clock;
mod fenced;
mod node;
mod operation;
mod places;
mod shared;
mod watchers;

use std::fmt::Debug;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread;

use redlock_core::Resource;
use redlock_core::node::LockNode;
use redlock_testkit::MemoryNode;
use redlock_testkit::conformance::{self, Backend};

use self::Flaw::*;
use self::node::{Client, Node};
use self::watchers::Watchers;

flaws! {
    sound: conformance::cases();
    // acquire
    WritesNothing: "acquire_grants_a_free_resource" => "acquire sets every resource";
    Overwrites: "acquire_denies_a_resource_of_another_holder" =>
        "acquire is denied where a resource holds another token";
    DeniedAcquireExtends: "a_denied_acquire_does_not_change_the_holders_time" =>
        "an acquire that is denied changes nothing";
    NamesTheCaller: "a_denial_reports_the_true_holder_and_remaining_time" =>
        "a denial names the holder's token";
    ReportsAnHour: "a_denial_reports_the_true_holder_and_remaining_time" =>
        "a denial reports the remaining time";
    DeniesItsToken: "acquire_again_with_the_same_token_is_granted" => "this very token already";
    RepeatedAcquireExtends: "acquire_again_does_not_change_the_time" =>
        "leaves a resource that holds the token already as it is",
        "acquire_sets_absent_resources" => "leaves a resource that holds the token already as it is";
    SetsOnlyFreeResources: "acquire_sets_all_resources_or_none" =>
        "an acquire that is denied changes nothing",
        "acquire_of_own_and_foreign_resources_changes_nothing" => "an acquire that is denied changes nothing";
    SetsNoAbsentResource: "acquire_sets_absent_resources" => "acquire sets every resource";
    ChecksThenWrites: "one_of_many_at_once_is_granted" => "acquire is atomic on its node";
    WritesOneByOne: "a_dropped_acquire_is_atomic" => "as a whole or not at all";
    // extend
    ExtendsNothing: "extend_prolongs_the_time_to_live" =>
        "makes the time to live of every resource at least ttl";
    ExtendsForever: "an_extended_resource_expires" => "makes the time to live";
    ExtendSets: "extend_never_shortens_the_time_to_live" => "never shortens",
        "extend_handles_each_resource_separately" => "a time to live";
    ExtendsOneOnly: "extend_handles_each_resource_separately" => "of every resource at least ttl";
    ExtendCreates: "extend_creates_nothing" => "unless every resource still holds the token",
        "extend_revives_no_resource" => "unless every resource still holds the token";
    ExtendComparesNothing: "extend_denies_a_resource_of_another_holder" =>
        "unless every resource still holds the token";
    KeepComparesNothing: "keep_for_requires_every_resource" => "denied unless every";
    GrantsTheUnsupported: "an_unsupported_request_is_an_error" => "of the kind Unsupported";
    KeepNeverLengthens: "keep_for_lengthens" => "sets the time to live";
    KeepNeverShortens: "keep_for_shortens" => "still held";
    ExtendsOnlyHeldResources: "extend_requires_every_resource" => "an extend that is denied changes nothing";
    ExtendsOneByOne: "a_dropped_extend_is_atomic" => "as a whole or not at all";
    // release
    ReleasesNothing: "release_frees_resources" => "release deletes each resource";
    ReleaseComparesNothing: "release_does_not_delete_a_resource_of_another_holder" =>
        "no resource held the token",
        "release_after_expiry_returns_false" => "no resource held the token";
    ReleaseAlwaysGrants: "release_of_a_free_resource_returns_false" => "no resource held the token";
    ReleasesAllOrNone: "release_deletes_the_remaining_ones_of_several_resources" =>
        "when at least one resource was deleted";
    ReleasesAllOfTheToken: "release_leaves_other_resources_of_the_token" => "that the claim does not name";
    ReleaseReadsPatterns: "resource_names_are_binary_safe" => "releasing \"*\" took";
    ReleasesOneByOne: "a_dropped_release_is_atomic" => "as a whole or not at all";
    // inspect
    InspectFindsNothing: "inspect_returns_the_holder_and_the_remaining_time" =>
        "the token under the resource";
    InspectHidesTheHolder: "inspect_returns_the_holder_and_the_remaining_time" =>
        "the token under the resource";
    InspectReportsAnHour: "inspect_returns_the_holder_and_the_remaining_time" => "the remaining time";
    InspectFindsExpired: "inspect_of_a_free_resource_returns_nothing" => "None where the resource is free";
    InspectAcquires: "inspect_changes_nothing" => "inspect changes nothing";
    InspectRearms: "inspect_changes_nothing" => "inspect changes nothing";
    InspectTakesAnyType: "inspect_of_a_non_lock_value_is_an_error" => "of a key of another type is an error";
    InspectIsNotReported: "the_profile_reports_support_for_inspect" => "says so in its profile";
    InspectIsClaimed: "the_profile_reports_support_for_inspect" => "says so in its profile";
    // watch
    WatchFindsNothing: "watch_reports_the_state_of_a_resource" => "that a resource is taken";
    WatchReportsAnHour: "watch_reports_the_state_of_a_resource" => "the remaining time";
    WatchFindsExpired: "watch_of_an_expired_resource_reports_it_as_free" => "that a resource is free";
    WatchAcquires: "watch_changes_nothing" => "watch changes nothing";
    WatchRearms: "watch_changes_nothing" => "watch changes nothing";
    WatchMissesItsOwn: "a_release_over_the_same_client_completes_a_watch" => "the client that watches";
    WatchMissesOthers: "a_release_by_another_client_completes_a_watch" => "another client";
    WatchArmsLate: "no_release_is_missed_while_a_watch_begins" => "while the watch began";
    WatchNotifiesOne: "a_change_completes_all_watches_of_a_resource" => "one of several";
    WatchIsNotReported: "the_profile_reports_support_for_watch" => "says so in its profile";
    WatchIsClaimed: "the_profile_reports_support_for_watch" => "says so in its profile";
    // names
    NamesEndAtNul: "resource_names_are_binary_safe" => "resources are binary-safe";
    NamesAreText: "resource_names_are_binary_safe" => "resources are binary-safe";
    NamesAreTrimmed: "resource_names_are_binary_safe" => "resources are binary-safe";
    NamesAreCut: "the_longest_names_work" => "1024 bytes";
    NamesAreJoined: "resources_are_not_joined" => "distinguished by their bytes";
    TokensEndAtNul: "tokens_are_binary_safe" => "tokens are binary-safe";
    TokensAreText: "tokens_are_binary_safe" => "tokens are binary-safe";
    TokensAreNumbers: "tokens_are_binary_safe" => "tokens are binary-safe";
    AnyTypeIsALock: "a_non_lock_value_is_an_error_for_acquire_and_kept_by_release" =>
        "a key of another type is an error";
    // time
    NeverExpires: "a_resource_expires_after_its_ttl" => "still held",
        "an_expired_resource_is_free_for_others" => "a resource expires after its ttl";
    ExpiresEarly: "a_resource_expires_after_its_ttl" => "before its TTL";
    ExpiresLate: "a_resource_expires_after_its_ttl" => "still held";
    OneExpires: "every_resource_of_a_claim_expires" => "a resource expires after its ttl";
    LongestTtlIsTruncated: "the_longest_ttl_is_not_truncated" => "the longest TTL is valid";
    // calls
    AtMostAHundredCalls: "many_claims_at_once_get_replies" => "failed on a healthy server";
    ADropLeaksAPermit: "dropped_calls_leave_the_node_usable" => "leaves the node usable";
    AcquireIsOvertaken: "a_connection_keeps_the_order" => "in the order of their first polls";
    SentBeforeThePoll: "a_request_dropped_before_its_first_poll_is_not_sent" => "before the first poll";
    ConnectionsChange: "a_connection_keeps_its_identity" => "state the same identifier";
    StatusIsOfAnother: "the_status_states_the_connection_of_requests" => "the status states the connection";
    ClientsHaveSeparateLocks: "two_clients_exclude_each_other" => "clients of one server see the same locks";
    ClientsDisagree: "two_clients_know_one_server" => "the same identity";
    NoLabel: "the_label_is_readable_and_stable" => "a human-readable label";
}

#[test]
fn every_case_catches_a_flaw() {
    for case in conformance::cases() {
        let all =
            [catches, fenced::catches, admission::catches, clock::catches, places::catches, shared::catches];
        assert!(all.iter().any(|catches| catches(case)), "no flaw shows that {case} can fail");
    }
}

/// Asserts that each flaw of a server is caught by the case beside it, with this message.
fn assert_all_caught<F: Copy + Debug + Sync, B: Backend>(caught: &[(F, &str, &str)], server: fn(F) -> B) {
    thread::scope(|scope| {
        for (flaw, case, sentence) in caught {
            scope.spawn(move || {
                let message =
                    failure(&server(*flaw), case).unwrap_or_else(|| panic!("{case} lets {flaw:?} pass"));
                assert!(message.contains(sentence), "{case} on {flaw:?}: {message}");
            });
        }
    });
}

/// Asserts that a sound server passes these cases.
fn assert_none_caught<B: Backend>(cases: impl Iterator<Item = &'static str>, server: fn() -> B) {
    thread::scope(|scope| {
        for case in cases {
            scope.spawn(move || assert_eq!(None, failure(&server(), case), "{case}"));
        }
    });
}

/// Returns the message of a case that fails on a server.
fn failure(broken: &impl Backend, case: &str) -> Option<String> {
    let panic = catch_unwind(AssertUnwindSafe(|| conformance::run(broken, case))).err()?;
    let formatted = panic.downcast_ref::<String>().map(String::as_str);
    let message = formatted.or_else(|| panic.downcast_ref::<&str>().copied());
    Some(message.expect("the panic has a message").to_owned())
}

fn server(flaw: Flaw) -> Server {
    Server { flaw, memory: MemoryNode::new("broken"), watchers: Arc::default() }
}

struct Server {
    flaw: Flaw,
    memory: MemoryNode,
    watchers: Arc<Watchers>,
}

impl Backend for Server {
    async fn node(&self) -> Arc<dyn LockNode> {
        static CLIENTS: AtomicU64 = AtomicU64::new(0);
        let client = CLIENTS.fetch_add(1, Ordering::Relaxed);
        let separate = || MemoryNode::new("separate");
        let memory = if self.flaw == ClientsHaveSeparateLocks { separate() } else { self.memory.clone() };
        let (busy, connection) = (AtomicUsize::new(0), AtomicU64::new(0));
        let watchers = Arc::clone(&self.watchers);
        Arc::new(Client(Arc::new(Node { flaw: self.flaw, memory, watchers, client, busy, connection })))
    }

    async fn no_lock(&self) -> Option<Resource> {
        self.memory.set_non_lock_value("list");
        Resource::new("list").ok()
    }
}
