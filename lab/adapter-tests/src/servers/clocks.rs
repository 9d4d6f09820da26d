//! Servers whose wall clock jumps ahead, so that keys expire early: their votes do not count for a time.

use std::cell::Cell;
use std::marker::PhantomData;

use redlock_core::node::QuarantineReason;
use redlock_testkit::conformance;

use super::admission::{LONGEST, QUARANTINE_LIMIT, all_count, guarded, no_second_holder, reasons, vouch};
use super::*;
use crate::clock::WrongClock;

const JUMPED: Option<QuarantineReason> = Some(QuarantineReason::ClockJumped);

/// Starts three servers whose clocks run faster by these rates.
fn three(rates: [f64; 3]) -> [WrongClock; 3] {
    rates.map(WrongClock::start)
}

fn urls(servers: &[WrongClock; 3]) -> impl Iterator<Item = String> {
    servers.iter().map(|clock| clock.server.url())
}

/// Returns two clients of servers whose grants count at once.
async fn two<A: Adapter>(servers: &[WrongClock; 3]) -> [Redlock; 2] {
    let clients = [guarded::<A>(urls(servers)), guarded::<A>(urls(servers))];
    for client in &clients {
        vouch(client, 3).await;
    }
    clients
}

pub(crate) async fn clocks_that_step_let_no_second_client_acquire_a_held_lock<A: Adapter>() {
    let servers = three([0.0; 3]);
    let [holder, other] = two::<A>(&servers).await;
    let unguarded = A::builder(urls(&servers)).unwrap().node_timeout(NODE_TIMEOUT).build().unwrap();
    all_up(&unguarded).await;
    let guard = holder.lock("a", LONGEST).await.unwrap();
    granted_by_all(&guard).await;
    servers[..2].iter().for_each(|server| server.set_ahead(10.0));
    no_second_holder(&other, "the step").await;
    let noticed = async || reasons(&other.health().await)[..] == [JUMPED, JUMPED, None];
    eventually("the reason is known", QUARANTINE_LIMIT, noticed).await;
    let second = async || unguarded.lock("a", LONGEST).try_now().await.unwrap().is_some();
    eventually("without the check, there is a second holder", LONGEST, second).await;
    let error = guard.extend(LONGEST).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::NoQuorum | ErrorKind::TooSlow), "{error}");
    drop(guard);

    // A program that starts after the step learns of it from the servers.
    let new = guarded::<A>(urls(&servers));
    no_second_holder(&new, "the step").await;
    let health = new.health().await;
    let out = reasons(&health).into_iter().filter(|reason| *reason == Some(QuarantineReason::Recent));
    assert_eq!(2, out.count(), "{health:?}");
    for client in [&holder, &other, &new] {
        all_count(client).await;
        client.lock("a", LONGEST).await.unwrap().release().await.unwrap();
        client.close().await;
    }
}

pub(crate) async fn an_idle_program_learns_of_a_step_and_a_step_back_is_safe<A: Adapter>() {
    let servers = three([0.0; 3]);
    let clients = two::<A>(&servers).await;
    servers[0].set_ahead(0.5);
    for client in &clients {
        let noticed = async || reasons(&client.health().await)[0] == JUMPED;
        eventually("the step is noticed", QUARANTINE_LIMIT, noticed).await;
    }
    for client in &clients {
        all_count(client).await;
    }
    servers[0].set_ahead(0.0);
    clients[0].lock("a", LONGEST).await.unwrap().release().await.unwrap();
    assert_ne!(JUMPED, reasons(&clients[0].health().await)[0]);
}

pub(crate) async fn a_server_whose_clock_runs_fast_does_not_count<A: Adapter>() {
    let servers = three([0.083, 0.0, 0.0]);
    let clients = [guarded::<A>(urls(&servers)), guarded::<A>(urls(&servers))];
    for client in &clients {
        for index in 0..3 {
            client.vouch(index).await.unwrap();
        }
        let noticed = async || reasons(&client.health().await)[..] == [JUMPED, None, None];
        eventually("the rate is noticed", QUARANTINE_LIMIT, noticed).await;
    }
    // It stays out as long as the clock runs fast, and the others grant locks.
    tokio::time::sleep(Duration::from_secs(8)).await;
    for client in &clients {
        assert_eq!([JUMPED, None, None], reasons(&client.health().await)[..]);
        client.lock("a", LONGEST).await.unwrap().release().await.unwrap();
    }
}

pub(crate) async fn a_pause_of_the_servers_is_no_step<A: Adapter>() {
    let mut servers = three([0.0; 3]);
    let clients = two::<A>(&servers).await;
    for server in &mut servers {
        server.server.pause();
        tokio::time::sleep(Duration::from_secs(1)).await;
        let _ = clients[0].lock("a", LONGEST).await.map(drop);
        server.server.resume();
    }
    for client in &clients {
        let all = async || {
            let health = client.health().await;
            assert!(!reasons(&health).contains(&JUMPED), "{health:?}");
            health.healthy_nodes() == 3
        };
        eventually("all servers count", QUARANTINE_LIMIT, all).await;
    }
}

pub(crate) async fn without_the_right_to_read_the_clock_votes_count<A: Adapter>() {
    let servers = three([0.0; 3]);
    for clock in &servers {
        clock.server.command(&["ACL", "SETUSER", "default", "-time"]);
    }
    let warnings = Warnings::default();
    let _subscribed = warnings.subscribe();
    let redlock = guarded::<A>(urls(&servers));
    vouch(&redlock, 3).await;
    servers[0].set_ahead(10.0);
    redlock.lock("a", LONGEST).await.unwrap().release().await.unwrap();
    assert_eq!([None; 3], reasons(&redlock.health().await)[..]);
    assert_eq!(3, warnings.about("clock check not permitted"));
}

/// Without a longest TTL, nothing excludes the node, so a warning is all.
pub(crate) async fn health_reports_a_clock_that_runs_fast<A: Adapter>() {
    let servers = three([0.083, 0.0, 0.0]);
    let redlock = A::builder(urls(&servers)).unwrap().node_timeout(NODE_TIMEOUT).build().unwrap();
    let measured = async || redlock.health().await.nodes().iter().all(|node| node.clock_rate().is_some());
    eventually("all clocks are measured", Duration::from_secs(30), measured).await;
    let health = redlock.health().await;
    let fast: Vec<_> = health.nodes().iter().map(redlock_core::NodeHealth::is_clock_fast).collect();
    assert_eq!(([true, false, false], 3), (fast.try_into().unwrap(), health.healthy_nodes()), "{health}");
    for (node, ppm) in health.nodes().iter().zip([83_000, 0, 0]) {
        let rate = node.clock_rate().unwrap();
        assert!(rate.ppm.abs_diff(ppm) <= rate.error_ppm + 100, "{health}");
    }
    redlock.close().await;
}

/// A server for one case of the conformance suite, whose clock the case sets.
struct Watched<A> {
    clock: Arc<WrongClock>,
    tokio: tokio::runtime::Runtime,
    adapter: PhantomData<A>,
}

impl<A: Adapter> conformance::Backend for Watched<A> {
    async fn node(&self) -> Arc<dyn LockNode> {
        let options = Options::tokio().longest_ttl(LONGEST);
        Arc::new(A::node(self.clock.server.url(), &options).unwrap())
    }

    fn loss(&self) -> Option<Box<dyn Fn()>> {
        let clock = Arc::clone(&self.clock);
        Some(Box::new(move || drop(clock.server.command(&["FLUSHALL"]))))
    }

    fn clock(&self) -> Option<Box<dyn Fn(Duration)>> {
        let (clock, ahead) = (Arc::clone(&self.clock), Cell::new(0.0));
        Some(Box::new(move |forward| {
            ahead.set(ahead.get() + forward.as_secs_f64());
            clock.set_ahead(ahead.get());
        }))
    }

    fn block_on(&self, case: impl Future<Output = ()>) {
        self.tokio.block_on(case);
    }

    fn runtime(&self) -> Arc<dyn Runtime> {
        Arc::new(TokioRuntime::new())
    }
}

pub(crate) fn the_watch_of_a_clock_passes_the_conformance_suite<A: Adapter>() {
    let of_clocks = |case: &&str| case.contains("clock") && !case.starts_with("a_token_");
    let cases: Vec<_> = conformance::cases().filter(of_clocks).collect();
    assert_eq!(6, cases.len(), "{cases:?}");
    for case in cases {
        let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let server = Watched::<A> { clock: Arc::new(WrongClock::start(0.0)), tokio, adapter: PhantomData };
        assert_eq!(conformance::Outcome::Passed, conformance::run(&server, case), "{case}");
    }
}
