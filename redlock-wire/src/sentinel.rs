//! A node whose server is chosen by sentinels: the master of one service.
//!
//! A server is used only while a majority of the sentinels *confirms* it: each of them names it, and none of these sees
//! it down or in a failover. Sentinels need such a majority to promote a replica, so a server that was cut off from them
//! is given up. A connection is confirmed before it is used and once a second, and its votes do not count if the last
//! confirmation is older than [`CONFIRMED_FOR`].
//!
//! A promoted server stays in quarantine for [`MARGIN`] longer than a server that was restarted. Meanwhile the votes of
//! the former master have ended, too.

mod poll;

use std::pin::pin;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use redlock_core::runtime::{Instant, Runtime};

pub(crate) use self::poll::Master;
use self::poll::{Poll, Sight};
use crate::attended::elapse;
use crate::connection::{Connection, Connector};
use crate::credentials::Credentials;
use crate::first::first;
use crate::message::{Command, Failure};
use crate::push::Hub;
use crate::secret::Secret;
use crate::sentinels::Sentinels;

/// The time between two confirmations.
const INTERVAL: Duration = Duration::from_secs(1);

/// The time limit of a confirmation. Sentinels that do not reply within it do not confirm the master.
const LIMIT: Duration = Duration::from_millis(500);

/// The age at which a confirmation expires. One that fails is repeated before.
pub(crate) const CONFIRMED_FOR: Duration = Duration::from_secs(3);

/// The additional time of a quarantine: the age of a confirmation, and the time in which sentinels learn of a failover
/// from each other. They exchange messages every 2 s.
pub(crate) const MARGIN: Duration = Duration::from_secs(8);

impl<C: Connector> Sentinels<C> {
    /// Starts to ask these sentinels.
    pub(crate) fn inquiry(&self) -> Inquiry<'_, C> {
        Inquiry { sentinels: self, open: self.members.iter().map(|_| None).collect() }
    }

    /// Asks one sentinel. Returns its reply, and the connection if it can be used again.
    async fn ask(&self, member: &C, open: Option<C::Connection>) -> (Sight, Option<C::Connection>) {
        let secret = Secret::of(member.password());
        let connection = match open {
            Some(connection) => connection,
            None => match member.connect(None, &Hub::default()).await {
                Ok(connection) => connection,
                Err(failure) => return (Sight::none(secret.published(&failure.message)), None),
            },
        };
        let command = |args| C::Connection::pack(Command::Other { name: "SENTINEL", args });
        let service = [b"MASTER".as_slice(), self.service.as_bytes()];
        match connection.pipeline(vec![command(&[b"MYID"]), command(&service)]).await {
            Ok(replies) => (Sight::read(&replies, |text| secret.published(text)), Some(connection)),
            Err(failure) => (Sight::none(secret.published(&failure.message)), None),
        }
    }
}

/// Connections to the sentinels, which are kept for the next question.
pub(crate) struct Inquiry<'a, C: Connector> {
    sentinels: &'a Sentinels<C>,
    open: Vec<Option<C::Connection>>,
}

impl<C: Connector> Inquiry<'_, C> {
    /// Asks all sentinels, and returns as soon as a majority confirms a master. The error is the reason why none does.
    pub(crate) async fn find(&mut self) -> Result<Master, String> {
        let mut poll = Poll::new(self.sentinels.members.len());
        self.hear(&mut poll, |poll| poll.result().is_ok()).await;
        poll.result()
    }

    /// Asks all sentinels, and waits for each reply within the limit.
    async fn confirm(&mut self, runtime: &dyn Runtime) -> Result<Master, String> {
        // Not shortened at a majority: the slowest connection would be opened again each time.
        let mut poll = Poll::new(self.sentinels.members.len());
        first(self.hear(&mut poll, |_| false), elapse(runtime, LIMIT)).await;
        poll.result()
    }

    /// Asks all sentinels, until there are enough replies.
    async fn hear(&mut self, poll: &mut Poll, is_enough: impl Fn(&Poll) -> bool) {
        let (sentinels, open) = (self.sentinels, &mut self.open);
        let members = sentinels.members.iter().zip(open.iter_mut().map(Option::take)).enumerate();
        let asked = members.map(|(index, (member, open))| async move {
            let (sight, open) = sentinels.ask(member, open).await;
            (index, member.label(), sight, open)
        });
        let mut replies = pin!(asked.collect::<FuturesUnordered<_>>());
        while let Some((index, label, sight, connection)) = replies.next().await {
            poll.hear(index, label, sight);
            open[index] = connection;
            if is_enough(poll) {
                return;
            }
        }
    }

    /// Confirms the master of a connection once a second. `confirmed` is called after each success, with the time of
    /// the question.
    ///
    /// Returns the reason when the sentinels name another master, or when the last confirmation has expired.
    pub(crate) async fn watch(
        mut self,
        master: &Master,
        asked: Instant,
        runtime: &dyn Runtime,
        confirmed: impl Fn(Instant),
    ) -> String {
        let mut last = asked;
        loop {
            runtime.sleep(INTERVAL).await;
            let asked = runtime.now();
            match self.confirm(runtime).await {
                Ok(named) if named == *master => {
                    last = asked;
                    confirmed(asked);
                }
                Ok(named) => return format!("the sentinels name another master, {named}"),
                Err(reason) if runtime.now() >= last + CONFIRMED_FOR => return reason,
                Err(_) => {}
            }
        }
    }
}

/// A connection to the server of a connector, and the master that it leads to if sentinels choose it.
pub(crate) async fn reach<C: Connector>(
    connector: &C,
    login: Option<&Credentials>,
    hub: &Hub,
) -> Result<(C::Connection, Option<Master>), Failure> {
    if connector.cluster().is_some() {
        return Err(Failure::not_sent("this is a cluster; its servers have addresses of their own"));
    }
    let Some(sentinels) = connector.sentinels() else {
        return Ok((connector.connect(login, hub).await?, None));
    };
    let master = sentinels.inquiry().find().await.map_err(|reason| Failure::not_sent(&reason))?;
    let server = (sentinels.server)(&master.host, master.port);
    let connection = server.connect(login, hub).await;
    let at = |failure: Failure| Failure::not_sent(&format!("master {master}: {}", failure.message));
    Ok((connection.map_err(at)?, Some(master)))
}
