//! Waiting for someone else, in whichever process, to let go of a lock.
//!
//! Every node is watched, and asked how things stand when the watch begins. So nothing is missed between the attempt that
//! was refused and the wait: what changed before is in the answer, what changes after it is told. A change is only a hint
//! (the holder's extension is one too): the node is asked again, and counts as free only if it says so. Whether all of them
//! together are worth an attempt is decided in [`outlook`](crate::decide::outlook).
//!
//! Nothing here is trusted for ever. Where too few nodes can be watched this is a plain delay; what was believed to be free
//! and was refused all the same is asked again; and a node that keeps telling of changes that are none (its table of
//! watches is too small, say) is asked at growing intervals.

use std::future::{pending, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use crate::broken::{Variant, broken};
use crate::clock::Instant;
use crate::decide::outlook::{Chances, Outlook, View, outlook};
use crate::node::{Availability, LockNode, NodeError, Watch};
use crate::resource::Resource;
use crate::runtime::{Alarm, BoxFuture};
use crate::shared::Shared;

/// While a quorum of nodes is watched, an attempt is made after so long all the same: in case that they tell nothing.
const SAFETY: Duration = Duration::from_secs(5);

/// The shortest and the longest time between two questions to one node, when changes turn out to be none.
const SHORTEST_GAP: Duration = Duration::from_millis(1);
const LONGEST_GAP: Duration = Duration::from_millis(200);

/// A change that comes after so long, and by which the time of the key has moved by so much, is none that a server made up:
/// somebody let go, or extends, which a holder does when a third of its TTL has passed.
const TELLING: Duration = Duration::from_millis(10);

/// Why a wait is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wake {
    /// A quorum of nodes is free.
    Free,
    /// The time is over.
    Time,
}

/// The watches of one request, kept from one wait to the next.
pub(crate) struct Vigil<'a> {
    shared: &'a Shared,
    /// By node, then by resource.
    posts: Vec<Vec<Post<'a>>>,
    chances: Chances,
}

/// The watch over one resource on one node.
struct Post<'a> {
    node: &'a dyn LockNode,
    resource: &'a Resource,
    phase: Phase<'a>,
    /// Whether the node watches it, or did so until it told of a change.
    watched: bool,
    /// Whether it has told of a change, and has not said yet what it was.
    told: bool,
    /// How long to leave the node alone when it tells of the next change soon.
    gap: Duration,
    /// How it stood before it told of a change, and for how long.
    before: Option<(View, Duration)>,
}

type Beginning<'a> = Pin<Box<dyn Future<Output = Result<Watch, NodeError>> + Send + 'a>>;

enum Phase<'a> {
    /// To be begun at this time.
    Due(Instant),
    /// Under way since then.
    Begins(Instant, Beginning<'a>),
    /// It stands, since then.
    Stands(Instant, View, BoxFuture<()>),
}

impl<'a> Vigil<'a> {
    /// Nothing is watched yet.
    pub(crate) fn new(shared: &'a Shared, resources: &'a [Resource]) -> Self {
        let posts =
            |node: &'a dyn LockNode| resources.iter().map(|resource| Post::new(node, resource)).collect();
        let posts = shared.members.iter().map(|member| posts(&*member.node)).collect();
        Self { shared, posts, chances: Chances::default() }
    }

    /// Waits until a quorum of nodes is free, or for `delay`; where a quorum is watched and `patient`, for longer than
    /// that. Not beyond `until`.
    pub(crate) async fn wait(&mut self, delay: Duration, patient: bool, until: Option<Instant>) -> Wake {
        let (start, mut alarm) = (self.shared.now(), Alarm::default());
        self.posts.iter_mut().flatten().for_each(|post| post.ask_again_if_free(start));
        poll_fn(|cx| self.poll(cx, start, delay, patient, until, &mut alarm)).await
    }

    fn poll(
        &mut self,
        cx: &mut Context<'_>,
        start: Instant,
        delay: Duration,
        patient: bool,
        until: Option<Instant>,
        alarm: &mut Alarm,
    ) -> Poll<Wake> {
        loop {
            let (now, limit) = (self.shared.now(), self.shared.settings.node_timeout);
            let next = self.posts.iter_mut().flatten().filter_map(|post| post.poll(cx, now, limit)).min();
            let chance = self.posts.iter().filter(|posts| posts.iter().all(Post::may_be_free)).count();
            if self.chances.see(chance, self.shared.quorum()) {
                return Poll::Ready(Wake::Free);
            }
            let views =
                self.posts.iter().map(|posts| posts.iter().map(Post::view).fold(View::Free, View::and));
            let (longest, free_at) = match outlook(views, self.shared.quorum(), now) {
                Outlook::Free => {
                    self.chances.tried();
                    return Poll::Ready(Wake::Free);
                }
                Outlook::Watched(at) if patient && broken(Variant::NoSafetyPoll) => (Duration::MAX, at),
                Outlook::Watched(at) => (if patient { SAFETY } else { delay }, at),
                Outlook::Blind => (delay, None),
            };
            let end = until.map_or(start + longest, |until| until.min(start + longest));
            if now >= end {
                return Poll::Ready(Wake::Time);
            }
            let look = [next, free_at].into_iter().flatten().fold(end, Instant::min);
            match alarm.poll_at(&*self.shared.runtime, look, cx) {
                Poll::Ready(()) => {}
                Poll::Pending => return Poll::Pending,
            }
        }
    }
}

impl<'a> Post<'a> {
    fn new(node: &'a dyn LockNode, resource: &'a Resource) -> Self {
        Self {
            node,
            resource,
            phase: Phase::Due(Instant::ORIGIN),
            watched: false,
            told: false,
            gap: Duration::ZERO,
            before: None,
        }
    }

    fn view(&self) -> View {
        match &self.phase {
            Phase::Stands(_, view, _) => *view,
            Phase::Begins(..) if self.watched => View::Asked,
            Phase::Due(_) | Phase::Begins(..) => View::Unknown,
        }
    }

    fn may_be_free(&self) -> bool {
        self.told || self.view() == View::Free
    }

    /// It was believed to be free, and the attempt was refused.
    fn ask_again_if_free(&mut self, now: Instant) {
        match self.view() {
            View::Free => self.phase = Phase::Due(now),
            View::Taken(Some(until)) if until <= now => self.phase = Phase::Due(now),
            View::Taken(_) | View::Asked | View::Unknown => {}
        }
    }

    /// Goes on as far as it can. Answers when to look at it again, whatever happens until then.
    fn poll(&mut self, cx: &mut Context<'_>, now: Instant, limit: Duration) -> Option<Instant> {
        loop {
            self.phase = match &mut self.phase {
                Phase::Due(at) if *at > now => return Some(*at),
                Phase::Due(_) if !self.node.capabilities().watch => Phase::Due(now + LONGEST_GAP),
                Phase::Due(_) => Phase::Begins(now, self.node.watch(self.resource)),
                Phase::Begins(since, watch) => match watch.as_mut().poll(cx) {
                    Poll::Ready(Ok(watch)) if broken(Variant::SleepsBeforeArming) => {
                        Phase::Stands(now, View::Taken(None), watch.changed)
                    }
                    Poll::Ready(Err(_)) if broken(Variant::LostIsFree) => {
                        Phase::Stands(now, View::Free, Box::pin(pending()))
                    }
                    Poll::Ready(Ok(watch)) => {
                        let view = view(watch.availability, now);
                        self.gap = match self.before.take() {
                            Some((before, stood)) if before.resembles(view, TELLING) || stood < TELLING => {
                                (self.gap * 2).clamp(SHORTEST_GAP, LONGEST_GAP)
                            }
                            // On a busy machine one that was none may look as if it were: so not at once.
                            Some(_) if self.gap >= 2 * SHORTEST_GAP => self.gap / 2,
                            Some(_) => Duration::ZERO,
                            None => self.gap,
                        };
                        (self.watched, self.told) = (true, false);
                        Phase::Stands(now, view, watch.changed)
                    }
                    Poll::Pending if now < *since + limit => return Some(*since + limit),
                    Poll::Ready(Err(_)) | Poll::Pending => {
                        (self.watched, self.told) = (false, false);
                        Phase::Due(now + LONGEST_GAP)
                    }
                },
                Phase::Stands(since, view, changed) => match changed.as_mut().poll(cx) {
                    Poll::Pending => return None,
                    Poll::Ready(()) => {
                        let stood = now.saturating_duration_since(*since);
                        let never = broken(Variant::AskedWithoutEnd);
                        let gap = if never || stood > LONGEST_GAP { Duration::ZERO } else { self.gap };
                        (self.told, self.before) = (true, Some((*view, stood)));
                        Phase::Due(now + gap)
                    }
                },
            };
        }
    }
}

fn view(availability: Availability, now: Instant) -> View {
    match availability {
        Availability::Free => View::Free,
        Availability::Taken(remaining) => View::Taken(remaining.map(|remaining| now + remaining)),
    }
}
