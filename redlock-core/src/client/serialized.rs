//! The serialized form of health checks and inspections. The rules are those of [`crate::types::serialized`].

use serde::{Serialize, Serializer};

use crate::client::announced::{AnnouncedList, AnnouncedLists};
use crate::client::health::{Health, ListHealth, NodeHealth};
use crate::client::inspect::{Inspection, LockStatus};
use crate::node::ServerId;
use crate::types::node_list::NodeListDifference;
use crate::types::quarantine::Quarantine;
use crate::types::report::NodeReport;
use crate::types::resource::Resource;
use crate::types::serialized::{millis, whole_millis};
use crate::types::token::Fingerprint;

#[derive(Serialize)]
#[serde(rename = "NodeHealth")]
struct NodeHealthFields<'a> {
    index: usize,
    label: &'a str,
    healthy: bool,
    latency_ms: f64,
    quarantine: Option<&'a Quarantine>,
    clock: Option<ClockFields>,
    longer_ttl_ms: Option<u64>,
    same_server_as: Option<&'a str>,
    message: String,
}

#[derive(Serialize)]
#[serde(rename = "Clock")]
struct ClockFields {
    ppm: i64,
    error_ppm: u64,
    over_ms: u64,
    fast: bool,
}

impl Serialize for NodeHealth {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        NodeHealthFields {
            index: self.index(),
            label: self.label(),
            healthy: self.is_healthy(),
            latency_ms: millis(self.latency()),
            quarantine: self.quarantine(),
            clock: self.clock_rate().map(|rate| ClockFields {
                ppm: rate.ppm,
                error_ppm: rate.error_ppm,
                over_ms: whole_millis(rate.over),
                fast: self.is_clock_fast(),
            }),
            longer_ttl_ms: self.longer_ttl().map(whole_millis),
            same_server_as: self.same_server_as().map(|(_, label)| label),
            message: self.to_string(),
        }
        .serialize(serializer)
    }
}

/// The fields of one list of nodes.
#[derive(Serialize)]
#[serde(rename = "ListHealth")]
struct ListFields {
    available: bool,
    count: usize,
    healthy: usize,
    quorum: usize,
}

impl From<ListHealth> for ListFields {
    fn from(list: ListHealth) -> Self {
        let (available, count) = (list.is_available(), list.node_count());
        Self { available, count, healthy: list.healthy_nodes(), quorum: list.quorum() }
    }
}

impl Serialize for ListHealth {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        ListFields::from(*self).serialize(serializer)
    }
}

#[derive(Serialize)]
#[serde(rename = "Health")]
struct HealthFields<'a> {
    available: bool,
    healthy: usize,
    quorum: usize,
    clock_drift_factor: f64,
    /// Only during a change of the nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    previous_nodes: Option<ListFields>,
    nodes: &'a [NodeHealth],
    node_list_difference: Option<&'a NodeListDifference>,
}

impl Serialize for Health {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        HealthFields {
            available: self.is_available(),
            healthy: self.healthy_nodes(),
            quorum: self.quorum(),
            clock_drift_factor: self.clock_drift_factor(),
            previous_nodes: self.previous_nodes().map(ListFields::from),
            nodes: self.nodes(),
            node_list_difference: self.node_list_difference(),
        }
        .serialize(serializer)
    }
}

#[derive(Serialize)]
#[serde(rename = "AnnouncedLists")]
struct AnnouncedListsFields<'a> {
    index: usize,
    label: &'a str,
    server: Option<String>,
    error: Option<&'a str>,
    lists: &'a [AnnouncedList],
}

impl Serialize for AnnouncedLists {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        AnnouncedListsFields {
            index: self.index(),
            label: self.label(),
            server: self.server().map(identity),
            error: self.error(),
            lists: self.lists(),
        }
        .serialize(serializer)
    }
}

#[derive(Serialize)]
#[serde(rename = "AnnouncedList")]
struct AnnouncedListFields<'a> {
    lists: Vec<ServersFields>,
    owner: Option<&'a str>,
    expires_in_ms: Option<u64>,
    step: Option<u8>,
    copy: bool,
    differs: bool,
    found_difference: bool,
}

/// One list: the number of its nodes, and the servers that are known.
#[derive(Serialize)]
#[serde(rename = "Servers")]
struct ServersFields {
    count: usize,
    servers: Vec<String>,
}

impl Serialize for AnnouncedList {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let of = |(count, servers): (usize, Vec<ServerId>)| ServersFields {
            count,
            servers: servers.into_iter().map(identity).collect(),
        };
        AnnouncedListFields {
            lists: self.lists().into_iter().map(of).collect(),
            owner: self.owner(),
            expires_in_ms: self.expires_in().map(whole_millis),
            step: self.step(),
            copy: self.is_copy(),
            differs: self.differs(),
            found_difference: self.found_difference(),
        }
        .serialize(serializer)
    }
}

/// Returns the identity of a server as it is announced.
fn identity(server: ServerId) -> String {
    format!("{:016x}", server.get())
}

#[derive(Serialize)]
#[serde(rename = "Inspection")]
struct InspectionFields<'a> {
    resource: &'a Resource,
    status: &'static str,
    holder: Option<&'a Fingerprint>,
    remaining_ms: Option<u64>,
    waiters: Option<u32>,
    nodes: &'a [NodeReport],
}

impl Serialize for Inspection {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        InspectionFields {
            resource: self.resource(),
            status: match self.status() {
                LockStatus::Free => "free",
                LockStatus::Held { .. } => "held",
                LockStatus::Undecided => "undecided",
            },
            holder: self.holder(),
            remaining_ms: self.remaining().map(whole_millis),
            waiters: self.waiters(),
            nodes: self.node_reports(),
        }
        .serialize(serializer)
    }
}
