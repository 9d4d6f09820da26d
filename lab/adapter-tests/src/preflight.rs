//! Checks of the servers: the facts arrive through the client of the adapter.

use std::pin::pin;
use std::time::Duration;
#[cfg(target_os = "linux")]
use std::time::Instant;

use futures_util::future::{Either, select};
use redlock_doctor::{Finding, Preflight, PreflightSettings, Severity, preflight};
use redlock_testkit::RedisServer;
use redlock_wire::Options;
use tokio::time::timeout;

use crate::Adapter;
#[cfg(target_os = "linux")]
use crate::clock::WrongClock;
#[cfg(target_os = "linux")]
use crate::wait::PATIENCE;
use crate::wait::until;

async fn check<A: Adapter>(servers: &[RedisServer]) -> Preflight {
    check_with::<A>(servers, &Options::tokio(), |settings| settings.fenced(true).readers(true)).await
}

async fn check_with<A: Adapter>(
    servers: &[RedisServer],
    options: &Options,
    set: impl FnOnce(PreflightSettings) -> PreflightSettings,
) -> Preflight {
    check_urls::<A>(servers.iter().map(RedisServer::url), options, set).await
}

async fn check_urls<A: Adapter>(
    urls: impl IntoIterator<Item = String>,
    options: &Options,
    set: impl FnOnce(PreflightSettings) -> PreflightSettings,
) -> Preflight {
    let settings = PreflightSettings::new(Duration::from_secs(30)).observe(Duration::from_millis(10));
    preflight(urls.into_iter().map(A::connector), options, set(settings)).await.unwrap()
}

fn label(server: &RedisServer) -> String {
    format!("127.0.0.1:{}", server.port())
}

fn errors(found: &Preflight) -> Vec<&Finding> {
    found.findings().iter().filter(|finding| finding.severity() == Severity::Error).collect()
}

pub(crate) async fn findings_name_the_server<A: Adapter>() {
    let servers = RedisServer::start_many(3);
    servers[1].command(&["CONFIG", "SET", "maxmemory", "100mb", "maxmemory-policy", "allkeys-lru"]);
    servers[2].command(&["ACL", "SETUSER", "default", "-evalsha"]);
    let found = check::<A>(&servers).await;
    for (server, problem) in [(1, "maxmemory-policy is allkeys-lru"), (2, "the user may not run EVALSHA")] {
        let matches =
            |finding: &&Finding| finding.problem() == problem && finding.nodes() == [label(&servers[server])];
        assert!(errors(&found).iter().any(matches), "{problem}: {found:#?}");
    }
}

pub(crate) async fn servers_without_faults_have_no_errors<A: Adapter>() {
    let servers: Vec<_> = (0..3).map(|_| RedisServer::builder().persistent(true).start()).collect();
    let found = check::<A>(&servers).await;
    assert_eq!((3, true), (found.reachable_nodes(), found.is_available()), "{found:#?}");
    assert!(errors(&found).is_empty(), "{found:#?}");
}

pub(crate) async fn an_unreachable_server_is_a_finding<A: Adapter>() {
    let servers = RedisServer::start_many(3);
    servers[0].kill();
    let found = check::<A>(&servers).await;
    assert_eq!((2, true), (found.reachable_nodes(), found.is_available()), "{found:#?}");
    let matches = |finding: &Finding| finding.nodes() == [label(&servers[0])];
    assert!(found.findings().iter().any(matches), "{found:#?}");
}

/// Without `INFO`, most facts are missing. A server that requires a login replies to neither command. With a login, fred
/// sends no `PING` itself.
pub(crate) async fn a_server_that_denies_info_or_ping_is_reachable<A: Adapter>() {
    let servers = RedisServer::start_many(1);
    servers[0].command(&["ACL", "SETUSER", "few", "on", ">pw", "~*", "&*", "+@all"]);
    let url = format!("redis://few:pw@{}", label(&servers[0]));
    let problems = |found: &Preflight| {
        found.findings().iter().map(|finding| finding.problem().to_owned()).collect::<Vec<_>>()
    };
    for (rules, denied) in
        [(&["-info"][..], "INFO"), (&["+info", "-ping"], "PING"), (&["-info"], "INFO, PING")]
    {
        servers[0].command(&[&["ACL", "SETUSER", "few"], rules].concat());
        let found = check_urls::<A>([url.clone()], &Options::tokio(), |settings| settings).await;
        assert_eq!((1, true), (found.reachable_nodes(), found.is_available()), "{found:#?}");
        assert!(errors(&found).is_empty(), "{found:#?}");
        let expected = [format!("the user may not run {denied}"), "INFO shows no version".to_owned()];
        let is_found = expected.map(|problem| problems(&found).contains(&problem));
        assert_eq!([true, denied.contains("INFO")], is_found, "{found:#?}");
    }
    servers[0].command(&["CONFIG", "SET", "requirepass", "secret"]);
    let found = check::<A>(&servers).await;
    assert_eq!((0, false), (found.reachable_nodes(), found.is_available()), "{found:#?}");
    let is_login = |problem: &String| problem.starts_with("not reachable: NOAUTH");
    assert!(problems(&found).iter().any(is_login), "{found:#?}");
}

pub(crate) async fn rights_are_checked_under_the_prefix_and_for_the_locks_in_use<A: Adapter>() {
    let servers = [RedisServer::builder().persistent(true).start()];
    let options = Options::tokio().key_prefix("lock:");
    for (rules, problem) in [
        (&["resetkeys", "~lock:*", "-zadd"][..], "the user may not run ZADD"),
        (&["resetkeys", "~lock:redlock-preflight", "+zadd"], "the user may not run SET NAME:writer"),
    ] {
        servers[0].command(&[&["ACL", "SETUSER", "default"], rules].concat());
        let plain = check_with::<A>(&servers, &options, |settings| settings).await;
        assert!(errors(&plain).is_empty(), "{plain:#?}");
        let found = check_with::<A>(&servers, &options, |settings| settings.readers(true)).await;
        let problems: Vec<_> = errors(&found).into_iter().map(Finding::problem).collect();
        assert_eq!([problem], *problems, "{found:#?}");
    }
}

pub(crate) async fn rights_are_checked_for_fenced_locks<A: Adapter>() {
    let servers = [RedisServer::builder().persistent(true).start()];
    let options = Options::tokio().key_prefix("lock:").fence_prefix("fence:");
    for (rules, problem) in [
        (&["resetkeys", "~lock:*"][..], "the user may not run GET COUNTER, SET COUNTER, PEXPIRE COUNTER"),
        (&["~fence:*", "-time"], "the user may not run TIME"),
    ] {
        servers[0].command(&[&["ACL", "SETUSER", "default"], rules].concat());
        let plain = check_with::<A>(&servers, &options, |settings| settings).await;
        assert!(errors(&plain).is_empty(), "{plain:#?}");
        let found = check_with::<A>(&servers, &options, |settings| settings.fenced(true)).await;
        let found: Vec<_> =
            errors(&found).iter().map(|error| (error.problem(), error.consequence())).collect();
        assert_eq!([(problem, "fenced locks fail")], *found);
    }
}

/// Without a longest TTL, locks depend on the disk.
pub(crate) async fn the_settings_of_the_disk_are_read<A: Adapter>() {
    let servers = [RedisServer::builder().persistent(true).start()];
    for (words, problem) in [
        (&["CONFIG", "SET", "no-appendfsync-on-rewrite", "no"][..], None),
        (&["CONFIG", "SET", "no-appendfsync-on-rewrite", "yes"], Some("no-appendfsync-on-rewrite is yes")),
        (&["ACL", "SETUSER", "default", "-config|get"], Some("appendfsync could not be read")),
    ] {
        assert_eq!("OK", servers[0].command(words));
        let found = check::<A>(&servers).await;
        let matches = |finding: &&Finding| {
            ["append", "disk", "lost"].iter().any(|word| finding.problem().contains(word))
        };
        let problems: Vec<_> = found.findings().iter().filter(matches).map(Finding::problem).collect();
        assert_eq!(problem.into_iter().collect::<Vec<_>>(), problems, "{found:#?}");
    }
}

pub(crate) async fn the_clocks_are_observed_for_any_time<A: Adapter>() {
    let servers = RedisServer::start_many(1);
    let options = Options::tokio();
    let check = pin!(check_with::<A>(&servers, &options, |settings| settings.observe(Duration::MAX)));
    // The first reading of the clock takes five commands. The observation follows.
    let is_read = until(async || servers[0].commandstats("time") >= 5);
    let Either::Right(((), check)) = select(check, pin!(is_read)).await else { panic!("the check ended") };
    assert!(timeout(Duration::from_millis(100), check).await.is_err(), "the check ended");
}

/// The number of checks. A right clock has no finding in any of them.
#[cfg(target_os = "linux")]
const CHECKS: usize = 20;

/// Checks that the text is that of a speed of `percent` and its direction, within the stated error.
#[cfg(target_os = "linux")]
fn states_the_speed(problem: &str, percent: f64, direction: &str) -> bool {
    let parsed = || {
        let (measured, rest) = problem.strip_prefix("its clock runs ")?.split_once(" % ")?;
        let error = rest.strip_prefix(direction)?.strip_prefix(" (± ")?.strip_suffix(" %)")?;
        Some((measured.parse::<f64>().ok()?, error.parse::<f64>().ok()?))
    };
    // The first number is rounded to 0.1.
    parsed().is_some_and(|(measured, error)| (measured - percent).abs() <= 1.1 * error + 0.06)
}

/// A check that is not precise enough, because the machine is busy, reports that and is repeated.
#[cfg(target_os = "linux")]
pub(crate) async fn the_speed_of_each_clock_is_found_and_a_right_clock_has_no_finding<A: Adapter>() {
    const EARLY: &str = "locks may end before their validity";
    const LATE: &str = "keys live too long: an abandoned lock is freed late";

    let servers = [0.0, 0.02, 0.083, -0.02, -1.0].map(WrongClock::start);
    let settings = PreflightSettings::new(Duration::from_secs(30)).observe(Duration::from_millis(200));
    let (mut checks, deadline) = (0, Instant::now() + 10 * PATIENCE);
    while checks < CHECKS {
        assert!(Instant::now() < deadline, "{checks} checks were precise enough");
        let connectors = servers.iter().map(|clock| A::connector(clock.server.url()));
        let found = preflight(connectors, &Options::tokio(), settings).await.unwrap();
        let about_clocks = |clock: &WrongClock| {
            let label = label(&clock.server);
            let is_about = |finding: &&Finding| {
                finding.nodes().contains(&label) && finding.problem().contains("its clock")
            };
            found.findings().iter().filter(is_about).collect::<Vec<_>>()
        };
        if found.findings().iter().any(|finding| finding.problem().contains("could not be measured")) {
            continue;
        }
        checks += 1;
        let [right, fast, faster, slow, still] = servers.each_ref().map(about_clocks);
        assert!(right.is_empty(), "{right:#?}");
        for (finding, percent, direction, severity, consequence) in [
            (&fast, 2.0, "fast", Severity::Error, EARLY),
            (&faster, 8.3, "fast", Severity::Error, EARLY),
            (&slow, 2.0, "slow", Severity::Warning, LATE),
        ] {
            let [finding] = finding[..] else { panic!("{finding:#?}") };
            assert!(states_the_speed(finding.problem(), percent, direction), "{finding}");
            assert_eq!((severity, consequence), (finding.severity(), finding.consequence()), "{finding}");
        }
        assert!(fast[0].fix().contains("chrony: maxslewrate"), "{}", fast[0]);
        let [still] = still[..] else { panic!("{still:#?}") };
        assert_eq!((Severity::Error, "its clock stands still"), (still.severity(), still.problem()));
        assert!(still.consequence().starts_with(LATE), "{still}");
    }
}
