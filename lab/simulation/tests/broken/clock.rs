//! Nodes that watch the clock of their server, with one flaw each.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use redlock_core::node::{
    Admission, AdmissionId, Begun, ClockReading, LockNode, NodeError, Profile, Quarantine, QuarantineReason,
    Request, ServerClock, Status,
};
use redlock_core::runtime::{Instant, suspend_aware_now};
use redlock_testkit::MemoryNode;
use redlock_testkit::conformance::{self, Backend};

use self::Flaw::*;

const LONGEST_TTL: Duration = Duration::from_secs(10);

flaws! {
    sound: conformance::cases().filter(|case| catches(case));
    // The time after the reply is the time of the beginning.
    TakesAPauseForAJump: "a_pause_is_no_jump_of_the_clock" => "is no jump of the clock";
    ReadsNoClock: "a_reply_after_a_jump_of_the_clock_has_no_vote" => "has no vote";
    StatesAnotherReason: "a_reply_after_a_jump_of_the_clock_has_no_vote" => "states the reason";
    ReadsTheClockInFrontOfVotes: "a_request_that_began_before_a_jump_of_the_clock_has_no_vote" =>
        "behind each vote, not before it";
    ComparesWithTheLastReading: "small_steps_of_the_clock_are_noticed" => "small steps";
    OnlyTheFirstClientWatches: "two_clients_notice_a_jump_of_the_clock" => "has no vote";
    NoticesOneJump: "every_jump_of_the_clock_is_noticed" => "every jump";
}

struct Server {
    flaw: Flaw,
    /// The keys. Its clock is right: that of the server is `ahead` of it.
    memory: MemoryNode,
    ahead: Arc<Mutex<Duration>>,
    clients: AtomicU64,
}

fn server(flaw: Flaw) -> Server {
    Server { flaw, memory: MemoryNode::new("a"), ahead: Arc::default(), clients: AtomicU64::new(0) }
}

impl Backend for Server {
    async fn node(&self) -> Arc<dyn LockNode> {
        let client = self.clients.fetch_add(1, Ordering::Relaxed);
        let (memory, ahead) = (self.memory.clone(), Arc::clone(&self.ahead));
        let watch = Arc::new(Watch { flaw: self.flaw, client, ahead, ..Watch::default() });
        Arc::new(Node { memory, watch })
    }

    fn loss(&self) -> Option<Box<dyn Fn()>> {
        Some(Box::new(|| {}))
    }

    fn clock(&self) -> Option<Box<dyn Fn(Duration)>> {
        let ahead = Arc::clone(&self.ahead);
        Some(Box::new(move |forward| *ahead.lock().expect("no thread panics here") += forward))
    }
}

struct Node {
    memory: MemoryNode,
    watch: Arc<Watch>,
}

/// The watch of one client.
struct Watch {
    flaw: Flaw,
    client: u64,
    ahead: Arc<Mutex<Duration>>,
    clock: Mutex<ServerClock>,
    jumped: AtomicBool,
    jumps: AtomicU64,
}

impl Default for Watch {
    fn default() -> Self {
        let (ahead, clock, jumped, jumps) = Default::default();
        Self { flaw: Sound, client: 0, ahead, clock, jumped, jumps }
    }
}

impl Watch {
    /// Reads the clock of the server. `received` is the time of the reply.
    fn read(&self, sent: Instant, received: Instant) {
        let is_ignored = self.flaw == ReadsNoClock
            || self.flaw == OnlyTheFirstClientWatches && self.client > 0
            || self.flaw == NoticesOneJump && self.jumps.load(Ordering::Relaxed) > 0;
        if is_ignored {
            return;
        }
        let server =
            suspend_aware_now().elapsed_since_origin() + *self.ahead.lock().expect("no thread panics here");
        let (mut clock, kept) =
            (self.clock.lock().expect("no thread panics here"), Quarantine::duration(LONGEST_TTL));
        let jump = clock.jump(ClockReading { sent: Some(sent), server, received }, kept);
        if self.flaw == ComparesWithTheLastReading {
            clock.restart();
            clock.jump(ClockReading { sent: Some(sent), server, received }, kept);
        }
        if jump.is_some() {
            self.jumps.fetch_add(1, Ordering::Relaxed);
            self.jumped.store(true, Ordering::Relaxed);
        }
    }

    fn admission(&self) -> Admission {
        if !self.jumped.load(Ordering::Relaxed) {
            return Admission::Admitted(AdmissionId(self.jumps.load(Ordering::Relaxed)));
        }
        let reason = match self.flaw {
            StatesAnotherReason => QuarantineReason::DataLost,
            _ => QuarantineReason::ClockJumped,
        };
        Admission::Quarantined(Quarantine::new(reason))
    }
}

impl LockNode for Node {
    fn label(&self) -> &str {
        self.memory.label()
    }

    fn profile(&self) -> Profile {
        Profile::default().with_longest_ttl(LONGEST_TTL)
    }

    fn status(&self) -> Status {
        match self.watch.admission() {
            Admission::Quarantined(quarantine) => Status::default().in_quarantine(quarantine),
            _ => Status::default(),
        }
    }

    fn begin(&self, request: &Request) -> Begun {
        let (memory, watch, request) = (self.memory.clone(), Arc::clone(&self.watch), request.clone());
        if let Request::Vouch = request {
            watch.jumped.store(false, Ordering::Relaxed);
            let now = suspend_aware_now();
            watch.read(now, now);
            return Begun::sent(async { Ok(redlock_core::node::Reply::Granted) });
        }
        if !matches!(request, Request::Acquire(..) | Request::Extend(..) | Request::Release(_)) {
            return Begun::failed(NodeError::unsupported(&request));
        }
        let (before, began) = (watch.admission(), suspend_aware_now());
        if watch.flaw == ReadsTheClockInFrontOfVotes {
            watch.read(began, began);
        }
        Begun::sent(async move {
            let sent = suspend_aware_now();
            let reply = memory.call(request.clone()).await?;
            match watch.flaw {
                ReadsTheClockInFrontOfVotes => {}
                TakesAPauseForAJump => watch.read(sent, began),
                _ => watch.read(sent, suspend_aware_now()),
            }
            Ok(if request.is_vote() { before.judge(reply, watch.admission()) } else { reply })
        })
    }
}
