//! The master of each slot and the stamp of each master, computed once from each map.

use redlock_core::node::ServerId;

use super::map::{Map, Owner};
use super::slot::slot;

/// The limit of the numbers of stamps. Each slot is that of several numbers below it.
const NUMBERS: u32 = 1 << 20;

/// A stamp of a master, named by a number. The number is the hash tag of its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Numbered {
    pub(crate) number: u32,
    /// The slot of the key.
    pub(crate) slot: u16,
}

/// A master that is confirmed for some slots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Master {
    pub(crate) owner: Owner,
    /// The stamp with the least number whose slot this master has.
    ///
    /// Programs with the same map thus agree on it. The numbers are spread over the slots like by chance, so a few slots
    /// that are moved are rarely that of a stamp.
    pub(crate) stamp: Numbered,
}

/// The master of each slot.
#[derive(Debug)]
pub(crate) struct Routes {
    map: Map,
    masters: Vec<Master>,
    /// The first slot of each run of slots with the same master, and the index of that. Sorted.
    runs: Vec<(u16, Option<usize>)>,
}

impl Routes {
    pub(crate) fn new(map: Map) -> Self {
        let (mut owners, mut runs): (Vec<&Owner>, Vec<_>) = (Vec::new(), Vec::new());
        for first in map.first_slots() {
            let master = map.owner(first).ok().map(|owner| {
                owners.iter().position(|other| other.id == owner.id).unwrap_or_else(|| {
                    owners.push(owner);
                    owners.len() - 1
                })
            });
            runs.push((first, master));
        }
        let mut stamps = vec![None; owners.len()];
        let mut missing = stamps.len();
        for number in 0..NUMBERS {
            if missing == 0 {
                break;
            }
            let slot = slot(number.to_string().as_bytes());
            if let Some(stamp) = index(&runs, slot).map(|master| &mut stamps[master]) {
                missing -= usize::from(stamp.is_none());
                stamp.get_or_insert(Numbered { number, slot });
            }
        }
        let masters = owners.into_iter().zip(stamps);
        let master =
            |(owner, stamp): (&Owner, Option<_>)| Some(Master { owner: owner.clone(), stamp: stamp? });
        Self { masters: masters.filter_map(master).collect(), runs, map }
    }

    /// Returns the map from which they were computed.
    pub(crate) fn map(&self) -> &Map {
        &self.map
    }

    /// Returns the master that is confirmed for a slot. The error is the reason why there is none.
    pub(crate) fn master(&self, slot: u16) -> Result<&Master, String> {
        let master = index(&self.runs, slot).and_then(|master| self.masters.get(master));
        master.ok_or_else(|| self.map.reason(slot))
    }

    /// Returns the masters that are confirmed for any slot, even if other slots have none.
    pub(crate) fn masters(&self) -> &[Master] {
        &self.masters
    }

    /// Returns whether another master than this one is confirmed for a slot.
    pub(crate) fn is_elsewhere(&self, slot: u16, id: &str) -> bool {
        self.master(slot).is_ok_and(|master| master.owner.id != id)
    }

    /// Returns the masters that are confirmed for any slot.
    ///
    /// # Errors
    ///
    /// The reason for which a slot that any master has is not confirmed.
    pub(crate) fn all(&self) -> Result<&[Master], String> {
        self.map.check()?;
        match self.runs.iter().find(|(first, master)| master.is_none() && self.map.names(*first)) {
            Some((first, _)) => Err(self.map.reason(*first)),
            None => Ok(&self.masters),
        }
    }

    /// Returns the identity of the cluster, by which programs compare their lists of nodes.
    ///
    /// It is the least identity of all servers that a majority of the masters knows, replicas included. Neither a
    /// failover nor a slot that moves changes it. It changes if a server joins with a smaller one, or if this server
    /// leaves. The comparison then shows a difference for a few seconds, until all programs know the new one.
    pub(crate) fn identity(&self) -> Option<ServerId> {
        self.map.least_server().map(ServerId::new)
    }
}

impl Default for Routes {
    fn default() -> Self {
        Self::new(Map::default())
    }
}

fn index(runs: &[(u16, Option<usize>)], slot: u16) -> Option<usize> {
    let behind = runs.partition_point(|(first, _)| *first <= slot);
    runs.get(behind.checked_sub(1)?)?.1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn routes(views: &[&[&str]]) -> Routes {
        Routes::new(Map::of(views))
    }

    /// Two masters that agree, with these slots.
    fn two(a: &str, b: &str) -> Routes {
        let [first, second] = ["a", "b"].map(|myself| {
            [("a", a), ("b", b)].map(|(id, slots)| {
                let flags = if id == myself { "myself,master" } else { "master" };
                format!("{id} {flags} {slots}")
            })
        });
        let [first, second] = [&first, &second].map(|lines| lines.each_ref().map(|line| &**line));
        routes(&[&first, &second])
    }

    #[test]
    fn every_slot_has_the_master_of_the_map() {
        let a = ["a myself,master 0-98 200-300", "b master 100-199 301-16383", "c master 100"];
        let b = ["a master 0-97 200-300", "b myself,master 98-199 301-16383", "c master 100"];
        let routes = routes(&[&a, &b]);
        for slot in 0..16384 {
            let expected = routes.map.owner(slot).map(|owner| &owner.id);
            assert_eq!(expected, routes.master(slot).map(|master| &master.owner.id), "{slot}");
        }
        assert!(routes.all().unwrap_err().contains("do not agree yet which of them has slot 98"));
        assert_eq!("no master of the cluster replies", Routes::default().master(7).unwrap_err());
        assert!(Routes::default().all().is_err());
    }

    #[test]
    fn each_master_is_there_once_and_free_slots_do_not_matter() {
        let routes = two("0-9 20-29", "10-19 16000");
        let ids: Vec<_> = routes.all().unwrap().iter().map(|master| &*master.owner.id).collect();
        assert_eq!(["a", "b"], *ids);
        assert_eq!("no master of the cluster has slot 30", routes.master(30).unwrap_err());
    }

    #[test]
    fn the_stamp_of_a_master_has_the_least_number_whose_slot_it_has() {
        let number = |routes: &Routes, slot| routes.master(slot).unwrap().stamp.number;
        // The slots of 0, 1 and 2 are 13907, 9842 and 5649.
        assert_eq!([13907, 9842, 5649], ["0", "1", "2"].map(|number| slot(number.as_bytes())));
        let routes = two("0-9841", "9842-16383");
        assert_eq!((2, 0), (number(&routes, 0), number(&routes, 9842)));
        let routes = two("0-9842", "9843-16383");
        assert_eq!((1, 0), (number(&routes, 0), number(&routes, 9843)), "the slot of 1 was moved");
        assert!(routes.is_elsewhere(9842, "b") && !routes.is_elsewhere(9842, "a"));
        // A single slot has a number, too.
        for single in [0, 7, 16383] {
            let stamp = two(&single.to_string(), "100-200").master(single).unwrap().stamp;
            assert_eq!((single, single), (stamp.slot, slot(stamp.number.to_string().as_bytes())));
        }
    }

    #[test]
    fn neither_a_moved_slot_nor_a_failover_changes_the_identity() {
        let identity = two("0-9841", "9842-16383").identity();
        assert_eq!(Some(ServerId::new("a")), identity);
        assert_eq!(identity, two("1-9841", "0 9842-16383").identity());
        let promoted = ["a master,fail", "b myself,master 0-99", "c master 100-16383"];
        let other = ["a slave", "b master 0-99", "c myself,master 100-16383"];
        assert_eq!(identity, routes(&[&promoted, &other]).identity());
        let meets = ["a master 0-99", "b myself,master 100-16383", "0 handshake"];
        let met = ["a myself,master 0-99", "b master 100-16383", "0 master"];
        assert_eq!(None, routes(&[&meets, &met]).identity(), "one of two knows the new server");
        assert_eq!(None, Routes::default().identity());
    }
}
