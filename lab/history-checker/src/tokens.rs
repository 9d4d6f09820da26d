//! Fencing tokens: each is greater than that of every acquisition that ended before its own began, and none repeats.

use std::collections::{BTreeMap, HashMap};

use crate::hold::{Hold, Interval};
use crate::violation::Violation;

/// A fenced acquisition that succeeded.
#[derive(Clone, Copy)]
struct Grant<'a> {
    hold: &'a Hold,
    acquired: u64,
    token: u64,
}

pub(crate) fn tokens(holds: &[Hold]) -> Vec<Violation> {
    let mut resources: BTreeMap<&str, Vec<Grant<'_>>> = BTreeMap::new();
    for hold in holds {
        if let (Some(acquired), Some(token)) = (hold.acquired, hold.token) {
            resources.entry(&hold.resource).or_default().push(Grant { hold, acquired, token });
        }
    }
    resources.into_values().flat_map(of_resource).collect()
}

fn of_resource(mut grants: Vec<Grant<'_>>) -> Vec<Violation> {
    let mut by_end = grants.clone();
    by_end.sort_by_key(|grant| grant.acquired);
    grants.sort_by_key(|grant| grant.hold.invoked);
    let mut ended = by_end.into_iter().peekable();
    let mut greatest: Option<Grant<'_>> = None;
    let mut seen: HashMap<u64, Grant<'_>> = HashMap::new();
    let mut violations = Vec::new();
    for grant in grants {
        while let Some(earlier) = ended.next_if(|earlier| earlier.acquired < grant.hold.invoked) {
            if greatest.is_none_or(|greatest| earlier.token > greatest.token) {
                greatest = Some(earlier);
            }
        }
        let earlier = greatest.filter(|greatest| greatest.token > grant.token);
        let same = seen.insert(grant.token, grant);
        violations.extend(earlier.or(same).map(|earlier| violation(earlier, grant)));
    }
    violations
}

fn violation(earlier: Grant<'_>, later: Grant<'_>) -> Violation {
    let times = [earlier.acquired, later.hold.invoked];
    Violation::Token {
        resource: later.hold.resource.clone(),
        first: (earlier.hold.id.clone(), earlier.token),
        second: (later.hold.id.clone(), later.token),
        between: Interval { from: times[0].min(times[1]), until: times[0].max(times[1]) },
    }
}
