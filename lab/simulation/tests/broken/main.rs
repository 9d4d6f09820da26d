//! The conformance suite can fail: every deliberate bug of a node is detected by the case for the violated sentence, and
//! every case detects a bug.

mod fenced;
mod node;
mod watchers;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use redlock_core::{LockNode, Resource, suspend_aware_now};
use redlock_testkit::conformance::{self, Backend};

use self::Flaw::*;
use self::node::{Held, NO_LOCK, Node, lock};
use self::watchers::Watchers;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Flaw {
    /// Follows the contract.
    Sound,
    // acquire
    WritesNothing,
    Overwrites,
    DenialRearms,
    DenialNamesItsOwnToken,
    DenialReportsAnHour,
    DeniesItsOwnToken,
    AgainRearms,
    SetsInPart,
    SetsNothingMissing,
    ChecksThenWrites,
    WritesOneByOne,
    // extend
    ExtendsNothing,
    ExtendsForever,
    ExtendSets,
    ExtendsOneOnly,
    ExtendCreates,
    ExtendComparesNothing,
    ExtendsInPart,
    ExtendsOneByOne,
    // release
    ReleasesNothing,
    ReleaseComparesNothing,
    ReleaseAlwaysGrants,
    ReleasesAllOrNone,
    ReleasesAllOfTheToken,
    ReleaseReadsPatterns,
    ReleasesOneByOne,
    // inspect
    InspectFindsNothing,
    InspectReturnsNoToken,
    InspectReportsAnHour,
    InspectFindsExpired,
    InspectTakes,
    InspectRearms,
    InspectTakesAnyType,
    InspectIsNotClaimed,
    InspectIsClaimed,
    // watch
    WatchFindsNothing,
    WatchReportsAnHour,
    WatchFindsExpired,
    WatchTakes,
    WatchRearms,
    WatchMissesItsOwn,
    WatchMissesOthers,
    WatchArmsLate,
    WatchNotifiesOne,
    WatchIsNotClaimed,
    WatchIsClaimed,
    // names
    NamesEndAtNul,
    NamesAreText,
    NamesAreTrimmed,
    NamesAreCut,
    NamesAreJoined,
    TokensEndAtNul,
    TokensAreText,
    TokensAreNumbers,
    AnyTypeIsALock,
    // time
    NeverExpires,
    ExpiresEarly,
    ExpiresLate,
    OneExpires,
    LongTtlsAreShort,
    // calls
    HandlesAHundredRequests,
    ADropTakesAPermit,
    AcquireIsOvertaken,
    ConnectionsChange,
    ClientsAreSeparate,
    ClientsNameDifferentServers,
    NoLabel,
}

/// The flaws, the case that detects each, and a part of its message.
const DETECTED: &[(Flaw, &str, &str)] = &[
    (WritesNothing, "acquire_grants_free_resources", "acquire sets every resource"),
    (Overwrites, "acquire_denies_held_resources", "acquire is denied where a resource holds another token"),
    (
        DenialRearms,
        "a_denied_acquire_leaves_the_holders_ttl_alone",
        "an acquire that is denied changes nothing",
    ),
    (DenialNamesItsOwnToken, "a_denial_is_accurate", "a denial names the holder's token"),
    (DenialReportsAnHour, "a_denial_is_accurate", "a denial reports the remaining time"),
    (DeniesItsOwnToken, "acquire_again_with_the_same_token_is_granted", "this very token already"),
    (
        AgainRearms,
        "acquire_again_leaves_the_ttl_alone",
        "leaves a resource that holds the token already as it is",
    ),
    (SetsInPart, "acquire_sets_all_or_none", "an acquire that is denied changes nothing"),
    (
        SetsInPart,
        "acquire_of_own_and_held_resources_changes_nothing",
        "an acquire that is denied changes nothing",
    ),
    (SetsNothingMissing, "acquire_sets_missing_resources", "acquire sets every resource"),
    (
        AgainRearms,
        "acquire_sets_missing_resources",
        "leaves a resource that holds the token already as it is",
    ),
    (ChecksThenWrites, "one_of_many_at_once_is_granted", "acquire is atomic on its node"),
    (WritesOneByOne, "a_dropped_acquire_is_whole_or_nothing", "as a whole or not at all"),
    (ExtendsNothing, "extend_raises_the_ttl", "makes the time to live of every resource at least ttl"),
    (ExtendsForever, "an_extended_resource_expires", "makes the time to live"),
    (ExtendSets, "extend_never_shortens", "never shortens"),
    (ExtendSets, "extend_treats_each_resource_separately", "a time to live"),
    (ExtendsOneOnly, "extend_treats_each_resource_separately", "of every resource at least ttl"),
    (ExtendCreates, "extend_creates_nothing", "unless every resource still holds the token"),
    (ExtendCreates, "extend_restores_nothing", "unless every resource still holds the token"),
    (ExtendComparesNothing, "extend_denies_held_resources", "unless every resource still holds the token"),
    (ExtendsInPart, "extend_requires_every_resource", "an extend that is denied changes nothing"),
    (ExtendsOneByOne, "a_dropped_extend_is_whole_or_nothing", "as a whole or not at all"),
    (ReleasesNothing, "release_deletes_resources", "release deletes each resource"),
    (ReleaseComparesNothing, "release_leaves_other_holders_alone", "no resource held the token"),
    (ReleaseAlwaysGrants, "release_of_nothing_is_denied", "no resource held the token"),
    (ReleasesAllOrNone, "release_deletes_the_remaining_resources", "when at least one resource was deleted"),
    (ReleasesAllOfTheToken, "release_leaves_other_resources_of_the_token", "that the claim does not name"),
    (ReleaseComparesNothing, "release_after_expiry_is_denied", "no resource held the token"),
    (ReleaseReadsPatterns, "resource_names_are_binary_safe", "releasing \"*\" took"),
    (ReleasesOneByOne, "a_dropped_release_is_whole_or_nothing", "as a whole or not at all"),
    (
        InspectFindsNothing,
        "inspect_returns_the_holder_and_the_remaining_time",
        "the token under the resource",
    ),
    (
        InspectReturnsNoToken,
        "inspect_returns_the_holder_and_the_remaining_time",
        "the token under the resource",
    ),
    (InspectReportsAnHour, "inspect_returns_the_holder_and_the_remaining_time", "the remaining time"),
    (InspectFindsExpired, "inspect_of_a_free_resource_returns_nothing", "None where the resource is free"),
    (InspectTakes, "inspect_changes_nothing", "inspect changes nothing"),
    (InspectRearms, "inspect_changes_nothing", "inspect changes nothing"),
    (InspectTakesAnyType, "inspect_of_a_non_lock_value_is_an_error", "of a key of another type is an error"),
    (InspectIsNotClaimed, "capabilities_state_whether_inspect_is_supported", "says so in its capabilities"),
    (InspectIsClaimed, "capabilities_state_whether_inspect_is_supported", "says so in its capabilities"),
    (WatchFindsNothing, "watch_returns_the_availability", "that a resource is taken"),
    (WatchReportsAnHour, "watch_returns_the_availability", "the remaining time"),
    (WatchFindsExpired, "watch_of_an_expired_resource_returns_free", "that a resource is free"),
    (WatchTakes, "watch_changes_nothing", "watch changes nothing"),
    (WatchRearms, "watch_changes_nothing", "watch changes nothing"),
    (WatchMissesItsOwn, "a_release_by_the_same_client_completes_a_watch", "the client that watches"),
    (WatchMissesOthers, "a_release_by_another_client_completes_a_watch", "another client"),
    (WatchArmsLate, "no_release_is_missed_while_a_watch_begins", "while the watch began"),
    (WatchNotifiesOne, "a_change_completes_all_watches_of_a_resource", "one of several"),
    (WatchIsNotClaimed, "capabilities_state_whether_watch_is_supported", "says so in its capabilities"),
    (WatchIsClaimed, "capabilities_state_whether_watch_is_supported", "says so in its capabilities"),
    (NamesEndAtNul, "resource_names_are_binary_safe", "resources are binary-safe"),
    (NamesAreText, "resource_names_are_binary_safe", "resources are binary-safe"),
    (NamesAreTrimmed, "resource_names_are_binary_safe", "resources are binary-safe"),
    (NamesAreCut, "the_longest_names_work", "1024 bytes"),
    (NamesAreJoined, "resources_are_not_joined", "distinguished by their bytes"),
    (TokensEndAtNul, "tokens_are_binary_safe", "tokens are binary-safe"),
    (TokensAreText, "tokens_are_binary_safe", "tokens are binary-safe"),
    (TokensAreNumbers, "tokens_are_binary_safe", "tokens are binary-safe"),
    (
        AnyTypeIsALock,
        "a_non_lock_value_is_an_error_for_acquire_and_nothing_for_release",
        "a key of another type is an error",
    ),
    (NeverExpires, "a_resource_expires_after_its_ttl", "still held"),
    (ExpiresEarly, "a_resource_expires_after_its_ttl", "before its TTL"),
    (ExpiresLate, "a_resource_expires_after_its_ttl", "still held"),
    (OneExpires, "every_resource_of_a_claim_expires", "a resource expires after its ttl"),
    (NeverExpires, "an_expired_resource_is_free_for_others", "a resource expires after its ttl"),
    (LongTtlsAreShort, "the_longest_ttl_is_not_short", "the longest TTL is valid"),
    (HandlesAHundredRequests, "many_claims_at_once_get_replies", "failed on a healthy server"),
    (ADropTakesAPermit, "dropped_calls_leave_the_node_usable", "leaves the node usable"),
    (AcquireIsOvertaken, "a_connection_keeps_the_order", "in the order they were sent"),
    (ConnectionsChange, "a_connection_keeps_its_identifier", "it stays equal"),
    (ClientsAreSeparate, "two_clients_exclude_each_other", "clients of one server see the same locks"),
    (ClientsNameDifferentServers, "two_clients_recognize_one_server", "the same identity"),
    (NoLabel, "the_label_is_readable", "a human-readable label"),
];

#[test]
fn every_flaw_is_detected_by_its_case() {
    std::thread::scope(|scope| {
        for (flaw, case, sentence) in DETECTED {
            scope.spawn(move || {
                let message = failure(&server(*flaw), case)
                    .unwrap_or_else(|| panic!("{case} does not detect {flaw:?}"));
                assert!(message.contains(sentence), "{case} on {flaw:?} reports: {message}");
            });
        }
    });
}

#[test]
fn every_case_detects_a_flaw() {
    for case in conformance::cases() {
        let is_used = DETECTED.iter().any(|(_, by, _)| *by == case) || fenced::detects(case);
        assert!(is_used, "no flaw shows that {case} can fail");
    }
}

#[test]
fn without_a_flaw_every_case_passes() {
    std::thread::scope(|scope| {
        for case in conformance::cases() {
            scope.spawn(move || assert_eq!(None, failure(&server(Sound), case), "{case}"));
        }
    });
}

/// Returns the message of a case that fails on a server.
fn failure(broken: &impl Backend, case: &str) -> Option<String> {
    let panic = catch_unwind(AssertUnwindSafe(|| conformance::run(broken, case))).err()?;
    let formatted = panic.downcast_ref::<String>().map(String::as_str);
    let message = formatted.or_else(|| panic.downcast_ref::<&str>().copied());
    Some(message.expect("a panic has a message").to_owned())
}

fn server(flaw: Flaw) -> Server {
    Server { flaw, held: Arc::default(), watchers: Arc::default() }
}

struct Server {
    flaw: Flaw,
    held: Arc<Mutex<Held>>,
    watchers: Arc<Watchers>,
}

impl Backend for Server {
    async fn node(&self) -> Arc<dyn LockNode> {
        static CLIENTS: AtomicU64 = AtomicU64::new(0);
        let client = CLIENTS.fetch_add(1, Ordering::Relaxed);
        let held = if self.flaw == ClientsAreSeparate { Arc::default() } else { self.held.clone() };
        let (busy, connection) = (AtomicUsize::new(0), AtomicU64::new(0));
        let watchers = Arc::clone(&self.watchers);
        Arc::new(Node { flaw: self.flaw, held, watchers, client, busy, connection })
    }

    async fn no_lock(&self) -> Option<Resource> {
        let far = suspend_aware_now() + Duration::from_secs(3600);
        lock(&self.held).insert(b"list".to_vec(), (NO_LOCK.to_vec(), far));
        Resource::new("list").ok()
    }
}
