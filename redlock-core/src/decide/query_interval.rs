//! The interval between the queries of one watched node.
//!
//! A notification is a hint, so the node is queried again. The reply shows whether the notification was genuine.
//!
//! It was genuine if the holder has changed: the lock was released, acquired, passed to another client, or reserved for
//! the request. If the holder is the same, it counts as false in two cases:
//!
//! - The watch was younger than 10 ms.
//! - The expiry has moved by less than 10 ms.
//!
//! A holder extends its lock when a third of its TTL has passed, which is a greater change. A node that keeps sending
//! false notifications, for example because its tracking table is too small, is queried at growing intervals.

use std::mem;
use std::time::Duration;

use crate::decide::readiness::NodeView;
use crate::types::token::Token;

/// The minimum age of a watch, and the minimum move of an expiry, at a genuine notification.
const MIN_CHANGE: Duration = Duration::from_millis(10);

/// The bounds of the interval while notifications are false.
const SHORTEST_INTERVAL: Duration = Duration::from_millis(1);
pub(crate) const LONGEST_INTERVAL: Duration = Duration::from_millis(200);

/// The interval between the queries of one node.
#[derive(Debug, Default)]
pub(crate) struct QueryInterval {
    /// The delay before the next query, if another notification follows soon.
    delay: Duration,
    /// The view before the last notification, and the age of the watch then, until the reply that explains it.
    notified: Option<(NodeView, Duration)>,
    /// The holder in the last reply, if the node named one.
    holder: Option<Token>,
}

impl QueryInterval {
    /// Records a notification, and returns the delay before the next query.
    ///
    /// `view` is the view before the notification, and `age` is that of the watch.
    pub(crate) fn notified(&mut self, view: NodeView, age: Duration) -> Duration {
        self.notified = Some((view, age));
        if age > LONGEST_INTERVAL { Duration::ZERO } else { self.delay }
    }

    /// Records the reply to a query: the view, and the holder if the node named one.
    pub(crate) fn replied(&mut self, view: NodeView, holder: Option<Token>) {
        let previous = mem::replace(&mut self.holder, holder);
        let Some((before, age)) = self.notified.take() else { return };
        let is_other = previous.as_ref().zip(self.holder.as_ref()).is_some_and(|(one, other)| one != other);
        let (was_free, is_free) = (before == NodeView::Free, view == NodeView::Free);
        // If the resource is free for the request, a holder is named only while it is reserved for the request.
        let is_reserved = was_free && is_free && previous.is_some() != self.holder.is_some();
        let has_changed_hands = is_other || is_reserved || was_free != is_free;
        let is_false = !has_changed_hands && (age < MIN_CHANGE || before.resembles(view, MIN_CHANGE));
        self.delay = if is_false {
            (self.delay * 2).clamp(SHORTEST_INTERVAL, LONGEST_INTERVAL)
        } else if self.delay >= 2 * SHORTEST_INTERVAL {
            // On a busy machine, a false notification may look genuine, so the interval shrinks step by step.
            self.delay / 2
        } else {
            Duration::ZERO
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::instant::Instant;

    const OLD: Duration = Duration::from_millis(100);

    fn millis(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn taken(until: u64) -> NodeView {
        NodeView::Taken(Some(Instant::since_origin(millis(until))))
    }

    /// Handles a notification and its reply. Returns the delay between them.
    fn query(interval: &mut QueryInterval, before: NodeView, age: Duration, after: NodeView) -> Duration {
        let delay = interval.notified(before, age);
        interval.replied(after, None);
        delay
    }

    #[test]
    fn intervals_grow_while_notifications_are_false() {
        let mut interval = QueryInterval::default();
        let delays = [(); 11].map(|()| query(&mut interval, taken(500), OLD, taken(509)).as_millis());
        assert_eq!([0, 1, 2, 4, 8, 16, 32, 64, 128, 200, 200], delays);
    }

    #[test]
    fn a_notification_is_genuine_if_another_client_holds_the_lock_or_none() {
        let is_false = |holders: [Option<&str>; 2], after: NodeView| {
            let [before, holder] = holders.map(|holder| holder.map(Token::from_bytes));
            let mut interval = QueryInterval::default();
            interval.replied(taken(500), before);
            interval.notified(taken(500), millis(1));
            interval.replied(after, holder);
            !interval.delay.is_zero()
        };
        assert!(!is_false([Some("one"), Some("other")], taken(501)), "even if it was released soon");
        assert!(!is_false([Some("one"), None], NodeView::Free));
        assert!(is_false([Some("one"), Some("one")], taken(501)));
        assert!(is_false([None, None], taken(501)), "the node does not name holders");
        assert!(is_false([Some("one"), None], taken(501)));
    }

    #[test]
    fn a_notification_is_genuine_if_a_reservation_for_the_request_begins_or_ends() {
        let is_false = |holders: [Option<&str>; 2]| {
            let [before, holder] = holders.map(|holder| holder.map(Token::from_bytes));
            let mut interval = QueryInterval::default();
            interval.replied(NodeView::Free, before);
            interval.notified(NodeView::Free, millis(1));
            interval.replied(NodeView::Free, holder);
            !interval.delay.is_zero()
        };
        assert!(!is_false([None, Some("own place")]) && !is_false([Some("own place"), None]));
        assert!(is_false([None, None]) && is_false([Some("own place"), Some("own place")]));
    }

    #[test]
    fn a_notification_about_the_same_holder_is_genuine_if_the_expiry_moved_on_a_watch_that_is_not_new() {
        let is_false = |before, age, after| {
            let mut interval = QueryInterval::default();
            query(&mut interval, before, millis(age), after);
            !interval.delay.is_zero()
        };
        assert!(is_false(taken(500), 9, taken(900)), "the watch is new");
        assert!(!is_false(taken(500), 9, NodeView::Free));
        assert!(is_false(taken(500), 10, taken(491)), "the expiry hardly moved");
        assert!(is_false(NodeView::Free, 10, NodeView::Free));
        assert!(!is_false(taken(500), 10, taken(510)), "the lock was extended");
        assert!(!is_false(taken(500), 10, NodeView::Free), "the lock was released");
    }

    #[test]
    fn intervals_shrink_step_by_step_after_genuine_notifications() {
        let mut interval = QueryInterval { delay: millis(8), ..QueryInterval::default() };
        let delays = [(); 5].map(|()| query(&mut interval, taken(500), OLD, NodeView::Free).as_millis());
        assert_eq!([8, 4, 2, 1, 0], delays);
    }

    #[test]
    fn a_node_that_was_silent_for_long_is_queried_at_once() {
        let mut interval = QueryInterval { delay: millis(64), ..QueryInterval::default() };
        assert_eq!(millis(64), interval.notified(NodeView::Free, LONGEST_INTERVAL));
        assert_eq!(Duration::ZERO, interval.notified(NodeView::Free, LONGEST_INTERVAL + millis(1)));
    }

    #[test]
    fn a_reply_without_a_notification_changes_nothing() {
        let mut interval = QueryInterval { delay: millis(64), ..QueryInterval::default() };
        interval.replied(NodeView::Free, None);
        assert_eq!(millis(64), interval.delay);
    }
}
