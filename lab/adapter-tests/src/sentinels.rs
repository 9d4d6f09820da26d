//! A master with two replicas and three sentinels, all on ports of their own.
//!
//! Clients, replicas and sentinels log in as different users, so that a test can cut off some of them from a server.

use std::time::{Duration, Instant};

use redlock_testkit::{Console, RedisServer, RedisServerBuilder, Reply};

const SERVICE: &str = "locks";

/// The password of the servers, for clients.
const PASSWORD: &str = "servers";

/// The password of the sentinels.
const SENTINEL_PASSWORD: &str = "sentinels";

/// The time without a reply after which a sentinel sees the master down.
pub(crate) const DOWN_AFTER: Duration = Duration::from_secs(1);

/// The time limit of a step of the servers, even on a very busy machine. A sentinel that was not scheduled for two
/// seconds does nothing for 30 s.
const LIMIT: Duration = Duration::from_secs(180);

/// Servers of which one is the master of the contended lock.
pub(crate) trait Replicated: Send + Sync {
    fn servers(&self) -> &[RedisServer];

    /// Waits until there is a master that replicas copy.
    fn wait_until_whole(&self);

    /// Returns the index of the master.
    fn master(&self) -> Option<usize>;

    /// Waits until another server is the master. Returns its index.
    fn wait_for_another(&self, before: usize) -> usize;

    /// Cuts off the replicas from the master.
    fn cut_off_replicas(&self, master: usize);

    /// Lets a replica be promoted while clients still reach the master.
    fn replace(&self, master: usize);

    /// Ends all cuts of a server.
    fn reconnect(&self, server: usize);

    /// Starts a failover by hand.
    fn fail_over(&self);
}

pub(crate) struct Monitored {
    pub(crate) servers: Vec<RedisServer>,
    pub(crate) sentinels: Vec<RedisServer>,
}

impl Monitored {
    /// Starts the servers and the sentinels, and waits until all of them know each other.
    pub(crate) fn start() -> Self {
        let servers: Vec<_> = (0..3).map(|_| server()).collect();
        for replica in &servers[1..] {
            replica.command(&["REPLICAOF", "127.0.0.1", &servers[0].port().to_string()]);
        }
        let copied = |replica: &RedisServer| {
            replica.command(&["INFO", "replication"]).contains("master_link_status:up")
        };
        until("replicas copy the master", || servers[1..].iter().all(copied));
        let sentinels: Vec<_> = (0..3)
            .map(|_| RedisServer::builder().password(SENTINEL_PASSWORD).arg("--sentinel").start())
            .collect();
        for sentinel in &sentinels {
            let port = servers[0].port().to_string();
            sentinel.command(&["SENTINEL", "CONFIG", "SET", "sentinel-pass", SENTINEL_PASSWORD]);
            sentinel.command(&["SENTINEL", "MONITOR", SERVICE, "127.0.0.1", &port, "2"]);
            let down_after = DOWN_AFTER.as_millis().to_string();
            for (name, value) in [
                ("auth-user", "sentinel"),
                ("auth-pass", "secret"),
                ("down-after-milliseconds", &down_after),
                ("failover-timeout", "2000"),
            ] {
                sentinel.command(&["SENTINEL", "SET", SERVICE, name, value]);
            }
        }
        let monitored = Self { servers, sentinels };
        monitored.wait_until_whole();
        monitored
    }

    /// Returns the URL of the master, as a user writes it.
    pub(crate) fn url(&self) -> String {
        let hosts: Vec<_> = self.sentinels.iter().map(|s| format!("127.0.0.1:{}", s.port())).collect();
        let hosts = hosts.join(",");
        format!("redis+sentinel://:{PASSWORD}@{hosts}/{SERVICE}?sentinel_password={SENTINEL_PASSWORD}")
    }

    /// Returns the URL of a server.
    pub(crate) fn url_of(port: u16) -> String {
        format!("redis://:{PASSWORD}@127.0.0.1:{port}")
    }

    /// Returns a console of the first sentinel.
    pub(crate) fn sentinel(&self) -> Console {
        self.sentinels[0].authenticated(SENTINEL_PASSWORD)
    }

    fn cut_off(&self, server: usize, user: &str) {
        self.servers[server].command(&["ACL", "SETUSER", user, "off"]);
        self.servers[server].command(&["CLIENT", "KILL", "USER", user]);
    }
}

impl Replicated for Monitored {
    fn servers(&self) -> &[RedisServer] {
        &self.servers
    }

    /// Waits until the sentinels agree on a master, and know two connected replicas and each other.
    fn wait_until_whole(&self) {
        let field = |text: &str, name: &str| {
            let mut lines = text.lines().skip_while(|line| *line != name).skip(1);
            lines.next().unwrap_or_default().to_owned()
        };
        until("the sentinels know all servers, and replicas copy the master", || {
            let whole = self.sentinels.iter().all(|sentinel| {
                let master = sentinel.command(&["SENTINEL", "MASTER", SERVICE]);
                let replicas = sentinel.command(&["SENTINEL", "REPLICAS", SERVICE]);
                field(&master, "flags") == "master"
                    && field(&master, "num-slaves") == "2"
                    && field(&master, "num-other-sentinels") == "2"
                    && replicas.lines().filter(|line| *line == "slave").count() >= 2
                    && !replicas.contains("s_down")
                    && !replicas.contains("disconnected")
            });
            let Some(master) = self.master().filter(|_| whole) else { return false };
            let info = self.servers[master].command(&["INFO", "replication"]);
            info.contains("role:master") && info.matches("state=online").count() == 2
        });
    }

    /// Returns the index of the master that all sentinels name, once they agree.
    fn master(&self) -> Option<usize> {
        let named = |sentinel: &RedisServer| named_by(&sentinel.authenticated(SENTINEL_PASSWORD));
        let named: Vec<_> = self.sentinels.iter().map(named).collect();
        let port = named[0].filter(|_| named.iter().all(|other| *other == named[0]))?;
        self.servers.iter().position(|server| server.port() == port)
    }

    /// Waits until the sentinels name another master, which accepts writes. Returns its index.
    fn wait_for_another(&self, before: usize) -> usize {
        let mut found = before;
        until("a replica is promoted", || {
            let master = self.master().filter(|master| *master != before);
            found = master.unwrap_or(before);
            master.is_some_and(|master| self.servers[master].command(&["ROLE"]).starts_with("master"))
        });
        found
    }

    /// Cuts off the replicas from a server: it accepts writes that no replica receives.
    fn cut_off_replicas(&self, server: usize) {
        self.cut_off(server, "replica");
    }

    /// Cuts off the sentinels.
    fn replace(&self, server: usize) {
        self.cut_off(server, "sentinel");
    }

    /// Ends all such cuts of a server.
    fn reconnect(&self, server: usize) {
        for user in ["replica", "sentinel"] {
            self.servers[server].command(&["ACL", "SETUSER", user, "on"]);
        }
    }

    /// Starts a failover by hand, and waits for the acceptance of a sentinel.
    fn fail_over(&self) {
        let words = [b"SENTINEL".as_slice(), b"FAILOVER", SERVICE.as_bytes()];
        until("a sentinel starts a failover", || !matches!(self.sentinels[0].reply(&words), Reply::Error(_)));
    }
}

/// Returns the port of the master that a sentinel names.
pub(crate) fn named_by(sentinel: &Console) -> Option<u16> {
    match sentinel.reply(&[b"SENTINEL", b"GET-MASTER-ADDR-BY-NAME", SERVICE.as_bytes()]) {
        Reply::Array(parts) => parts.get(1)?.text().parse().ok(),
        _ => None,
    }
}

fn server() -> RedisServer {
    let args = "--user sentinel on >secret ~* &* +@all --user replica on >secret +psync +replconf +ping \
                --masteruser replica --masterauth secret --repl-diskless-sync-delay 0 --repl-ping-replica-period 1 \
                --repl-timeout 5";
    let server = RedisServer::builder().password(PASSWORD);
    args.split_whitespace().fold(server, RedisServerBuilder::arg).start()
}

/// Waits for a condition, in steps that leave the machine to the servers.
pub(crate) fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < LIMIT, "not within {LIMIT:?}: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}
