//! The stamp of a server that receives requests, by which clients recognize that it may have lost locks.
//!
//! The stamp is data, and the identity is not. A look runs the script of the library, as in the whole stack: a server that has
//! no other key carries it out.

use redlock_server::{ClientId, Command, Server, Settings};

use super::redis::{STAMP, identity};

pub(super) struct Stamped {
    pub(super) starts: u64,
    pub(super) promotions: u64,
    /// The text of the stamp.
    pub(super) stamp: Option<Vec<u8>>,
    /// It is created by the first look: without restart admission there is none.
    scripts: Option<(Server, ClientId)>,
}

impl Stamped {
    /// Returns the stamp of a server that has never lost anything.
    pub(super) fn new() -> Self {
        let Settings { replid2, .. } = Settings::default();
        let stamp = format!("1 {} {replid2} 0 0", identity(0, 0));
        Self { starts: 0, promotions: 0, stamp: Some(stamp.into_bytes()), scripts: None }
    }

    /// Carries a look out at a time, in microseconds since the Unix epoch. Returns the reply, and whether it has changed the
    /// stamp.
    pub(super) fn look(
        &mut self,
        command: &Command,
        is_replica: bool,
        now: u64,
    ) -> (redlock_wire::Reply, bool) {
        let (server, client) = self.scripts.get_or_insert_with(|| {
            let mut server = Server::new(Settings::default());
            let client = server.connect();
            (server, client)
        });
        let (starts, promotions, before) = (self.starts, self.promotions, self.stamp.take());
        server.set(|settings| {
            settings.run_id = identity(0, starts);
            settings.is_replica = is_replica;
            if promotions > 0 {
                settings.replid2 = identity(0, promotions);
            }
        });
        server.change(|keys| match before.as_deref().map(String::from_utf8_lossy) {
            Some(stamp) => keys.set_text(STAMP, &stamp),
            None => drop(keys.remove(STAMP)),
        });
        server.execute(*client, command, now);
        self.stamp = server.keys(|keys| keys.text(STAMP).map(<[u8]>::to_vec));
        let is_stamped = self.stamp != before;
        let reply = redlock_wire::decode(&server.take_output(*client));
        (reply.expect("the reply is complete").0, is_stamped)
    }
}
