//! The permissions in `docs/operating.md`: a user with these sends no command that its server denies.

use super::admission::vouch;
use super::*;
use crate::sentinels::Monitored;
use crate::shards::Cluster;

const CHAPTER: &str = include_str!("../../../../docs/operating.md");

/// Creates the documented user, with the rules for further features. Each feature is the beginning of its row.
fn create_user(servers: &[RedisServer], features: &[&str]) {
    let mut lines = CHAPTER.lines();
    let user = lines.find_map(|line| line.strip_prefix("ACL SETUSER locks on >PASSWORD ")).unwrap();
    let mut words: Vec<_> = "ACL SETUSER locks on >secret".split(' ').chain(user.split(' ')).collect();
    let rows: Vec<_> = features.iter().map(|feature| rules_of(feature)).collect();
    words.extend(rows.iter().flatten().map(String::as_str));
    for server in servers {
        assert_eq!("OK", server.command(&words));
    }
}

/// Returns the rules in the row of a feature.
fn rules_of(feature: &str) -> Vec<String> {
    let row = CHAPTER.lines().find_map(|line| line.strip_prefix("| ")?.strip_prefix(feature)).unwrap();
    let words = row.split('`').skip(1).step_by(2).flat_map(str::split_whitespace);
    words.filter(|word| word.starts_with(['+', '~'])).map(|rule| rule.replace("\\|", "|")).collect()
}

/// Asserts that the servers have denied nothing.
fn nothing_denied(servers: &[RedisServer]) {
    for server in servers {
        let log = server.command(&["ACL", "LOG"]);
        let denied = log.lines().zip(log.lines().skip(1)).filter(|(field, _)| *field == "object");
        // Clients send their name from 7.2 on; older servers do not know this permission.
        let denied: Vec<_> =
            denied.map(|(_, object)| object).filter(|object| *object != "client|setinfo").collect();
        assert!(denied.is_empty(), "denied commands: {denied:?}");
    }
}

/// Returns a client whose locks have a prefix. Its first quarantine is over.
async fn client<A: Adapter>(urls: impl IntoIterator<Item = String>) -> Redlock {
    let options = Options::tokio().key_prefix("lock:").longest_ttl(TTL);
    let builder = A::builder_with(urls, &options).unwrap().compare_node_lists(true);
    let redlock = builder.node_timeout(NODE_TIMEOUT).build().unwrap();
    let nodes = redlock.health().await.nodes().len();
    vouch(&redlock, nodes).await;
    redlock
}

/// Acquires, waits, extends, inspects and releases.
async fn use_locks(redlock: &Redlock) {
    let guard = redlock.lock("a", TTL).await.unwrap();
    granted_by_all(&guard).await;
    let denied = redlock.lock("a", TTL).max_wait(Duration::from_millis(50)).await.unwrap_err();
    assert_eq!(ErrorKind::Contended, denied.kind());
    guard.extend(TTL).await.unwrap();
    assert!(redlock.inspect("a").await.unwrap().is_held_by(&guard));
    guard.release().await.unwrap();
}

/// Acquires as fenced lock, as readers and as a writer.
async fn use_further_locks(redlock: &Redlock) {
    let fenced = redlock.lock("fenced", TTL).fenced().await.unwrap();
    fenced.extend(TTL).await.unwrap();
    fenced.release().await.unwrap();
    let lock = redlock.rw_lock("shared").unwrap();
    let short = Duration::from_millis(50);
    let (first, second) = (lock.read(TTL).await.unwrap(), lock.read(TTL).await.unwrap());
    first.extend(TTL).await.unwrap();
    assert_eq!(ErrorKind::Contended, lock.write(TTL).max_wait(short).await.unwrap_err().kind());
    first.release().await.unwrap();
    second.release().await.unwrap();
    let writer = lock.write(TTL).await.unwrap();
    assert_eq!(ErrorKind::Contended, lock.read(TTL).max_wait(short).await.unwrap_err().kind());
    writer.release().await.unwrap();
}

pub(crate) async fn the_documented_rights_are_enough<A: Adapter>() {
    let servers = five();
    create_user(&servers, &[]);
    let redlock = client::<A>(servers.iter().map(url)).await;
    use_locks(&redlock).await;
    let both = redlock.lock(["a", "b"], TTL).await.unwrap();
    granted_by_all(&both).await;
    both.release().await.unwrap();
    redlock.close().await;
    nothing_denied(&servers);
}

fn url(server: &RedisServer) -> String {
    server.url().replace("//", "//locks:secret@")
}

pub(crate) async fn the_documented_rights_of_features_are_enough<A: Adapter>() {
    let servers = five();
    create_user(&servers, &["[fenced locks]", "[readers and writers]", "a URL with a database"]);
    let redlock = client::<A>(servers.iter().map(|server| format!("{}/3", url(server)))).await;
    use_locks(&redlock).await;
    use_further_locks(&redlock).await;
    redlock.close().await;
    nothing_denied(&servers);
}

pub(crate) async fn the_documented_rights_in_a_cluster_are_enough<A: Adapter>() {
    let cluster = Cluster::start();
    create_user(&cluster.servers, &["[clusters]"]);
    let url = cluster.url().replace("//:shards@", "//locks:secret@");
    let redlock = client::<A>([url]).await;
    use_locks(&redlock).await;
    redlock.close().await;
    nothing_denied(&cluster.servers);
}

pub(crate) async fn the_documented_rights_at_sentinels_are_enough<A: Adapter>() {
    let monitored = Monitored::start();
    let rules = rules_of("[Sentinel]");
    let user = "ACL SETUSER locks on >sentinels resetchannels -@all".split(' ');
    let words: Vec<_> = user.chain(rules.iter().map(String::as_str)).collect();
    for sentinel in &monitored.sentinels {
        assert_eq!("OK", sentinel.command(&words));
    }
    let redlock = client::<A>([format!("{}&sentinel_username=locks", monitored.url())]).await;
    use_locks(&redlock).await;
    redlock.close().await;
    nothing_denied(&monitored.sentinels);
}
