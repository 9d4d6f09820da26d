//! The decision which server the sentinels confirm, from their replies.

use std::collections::HashSet;
use std::fmt;

use crate::address::write_server;
use crate::message::Reply;

/// The address of a master, as the sentinels name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Master {
    pub(crate) host: String,
    pub(crate) port: u16,
}

/// Formats as the label of a server.
impl fmt::Display for Master {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_server(f, &self.host, self.port)
    }
}

/// The reply of one sentinel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sight {
    /// The identity of the sentinel, if it is known.
    id: Option<Vec<u8>>,
    /// The number of sentinels that it knows, itself included.
    known: usize,
    /// The master that it confirms, or why it confirms none.
    master: Result<Master, String>,
}

/// The flags of a master that a sentinel does not confirm.
const UNCONFIRMED: [(&str, &str); 3] =
    [("s_down", "sees it down"), ("o_down", "sees it down"), ("failover_in_progress", "fails over")];

impl Sight {
    /// Returns the sight of a sentinel that confirms no master.
    pub(crate) fn none(reason: String) -> Self {
        Self { id: None, known: 0, master: Err(reason) }
    }

    /// Reads the replies to `SENTINEL MYID` and `SENTINEL MASTER`. `published` returns the part of an error reply that
    /// is fit for logs.
    pub(crate) fn read(replies: &[Reply], published: impl Fn(&str) -> String) -> Self {
        let id = match replies.first() {
            Some(Reply::Bytes(id)) => Some(id.clone()),
            _ => None,
        };
        let fields = match replies.get(1) {
            Some(Reply::Array(fields)) => fields,
            Some(Reply::Error(error)) => return Self { id, ..Self::none(published(error)) },
            _ => return Self { id, ..Self::none("unexpected reply".into()) },
        };
        let field = |name: &str| {
            fields.chunks_exact(2).find_map(|pair| match pair {
                [Reply::Bytes(key), Reply::Bytes(value)] if key == name.as_bytes() => {
                    std::str::from_utf8(value).ok()
                }
                _ => None,
            })
        };
        let others = field("num-other-sentinels").and_then(|count| count.parse::<usize>().ok());
        let master = match (field("ip"), field("port").and_then(|port| port.parse().ok()), field("flags")) {
            (Some(host), Some(port), Some(flags)) => {
                let flag = |(name, _): &&(&str, _)| flags.split(',').any(|flag| flag == *name);
                let master = Master { host: host.to_owned(), port };
                match UNCONFIRMED.iter().find(flag) {
                    Some((_, reason)) => Err(published(&format!("{reason}, {master}"))),
                    None => Ok(master),
                }
            }
            _ => Err("unexpected reply".into()),
        };
        Self { id, known: others.unwrap_or(0).saturating_add(1), master }
    }
}

/// The replies of the sentinels to one question.
pub(crate) struct Poll {
    /// The label and the reply of each listed sentinel that has replied. Kept in the order of the list, so that the same
    /// replies in another order give the same result.
    heard: Vec<Option<(String, Sight)>>,
}

impl Poll {
    pub(crate) fn new(listed: usize) -> Self {
        Self { heard: vec![None; listed] }
    }

    /// Records the reply of the sentinel at this place of the list, with its label.
    pub(crate) fn hear(&mut self, place: usize, label: &str, sight: Sight) {
        self.heard[place] = Some((label.to_owned(), sight));
    }

    /// Returns the master that a majority confirms. The error is the reason why there is none.
    ///
    /// It is a majority of all sentinels: of those that are listed, or that any of them knows.
    pub(crate) fn result(&self) -> Result<Master, String> {
        let listed = self.heard.len();
        let known = self.heard.iter().flatten().map(|(_, sight)| sight.known).max();
        let all = listed.max(known.unwrap_or(0));
        let required = all / 2 + 1;
        let replies = self.each_once();
        let named = replies.iter().filter_map(|(_, master)| master.ok());
        let votes = |master: &Master| named.clone().filter(|other| *other == master).count();
        let best = named.clone().max_by_key(|master| votes(master));
        let count = best.map_or(0, votes);
        match best {
            Some(master) if count >= required => Ok(master.clone()),
            _ => {
                let text = format!("only {count} of {all} sentinels confirm a master, {required} required");
                if listed < required {
                    return Err(format!("{text}: list all sentinels, not {listed}"));
                }
                let others = replies.iter().filter_map(|(label, master)| match master {
                    Ok(master) if Some(*master) == best => None,
                    Ok(master) => Some(format!("{label}: names {master}")),
                    Err(reason) => Some(format!("{label}: {reason}")),
                });
                let others = others.collect::<Vec<_>>().join("; ");
                Err(if others.is_empty() { text } else { format!("{text} ({others})") })
            }
        }
    }

    /// Returns the master that each sentinel confirms, or why it confirms none. A sentinel with two addresses has one
    /// vote.
    fn each_once(&self) -> Vec<(&str, Result<&Master, &str>)> {
        let mut ids = HashSet::new();
        let replies = self.heard.iter().flatten().map(|(label, sight)| {
            let is_first = sight.id.as_ref().is_none_or(|id| ids.insert(id));
            let master = sight.master.as_ref().map_err(String::as_str);
            let repeated = Err("is a sentinel that has replied already");
            (label.as_str(), if is_first { master } else { repeated })
        });
        replies.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(text: &str) -> Reply {
        Reply::Bytes(text.into())
    }

    /// The replies of a sentinel that names a master on this port.
    fn replies(id: &str, port: &str, flags: &str, others: &str) -> [Reply; 2] {
        let fields =
            ["name", "m", "ip", "10.0.0.1", "port", port, "flags", flags, "num-other-sentinels", others];
        [bytes(id), Reply::Array(fields.map(bytes).into())]
    }

    fn sight(id: &str, port: &str, flags: &str) -> Sight {
        Sight::read(&replies(id, port, flags, "2"), str::to_owned)
    }

    fn poll(listed: usize, sights: impl IntoIterator<Item = Sight>) -> Result<Master, String> {
        let mut poll = Poll::new(listed);
        for (place, sight) in sights.into_iter().enumerate() {
            poll.hear(place, &format!("s{place}"), sight);
        }
        poll.result()
    }

    fn down() -> Sight {
        Sight::none("connection refused".into())
    }

    #[test]
    fn a_majority_of_all_sentinels_confirms_a_master() {
        let (one, two) = (sight("a", "1", "master"), sight("b", "1", "master"));
        let master = Ok(Master { host: "10.0.0.1".into(), port: 1 });
        assert_eq!(master, poll(3, [one.clone(), down(), two.clone()]));
        assert_eq!(master, poll(2, [one.clone(), two.clone()]), "two of three are listed");
        let reason = poll(3, [one.clone(), down(), down()]).unwrap_err();
        assert_eq!(
            "only 1 of 3 sentinels confirm a master, 2 required (s1: connection refused; s2: connection refused)",
            reason
        );
        assert!(poll(4, [one.clone(), two.clone()]).is_err(), "half is no majority");
        let reason = poll(1, [one]).unwrap_err();
        assert!(reason.ends_with("2 required: list all sentinels, not 1"), "{reason}");
        assert!(poll(3, []).is_err());
    }

    #[test]
    fn sentinels_that_name_other_masters_do_not_confirm_one() {
        let reason = poll(3, [sight("a", "1", "master"), sight("b", "2", "master"), down()]).unwrap_err();
        assert!(reason.contains("only 1 of 3") && reason.contains("names 10.0.0.1:"), "{reason}");
        let new = poll(3, ["1", "2", "2"].iter().zip(["a", "b", "c"]).map(|(p, id)| sight(id, p, "master")));
        assert_eq!(2, new.unwrap().port);
    }

    #[test]
    fn a_master_that_is_down_or_in_a_failover_is_not_confirmed() {
        for flags in ["s_down,master", "master,o_down", "master,failover_in_progress,force_failover"] {
            let sights = [sight("a", "1", "master"), sight("b", "1", flags), down()];
            assert!(poll(3, sights).is_err(), "{flags}");
        }
        assert!(poll(3, [sight("a", "1", "master"), sight("b", "1", "master,disconnected")]).is_ok());
    }

    #[test]
    fn the_reason_does_not_depend_on_the_order_of_the_replies() {
        let is_down = || Sight { id: Some(b"b".into()), ..down() };
        let sights = [sight("a", "1", "master"), is_down(), is_down(), sight("c", "2", "master")];
        let reason_of = |order: [usize; 4]| {
            let mut poll = Poll::new(4);
            for place in order {
                poll.hear(place, &format!("s{place}"), sights[place].clone());
            }
            poll.result().unwrap_err()
        };
        let reason = reason_of([0, 1, 2, 3]);
        for order in [[3, 2, 1, 0], [1, 0, 3, 2], [2, 3, 0, 1]] {
            assert_eq!(reason, reason_of(order));
        }
    }

    #[test]
    fn a_sentinel_that_is_reached_twice_has_one_vote() {
        let one = sight("a", "1", "master");
        let reason = poll(3, [one.clone(), one, down()]).unwrap_err();
        assert!(reason.contains("s1: is a sentinel that has replied already"), "{reason}");
        let unknown = || Sight { id: None, ..sight("a", "1", "master") };
        assert!(poll(3, [unknown(), unknown()]).is_ok(), "the addresses differ");
    }

    #[test]
    fn other_replies_confirm_nothing() {
        let of = |reply| Sight::read(&[bytes("a"), reply], |text| format!("<{text}>")).master;
        assert_eq!(Err("<ERR No such master>".into()), of(Reply::Error("ERR No such master".into())));
        for odd in [Reply::Nil, bytes("x"), Reply::Array(vec![]), Reply::Array(vec![bytes("ip")])] {
            assert!(of(odd).is_err());
        }
        let [id, fields] = replies("a", "65536", "master", "2");
        assert!(Sight::read(&[id, fields], str::to_owned).master.is_err());
        assert!(Sight::read(&[], str::to_owned).master.is_err());
    }
}
