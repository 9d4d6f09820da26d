//! The node lists that programs have announced, as an operator sees them.

use std::sync::Arc;
use std::time::Duration;

use crate::client::handle::Handle;
use crate::client::node_lists::NodeLists;
use crate::decide::announcements::{Finding, Listed, Place, Servers};
use crate::decide::node_list::{Lists, NodeList};
use crate::node::ServerId;
use crate::round::compare::Seen;
use crate::types::quarantine::Quarantine;
use crate::types::report::{NodeReport, Outcome};

/// The node lists that programs have announced on one node.
///
/// Returned by [`Redlock::announced_lists`](crate::Redlock::announced_lists).
#[derive(Clone, Debug)]
pub struct AnnouncedLists {
    index: usize,
    label: String,
    server: Option<ServerId>,
    error: Option<String>,
    lists: Vec<AnnouncedList>,
}

/// The node lists of programs, as one of them has announced them.
///
/// Programs with the same lists have one announcement.
#[derive(Clone, Debug)]
pub struct AnnouncedList {
    lists: Lists,
    owner: Option<String>,
    expires_in: Option<Duration>,
    step: Option<u8>,
    is_copy: bool,
    differs: bool,
    found_difference: bool,
}

impl AnnouncedLists {
    /// Returns the node's position in the configuration, from 0. Previous nodes come last.
    ///
    /// ```
    /// # redlock_testkit::example!(|redlock| {
    /// let nodes = redlock.announced_lists().await;
    /// assert_eq!(0, nodes[0].index());
    /// # });
    /// ```
    pub fn index(&self) -> usize {
        self.index
    }

    /// Returns the node's label, such as `10.0.0.1:6379`.
    ///
    /// ```
    /// # redlock_testkit::example!(|redlock| {
    /// let nodes = redlock.announced_lists().await;
    /// assert_eq!("fake-0", nodes[0].label());
    /// # });
    /// ```
    pub fn label(&self) -> &str {
        &self.label
    }

    /// Returns the identity of the server, if it has replied and states one. A server that was restarted has another one.
    ///
    /// ```
    /// # redlock_testkit::example!(|redlock| {
    /// let nodes = redlock.announced_lists().await;
    /// assert_ne!(nodes[0].server(), nodes[1].server());
    /// # });
    /// ```
    pub fn server(&self) -> Option<ServerId> {
        self.server
    }

    /// Returns why the announcements are unknown, or known only in part.
    ///
    /// ```
    /// # redlock_testkit::example!(|redlock, nodes| {
    /// nodes[2].crash();
    /// let nodes = redlock.announced_lists().await;
    /// assert!(nodes[2].error().is_some());
    /// # });
    /// ```
    pub fn error(&self) -> Option<&str> {
        self.error.as_deref()
    }

    /// Returns the announcements: at most three.
    ///
    /// ```
    /// # redlock_testkit::example!(|service, ttl| {
    /// # let nodes = fake_nodes(3, service.runtime());
    /// # let nodes = nodes.iter().cloned().map(Into::into);
    /// let redlock = Redlock::builder(service).nodes(nodes).compare_node_lists(true).build()?;
    /// redlock.lock("report", ttl).await?.release().await?;
    /// # redlock.health().await;
    /// for node in redlock.announced_lists().await {
    ///     assert!(node.lists().iter().all(|list| !list.differs()), "another program lists other nodes");
    /// }
    /// # });
    /// ```
    pub fn lists(&self) -> &[AnnouncedList] {
        &self.lists
    }
}

impl AnnouncedList {
    /// Returns the lists: one, or two of a program with [previous nodes](crate::Builder::previous_nodes), in any order.
    ///
    /// Each is the number of its nodes, and the servers of those that the program has reached.
    ///
    /// ```
    /// # use redlock_core::AnnouncedList;
    /// fn is_changing(announced: &AnnouncedList) -> bool {
    ///     announced.lists().len() == 2
    /// }
    /// ```
    pub fn lists(&self) -> Vec<(usize, Vec<ServerId>)> {
        self.lists.iter().map(|list: &NodeList| (list.size(), list.known().collect())).collect()
    }

    /// Returns the [owner label](crate::Builder::owner) of the program.
    ///
    /// Only a program that has found other lists announces its label.
    ///
    /// ```
    /// # use redlock_core::AnnouncedList;
    /// fn culprit(announced: &AnnouncedList) -> &str {
    ///     announced.owner().unwrap_or("unknown")
    /// }
    /// ```
    pub fn owner(&self) -> Option<&str> {
        self.owner.as_deref()
    }

    /// Returns the time until the announcement expires, unless a program renews it.
    ///
    /// Running programs renew it every ten seconds, to 30 s. If less than 20 s are left, no program with these lists runs.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use redlock_core::AnnouncedList;
    /// fn is_renewed(announced: &AnnouncedList) -> bool {
    ///     announced.expires_in() > Some(Duration::from_secs(18))
    /// }
    /// ```
    pub fn expires_in(&self) -> Option<Duration> {
        self.expires_in
    }

    /// Returns the step of its programs in a [change of the nodes](crate::Builder::previous_nodes), as a program of step 2 sees
    /// it.
    ///
    /// Programs of step 1 have only the previous nodes, those of step 2 both lists, and those of step 3 only the new nodes.
    /// `None` if this program has no previous nodes, if the list is neither of them, or if too little of it is known.
    ///
    /// ```
    /// # use redlock_core::AnnouncedLists;
    /// fn may_step_3_begin(nodes: &[AnnouncedLists]) -> bool {
    ///     let mut lists = nodes.iter().flat_map(AnnouncedLists::lists);
    ///     lists.all(|list| matches!(list.step(), Some(2 | 3)))
    /// }
    /// ```
    pub fn step(&self) -> Option<u8> {
        self.step
    }

    /// Returns whether the announcement is on a server that its list does not contain.
    ///
    /// During a change of the nodes, a program with both lists copies the announcement of one list to the nodes of the other
    /// one, if lists [must agree](crate::Builder::node_lists_must_agree).
    ///
    /// ```
    /// # use redlock_core::AnnouncedList;
    /// fn is_of_a_client_of_this_server(announced: &AnnouncedList) -> bool {
    ///     !announced.is_copy()
    /// }
    /// ```
    pub fn is_copy(&self) -> bool {
        self.is_copy
    }

    /// Returns whether a program with these lists and another program can hold one lock, because it has found the list of
    /// that program, or because this program sees both lists.
    ///
    /// The other list may be one that this program agrees with: during a change of the nodes, programs with only the
    /// previous list and programs with only the new one do not exclude each other. They find each other only if they have a
    /// node in common, or if a program with both lists runs and lists [must
    /// agree](crate::Builder::node_lists_must_agree).
    ///
    /// ```
    /// # use redlock_core::AnnouncedList;
    /// fn is_problem(announced: &AnnouncedList) -> bool {
    ///     announced.differs() || announced.found_difference()
    /// }
    /// ```
    pub fn found_difference(&self) -> bool {
        self.found_difference
    }

    /// Returns whether a program with these lists and this program have no list in common, so that both can hold one lock.
    ///
    /// ```
    /// # use redlock_core::AnnouncedList;
    /// fn advice(announced: &AnnouncedList) -> &'static str {
    ///     if announced.differs() { "correct a list" } else { "all is well" }
    /// }
    /// ```
    pub fn differs(&self) -> bool {
        self.differs
    }
}

pub(crate) async fn announced(handle: &Arc<Handle>) -> Vec<AnnouncedLists> {
    let new;
    let lists = match &handle.node_lists {
        Some(lists) => lists,
        None => {
            new = NodeLists::new(handle.rules.quorums, false, None);
            &new
        }
    };
    let start = handle.now();
    let compared = lists.compare(handle, true).await;
    let all_announced = compared.nodes.iter().map(|seen| &seen.announced);
    let others_differ = compared.servers.compare_others(&all_announced) != Finding::Equal;
    let of_node = |(index, seen): (usize, &Seen)| {
        let report = |outcome: &Outcome| {
            let outcome = outcome.clone();
            let latency = handle.now().saturating_duration_since(start);
            let label = handle.label(index).to_owned();
            NodeReport { index, label, outcome, latency, same_server_as: None }.cause().unwrap_or_default()
        };
        // The label names the node.
        let error = |outcome: &Outcome| match outcome {
            Outcome::Quarantined { quarantine: Quarantine { remaining: Some(left), .. }, .. } => {
                format!("in quarantine for {left:.1?}")
            }
            outcome => report(outcome),
        };
        let at = |place| Some((place, seen.announced.at(place)?));
        let all = Place::ALL.into_iter().filter_map(at);
        AnnouncedLists {
            index,
            label: handle.label(index).to_owned(),
            server: seen.server,
            error: seen.failure.as_ref().map(error),
            lists: all
                .filter_map(|listed| AnnouncedList::new(&compared.servers, listed, others_differ))
                .collect(),
        }
    };
    compared.nodes.iter().enumerate().map(of_node).collect()
}

impl AnnouncedList {
    /// Reads an announcement; `None` if it is none. `others_differ` if one program lists only the nodes, and another one only
    /// the previous nodes.
    fn new(servers: &Servers, (place, listed): (Place, &Listed), others_differ: bool) -> Option<Self> {
        let lists = servers.read(&listed.token)?;
        let has_one_of_two = others_differ && lists.single().is_some();
        Some(Self {
            step: servers.step(&listed.token),
            is_copy: Lists::is_copy(&listed.token),
            lists,
            owner: Lists::owner(&listed.token).map(str::to_owned),
            expires_in: listed.remaining,
            differs: servers.compare(listed) != Finding::Equal,
            found_difference: place == Place::Other && !Lists::is_relied_on(&listed.token) || has_one_of_two,
        })
    }
}
