//! The requests that clients have begun, so that the commands of servers can be recorded as theirs.

use std::collections::BTreeMap;

use redlock_core::runtime::Instant;
use redlock_testkit::Operation;

use crate::history::{Reply, Request, TokenNumber};

/// The requests about claims.
#[derive(Default)]
pub(crate) struct Calls {
    /// Those that no server has carried out, in the order in which they were begun.
    begun: BTreeMap<(usize, usize, TokenNumber), Vec<Request>>,
    /// The true times at which servers have carried out the others.
    carried_out: BTreeMap<u64, Instant>,
}

impl Calls {
    /// Remembers a request.
    pub(in crate::network) fn begin(&mut self, request: Request) {
        self.begun.entry((request.client, request.server, request.token)).or_default().push(request);
    }

    /// Returns the request that a server carries out. Without one, the client has sent a command twice.
    pub(crate) fn carried_out(
        &mut self,
        (client, server, token): (usize, usize, TokenNumber),
        operation: Operation,
        reply: Reply,
        now: Instant,
    ) -> Request {
        let requests = self.begun.entry((client, server, token)).or_default();
        let request = match requests.iter().position(|request| request.operation == operation) {
            // Another command may follow one that has failed.
            Some(position) if reply == Reply::Failed => requests[position],
            Some(position) => requests.remove(position),
            None => Request { client, server, operation, token, call: 0 },
        };
        self.carried_out.insert(request.call, now);
        request
    }

    /// Returns when a request was carried out, in true time.
    pub(in crate::network) fn carried_out_at(&self, request: Request) -> Option<Instant> {
        self.carried_out.get(&request.call).copied()
    }
}
