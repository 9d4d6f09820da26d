//! The sentinels that choose the server of a node: their replies, and the findings about them.

use redlock_wire::Reply;

use super::facts::text;
use super::judge::finding;
use super::{Finding, Severity};

/// The number of sentinels of which one can fail.
const ENOUGH: usize = 3;

/// The sentinels of one node.
#[derive(Clone, Debug)]
pub(super) struct Watched {
    pub(super) service: String,
    /// The label of each listed sentinel, and its reply. The error is the reason why there is none.
    pub(super) sights: Vec<(String, Result<Sight, String>)>,
}

/// The reply of one sentinel about the service.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Sight {
    /// The address of the master.
    master: String,
    /// True if the sentinel sees the master down.
    is_down: bool,
    /// The number of sentinels that it knows, itself included.
    known: usize,
    /// The number of sentinels that must see a master down.
    quorum: usize,
}

impl Sight {
    /// Reads the reply to `SENTINEL MASTER`.
    pub(super) fn read(reply: &Reply) -> Result<Self, String> {
        let Reply::Array(fields) = reply else { return Err("unexpected reply to SENTINEL MASTER".into()) };
        let field = |name: &str| {
            let mut pairs = fields.chunks_exact(2).map(|pair| (text(&pair[0]), text(&pair[1])));
            pairs.find_map(|(key, value)| value.filter(|_| key.as_deref() == Some(name)))
        };
        let number = |name| field(name)?.parse::<usize>().ok();
        let read = || {
            let (host, port, flags) = (field("ip")?, field("port")?, field("flags")?);
            let is_down = flags.split(',').any(|flag| matches!(flag, "s_down" | "o_down"));
            let known = number("num-other-sentinels")?.saturating_add(1);
            Some(Self { master: format!("{host}:{port}"), is_down, known, quorum: number("quorum")? })
        };
        read().ok_or_else(|| "unexpected reply to SENTINEL MASTER".into())
    }
}

/// Judges the sentinels of the node with this label.
pub(super) fn judge(node: &String, Watched { service, sights }: &Watched, findings: &mut Vec<Finding>) {
    use Severity::{Error, Note, Warning};

    let listed = sights.len();
    let known = sights.iter().filter_map(|(_, sight)| Some(sight.as_ref().ok()?.known)).max();
    let all = known.unwrap_or(0).max(listed);
    let majority = all / 2 + 1;
    let mut add = |severity, node, problem: String, consequence: &str, fix: &str| {
        findings.push(finding(severity, &[node], problem, consequence, fix));
    };
    let consequence = if sights.iter().filter(|(_, sight)| sight.is_ok()).count() < majority {
        "too few sentinels are left to confirm a master, so no lock is acquired"
    } else {
        "locks and failovers tolerate one failed sentinel fewer"
    };
    for (label, sight) in sights {
        let (problem, fix) = match sight {
            Err(reason) if reason.contains("No such master") => (
                format!("this sentinel does not know the service {service}"),
                "correct the service in the URL: SENTINEL MASTERS lists those that it knows",
            ),
            Err(reason) if reason.contains("unknown command") => {
                ("this server is not a Sentinel".to_owned(), "list the sentinels in the URL, not the servers")
            }
            Err(reason) => {
                (format!("sentinel not reachable: {reason}"), "check address, network and sentinel_password")
            }
            Ok(Sight { known, .. }) if *known < all => (
                format!("this sentinel knows only {known} of {all} sentinels"),
                "check that the sentinels reach each other, and monitor the same master",
            ),
            Ok(_) => continue,
        };
        add(Warning, label, problem, consequence, fix);
    }
    // Without a reply, the number of sentinels is unknown.
    if known.is_none() {
        return;
    }
    let sights: Vec<_> = sights.iter().filter_map(|(_, sight)| sight.as_ref().ok()).collect();
    let mut masters: Vec<_> = sights.iter().map(|sight| &*sight.master).collect();
    masters.sort_unstable();
    masters.dedup();
    if masters.len() > 1 {
        let problem = format!("its sentinels name different masters: {}", masters.join(", "));
        let fix = "if no failover is in progress, check that all sentinels monitor the same servers";
        add(Warning, node, problem, "a master is used only while a majority of the sentinels names it", fix);
    }
    let down = sights.iter().filter(|sight| sight.is_down).count();
    if down > 0 {
        let problem = format!("{down} of {all} sentinels see the master down");
        let consequence = "these do not confirm it; without a majority, no lock is acquired";
        add(Warning, node, problem, consequence, "check the network between the sentinels and the master");
    }
    let quorums = sights.iter().map(|sight| sight.quorum);
    let (lowest, highest) = (quorums.clone().min(), quorums.max());
    if let Some(lowest) = lowest.filter(|lowest| *lowest < majority) {
        add(
            Warning,
            node,
            format!("the quorum of {service} is {lowest}, less than a majority of its {all} sentinels"),
            "a failover can begin while a majority of the sentinels still confirms the master",
            &format!("SENTINEL SET {service} quorum {majority}, on each sentinel"),
        );
    }
    if let Some(highest) = highest.filter(|highest| *highest > all) {
        let problem = format!("the quorum of {service} is {highest}, and there are {all} sentinels");
        let fix = format!("SENTINEL SET {service} quorum {majority}, on each sentinel");
        add(Error, node, problem, "no replica is promoted if the master fails", &fix);
    }
    if all < ENOUGH {
        let problem = match all {
            1 => "there is a single sentinel".to_owned(),
            _ => format!("there are only {all} sentinels"),
        };
        let consequence = "the failure of one sentinel stops the locks";
        add(Warning, node, problem, consequence, "use three sentinels or more, on separate machines");
    } else if listed < all {
        let problem = format!("only {listed} of {all} sentinels are listed");
        let consequence = "the listed ones alone must be a majority of all";
        add(Note, node, problem, consequence, "list all sentinels in the URL");
    }
}

#[cfg(test)]
impl Sight {
    /// Returns the reply of each of three sentinels if all is well.
    pub(super) fn usual() -> Self {
        Self { master: "10.0.0.1:6379".into(), is_down: false, known: 3, quorum: 2 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The findings of three sentinels, of which the last one may differ.
    fn with(last: Result<Sight, String>) -> Vec<String> {
        judged([Ok(Sight::usual()), Ok(Sight::usual()), last])
    }

    fn judged(sights: impl IntoIterator<Item = Result<Sight, String>>) -> Vec<String> {
        let sights = sights.into_iter().enumerate();
        let sights = sights.map(|(place, sight)| (format!("s{place}"), sight)).collect();
        let (mut found, watched) = (Vec::new(), Watched { service: "m".into(), sights });
        judge(&"node".to_owned(), &watched, &mut found);
        found.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn good_sentinels_have_no_findings() {
        assert_eq!(Vec::<String>::new(), with(Ok(Sight::usual())));
    }

    #[test]
    fn each_problem_of_sentinels_is_found() {
        let sight = |change: fn(&mut Sight)| {
            let mut sight = Sight::usual();
            change(&mut sight);
            Ok(sight)
        };
        for (last, expected) in [
            (Err("refused".into()), "warning: s2: sentinel not reachable: refused; "),
            (
                Err("ERR No such master with that name".into()),
                "warning: s2: this sentinel does not know the service m; ",
            ),
            (Err("ERR unknown command 'SENTINEL'".into()), "warning: s2: this server is not a Sentinel; "),
            (sight(|sight| sight.known = 1), "warning: s2: this sentinel knows only 1 of 3 sentinels; "),
            (
                sight(|sight| sight.master = "10.0.0.2:6379".into()),
                "warning: node: its sentinels name different masters: 10.0.0.1:6379, 10.0.0.2:6379; ",
            ),
            (sight(|sight| sight.is_down = true), "warning: node: 1 of 3 sentinels see the master down; "),
            (
                sight(|sight| sight.quorum = 1),
                "warning: node: the quorum of m is 1, less than a majority of its 3 sentinels; ",
            ),
            (
                sight(|sight| sight.quorum = 4),
                "error: node: the quorum of m is 4, and there are 3 sentinels; ",
            ),
        ] {
            let found = with(last);
            assert!(found.len() == 1 && found[0].starts_with(expected), "{expected}: {found:?}");
        }
        let found = judged([Ok(Sight::usual()), Ok(Sight::usual())]);
        assert!(found[0].starts_with("note: node: only 2 of 3 sentinels are listed; "), "{found:?}");
        let single = Sight { known: 1, quorum: 1, ..Sight::usual() };
        let found = judged([Ok(single)]);
        assert!(found.len() == 1 && found[0].contains("there is a single sentinel; "), "{found:?}");
    }

    #[test]
    fn too_few_sentinels_that_reply_confirm_no_master() {
        let down = || Err("refused".to_owned());
        let is_fatal = |finding: &String| finding.contains("too few sentinels are left to confirm a master");
        let found = judged([Ok(Sight::usual()), down(), down()]);
        assert!(found.len() == 2 && found.iter().all(is_fatal), "{found:?}");
        let found = judged([down(), down()]);
        assert!(found.len() == 2 && found.iter().all(is_fatal), "their number is not known: {found:?}");
        assert!(!is_fatal(&with(down())[0]));
    }

    #[test]
    fn a_sight_is_read_from_the_reply() {
        let fields = ["name", "m", "ip", "10.0.0.1", "port", "6379", "flags", "s_down,master"];
        let fields = fields.into_iter().chain(["num-other-sentinels", "2", "quorum", "2"]);
        let reply = |fields: Vec<&str>| {
            Reply::Array(fields.iter().map(|field| Reply::Bytes((*field).into())).collect())
        };
        let expected = Sight { is_down: true, ..Sight::usual() };
        assert_eq!(Ok(expected), Sight::read(&reply(fields.clone().collect())));
        for odd in [Reply::Nil, reply(Vec::new()), reply(fields.take(10).collect())] {
            assert!(Sight::read(&odd).is_err(), "{odd:?}");
        }
    }
}
