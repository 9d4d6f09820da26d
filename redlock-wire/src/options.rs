//! The options of a node, independent of the client.

use std::error::Error;
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use redlock_core::runtime::Runtime;

use crate::certificates::{Certificates, Identity};
use crate::credentials::{Credentials, Source};
use crate::longest::Longest;
use crate::stamp::StampKey;

/// The runtime of a node, and its options.
///
/// Creating them does no I/O. Clones share the runtime.
#[derive(Clone)]
#[must_use = "options do nothing until nodes are made with them"]
pub struct Options {
    pub(crate) runtime: Arc<dyn Runtime>,
    pub(crate) connect_timeout: ConnectTimeout,
    pub(crate) reconnect_delay: Duration,
    pub(crate) native_commands: bool,
    pub(crate) keys: Arc<Keys>,
    /// The longest TTL, if there is restart admission.
    pub(crate) longest: Option<Arc<Longest>>,
    /// True if a server counts only after its clock was watched for the time of a quarantine.
    pub(crate) strict_clocks: bool,
    /// The longest TTL of nodes whose server may be a promoted replica, if none is set.
    of_promoted: Arc<Longest>,
    /// Set if the server is a shard of a cluster: the stamp and the label that it then has.
    pub(crate) shard: Option<Shard>,
    pub(crate) certificates: Arc<Certificates>,
    /// The callback for the login, if there is one.
    pub(crate) credentials: Option<Source>,
}

/// A server that is a shard of a cluster.
#[derive(Clone)]
pub(crate) struct Shard {
    pub(crate) stamp: StampKey,
    /// The label of the cluster. It is also that of the metric of connections: a former master has none, which is no fault.
    pub(crate) cluster: Arc<str>,
}

/// The settings that determine keys. Shared, so that comparing the same one is a comparison of addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Keys {
    pub(crate) prefix: Box<[u8]>,
    pub(crate) fence_prefix: Box<[u8]>,
    pub(crate) fence_retention: Duration,
}

/// The default connect timeout, 300 ms. TCP, TLS and the handshake take about four round trips, so it suffices around
/// the world. With the longest backoff (200 ms), a server that comes back is used again within a second.
const CONNECT_TIMEOUT: Duration = Duration::from_millis(300);

/// The shortest delay between two connection attempts. It does not burden a server that closes every connection at once.
pub(crate) const SHORTEST_DELAY: Duration = Duration::from_millis(10);

/// The default of the longest delay between them. With a connect timeout of 300 ms, a server that comes back is used again within a
/// second.
pub(crate) const LONGEST_DELAY: Duration = Duration::from_millis(200);

/// The default prefix of the keys of fencing counters.
pub(crate) const FENCE_PREFIX: &[u8] = b"redlock:fence:";

/// The default time for which a fencing counter is kept after its last lock has expired.
///
/// It must exceed the longest pause after which a client still tries to write. After a counter has expired, the next
/// one starts from the server's time, which is greater.
const FENCE_RETENTION: Duration = Duration::from_secs(24 * 60 * 60);

/// The default of the longest TTL of nodes whose server may be a promoted replica. It bounds the time without locks after
/// a failover.
const PROMOTED_LONGEST: Duration = Duration::from_secs(30);

/// The upper limit when a node timeout raises the connect timeout.
const LONGEST_RAISED: Duration = Duration::from_secs(10);

/// The time limit of a connection attempt: the configured one, or almost the node timeout if that is longer. Clones share
/// the node timeout.
#[derive(Clone)]
pub(crate) struct ConnectTimeout {
    chosen: Duration,
    /// The node timeout in milliseconds.
    raised: Arc<AtomicU32>,
}

impl ConnectTimeout {
    fn of(chosen: Duration) -> Self {
        Self { chosen, raised: Arc::default() }
    }

    /// Raises the limit to at least the node timeout, because a connection may take as long as a reply.
    pub(crate) fn raise(&self, node_timeout: Duration) {
        let millis = node_timeout.min(LONGEST_RAISED).as_millis();
        self.raised.fetch_max(u32::try_from(millis).unwrap_or(u32::MAX), Ordering::Relaxed);
    }

    /// Returns the limit. If it follows the node timeout, it is shorter by a sixteenth.
    ///
    /// The attempt then ends before the request that waits for it, so the error of this request states the reason.
    pub(crate) fn get(&self) -> Duration {
        let node_timeout = self.node_timeout();
        self.chosen.max(node_timeout.saturating_sub(node_timeout / 16))
    }

    /// Returns the node timeout, as far as it is known: at most [`LONGEST_RAISED`].
    pub(crate) fn node_timeout(&self) -> Duration {
        Duration::from_millis(self.raised.load(Ordering::Relaxed).into())
    }
}

impl Options {
    /// Returns a copy for one node, with a separate node timeout.
    ///
    /// `chosen`: whether sentinels choose the server. An attempt to connect then consists of two connections.
    pub(crate) fn of_a_node(&self, chosen: bool) -> Self {
        let (connections, longest) = if chosen {
            (2, Some(self.longest.as_ref().unwrap_or(&self.of_promoted)))
        } else {
            (1, self.longest.as_ref())
        };
        let connect_timeout = ConnectTimeout::of(self.connect_timeout.chosen.saturating_mul(connections));
        Self { connect_timeout, longest: longest.cloned(), ..self.clone() }
    }

    /// Returns a copy for a shard of a cluster.
    pub(crate) fn of_a_shard(&self, shard: Shard) -> Self {
        let longest = self.longest.as_ref().unwrap_or(&self.of_promoted);
        Self { longest: Some(Arc::clone(longest)), shard: Some(shard), ..self.clone() }
    }

    /// Creates options with the runtime on which the nodes' connections and tasks run.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use redlock_core::TokioRuntime;
    /// # use redlock_wire::Options;
    /// # let tokio = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    /// // Connections run on this runtime, even if another one uses the locks.
    /// let runtime = TokioRuntime::on(tokio.handle().clone());
    /// let options = Options::new(Arc::new(runtime));
    /// # drop(options);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn new(runtime: Arc<dyn Runtime>) -> Self {
        let keys =
            Keys { prefix: [].into(), fence_prefix: FENCE_PREFIX.into(), fence_retention: FENCE_RETENTION };
        let connect_timeout = ConnectTimeout::of(CONNECT_TIMEOUT);
        Self {
            runtime,
            connect_timeout,
            reconnect_delay: LONGEST_DELAY,
            native_commands: false,
            keys: Arc::new(keys),
            longest: None,
            strict_clocks: false,
            of_promoted: Longest::new(PROMOTED_LONGEST),
            shard: None,
            certificates: Arc::default(),
            credentials: None,
        }
    }

    /// Creates options for tokio: the tokio runtime in which a node is first used.
    ///
    /// ```
    /// # use redlock_wire::Options;
    /// let options = Options::tokio().key_prefix("orders-service:");
    /// # drop(options);
    /// ```
    #[cfg(feature = "tokio")]
    pub fn tokio() -> Self {
        Self::new(Arc::new(redlock_core::TokioRuntime::new()))
    }

    /// Creates options for the thread of the library: see [`TokioRuntime::dedicated`].
    ///
    /// Use it for synchronous programs, and for programs with several tokio runtimes.
    ///
    /// ```
    /// # use redlock_wire::Options;
    /// let options = Options::dedicated().key_prefix("orders-service:");
    /// # drop(options);
    /// ```
    ///
    /// # Panics
    ///
    /// If the operating system cannot start the thread.
    ///
    /// [`TokioRuntime::dedicated`]: redlock_core::TokioRuntime::dedicated
    #[cfg(feature = "tokio")]
    pub fn dedicated() -> Self {
        Self::new(Arc::new(redlock_core::TokioRuntime::dedicated()))
    }

    /// Creates options for the global executor of smol.
    ///
    /// ```
    /// # use redlock_wire::Options;
    /// let options = Options::smol().key_prefix("orders-service:");
    /// # drop(options);
    /// ```
    #[cfg(feature = "smol")]
    pub fn smol() -> Self {
        Self::new(Arc::new(redlock_core::SmolRuntime::new()))
    }

    /// Sets the prefix that turns the name of a resource into its key.
    ///
    /// The default is no prefix. Without a prefix, these locks and those of other Redlock implementations are mutually
    /// exclusive. The bytes of the prefix need not be text.
    ///
    /// Set a prefix if names come from users and the servers hold anything else. Without it, a user can choose the name
    /// of any key. `prefix + name` can be the same for two applications, such as `a` with `b:c` and `a:b` with `c`. To
    /// rule that out, use prefixes that all end in the same character and contain it nowhere else.
    ///
    /// A name whose key would be that of a [fencing counter](Options::fence_prefix) is
    /// [`InvalidInput`](redlock_core::ErrorKind::InvalidInput).
    ///
    /// ```
    /// # #[cfg(feature = "tokio")] {
    /// # use redlock_wire::Options;
    /// // The lock on "invoice:42" is then the key "orders-service:invoice:42".
    /// let options = Options::tokio().key_prefix("orders-service:");
    /// # drop(options); }
    /// ```
    pub fn key_prefix(mut self, prefix: impl AsRef<[u8]>) -> Self {
        Arc::make_mut(&mut self.keys).prefix = prefix.as_ref().into();
        self
    }

    /// Sets the time limit of one connection attempt. The default is 300 ms.
    ///
    /// The limit covers TCP, TLS, authentication and handshake together: three round trips with redlock-redis-rs and six
    /// with redlock-fred, and more with TLS. Raise it for servers with a round trip of more than 80 ms or 40 ms. The
    /// minimum is 1 ms; smaller values count as 1 ms. If 15/16 of the [node
    /// timeout](redlock_core::Builder::node_timeout) are longer, they apply instead, up to 9.4 s. A request that waits for
    /// the first connection can then report why there is none.
    ///
    /// If sentinels choose the server, the limit is doubled, because it includes the question to the sentinels.
    ///
    /// The limit delays no request: a request waits at most the node timeout for the first connection, and not at all
    /// for later ones.
    ///
    /// ```
    /// # #[cfg(feature = "tokio")] {
    /// # use std::time::Duration;
    /// # use redlock_wire::Options;
    /// // A TLS proxy in front of the servers needs up to 1 s to connect.
    /// let options = Options::tokio().connect_timeout(Duration::from_secs(1));
    /// # drop(options); }
    /// ```
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = ConnectTimeout::of(timeout.max(Duration::from_millis(1)));
        self
    }

    /// Sets the longest delay between two connection attempts. The default is 200 ms.
    ///
    /// The minimum is 10 ms; shorter values count as 10 ms. The delays double from 10 ms up to this one, and each is
    /// random between half of its value and all of it. Raise it if many processes reconnect to a server at once; a
    /// server that comes back is then used again later. After a rejected login or TLS certificate, or at a Sentinel or
    /// cluster node, the delay is 5 s, or this one if it is longer.
    ///
    /// ```
    /// # #[cfg(feature = "tokio")] {
    /// # use std::time::Duration;
    /// # use redlock_wire::Options;
    /// // Thousands of processes reconnect when a server comes back.
    /// let options = Options::tokio().reconnect_delay(Duration::from_secs(5));
    /// # drop(options); }
    /// ```
    pub fn reconnect_delay(mut self, max: Duration) -> Self {
        self.reconnect_delay = max.max(SHORTEST_DELAY);
        self
    }

    /// Sets whether commands of newer servers replace scripts. The default is `false`.
    ///
    /// `DELIFEQ` of Valkey 9.0 and `DELEX` of Redis 8.4 release a lock on one resource, in about a third of the server
    /// time. They do not reserve it for the next waiter, so a process that acquires and releases in a loop lets the waiters
    /// of other processes wait. A server whose ACL forbids the commands receives scripts anyway.
    ///
    /// If `false`, all servers receive scripts. A server that forbids scripts still receives the commands.
    ///
    /// ```
    /// # #[cfg(feature = "tokio")] {
    /// # use redlock_wire::Options;
    /// // Releases are cheaper, and the order of waiters does not matter.
    /// let options = Options::tokio().native_commands(true);
    /// # drop(options); }
    /// ```
    pub fn native_commands(mut self, native: bool) -> Self {
        self.native_commands = native;
        self
    }

    /// Sets the longest TTL of any lock, and excludes servers that may have lost locks.
    ///
    /// A server that comes back without its keys grants locks that other clients still hold. It may have been restarted
    /// empty or from a snapshot, flushed, or promoted from a replica. With this setting, its votes do not count until
    /// the lost locks have expired. The time is 1 % and 2 ms longer than this TTL, and at least 6 s. A quorum of the
    /// other servers still grants locks. [`Redlock::health`](redlock_core::Redlock::health) reports the quarantine and
    /// the time left.
    ///
    /// A server whose wall clock steps forward, or runs fast, loses locks too, because keys expire early. The clock is
    /// read with `TIME` behind each vote and once a second: see
    /// [`ServerClock`](redlock_core::node::ServerClock). Without the right to run it, jumps are not detected, and a
    /// warning is logged.
    ///
    /// Longer TTLs of locks, extensions and resumed leases are rejected. `keep_for` is not limited, and its keys are not
    /// protected.
    ///
    /// All programs that use the servers must set the same value. The value is limited to 10 ms to 24 days. It is in
    /// the key `redlock:admission` of each server, to which the user of the program needs access. No resource can have
    /// this name. Each connection reads the key once a second. Over RESP2 and over connections of the application, each
    /// request is followed by a read of it.
    ///
    /// On first use, no server counts for this time: see [`Redlock::vouch`](redlock_core::Redlock::vouch).
    ///
    /// The default is no limit: nothing is checked, and operators must keep such a server away from the clients. For a
    /// node whose server sentinels choose, and for a cluster, the default is 30 s, and a quarantine is 8 s longer.
    ///
    /// ```
    /// # #[cfg(feature = "tokio")] {
    /// # use std::time::Duration;
    /// # use redlock_wire::Options;
    /// // No lock is longer than 30 s, so a server that lost its data counts again
    /// // after about that time.
    /// let options = Options::tokio().longest_ttl(Duration::from_secs(30));
    /// # drop(options); }
    /// ```
    pub fn longest_ttl(mut self, longest: Duration) -> Self {
        self.longest = Some(Longest::new(longest));
        self
    }

    /// Returns whether a [longest TTL](Self::longest_ttl) is set.
    ///
    /// ```
    /// # #[cfg(feature = "tokio")] {
    /// # use std::time::Duration;
    /// # use redlock_wire::Options;
    /// let options = Options::tokio();
    /// assert!(!options.has_longest_ttl());
    /// assert!(options.longest_ttl(Duration::from_secs(30)).has_longest_ttl()); }
    /// ```
    pub fn has_longest_ttl(&self) -> bool {
        self.longest.is_some()
    }

    /// Sets whether a program counts a server only after it has watched the server's clock for the time of a quarantine.
    ///
    /// The default is `false`. It has an effect only with a [longest TTL](Self::longest_ttl).
    ///
    /// A jump of a clock is noticed by the programs that are connected, and others learn of it from the server. If no
    /// program is connected when the clock jumps, one that connects afterwards cannot know of the jump. With this setting,
    /// it waits in any case: its first lock takes a longest TTL and 1 %, at least 6 s, from the first connections on. So
    /// set it for services that run for long, and not for short programs. [`Redlock::vouch`] of the same program ends the
    /// wait. It requires access to the key `redlock:admission`, and the right to run `TIME`.
    ///
    /// [`Redlock::vouch`]: redlock_core::Redlock::vouch
    ///
    /// ```
    /// # #[cfg(feature = "tokio")] {
    /// # use std::time::Duration;
    /// # use redlock_wire::Options;
    /// // The service starts once a week. It may wait for 30 s then.
    /// let options = Options::tokio().longest_ttl(Duration::from_secs(30));
    /// let options = options.strict_clocks(true);
    /// # drop(options); }
    /// ```
    pub fn strict_clocks(mut self, strict: bool) -> Self {
        self.strict_clocks = strict;
        self
    }

    /// Sets the prefix of the keys of fencing counters.
    ///
    /// The default is `redlock:fence:`. The counter of `invoice:42` is then `redlock:fence:{invoice:42}`. All programs
    /// that acquire fenced locks must use the same prefix. It should contain no braces: they keep a counter in the hash
    /// slot of its resource.
    ///
    /// ```
    /// # #[cfg(feature = "tokio")] {
    /// # use redlock_wire::Options;
    /// // The counter of "invoice:42" is then "orders-service:fence:{invoice:42}".
    /// let options = Options::tokio().fence_prefix("orders-service:fence:");
    /// # drop(options); }
    /// ```
    pub fn fence_prefix(mut self, prefix: impl AsRef<[u8]>) -> Self {
        Arc::make_mut(&mut self.keys).fence_prefix = prefix.as_ref().into();
        self
    }

    /// Sets how long a counter is kept after its last lock has expired.
    ///
    /// The default is 24 h. The minimum is one minute; smaller values count as one minute. Choose a retention longer
    /// than the longest pause after which a client may still try to write.
    ///
    /// The retention bounds the memory of counters: about 160 bytes for each resource that was locked in that time. An
    /// expired counter starts again from the server's time. That time is above every number issued before, unless
    /// clocks differ, or were set back, by more than the retention.
    ///
    /// The retention also bounds how far a counter or a token may be ahead of the server's clock. Above this bound, the
    /// node replies with an error and does not count toward the quorum. The clocks of the servers must therefore agree
    /// within this time.
    ///
    /// ```
    /// # #[cfg(feature = "tokio")] {
    /// # use std::time::Duration;
    /// # use redlock_wire::Options;
    /// // A batch job may write up to three days after it acquired its lock.
    /// let options = Options::tokio().fence_retention(Duration::from_secs(7 * 86_400));
    /// # drop(options); }
    /// ```
    pub fn fence_retention(mut self, retention: Duration) -> Self {
        Arc::make_mut(&mut self.keys).fence_retention = retention.max(Duration::from_secs(60));
        self
    }

    /// Sets the root certificates of TLS connections, in PEM.
    ///
    /// The default are those of the system. Only servers with a certificate of these authorities are accepted. The text
    /// may contain several certificates. Addresses without TLS are then
    /// [`InvalidInput`](redlock_core::ErrorKind::InvalidInput).
    ///
    /// ```
    /// # #[cfg(feature = "tokio")] {
    /// # use redlock_wire::Options;
    /// # let ca = "-----BEGIN CERTIFICATE-----";
    /// // `ca` is the content of a PEM file, such as /etc/redis/ca.pem.
    /// let options = Options::tokio().root_certificates(ca);
    /// # drop(options); }
    /// ```
    pub fn root_certificates(mut self, pem: impl Into<Vec<u8>>) -> Self {
        Arc::make_mut(&mut self.certificates).roots = Some(pem.into());
        self
    }

    /// Sets the certificate of the client and its key, in PEM.
    ///
    /// The default is no certificate. Use it for servers that require one (`tls-auth-clients yes`). The certificate may
    /// be followed by those of its authorities. With native-tls, the key must be in PKCS #8. Addresses without TLS are
    /// then [`InvalidInput`](redlock_core::ErrorKind::InvalidInput).
    ///
    /// ```
    /// # #[cfg(feature = "tokio")] {
    /// # use redlock_wire::Options;
    /// # let (certificate, key) = ("-----BEGIN CERTIFICATE-----", "-----BEGIN PRIVATE KEY-----");
    /// // Both are contents of PEM files.
    /// let options = Options::tokio().client_identity(certificate, key);
    /// assert!(!format!("{options:?}").contains(key), "the key stays out of logs");
    /// # }
    /// ```
    pub fn client_identity(mut self, certificate: impl Into<Vec<u8>>, key: impl Into<Vec<u8>>) -> Self {
        let identity = Identity { certificate: certificate.into(), key: key.into() };
        Arc::make_mut(&mut self.certificates).identity = Some(identity);
        self
    }

    /// Sets the callback that returns the login of each new connection.
    ///
    /// The default is the login of the address. The callback runs before every connection attempt, so a rotated
    /// password takes effect without a restart. Its time counts toward the [connect timeout](Options::connect_timeout):
    /// return a stored token if fetching one takes longer. After an error, or a rejected login, the next attempt
    /// follows 5 s later. An open connection stays logged in.
    ///
    /// ```no_run
    /// # #[cfg(feature = "tokio")] {
    /// use redlock_wire::{Credentials, Options};
    ///
    /// let options = Options::tokio().credentials(|| async {
    ///     let password = std::fs::read_to_string("/run/secrets/redis")?;
    ///     Ok(Credentials::new("locks", password.trim_end()))
    /// });
    /// # drop(options); }
    /// ```
    ///
    /// The callback replaces user and password of all addresses. If servers have different passwords, create each node
    /// with separate options.
    pub fn credentials<F, T>(mut self, source: F) -> Self
    where
        F: Fn() -> T + Send + Sync + 'static,
        T: Future<Output = Result<Credentials, Box<dyn Error + Send + Sync>>> + Send + 'static,
    {
        self.credentials = Some(Source::new(source));
        self
    }

    /// Returns the login of a new connection, if there is a callback for it.
    pub(crate) async fn login(&self) -> Result<Option<Credentials>, String> {
        match &self.credentials {
            Some(source) => source.fetch().await.map(Some),
            None => Ok(None),
        }
    }

    /// Returns the runtime, for the builder of a `Redlock` over these nodes.
    ///
    /// ```
    /// # #[cfg(feature = "tokio")] {
    /// # use redlock_core::Builder;
    /// # use redlock_wire::Options;
    /// let options = Options::tokio();
    /// let builder = Builder::new(options.runtime());
    /// # drop(builder); }
    /// ```
    pub fn runtime(&self) -> Arc<dyn Runtime> {
        Arc::clone(&self.runtime)
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("runtime", &self.runtime)
            .field("key_prefix", &self.keys.prefix.escape_ascii().to_string())
            .field("connect_timeout", &self.connect_timeout.get())
            .field("reconnect_delay", &self.reconnect_delay)
            .field("native_commands", &self.native_commands)
            .field("fence_prefix", &self.keys.fence_prefix.escape_ascii().to_string())
            .field("fence_retention", &self.keys.fence_retention)
            .field("longest_ttl", &self.longest.as_ref().map(|longest| longest.stated()))
            .field("strict_clocks", &self.strict_clocks)
            .field("certificates", &self.certificates)
            .field("credentials", &self.credentials.is_some())
            .finish_non_exhaustive()
    }
}
