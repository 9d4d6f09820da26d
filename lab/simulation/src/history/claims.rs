//! The owners and the resources of tokens.
//!
//! Requests do not name resources. A token is first sent by the client that claims with it, for its last requested
//! resources. A grant states the resources for certain.

use std::collections::BTreeMap;

use redlock_testkit::Operation;

use super::{EventKind, History, Request, TokenNumber};

/// The owner and the resources of a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Claimed {
    pub(crate) client: usize,
    pub(crate) resources: Vec<usize>,
}

/// Returns the claims of all tokens that were ever sent or granted.
pub(crate) fn claims(history: &History) -> BTreeMap<TokenNumber, Claimed> {
    let mut wanted: BTreeMap<usize, &Vec<usize>> = BTreeMap::new();
    let mut claims = BTreeMap::new();
    for event in &history.0 {
        match &event.kind {
            EventKind::Requested { client, resources, .. } => drop(wanted.insert(*client, resources)),
            EventKind::Sent(Request { client, operation: Operation::Acquire, token, .. }) => {
                let resources = wanted.get(client).map(|wanted| (*wanted).clone()).unwrap_or_default();
                claims.entry(*token).or_insert(Claimed { client: *client, resources });
            }
            EventKind::Granted { client, resources, token, .. } => {
                claims.insert(*token, Claimed { client: *client, resources: resources.clone() });
            }
            _ => {}
        }
    }
    claims
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::invariant::history_builder::HistoryBuilder;

    #[test]
    fn a_token_is_for_the_last_requested_resources() {
        let builder =
            HistoryBuilder::default().requested(0, 1).sent(1, 1, 0, 7).granted_several(3, 2, &[4, 5], 8, 9);
        let claims = claims(&builder.history());
        assert_eq!(Some(&Claimed { client: 1, resources: vec![0] }), claims.get(&TokenNumber(7)));
        assert_eq!(Some(&Claimed { client: 2, resources: vec![4, 5] }), claims.get(&TokenNumber(8)));
    }
}
