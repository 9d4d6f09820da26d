//! I5: a resource that checks fencing tokens never goes backward.
//!
//! If a resource accepts a message of one holder and then one of another, the second holder is the newer. The first one
//! does not come back. A write also replaces no value that is unknown to its holder, unless it is its own. The reason
//! is that a holder writes its fencing token before its first read. No older holder can then write between its read and
//! its write. A holder that reads first may overwrite such a write, and the resource cannot detect this.

use std::collections::{BTreeMap, BTreeSet};

use redlock_core::FencingToken;

use super::{Assumption, Invariant, Violation, forgotten};
use crate::history::{EventKind, History, TokenNumber};

#[derive(Default)]
struct Resource {
    latest: Option<(TokenNumber, FencingToken)>,
    /// The holders whose messages were accepted before one of another holder.
    past: BTreeSet<TokenNumber>,
    /// The holders that have written their fencing token first.
    announced: BTreeSet<TokenNumber>,
    /// The holders of the writes, in order.
    writes: Vec<TokenNumber>,
}

pub(super) fn check(history: &History) -> Vec<Violation> {
    let mut resources: BTreeMap<usize, Resource> = BTreeMap::new();
    let mut violations = Vec::new();
    for (event, entry) in history.0.iter().enumerate() {
        let EventKind::Wrote { client, resource, token, fence, seen, accepted: true } = entry.kind else {
            continue;
        };
        let state = resources.entry(resource).or_default();
        let Some((other, wrong)) = state.take(token, fence, seen) else { continue };
        let first = (!state.announced.contains(&token)).then_some(Assumption::TokensComeFirst);
        violations.push(Violation {
            invariant: Invariant::Resource,
            broken: forgotten(history, event).or(first),
            description: format!("r{resource} accepts a write of c{client} under {token}, {wrong} {other}"),
            tokens: vec![other, token],
            event,
        });
    }
    violations
}

impl Resource {
    /// Accepts a message. Returns a violation and the other holder.
    fn take(
        &mut self,
        token: TokenNumber,
        fence: FencingToken,
        seen: Option<u64>,
    ) -> Option<(TokenNumber, &'static str)> {
        let before = self.latest.replace((token, fence)).filter(|(other, _)| *other != token);
        if let Some((other, _)) = before {
            self.past.insert(other);
        }
        let unseen = seen.map_or(0, |seen| usize::try_from(seen).unwrap_or(usize::MAX));
        let unseen =
            self.writes.iter().skip(unseen).find(|other| seen.is_some() && **other != token).copied();
        match seen {
            Some(_) => self.writes.push(token),
            None => drop(self.announced.insert(token)),
        }
        match before {
            Some((other, _)) if self.past.contains(&token) => Some((other, "which was superseded by")),
            Some((other, greater)) if fence < greater => Some((other, "which is older than")),
            _ => unseen.map(|other| (other, "which had not seen the write of")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::history_builder::HistoryBuilder;
    use super::*;

    fn broken(builder: HistoryBuilder) -> Vec<Option<Assumption>> {
        check(&builder.history()).into_iter().map(|violation| violation.broken).collect()
    }

    /// Holder 0 has written its token 5, and then one value.
    fn first() -> HistoryBuilder {
        HistoryBuilder::default().announced(1, 0, 5).wrote(2, 0, 5, 0)
    }

    #[test]
    fn writes_in_order_are_valid_and_no_holder_returns() {
        let second = || first().announced(3, 1, 6).wrote(4, 1, 6, 1);
        assert_eq!(0, broken(second().wrote(5, 1, 6, 2)).len());
        assert_eq!(0, broken(second().rejected_write(5, 0, 5, 1)).len(), "the resource has rejected it");
        assert_eq!(vec![None], broken(second().wrote(5, 0, 5, 2)), "a resource that does not check");
        let twins = first().announced(3, 1, 5).wrote(4, 0, 5, 1);
        assert_eq!(vec![None], broken(twins), "two holders with one fencing token");
    }

    #[test]
    fn an_unknown_value_is_not_replaced() {
        assert_eq!(vec![None], broken(first().announced(3, 1, 6).wrote(4, 1, 6, 0)));
        assert_eq!(0, broken(first().wrote(4, 0, 5, 0)).len(), "the holder replaces its own value");
        let unannounced = first().wrote(4, 1, 6, 0);
        assert_eq!(vec![Some(Assumption::TokensComeFirst)], broken(unannounced));
    }
}
