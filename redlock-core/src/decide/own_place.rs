//! The place of a request on one node, which may have lost it.
//!
//! The end of a connection may hide that the node has reserved the resource for the request, and that the reservation has
//! expired. A node that was down may not know the request at all. Thus the request enters its place again if the node
//! replies over another connection, or for the first time after a query that has failed. The same applies after a
//! reservation that has expired because the request could not use it: too few other nodes were reserved for it.

use std::sync::Arc;

use crate::decide::standing::Standing;
use crate::types::claim::Claim;
use crate::types::identity::ConnectionId;
use crate::types::instant::Instant;
use crate::types::resource::Resource;
use crate::types::token::Token;

/// The place of a request on one node.
#[derive(Debug)]
pub(crate) struct OwnPlace {
    standing: Arc<Standing>,
    /// The connection over which the place was entered, if the backend knows it.
    entered_over: Option<ConnectionId>,
    /// True if the node may have lost the place since it was entered.
    may_be_lost: bool,
    /// The end of the reservation that the node has reported, if the request has not made an attempt since.
    reserved_until: Option<Instant>,
}

impl OwnPlace {
    /// Creates the place of a request whose last attempt has entered it over this connection.
    pub(crate) fn new(standing: &Arc<Standing>, connection: Option<ConnectionId>) -> Self {
        let standing = Arc::clone(standing);
        Self { standing, entered_over: connection, may_be_lost: false, reserved_until: None }
    }

    /// Returns whether the resource is reserved for the request, if this is its holder.
    pub(crate) fn is(&self, holder: &Token) -> bool {
        self.standing.id() == Some(holder)
    }

    /// Returns whether the last attempt of the request, which is being released, is this holder.
    pub(crate) fn is_of_attempt(&self, holder: &Token) -> bool {
        self.standing.attempt() == Some(holder)
    }

    /// Records that the node has not replied to a query.
    pub(crate) fn failed(&mut self) {
        self.may_be_lost = true;
    }

    /// Records a reservation for the request, which ends at this time.
    pub(crate) fn reserved(&mut self, until: Option<Instant>) {
        self.reserved_until = until;
    }

    /// Returns when the reservation ends, and the place with it.
    pub(crate) fn ends_at(&self) -> Option<Instant> {
        self.reserved_until
    }

    /// Returns the claim whose release enters the place again, if the node may lack it. The node has just replied, and this
    /// is the connection.
    pub(crate) fn entry(
        &mut self,
        resource: &Resource,
        connection: Option<ConnectionId>,
        now: Instant,
    ) -> Option<Claim> {
        let has_ended = self.reserved_until.take().is_some_and(|until| until <= now);
        let is_lost = has_ended || self.may_be_lost || self.entered_over != connection;
        (self.entered_over, self.may_be_lost) = (connection, false);
        if is_lost { self.standing.entry(resource, now) } else { None }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::since_origin(Duration::from_millis(millis))
    }

    #[test]
    fn the_place_is_entered_again_over_another_connection_and_after_a_failed_query() {
        let attempt = Token::random(|bytes| bytes.fill(0xa5), None);
        let mut standing = Standing::new(at(10), Duration::from_millis(200), false);
        standing.denied(&attempt);
        let resource = Resource::new("a").unwrap();
        let [one, other] = [1, 2].map(|number| Some(ConnectionId(number)));
        let mut place = OwnPlace::new(&Arc::new(standing), one);
        assert_eq!(None, place.entry(&resource, one, at(20)), "the attempt has entered it");
        let entry = place.entry(&resource, other, at(30)).unwrap();
        assert_eq!(&attempt, entry.token(), "an attempt that has ended: its release deletes nothing");
        let entered = entry.place().unwrap();
        assert!(place.is(&entered.id) && !place.is(&attempt));
        assert_eq!(Some(Duration::from_millis(20)), entered.waited, "it keeps its order");
        assert_eq!(None, place.entry(&resource, other, at(40)));
        place.failed();
        assert!(place.entry(&resource, other, at(50)).is_some());
        assert_eq!(None, place.entry(&resource, other, at(60)));
        place.reserved(Some(at(270)));
        assert_eq!(Some(at(270)), place.ends_at());
        assert_eq!(
            None,
            place.entry(&resource, other, at(269)),
            "it still has a reservation, or has passed it on"
        );
        assert_eq!(None, place.ends_at());
        place.reserved(Some(at(270)));
        assert!(place.entry(&resource, other, at(270)).is_some());
    }
}
