//! The task that keeps the admission of a connection up to date.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Once};
use std::time::Duration;

use redlock_core::node::{ClockReading, QuarantineReason};
use redlock_core::runtime::{Instant, Runtime};

use super::Behind;
use super::checked::{Checked, reading};
use super::look::{Look, found};
use crate::clock_rate::MeasuredClock;
use crate::connection::Connection;
use crate::first::first;
use crate::gate::rule::{Finding, Memory, Standing};
use crate::gate::{Gate, Ticket};
use crate::longest::Longest;
use crate::message::Failure;
use crate::stamp::StampKey;
use crate::sync::{Mutex, locked};

/// The longest time between two looks. It bounds how long a loss goes unnoticed that neither a push nor a reply shows.
const INTERVAL: Duration = Duration::from_secs(1);

/// The shortest time between two looks, so that a server that pushes without end causes no loop.
const PAUSE: Duration = Duration::from_millis(100);

/// The part of a node in the admission of its connections.
#[derive(Debug)]
pub(crate) struct Keeper {
    label: String,
    pub(crate) stamp: StampKey,
    longest: Arc<Longest>,
    /// The longest TTL in the stamp, in milliseconds.
    stamped: AtomicU64,
    /// The additional time of a quarantine. Zero for servers that cannot be promoted.
    margin: Duration,
    memory: Mutex<Memory>,
    clock_rate: Arc<MeasuredClock>,
    /// Ensures that missing rights are logged once.
    denied: Once,
    clock_denied: Once,
    /// The last time of the server that was read behind a vote and checked, in microseconds.
    checked: AtomicU64,
    /// The last failure that was logged.
    failure: Mutex<Option<String>>,
}

/// The checks of the votes over one connection.
pub(crate) struct Checks {
    pub(crate) keeper: Arc<Keeper>,
    pub(crate) behind: Behind,
    /// True if several votes have one check in common.
    pub(crate) are_common: bool,
    /// True if the clock of the server is read behind each vote, until the server does not permit it any more.
    pub(crate) clock: AtomicBool,
}

impl Checks {
    /// Returns whether anything is sent behind votes.
    pub(crate) fn follow_votes(&self, gate: &Gate) -> bool {
        self.clock.load(Ordering::Relaxed) || self.behind != Behind::Nothing && gate.knows_stamp()
    }
}

impl Keeper {
    pub(crate) fn new(
        label: &str,
        stamp: StampKey,
        longest: Arc<Longest>,
        strict: bool,
        margin: Duration,
        clock_rate: Arc<MeasuredClock>,
    ) -> Self {
        let (memory, failure) = (Mutex::new(Memory::new(strict, !margin.is_zero())), Mutex::default());
        let (denied, clock_denied) = (Once::new(), Once::new());
        Self {
            label: label.to_owned(),
            stamp,
            longest,
            stamped: AtomicU64::new(0),
            margin,
            memory,
            clock_rate,
            denied,
            clock_denied,
            checked: AtomicU64::new(0),
            failure,
        }
    }

    /// Returns how long a server stays in quarantine.
    pub(crate) fn wait(&self) -> Duration {
        self.longest.wait() + self.margin
    }

    /// Returns the longest TTL in the stamp, if it is longer than the one that this program states.
    pub(crate) fn longer_ttl(&self) -> Option<Duration> {
        let stamped = self.stamped.load(Ordering::Relaxed);
        (stamped > self.longest.millis()).then(|| Duration::from_millis(stamped))
    }

    /// Returns the look of this program. `tracked`: whether the server is to report changes of the stamp.
    pub(crate) fn look(&self, tracked: bool) -> Look {
        let jumped = locked(&self.memory).jumped;
        Look { stamp: self.stamp, longest: self.longest.millis(), vouch: false, jumped, tracked }
    }

    /// Returns the look that follows votes. It renews no stamp because of a jump, which is for the keeper to do.
    pub(crate) fn look_behind(&self) -> Look {
        Look { jumped: None, ..self.look(false) }
    }

    /// Applies a reading of the server's clock. A jump ends the admission.
    ///
    /// A look is applied before the reading that was sent with it. It shows whether this is the same server.
    pub(crate) fn read_clock(&self, gate: &Gate, reading: Option<ClockReading>) {
        match reading {
            Some(reading) => {
                self.judge_clock(gate, reading);
                self.clock_rate.record(reading);
            }
            None => self.clock_denied(),
        }
    }

    /// Applies the time of the server that was read behind a vote, just now.
    ///
    /// It is not a bound for later readings, so the time before the request is not needed.
    pub(crate) fn check_clock(&self, gate: &Gate, server: Duration, runtime: &dyn Runtime) {
        let micros = u64::try_from(server.as_micros()).unwrap_or(u64::MAX);
        // Votes that are sent together have one reading. The first reply has the strictest bound.
        if self.checked.load(Ordering::Acquire) == micros {
            return;
        }
        self.judge_clock(gate, ClockReading { sent: None, server, received: runtime.now() });
        self.checked.store(micros, Ordering::Release);
    }

    fn judge_clock(&self, gate: &Gate, reading: ClockReading) {
        let jumped = locked(&self.memory).read_clock(reading, self.wait());
        let Some((ahead, is_new)) = jumped else { return };
        gate.lose(QuarantineReason::ClockJumped);
        if is_new {
            tracing::warn!(
                node = self.label,
                ?ahead,
                "clock of the server jumped ahead: its votes do not count"
            );
        }
    }

    /// Applies the result of a look. Returns whether to look again at once.
    pub(crate) fn apply(
        &self,
        gate: &Gate,
        ticket: Ticket,
        look: Look,
        finding: &Finding,
        now: Instant,
    ) -> bool {
        let stamp = match finding {
            Finding::Stamp(stamp) => {
                let millis = u64::try_from(stamp.longest.as_millis()).unwrap_or(u64::MAX);
                self.stamped.store(millis, Ordering::Relaxed);
                if let Some(stamped) = self.longest.see(stamp.longest) {
                    let stated = self.longest.stated();
                    tracing::warn!(
                        node = self.label,
                        ?stated,
                        ?stamped,
                        "longest_ttl differs between programs"
                    );
                }
                locked(&self.memory).record_jump(stamp, look.jumped);
                Some(Arc::clone(&stamp.text))
            }
            _ => None,
        };
        self.report(finding);
        let standing = Standing::of(finding, &mut locked(&self.memory), ticket.facts, now);
        gate.apply(ticket, standing, stamp, self.wait(), now)
    }

    /// Logs that the server does not permit to read its clock.
    pub(crate) fn clock_denied(&self) {
        self.clock_denied.call_once(|| {
            tracing::warn!(
                node = self.label,
                "clock check not permitted (TIME); jumps of the clock are not detected"
            );
        });
    }

    /// Logs why the stamp cannot be used.
    fn report(&self, finding: &Finding) {
        let failure = match finding {
            Finding::Failed(failure) => Some(failure.clone()),
            _ => None,
        };
        let is_new = {
            let mut logged = locked(&self.failure);
            let is_new = failure.is_some() && *logged != failure;
            logged.clone_from(&failure);
            is_new
        };
        if let (Some(error), true) = (failure, is_new) {
            tracing::warn!(node = self.label, error, "restart check failed; retrying");
        }
        if matches!(finding, Finding::Uptime { .. } | Finding::Nothing) {
            self.denied.call_once(|| {
                tracing::warn!(
                    node = self.label,
                    "restart check not permitted (key redlock:admission, EVAL, INFO); lost data is detected only in part"
                );
            });
        }
    }

    /// Returns the time until the next look: zero if there is a reason to look. Ends an admission that a longer wait does
    /// not permit any more.
    pub(crate) fn next_look(&self, gate: &Gate, now: Instant) -> Duration {
        if gate.is_look_due() {
            return Duration::ZERO;
        }
        let left = match gate.recheck(self.wait(), now) {
            Some(quarantine) => quarantine.remaining,
            // The quarantine has ended since the last look, which was too early.
            None if !gate.is_admitted() => Some(Duration::ZERO),
            None => None,
        };
        left.map_or(INTERVAL, |left| left.min(INTERVAL))
    }

    /// Performs a look whenever one is necessary, as long as the connection is in use.
    ///
    /// Returns when a look finds that the server is a replica.
    pub(crate) async fn keep<K: Connection>(&self, over: &Checked<'_, K>, runtime: &dyn Runtime) {
        let gate = over.gate;
        // The handshake included a look. Another look is necessary if a loss was reported since then.
        loop {
            let change = gate.listen();
            let pause = self.next_look(gate, runtime.now());
            if !pause.is_zero() {
                first(runtime.sleep(pause), change).await;
            }
            if !self.is_as_before(over, runtime).await {
                loop {
                    match self.look_over(over, runtime).await {
                        Ok((Finding::Replica, _)) => return,
                        Ok((_, true)) => {}
                        _ => break,
                    }
                }
                runtime.sleep(PAUSE).await;
            }
        }
    }

    /// Makes a comparison, if that is sufficient. Returns `true` if no look is necessary.
    async fn is_as_before<K: Connection>(&self, over: &Checked<'_, K>, runtime: &dyn Runtime) -> bool {
        let gate = over.gate;
        if gate.is_look_due() || !gate.is_admitted() || !gate.knows_stamp() || over.behind != Behind::Nothing
        {
            return false;
        }
        // If there is no reply, the connection ends. Another check follows with the next one.
        let sent = runtime.now();
        let Ok((_, compared)) = over.compare(Vec::new(), self.stamp).await else {
            return true;
        };
        gate.compare(&compared);
        if gate.is_admitted() {
            self.read_clock(gate, reading(over.clock_in(&compared), sent, runtime));
        }
        gate.is_admitted()
    }

    /// Performs a look over a connection. Returns the finding, and whether to look again at once.
    async fn look_over<K: Connection>(
        &self,
        over: &Checked<'_, K>,
        runtime: &dyn Runtime,
    ) -> Result<(Finding, bool), Failure> {
        let gate = over.gate;
        let ticket = gate.begin(runtime.now());
        let look = self.look(over.is_tracked);
        self.perform(over, ticket, look, runtime).await
    }

    /// Performs a look that has begun. Returns the finding, and whether to look again at once.
    async fn perform<K: Connection>(
        &self,
        over: &Checked<'_, K>,
        ticket: Ticket,
        look: Look,
        runtime: &dyn Runtime,
    ) -> Result<(Finding, bool), Failure> {
        let (replies, reading) = over.timed(look.commands::<K>(), runtime).await?;
        let finding = found(over.connection, &replies).await?;
        let again = self.apply(over.gate, ticket, look, &finding, runtime.now());
        self.read_clock(over.gate, reading);
        Ok((finding, again))
    }

    /// Vouches for the data of the server. Returns the finding.
    pub(crate) async fn vouch<K: Connection>(
        &self,
        over: &Checked<'_, K>,
        runtime: &dyn Runtime,
    ) -> Result<Finding, Failure> {
        let ticket = over.gate.begin(runtime.now());
        locked(&self.memory).vouch();
        let look = Look { vouch: true, ..self.look(over.is_tracked) };
        Ok(self.perform(over, ticket, look, runtime).await?.0)
    }
}
