//! I1: a resource has at most one valid holder, except that readers share it.
//!
//! The validity is that of the holder's own clock, in true time, since a program relies on it. Two validity periods of
//! one resource must not overlap. They are sorted by their beginning, and each is compared only with the latest end
//! before it. The check is thus O(n log n).
//!
//! A holder that acts outside its own period, during that of another, breaks exclusion too. The cause is then that the
//! holder was stopped and did not check its lease.

use std::collections::{BTreeMap, BTreeSet};

use redlock_core::runtime::Instant;

use super::holds::{Hold, holds};
use super::{Assumption, Invariant, Violation, excuse};
use crate::history::{EventKind, History, TokenNumber};

pub(super) fn check(history: &History) -> Vec<Violation> {
    let mut by_resource: BTreeMap<usize, Vec<Hold>> = BTreeMap::new();
    for hold in holds(history) {
        by_resource.entry(hold.resource).or_default().push(hold);
    }
    let readers: BTreeSet<TokenNumber> = history.0.iter().filter_map(|entry| reader(&entry.kind)).collect();
    let mut violations = Vec::new();
    for holds in by_resource.values_mut() {
        holds.sort_by_key(|hold| (hold.from, hold.event));
        violations.extend(overlaps(history, holds, &readers));
    }
    violations.extend(acts(history, &by_resource, &readers));
    violations
}

/// Returns the token of a reader.
fn reader(event: &EventKind) -> Option<TokenNumber> {
    if let EventKind::Reads { token, .. } = event { Some(*token) } else { None }
}

fn overlaps(history: &History, holds: &[Hold], readers: &BTreeSet<TokenNumber>) -> Vec<Violation> {
    let mut violations = Vec::new();
    // The latest period so far, of all holders and of all holders except readers.
    let (mut of_all, mut of_writers): (Option<&Hold>, Option<&Hold>) = (None, None);
    for hold in holds {
        let reads = readers.contains(&hold.token);
        let furthest = if reads { of_writers } else { of_all };
        if let Some(other) = furthest.filter(|other| other.until > hold.from && other.token != hold.token) {
            let description = format!(
                "c{} acquires r{} as {} while c{} holds it as {}",
                hold.client, hold.resource, hold.token, other.client, other.token
            );
            // The keys of the first quorum should have prevented the other grant. The first may be the later hold,
            // because a stopped client learns late of its grant or extension.
            let broken =
                [other.token, hold.token].into_iter().find_map(|token| excuse(history, token, hold.event));
            violations.push(Violation {
                invariant: Invariant::Exclusion,
                broken,
                description,
                tokens: vec![other.token, hold.token],
                event: hold.event,
            });
        }
        let is_further = |furthest: Option<&Hold>| furthest.is_none_or(|other| hold.until > other.until);
        if is_further(of_all) {
            of_all = Some(hold);
        }
        if !reads && is_further(of_writers) {
            of_writers = Some(hold);
        }
    }
    violations
}

fn acts(
    history: &History,
    by_resource: &BTreeMap<usize, Vec<Hold>>,
    readers: &BTreeSet<TokenNumber>,
) -> Vec<Violation> {
    let mut own: BTreeMap<TokenNumber, Vec<Hold>> = BTreeMap::new();
    for hold in by_resource.values().flatten() {
        own.entry(hold.token).or_default().push(*hold);
    }
    let mut violations = Vec::new();
    for (event, entry) in history.0.iter().enumerate() {
        let EventKind::Acted { client, token } = entry.kind else { continue };
        let Some(mine) = own.get(&token) else { continue };
        // The actions of overlapping holders are valid, and the overlap is reported above. A release at the same moment is
        // valid too.
        if mine.iter().any(|hold| hold.from <= entry.at && entry.at <= hold.until) {
            continue;
        }
        let resources: BTreeSet<_> = mine.iter().map(|hold| hold.resource).collect();
        let mut holders = resources.iter().filter_map(|resource| holder_at(&by_resource[resource], entry.at));
        let both_read = |holder: &Hold| readers.contains(&token) && readers.contains(&holder.token);
        let Some(holder) = holders.next().filter(|holder| !both_read(holder)) else { continue };
        let description = format!(
            "c{client} acts on r{} under {token} while c{} holds it as {}",
            holder.resource, holder.client, holder.token
        );
        violations.push(Violation {
            invariant: Invariant::Exclusion,
            broken: Some(Assumption::HoldersCheckLeases),
            description,
            tokens: vec![token, holder.token],
            event,
        });
    }
    violations
}

/// Returns the period that contains a moment, of periods sorted by their beginning.
fn holder_at(holds: &[Hold], at: Instant) -> Option<&Hold> {
    let begun = holds.partition_point(|hold| hold.from <= at);
    holds[..begun].last().filter(|hold| at < hold.until)
}

#[cfg(test)]
mod tests {
    use super::super::history_builder::HistoryBuilder;
    use super::*;

    fn broken(builder: HistoryBuilder) -> Vec<Option<Assumption>> {
        check(&builder.history()).into_iter().map(|violation| violation.broken).collect()
    }

    #[test]
    fn holds_may_follow_each_other_but_not_overlap() {
        let builder = || HistoryBuilder::default().granted(1, 0, 0, 10);
        assert_eq!(0, broken(builder().granted(10, 1, 1, 20)).len(), "a lease ends at its deadline");
        assert_eq!(vec![None], broken(builder().granted(9, 1, 1, 20)));
        assert_eq!(0, broken(builder().releasing(5, 0, 0).granted(5, 1, 1, 20)).len());
        assert_eq!(0, broken(builder().killed(5, 0).granted(5, 1, 1, 20)).len());
        assert_eq!(
            vec![None],
            broken(builder().killed(5, 7).granted(6, 1, 1, 20)),
            "another client was killed"
        );
    }

    #[test]
    fn an_extension_moves_the_end_and_does_not_revive_an_expired_lease() {
        let builder = || HistoryBuilder::default().granted(1, 0, 0, 10);
        assert_eq!(vec![None], broken(builder().extended(5, 0, 0, 30).granted(20, 1, 1, 40)));
        assert_eq!(
            0,
            broken(builder().extended(5, 0, 0, 8).granted(10, 1, 1, 40)).len(),
            "an extension does not shorten the lease"
        );
        let revived = builder().granted(11, 1, 1, 20).extended(12, 0, 0, 15);
        assert_eq!(vec![None], broken(revived), "the lease expired at 10 and was extended at 12");
    }

    #[test]
    fn readers_share_a_resource_and_exclude_writers() {
        let readers = || HistoryBuilder::default().reader(1, 0, 0, 10).reader(2, 1, 1, 30);
        assert_eq!(0, broken(readers().reader(5, 2, 2, 20)).len());
        assert_eq!(vec![None], broken(readers().granted(20, 2, 2, 40)), "the second one still reads");
        assert_eq!(0, broken(readers().granted(30, 2, 2, 40)).len());
        let writer = || HistoryBuilder::default().reader(1, 0, 0, 5).granted(5, 1, 1, 30);
        assert_eq!(
            vec![None],
            broken(writer().reader(20, 2, 2, 40)),
            "a short reader does not hide the writer"
        );
        assert_eq!(vec![None; 2], broken(writer().reader(20, 2, 2, 40).reader(21, 3, 3, 40)));
    }

    #[test]
    fn a_lock_that_is_kept_has_no_other_holder_before_the_promised_end() {
        let kept = || HistoryBuilder::default().granted(1, 0, 0, 10).keeping(4, 0, 0).kept(5, 0, 0, 30);
        assert_eq!(0, broken(kept().granted(30, 1, 1, 40)).len());
        assert_eq!(vec![None], broken(kept().granted(29, 1, 1, 40)), "after the end of the lease");
        assert_eq!(
            vec![None],
            broken(kept().killed(6, 0).granted(29, 1, 1, 40)),
            "after the end of the client"
        );
        let shortened = HistoryBuilder::default().granted(1, 0, 0, 100).keeping(4, 0, 0).kept(5, 0, 0, 30);
        assert_eq!(0, broken(shortened.granted(30, 1, 1, 40)).len());
        let failed = HistoryBuilder::default().granted(1, 0, 0, 10).keeping(4, 0, 0).granted(5, 1, 1, 40);
        assert_eq!(0, broken(failed).len(), "no end was promised");
    }

    #[test]
    fn a_short_lease_does_not_hide_a_long_one() {
        let builder =
            HistoryBuilder::default().granted(1, 0, 0, 100).granted(2, 1, 1, 3).granted(50, 2, 2, 60);
        assert_eq!(2, broken(builder).len());
    }

    #[test]
    fn each_resource_of_several_has_one_holder() {
        let both = || HistoryBuilder::default().granted_several(1, 0, &[0, 1], 0, 10);
        assert_eq!(0, broken(both().granted_several(5, 1, &[2], 1, 20)).len());
        assert_eq!(vec![None], broken(both().granted_several(5, 1, &[1, 2], 1, 20)));
        assert_eq!(
            vec![None; 2],
            broken(both().granted_several(5, 1, &[0, 1], 1, 20)),
            "one violation for each resource"
        );
        assert_eq!(vec![None], broken(both().extended(5, 0, 0, 30).granted_several(20, 1, &[1], 1, 40)));
        assert_eq!(0, broken(both().releasing(5, 0, 0).granted_several(5, 1, &[1], 1, 20)).len());
        assert_eq!(0, broken(both().killed(5, 0).granted_several(5, 1, &[1], 1, 20)).len());
        let late = both().granted_several(11, 1, &[1], 1, 20).acted(12, 0, 0);
        assert_eq!(vec![Some(Assumption::HoldersCheckLeases)], broken(late));
    }

    #[test]
    fn a_violation_names_the_broken_assumption() {
        let lost = HistoryBuilder::default()
            .sent(0, 0, 0, 0)
            .granted(1, 0, 0, 10)
            .lost(2, 0, 0)
            .granted(3, 1, 1, 20);
        assert_eq!(vec![Some(Assumption::DataIsKept)], broken(lost));
        let other = HistoryBuilder::default()
            .sent(0, 0, 0, 0)
            .granted(1, 0, 0, 10)
            .lost(2, 0, 9)
            .granted(3, 1, 1, 20);
        assert_eq!(vec![None], broken(other), "another key was lost");
        let set = HistoryBuilder::default()
            .sent(0, 0, 0, 0)
            .granted(1, 0, 0, 10)
            .stepped(2, 0)
            .granted(3, 1, 1, 20);
        assert_eq!(vec![Some(Assumption::ClocksAreNotSet)], broken(set));
        let before = HistoryBuilder::default()
            .stepped(0, 0)
            .sent(0, 0, 0, 0)
            .granted(1, 0, 0, 10)
            .granted(3, 1, 1, 20);
        assert_eq!(vec![None], broken(before), "an earlier clock step is no explanation");
        let old = HistoryBuilder::default().sent(0, 0, 0, 0).granted(1, 0, 0, 10).lost(9, 0, 0);
        let noticed = old.granted(11, 1, 1, 20).extended(12, 0, 0, 15);
        assert_eq!(vec![Some(Assumption::DataIsKept)], broken(noticed), "the earlier lease had lost its key");
    }

    #[test]
    fn a_stopped_client_may_receive_a_grant_after_its_key_was_lost() {
        let builder = || HistoryBuilder::default().sent(0, 0, 0, 0).granted(2, 1, 1, 20);
        assert_eq!(vec![None], broken(builder().granted(5, 0, 0, 9)));
        assert_eq!(vec![Some(Assumption::DataIsKept)], broken(builder().lost(1, 0, 0).granted(5, 0, 0, 9)));
    }

    #[test]
    fn an_action_after_the_lease_is_a_violation_only_if_another_client_holds_the_lock() {
        let builder = || HistoryBuilder::default().granted(1, 0, 0, 10);
        assert_eq!(0, broken(builder().acted(5, 0, 0).acted(15, 0, 0)).len());
        let late = builder().granted(11, 1, 1, 20).acted(12, 0, 0);
        assert_eq!(vec![Some(Assumption::HoldersCheckLeases)], broken(late));
        let last = builder().granted(3, 1, 1, 20).acted(5, 0, 0).releasing(5, 0, 0);
        assert_eq!(vec![None], broken(last), "the client held the lock when it acted, and then released it");
        let both = builder().granted(9, 1, 1, 20).acted(9, 0, 0).acted(9, 1, 1);
        assert_eq!(vec![None], broken(both), "the violation is the overlap, not the actions");
    }
}
