//! The requests that clients have begun, so that the commands of servers can be recorded as theirs.

use std::collections::BTreeMap;

use redlock_testkit::Operation;

use crate::history::{Reply, Request, TokenNumber};

/// The requests about claims that no server has carried out, in the order in which they were begun.
#[derive(Default)]
pub(crate) struct Calls(BTreeMap<(usize, usize, TokenNumber), Vec<Request>>);

impl Calls {
    /// Remembers a request.
    pub(in crate::network) fn begin(&mut self, request: Request) {
        self.0.entry((request.client, request.server, request.token)).or_default().push(request);
    }

    /// Returns the request that a server carries out. Without one, the client has sent a command twice.
    pub(crate) fn carried_out(
        &mut self,
        client: usize,
        server: usize,
        token: TokenNumber,
        operation: Operation,
        reply: Reply,
    ) -> Request {
        let requests = self.0.entry((client, server, token)).or_default();
        match requests.iter().position(|request| request.operation == operation) {
            // Another command may follow one that has failed.
            Some(position) if reply == Reply::Failed => requests[position],
            Some(position) => requests.remove(position),
            None => Request { client, server, operation, token, call: 0 },
        }
    }
}
