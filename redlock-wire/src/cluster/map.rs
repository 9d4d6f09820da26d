//! The decision which server has a slot, from what the masters of a cluster state.

use std::collections::BTreeSet;
use std::fmt;

use super::slot::SLOTS;
use crate::address::write_server;

/// The master of some slots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    /// The identity of the server in the cluster, which survives a restart.
    pub(crate) id: String,
    pub(crate) host: String,
    pub(crate) port: u16,
}

/// Formats as the label of a server.
impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_server(f, &self.host, self.port)
    }
}

/// A master of some slots, as one server sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Seen {
    owner: Owner,
    /// False if the server sees it down.
    is_up: bool,
}

/// The cluster as one server sees it: its reply to `CLUSTER NODES`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct View {
    /// The identity of the server, if it is a master of slots. Only these vote on a failover.
    voter: Option<String>,
    /// The least identity of all servers in the cluster, replicas included.
    least: Option<String>,
    masters: Vec<Seen>,
    /// The first and the last slot of each range, and the index of its master. Sorted.
    ranges: Vec<(u16, u16, usize)>,
}

impl View {
    /// Reads the reply of a server. `asked` is the host at which it was asked: a server that has not met others does
    /// not know its own address. `by_name`: whether host names replace IP addresses, where servers announce them.
    pub(crate) fn read(text: &str, asked: &str, by_name: bool) -> Option<Self> {
        let mut view = Self { voter: None, least: None, masters: Vec::new(), ranges: Vec::new() };
        let mut knows_itself = false;
        for line in text.lines().filter(|line| !line.is_empty()) {
            let mut words = line.split(' ');
            let (id, address, flags) = (words.next()?, words.next()?, words.next()?);
            let flag = |name: &str| flags.split(',').any(|flag| flag == name);
            knows_itself |= flag("myself");
            // Until servers have met, their identities are random.
            if !flag("handshake") && view.least.as_deref().is_none_or(|least| id < least) {
                view.least = Some(id.to_owned());
            }
            // The master, two times, the epoch, and the state of the link.
            let slots: Vec<_> = words.skip(5).filter_map(range).collect();
            if !flag("master") || slots.is_empty() {
                continue;
            }
            if flag("myself") {
                view.voter = Some(id.to_owned());
            }
            let index = view.masters.len();
            let is_up = !["fail", "fail?", "noaddr", "handshake"].into_iter().any(flag);
            let (host, port) = host_and_port(address, by_name)?;
            let host = if host.is_empty() { asked } else { host };
            let owner = Owner { id: id.to_owned(), host: host.to_owned(), port };
            view.masters.push(Seen { owner, is_up });
            view.ranges.extend(slots.into_iter().map(|(first, last)| (first, last, index)));
        }
        view.ranges.sort_unstable();
        knows_itself.then_some(view)
    }

    /// Returns the masters of slots.
    pub(crate) fn owners(&self) -> impl Iterator<Item = &Owner> {
        self.masters.iter().map(|seen| &seen.owner)
    }

    fn owner(&self, slot: u16) -> Option<&Seen> {
        let behind = self.ranges.partition_point(|(first, ..)| *first <= slot);
        let (_, last, index) = *self.ranges.get(behind.checked_sub(1)?)?;
        (slot <= last).then(|| &self.masters[index])
    }
}

/// Reads slots, such as `5461-10922` or `7`. A slot that is being moved, such as `[93-<-ID]`, is listed twice.
fn range(word: &str) -> Option<(u16, u16)> {
    let (first, last) = word.split_once('-').unwrap_or((word, word));
    let range: (u16, u16) = (first.parse().ok()?, last.parse().ok()?);
    (range.0 <= range.1 && range.1 < SLOTS).then_some(range)
}

/// Reads an address, such as `10.0.0.1:6379@16379,host.example`.
fn host_and_port(address: &str, by_name: bool) -> Option<(&str, u16)> {
    let (endpoint, rest) = address.split_once('@').unwrap_or((address, ""));
    let (ip, port) = endpoint.rsplit_once(':')?;
    let name = rest.split(',').nth(1).filter(|name| by_name && !name.is_empty() && !name.contains('='));
    Some((name.unwrap_or(ip), port.parse().ok()?))
}

/// The views of the masters at one time.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Map {
    /// At most one of each server. Sorted by their identities, so that the order of the replies makes no other map.
    views: Vec<View>,
    /// The servers that have not replied, and why. Sorted, for the same reason.
    failures: BTreeSet<String>,
}

impl Map {
    /// Records the reply of a server.
    pub(crate) fn hear(&mut self, view: View) {
        if view.voter.is_none() {
            return;
        }
        if let Err(place) = self.views.binary_search_by(|other| other.voter.cmp(&view.voter)) {
            self.views.insert(place, view);
        }
    }

    /// Records that a server has not replied.
    pub(crate) fn fail(&mut self, label: &str, reason: &str) {
        self.failures.insert(format!("{label}: {reason}"));
    }

    /// Returns the masters that any view names. A master can be there several times.
    pub(crate) fn owners(&self) -> impl Iterator<Item = &Owner> {
        self.views.iter().flat_map(View::owners)
    }

    /// Returns the number of masters of slots, and the majority of them.
    ///
    /// All that have replied count, even if no other one names them: the servers at the start may be of several clusters.
    fn required(&self) -> (usize, usize) {
        let named = self.views.iter().map(|view| view.masters.len()).max().unwrap_or(0);
        let all = named.max(self.views.len());
        (all, all / 2 + 1)
    }

    /// Checks that a majority of the masters has replied. The error is the reason why not.
    pub(crate) fn check(&self) -> Result<(), String> {
        let ((all, required), count) = (self.required(), self.views.len());
        if count >= required {
            return Ok(());
        }
        let text = match all {
            0 => "no master of the cluster replies".to_owned(),
            _ => format!("only {count} of {all} masters of the cluster reply, {required} required"),
        };
        let failures = self.failures.iter().map(String::as_str).collect::<Vec<_>>().join("; ");
        Err(if failures.is_empty() { text } else { format!("{text} ({failures})") })
    }

    /// Returns the master that a majority of the masters *confirms* for a slot: each of them sees it up, with this slot.
    ///
    /// The error is the reason why there is none.
    pub(crate) fn owner(&self, slot: u16) -> Result<&Owner, String> {
        self.check()?;
        let (_, required) = self.required();
        let votes = |id: &str| self.seen(slot).filter(|other| other.is_up && other.owner.id == id).count();
        // Usually the first one has all votes.
        let confirmed = self.seen(slot).find(|seen| seen.is_up && votes(&seen.owner.id) >= required);
        confirmed.map(|confirmed| &confirmed.owner).ok_or_else(|| self.reason(slot))
    }

    /// Returns the reason why no master is confirmed for a slot.
    pub(crate) fn reason(&self, slot: u16) -> String {
        if let Err(reason) = self.check() {
            return reason;
        }
        match (self.seen(slot).next(), self.seen(slot).find(|seen| !seen.is_up)) {
            (None, _) => format!("no master of the cluster has slot {slot}"),
            (_, Some(down)) => {
                format!("masters of the cluster see {} down, which has slot {slot}", down.owner)
            }
            _ => format!("the masters of the cluster do not agree yet which of them has slot {slot}"),
        }
    }

    /// Returns the master of a slot in each view that names one.
    fn seen(&self, slot: u16) -> impl Iterator<Item = &Seen> {
        self.views.iter().filter_map(move |view| view.owner(slot))
    }

    /// Returns whether any view names a master of this slot.
    pub(crate) fn names(&self, slot: u16) -> bool {
        self.seen(slot).next().is_some()
    }

    /// Returns slots in ascending order. All slots from one of them to the next have the same master in each view.
    pub(crate) fn first_slots(&self) -> BTreeSet<u16> {
        let ranges = self.views.iter().flat_map(|view| &view.ranges);
        let ends = ranges.flat_map(|(first, last, _)| [*first, last + 1]);
        ends.chain([0]).filter(|slot| *slot < SLOTS).collect()
    }

    /// Returns the least identity of all servers, if a majority of the masters agrees.
    pub(crate) fn least_server(&self) -> Option<&str> {
        self.check().ok()?;
        let (_, required) = self.required();
        let mut named = self.views.iter().filter_map(|view| view.least.as_deref());
        named.find(|id| {
            self.views.iter().filter(|view| view.least.as_deref() == Some(*id)).count() >= required
        })
    }
}

#[cfg(test)]
impl View {
    /// Returns the view of a server, from `ID FLAGS SLOTS` for each server.
    fn of(lines: &[&str]) -> Self {
        let line = |line: &&str| {
            let (id, rest) = line.split_once(' ').unwrap();
            let (flags, slots) = rest.split_once(' ').unwrap_or((rest, ""));
            let port = 7000 + u32::from(id.as_bytes()[0]);
            format!("{id} 10.0.0.1:{port}@{port} {flags} - 0 1426238316232 2 connected {slots}\n")
        };
        Self::read(&lines.iter().map(line).collect::<String>(), "h", false).unwrap()
    }
}

#[cfg(test)]
impl Map {
    /// Returns the map of these views, each from `ID FLAGS SLOTS` for each server.
    pub(crate) fn of(views: &[&[&str]]) -> Self {
        let mut map = Self::default();
        for lines in views {
            map.hear(View::of(lines));
        }
        map
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(lines: &[&str]) -> View {
        View::of(lines)
    }

    fn map(views: &[&[&str]]) -> Map {
        Map::of(views)
    }

    fn owner(map: &Map, slot: u16) -> Result<&str, String> {
        map.owner(slot).map(|owner| &*owner.id)
    }

    const A: &[&str] = &["a myself,master 0-99", "b master 100-16383", "c master 100", "r slave 1"];

    #[test]
    fn every_part_of_a_reply_counts() {
        let text = "\
            r 127.0.0.1:30004@31004,host4 slave b 0 1426238317239 4 connected\n\
            b 127.0.0.1:30002@31002,host2,shard-id=1 master - 0 1426238316232 2 connected 5461-10922 16383\n\
            c ::1:30003@31003, master,fail - 0 1426238318243 3 disconnected 10923-16382\n\
            e 127.0.0.1:30005@31005 master - 0 1426238318243 3 connected\n\
            a :30001@31001,host1 myself,master - 0 0 1 connected 0-5460 [5461->-b] [93-<-c]\n";
        let shown = |view: &View, slot| {
            let seen = view.owner(slot)?;
            Some(format!("{} {} {}", seen.owner.id, seen.owner, if seen.is_up { "up" } else { "down" }))
        };
        let by_ip = View::read(text, "asked", false).unwrap();
        assert_eq!(Some("a asked:30001 up".to_owned()), shown(&by_ip, 93));
        assert_eq!(Some("b 127.0.0.1:30002 up".to_owned()), shown(&by_ip, 5461));
        assert_eq!(shown(&by_ip, 5461), shown(&by_ip, 16383));
        assert_eq!(Some("c [::1]:30003 down".to_owned()), shown(&by_ip, 10923));
        assert_eq!(Some("a".to_owned()), by_ip.voter);
        assert_eq!(3, by_ip.owners().count(), "neither replicas nor masters without slots");
        let by_name = View::read(text, "asked", true).unwrap();
        assert_eq!(Some("b host2:30002 up".to_owned()), shown(&by_name, 5461));
        assert_eq!(Some("c [::1]:30003 down".to_owned()), shown(&by_name, 10923), "it announces no name");
        assert_eq!(None, shown(&view(&["a myself,master 5"]), 4));
    }

    #[test]
    fn other_replies_are_no_views() {
        for odd in ["", "x", "OK", "a 10.0.0.1:1@1 master - 0 0 1 connected 0-5460\n"] {
            assert_eq!(None, View::read(odd, "h", false), "{odd:?}");
        }
        let odd = view(&["a myself,master 0-16384 7-6 x 9"]);
        assert_eq!(vec![(9, 9, 0)], odd.ranges);
    }

    #[test]
    fn a_majority_of_the_masters_of_slots_confirms_the_owner_of_a_slot() {
        let b = ["a master 0-99", "b myself,master 100-16383", "c master 100"];
        assert_eq!(Ok("a"), owner(&map(&[A, &b]), 99), "two of three");
        let reason = owner(&map(&[A]), 99).unwrap_err();
        assert_eq!("only 1 of 3 masters of the cluster reply, 2 required", reason);
        assert_eq!("no master of the cluster replies", owner(&map(&[]), 99).unwrap_err());
        assert!(owner(&map(&[A, A]), 99).is_err(), "a server that is reached twice has one vote");
        assert!(owner(&map(&[A, &["a master 0-99", "r myself,slave"]]), 99).is_err(), "replicas have none");
        assert_eq!(Ok("a"), owner(&map(&[&["a myself,master 0-16383"]]), 99), "a single master");
        let clusters = [["a myself,master 0-16383"], ["b myself,master 0-16383"]];
        assert!(owner(&map(&clusters.each_ref().map(|lines| &lines[..])), 99).is_err(), "two clusters");
    }

    #[test]
    fn a_master_that_is_seen_down_is_not_confirmed() {
        for flags in ["master,fail?", "master,fail", "master,noaddr"] {
            let down = format!("a {flags} 0-99");
            let b = [&*down, "b myself,master 100-16383", "c master 100"];
            let reason = owner(&map(&[A, &b]), 99).unwrap_err();
            assert!(reason.contains("see 10.0.0.1:7097 down, which has slot 99"), "{flags}: {reason}");
            assert_eq!(Ok("b"), owner(&map(&[A, &b]), 101));
        }
    }

    #[test]
    fn a_slot_has_no_confirmed_owner_while_masters_do_not_agree() {
        let b = ["a master 0-98", "b myself,master 99-16383", "c master 100"];
        let both = map(&[A, &b]);
        assert_eq!(Ok("a"), owner(&both, 98));
        assert!(owner(&both, 99).unwrap_err().contains("do not agree yet which of them has slot 99"));
        let c = ["a master 0-98", "b master 99-16383", "c myself,master 100"];
        assert_eq!(Ok("b"), owner(&map(&[A, &b, &c]), 99));
        let gap = ["a myself,master 1-16383"];
        assert_eq!("no master of the cluster has slot 0", owner(&map(&[&gap]), 0).unwrap_err());
    }

    #[test]
    fn servers_that_do_not_reply_are_named() {
        let mut map = map(&[A]);
        map.fail("10.0.0.2:7000", "connection refused");
        let reason = map.check().unwrap_err();
        assert!(reason.ends_with("2 required (10.0.0.2:7000: connection refused)"), "{reason}");
        map.fail("10.0.0.1:7000", "timed out");
        let reason = map.check().unwrap_err();
        let in_order = "2 required (10.0.0.1:7000: timed out; 10.0.0.2:7000: connection refused)";
        assert!(reason.ends_with(in_order), "the order of the replies does not matter: {reason}");
    }
}
