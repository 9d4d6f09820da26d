//! The watch of one resource on one node.
//!
//! A node reports the current state when the watch begins. A notification is only a hint, because an extension by the
//! holder causes one too. Thus the node is queried again, and its reply is the new state. A node that keeps sending false
//! notifications is queried at growing [intervals](crate::decide::query_interval).
//!
//! A node that may have lost the [place](crate::decide::own_place) of the request receives it again behind the query.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use crate::decide::observation::Seen;
use crate::decide::own_place::OwnPlace;
use crate::decide::query_interval::{LONGEST_INTERVAL, QueryInterval};
use crate::decide::readiness::NodeView;
use crate::decide::standing::{Reserved, Standing};
use crate::decide::time_limit::TimeLimit;
use crate::node::{Availability, LockNode, NodeError, NodeErrorKind, Reply, Request, Watch};
use crate::round::nodes::Peer;
use crate::runtime::BoxFuture;
use crate::types::claim::Claim;
use crate::types::instant::Instant;
use crate::types::resource::Resource;
use crate::types::token::Token;

/// An active watch: what the node reported, and the future that a change completes.
pub(super) struct Active {
    since: Instant,
    view: NodeView,
    /// The holder in the report, if the node names one.
    holder: Option<Token>,
    changed: BoxFuture<()>,
}

/// The watch of one resource on one node.
pub(crate) struct NodeWatch<'a> {
    peer: &'a Peer,
    resource: &'a Resource,
    /// True if readers, and reservations for them, count as free.
    for_reader: bool,
    /// The place of the request, if it has one: a resource that is reserved for it counts as free.
    place: Option<OwnPlace>,
    phase: Phase<'a>,
    /// True while the node watches the resource, or did so until its notification.
    watched: bool,
    /// True from a notification until the reply that explains it.
    notified: bool,
    /// The interval of queries after notifications.
    interval: QueryInterval,
}

pub(super) type Beginning<'a> = Pin<Box<dyn Future<Output = Result<Watch, NodeError>> + Send + 'a>>;

enum Phase<'a> {
    /// The next query is due at this time.
    Idle(Instant),
    /// A query has been in progress since this time.
    Arming(TimeLimit, Beginning<'a>),
    Armed(Active),
}

impl<'a> NodeWatch<'a> {
    pub(super) fn new(peer: &'a Peer, resource: &'a Resource, for_reader: bool) -> Self {
        Self {
            peer,
            resource,
            for_reader,
            place: None,
            phase: Phase::Idle(Instant::ORIGIN),
            watched: false,
            notified: false,
            interval: QueryInterval::default(),
        }
    }

    /// Counts a resource that is reserved for the request as free, and keeps its place. The last attempt has entered it.
    pub(super) fn stand(&mut self, standing: &Arc<Standing>) {
        self.place = Some(OwnPlace::new(standing, self.peer.node.status().connection));
    }

    /// Returns what the node has reserved, according to the last reply; `None` if that is not known.
    pub(super) fn reserved(&self) -> Option<Reserved<'_>> {
        let Phase::Armed(active) = &self.phase else { return None };
        Some(match &active.holder {
            Some(holder) if self.is_own(holder) => Reserved::Own,
            Some(_) if self.is_for_readers() => Reserved::Nothing,
            Some(holder) if holder.is_place() => Reserved::Other(holder),
            _ if active.view == NodeView::Free => Reserved::Nothing,
            _ => Reserved::Held,
        })
    }

    /// Returns whether the node has reserved the resource for readers, and the request is one of a reader.
    pub(super) fn is_for_readers(&self) -> bool {
        let Phase::Armed(active) = &self.phase else { return false };
        self.for_reader && active.holder.as_ref().is_some_and(Token::is_place_of_reader)
    }

    /// Continues an active watch of an earlier request, which replaces a query.
    pub(super) fn resume(&mut self, active: Active) {
        (self.phase, self.watched) = (Phase::Armed(active), true);
    }

    /// Returns the watch if it is active.
    pub(super) fn into_active(self) -> Option<Active> {
        match self.phase {
            Phase::Armed(active) => Some(active),
            Phase::Idle(_) | Phase::Arming(..) => None,
        }
    }

    /// Returns the holder in the last report, unless the node has sent a notification since then.
    pub(crate) fn seen(&self) -> Option<Seen> {
        let Phase::Armed(active) = &self.phase else { return None };
        Some(match (&active.holder, active.view) {
            (_, NodeView::Free) => Seen::Free,
            // Reserved for a waiter: no client holds the lock.
            (Some(holder), _) if holder.is_place() => Seen::Free,
            (Some(holder), _) => Seen::Held(holder.clone()),
            (None, _) => Seen::HeldUnnamed(active.since),
        })
    }

    /// Returns whether this is the place of the request.
    fn is_own(&self, holder: &Token) -> bool {
        self.place.as_ref().is_some_and(|place| place.is(holder))
    }

    /// Returns the claim whose release enters the place again, if the node may lack it.
    fn entry(&mut self, now: Instant) -> Option<Claim> {
        let place = self.place.as_mut().filter(|_| self.peer.profile.places)?;
        place.entry(self.resource, self.peer.node.status().connection, now)
    }

    /// Reads the report of the node.
    ///
    /// If it names the last attempt of the request, the query has overtaken the release. The notification of the release may
    /// be lost, so another query follows.
    fn reported(&mut self, Watch { availability, holder, changed, .. }: Watch, now: Instant) -> Phase<'a> {
        let own = self.place.as_ref().zip(holder.as_ref());
        let is_outdated = own.is_some_and(|(place, holder)| place.is_of_attempt(holder));
        let is_own = holder.as_ref().is_some_and(|holder| self.is_own(holder));
        let is_for_readers = self.for_reader && holder.as_ref().is_some_and(Token::is_place_of_reader);
        let mut view = view(availability, now);
        if let (true, Some(place), NodeView::Taken(until)) = (is_own, &mut self.place, view) {
            place.reserved(until);
        }
        if is_own || is_for_readers {
            view = NodeView::Free;
        }
        self.interval.replied(view, holder.clone());
        (self.watched, self.notified) = (true, is_outdated);
        if is_outdated {
            Phase::Idle(now + self.interval.notified(view, Duration::ZERO))
        } else {
            Phase::Armed(Active { since: now, view, holder, changed })
        }
    }

    /// Sends the query.
    fn begin(&self) -> Beginning<'a> {
        let resource = self.resource.clone();
        let request = if self.for_reader { Request::WatchShared(resource) } else { Request::Watch(resource) };
        watch(&*self.peer.node, request)
    }

    pub(super) fn view(&self, now: Instant) -> NodeView {
        match &self.phase {
            Phase::Armed(active) => active.view,
            Phase::Arming(..) if self.watched => NodeView::Queried,
            // The query waits for its permit.
            Phase::Idle(at) if self.notified && *at <= now => NodeView::Queried,
            Phase::Idle(_) | Phase::Arming(..) => NodeView::Unknown,
        }
    }

    pub(super) fn may_be_free(&self, now: Instant) -> bool {
        self.notified || self.view(now) == NodeView::Free
    }

    /// Schedules a query if the node seemed free and the attempt was denied.
    pub(super) fn query_again_if_free(&mut self, now: Instant) {
        match self.view(now) {
            NodeView::Free => self.phase = Phase::Idle(now),
            NodeView::Taken(Some(until)) if until <= now => self.phase = Phase::Idle(now),
            NodeView::Taken(_) | NodeView::Queried | NodeView::Unknown => {}
        }
    }

    /// Returns when the node has reported a reservation, if no notification has followed.
    pub(super) fn reserved_since(&self) -> Option<Instant> {
        let Phase::Armed(Active { since, holder: Some(holder), .. }) = &self.phase else { return None };
        holder.is_place().then_some(*since)
    }

    /// Returns when the node has reported that a client holds the resource, if no notification has followed.
    pub(super) fn held_since(&self) -> Option<Instant> {
        let Phase::Armed(Active { since, view: NodeView::Taken(_), holder, .. }) = &self.phase else {
            return None;
        };
        holder.as_ref().is_none_or(|holder| !holder.is_place()).then_some(*since)
    }

    /// Returns whether the last report names another holder, and no notification has followed.
    pub(super) fn names_other(&self, holder: &Token) -> bool {
        matches!(&self.phase, Phase::Armed(Active { holder: Some(reported), .. }) if reported != holder)
    }

    /// Schedules a query of a node that is watched, as after a notification.
    pub(super) fn query_again(&mut self, now: Instant) {
        if let Phase::Armed(_) = self.phase {
            (self.phase, self.notified) = (Phase::Idle(now), true);
        }
    }

    /// Returns whether a query is due.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        matches!(self.phase, Phase::Idle(at) if at <= now)
    }

    /// Returns whether a query is in progress.
    pub(super) fn is_queried(&self) -> bool {
        matches!(self.phase, Phase::Arming(..))
    }

    /// Continues as far as possible; returns when to poll again in any case.
    pub(super) fn poll(
        &mut self,
        cx: &mut Context<'_>,
        now: Instant,
        limit: Duration,
        may_query: bool,
    ) -> Option<Instant> {
        loop {
            self.phase = match &mut self.phase {
                Phase::Idle(at) if *at > now => return Some(*at),
                Phase::Idle(_) if !self.peer.profile.watch => Phase::Idle(now + LONGEST_INTERVAL),
                Phase::Idle(_) if !may_query => return None,
                Phase::Idle(_) => Phase::Arming(TimeLimit::new(now, limit), self.begin()),
                Phase::Arming(time_limit, watch) => {
                    let polled = watch.as_mut().poll(cx);
                    let in_time = polled.is_pending() && !time_limit.has_passed(now);
                    match polled {
                        Poll::Ready(Ok(watch)) => {
                            if let Some(entry) = self.entry(now) {
                                let entered = enter(&*self.peer.node, entry, watch);
                                self.phase = Phase::Arming(TimeLimit::new(now, limit), entered);
                                continue;
                            }
                            self.reported(watch, now)
                        }
                        Poll::Pending if in_time => return Some(time_limit.next()),
                        Poll::Ready(Err(_)) | Poll::Pending => {
                            (self.watched, self.notified) = (false, false);
                            self.place.iter_mut().for_each(OwnPlace::failed);
                            Phase::Idle(now + LONGEST_INTERVAL)
                        }
                    }
                }
                Phase::Armed(active) => match active.changed.as_mut().poll(cx) {
                    Poll::Pending => match self.place.as_ref().and_then(OwnPlace::ends_at) {
                        Some(end) if end <= now => {
                            self.notified = true;
                            Phase::Idle(now)
                        }
                        end => return end,
                    },
                    Poll::Ready(()) => {
                        self.notified = true;
                        let age = now.saturating_duration_since(active.since);
                        Phase::Idle(now + self.interval.notified(active.view, age))
                    }
                },
            };
        }
    }
}

/// Begins to watch a resource on a node.
pub(super) fn watch(node: &dyn LockNode, request: Request) -> Beginning<'_> {
    let reply = node.call(request);
    Box::pin(async {
        match reply.await? {
            Reply::Watching(watch) => Ok(watch),
            other => Err(NodeError::unknown(format!("the backend replied {other:?} to a watch"))),
        }
    })
}

/// Enters a place on a node that is watched, and returns the watch. A node may reject places.
fn enter(node: &dyn LockNode, entry: Claim, watch: Watch) -> Beginning<'_> {
    let entered = node.call(Request::Release(entry));
    Box::pin(async {
        match entered.await {
            Err(error) if matches!(error.kind(), NodeErrorKind::Unavailable | NodeErrorKind::Unknown) => {
                Err(error)
            }
            _ => Ok(watch),
        }
    })
}

fn view(availability: Availability, now: Instant) -> NodeView {
    match availability {
        Availability::Free => NodeView::Free,
        Availability::Taken(remaining) => NodeView::Taken(remaining.map(|remaining| now + remaining)),
    }
}
