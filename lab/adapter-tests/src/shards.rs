//! A cluster of three shards, all on ports of their own, with replicas if a test needs them.

use std::net::{Ipv4Addr, TcpListener};

use redlock_testkit::{RedisServer, RedisServerBuilder, Reply};

use crate::sentinels::until;

/// The time without a reply after which masters see another one down, in milliseconds.
const DOWN_AFTER: &str = "1500";

/// The same of a cluster in which none is to fail, even on a busy machine.
const NEVER_DOWN: &str = "60000";

/// The password of the servers, for clients.
const PASSWORD: &str = "shards";

/// The number of slots.
const SLOTS: u32 = 16384;

pub(crate) struct Cluster {
    /// The masters of the three shards at the start, then the replicas in the same order.
    pub(crate) servers: Vec<RedisServer>,
}

impl Cluster {
    /// Starts three masters, each with a third of the slots, and waits until all of them know each other.
    pub(crate) fn start() -> Self {
        Self::of(3, 0)
    }

    /// Same as [`start`](Self::start), with a replica of each master.
    pub(crate) fn with_replicas() -> Self {
        Self::of(3, 3)
    }

    fn of(masters: u32, replicas: usize) -> Self {
        let down_after = if replicas == 0 { NEVER_DOWN } else { DOWN_AFTER };
        let servers = (0..masters as usize + replicas).map(|_| server(down_after)).collect();
        let cluster = Self { servers };
        for (server, index) in cluster.servers.iter().zip(0..masters) {
            let (from, to) = (index * SLOTS / masters, (index + 1) * SLOTS / masters - 1);
            server.command(&["CLUSTER", "ADDSLOTSRANGE", &from.to_string(), &to.to_string()]);
            server.command(&["CLUSTER", "SET-CONFIG-EPOCH", &(index + 1).to_string()]);
        }
        for server in &cluster.servers[1..] {
            cluster.introduce(server);
        }
        let count = format!("cluster_known_nodes:{}", cluster.servers.len());
        until("all servers know each other", || {
            let info = |server: &RedisServer| server.command(&["CLUSTER", "INFO"]);
            cluster.servers.iter().all(|server| info(server).contains(&count))
        });
        for index in 0..replicas {
            let master = cluster.id(index);
            let replica = &cluster.servers[masters as usize + index];
            until("a replica knows its master", || {
                replica.reply(&[b"CLUSTER", b"REPLICATE", master.as_bytes()]) == Reply::Bytes("OK".into())
            });
        }
        cluster.wait_until_whole();
        cluster
    }

    /// Lets a server meet the first one.
    fn introduce(&self, server: &RedisServer) {
        let bus = self.servers[0].command(&["CONFIG", "GET", "cluster-port"]);
        let (bus, port) = (bus.lines().nth(1).unwrap(), self.servers[0].port().to_string());
        server.command(&["CLUSTER", "MEET", "127.0.0.1", &port, bus]);
    }

    /// Waits until every server that runs sees all slots served, and replicas copy their masters.
    pub(crate) fn wait_until_whole(&self) {
        until("all slots are served, and replicas copy their masters", || {
            self.servers.iter().all(|server| {
                let info = server.command(&["CLUSTER", "INFO"]);
                let nodes = server.command(&["CLUSTER", "NODES"]);
                let replication = server.command(&["INFO", "replication"]);
                info.contains("cluster_state:ok")
                    && info.contains("cluster_slots_ok:16384")
                    && !nodes.contains("fail")
                    && (replication.contains("role:master") || replication.contains("master_link_status:up"))
            })
        });
    }

    /// Returns the URL of the cluster, as a user writes it: two servers are listed.
    pub(crate) fn url(&self) -> String {
        self.url_of(&[0, 1])
    }

    /// Returns the URL of the cluster that lists these servers.
    pub(crate) fn url_of(&self, listed: &[usize]) -> String {
        let host = |index: &usize| format!("127.0.0.1:{}", self.servers[*index].port());
        let hosts: Vec<_> = listed.iter().map(host).collect();
        format!("redis+cluster://:{PASSWORD}@{}", hosts.join(","))
    }

    /// Returns the identity of a server.
    pub(crate) fn id(&self, index: usize) -> String {
        self.servers[index].command(&["CLUSTER", "MYID"])
    }

    /// Returns the slot of a key.
    pub(crate) fn slot(&self, key: &str) -> u16 {
        self.servers[0].command(&["CLUSTER", "KEYSLOT", key]).parse().unwrap()
    }

    /// Returns the index of the master of a key. The first server must run, and must not be asked to fail.
    pub(crate) fn master_of(&self, key: &str) -> Option<usize> {
        let port = port_of_master(&self.servers[0].command(&["CLUSTER", "NODES"]), self.slot(key))?;
        self.servers.iter().position(|server| server.port() == port)
    }

    /// Waits until another server is the master of a key. Returns its index.
    pub(crate) fn wait_for_another(&self, key: &str, before: usize) -> usize {
        let mut found = before;
        until("a replica is promoted", || {
            found = self.master_of(key).unwrap_or(before);
            found != before
        });
        found
    }

    /// Cuts off the replicas from a server: it accepts writes that no replica receives.
    pub(crate) fn cut_off_replicas(&self, server: usize) {
        self.servers[server].command(&["ACL", "SETUSER", "replica", "off"]);
        self.servers[server].command(&["CLIENT", "KILL", "USER", "replica"]);
    }

    /// Ends this cut.
    pub(crate) fn reconnect(&self, server: usize) {
        self.servers[server].command(&["ACL", "SETUSER", "replica", "on"]);
    }

    /// Starts a failover by hand of a master: with the votes of the masters (`FORCE`), or without (`TAKEOVER`).
    pub(crate) fn fail_over(&self, master: usize, how: &str) {
        let replica = &self.servers[(master + 3) % 6];
        until("a replica starts a failover", || {
            replica.reply(&[b"CLUSTER", b"FAILOVER", how.as_bytes()]) == Reply::Bytes("OK".into())
        });
    }

    /// Begins to move a slot, as `redis-cli --cluster reshard` does.
    pub(crate) fn begin_move(&self, slot: u16, from: usize, to: usize) {
        let (slot, [from_id, to_id]) = (slot.to_string(), [from, to].map(|index| self.id(index)));
        self.servers[to].command(&["CLUSTER", "SETSLOT", &slot, "IMPORTING", &from_id]);
        self.servers[from].command(&["CLUSTER", "SETSLOT", &slot, "MIGRATING", &to_id]);
    }

    /// Moves the keys of a slot.
    pub(crate) fn move_keys(&self, slot: u16, from: usize, to: usize) {
        let port = self.servers[to].port().to_string();
        loop {
            let keys = self.keys_in(slot, from);
            if keys.is_empty() {
                return;
            }
            let mut words = vec!["MIGRATE", "127.0.0.1", &*port, "", "0", "10000", "AUTH", PASSWORD, "KEYS"];
            words.extend(keys.lines());
            self.servers[from].reply(&words.iter().map(|word| word.as_bytes()).collect::<Vec<_>>());
        }
    }

    /// Deletes the keys of a slot.
    pub(crate) fn delete_keys(&self, slot: u16, from: usize) {
        for key in self.keys_in(slot, from).lines() {
            self.servers[from].reply(&[b"DEL", key.as_bytes()]);
        }
    }

    fn keys_in(&self, slot: u16, server: usize) -> String {
        self.servers[server].command(&["CLUSTER", "GETKEYSINSLOT", &slot.to_string(), "100"])
    }

    /// Ends the move of a slot.
    pub(crate) fn end_move(&self, slot: u16, from: usize, to: usize) {
        let (slot, id) = (slot.to_string(), self.id(to));
        for index in
            [to, from].into_iter().chain((0..self.servers.len()).filter(|it| ![to, from].contains(it)))
        {
            // Replicas reject it, and learn of it from their masters.
            self.servers[index].reply(&[b"CLUSTER", b"SETSLOT", slot.as_bytes(), b"NODE", id.as_bytes()]);
        }
    }

    /// Moves a slot with its keys.
    pub(crate) fn move_slot(&self, slot: u16, from: usize, to: usize) {
        self.begin_move(slot, from, to);
        self.move_keys(slot, from, to);
        self.end_move(slot, from, to);
    }
}

/// Returns the port of the master of a slot that is not seen down.
fn port_of_master(nodes: &str, slot: u16) -> Option<u16> {
    let has_slot = |word: &str| {
        let (from, to) = word.split_once('-').unwrap_or((word, word));
        from.parse().is_ok_and(|from: u16| from <= slot) && to.parse().is_ok_and(|to: u16| slot <= to)
    };
    let mut lines = nodes.lines();
    let line = lines.find(|line| !line.contains("fail") && line.split(' ').skip(8).any(has_slot))?;
    line.split_once('@')?.0.rsplit(':').next()?.parse().ok()
}

/// Starts a server. The port of the cluster bus is a separate one: that of clients plus 10,000 may be none.
fn server(down_after: &str) -> RedisServer {
    let bus = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port().to_string();
    let args = [
        "--cluster-enabled yes --cluster-node-timeout",
        down_after,
        "--cluster-port",
        &bus,
        "--cluster-require-full-coverage no --cluster-allow-replica-migration no --cluster-replica-validity-factor 0 \
         --repl-diskless-sync-delay 0 --repl-ping-replica-period 1 --masteruser replica --masterauth secret \
         --user replica on >secret +psync +replconf +ping",
    ];
    let args = args.join(" ");
    let server = RedisServer::builder().password(PASSWORD);
    args.split_whitespace().fold(server, RedisServerBuilder::arg).start()
}
