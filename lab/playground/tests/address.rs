//! The addresses of experiments.
#![allow(clippy::unwrap_used)] // a panic is how a test reports

use std::time::Duration;

use proptest::option;
use proptest::prelude::*;
use redlock_playground::setup::{self, Client, Incident, Kind, Setup};
use redlock_playground::stories::stories;
use redlock_playground::subject::{Random, Subject};
use redlock_simulation::experiment::Experiment;
use redlock_simulation::plan::Faults;

fn clients() -> impl Strategy<Value = Vec<Client>> {
    let times = (0..1_000_u64, 0..1_000_u64, option::of(setup::WAITS), option::of(setup::RESTS));
    let client = (times, any::<[bool; 3]>()).prop_map(|((starts, works, waits, rests), flags)| {
        let [renews, fenced, checks] = flags;
        Client { starts, works, waits, rests, renews, fenced, checks }
    });
    prop::collection::vec(client, setup::CLIENTS)
}

/// Returns incidents of the first node and the first client.
fn incidents() -> impl Strategy<Value = Vec<Incident>> {
    let incident =
        (0..1_000_u64, 0..Kind::ALL.len(), 1..30_000_i64, any::<bool>()).prop_map(|(at, kind, ms, back)| {
            let kind = Kind::ALL[kind].1;
            let ms = if kind == Kind::Step && back { -ms } else { ms };
            Incident {
                at,
                kind,
                node: kind.has_node().then_some(0),
                client: kind.has_client().then_some(0),
                ms,
            }
        });
    prop::collection::vec(incident, setup::INCIDENTS)
}

prop_compose! {
    fn setups()(
        nodes in setup::NODES,
        ttl in setup::TTL,
        least_delay in 0..=500_u64,
        most_delay in 500..=1_000_u64,
        drift in setup::DRIFT,
        allowed_drift in setup::DRIFT,
        seed in any::<u64>(),
        lasts in setup::LASTS,
        (notifies, restart_admission) in any::<(bool, bool)>(),
        clients in clients(),
        incidents in incidents(),
    ) -> Setup {
        Setup { nodes, ttl, least_delay, most_delay, drift, allowed_drift, seed, lasts, notifies, restart_admission, clients, incidents }
    }
}

proptest! {
    #[test]
    fn an_address_contains_the_whole_setup(setup in setups()) {
        let subject = Subject::Own(setup);
        let address = subject.address();
        prop_assert!(address.len() < 8_192 && address.bytes().all(|byte| byte.is_ascii_graphic()));
        prop_assert_eq!(Ok(subject), Subject::parse(&address));
    }

    #[test]
    fn an_address_contains_the_whole_random_run(
        faults in 0..Faults::ALL.len(),
        nodes in setup::NODES,
        clients in setup::CLIENTS,
        (fenced, admission) in any::<(Option<bool>, Option<bool>)>(),
        seed in any::<u64>(),
    ) {
        let subject = Subject::Random(Random { faults: Faults::ALL[faults].1, nodes, clients, fenced, admission, seed });
        prop_assert_eq!(Ok(subject.clone()), Subject::parse(&format!("?{}", subject.address())));
    }

    #[test]
    fn no_text_makes_the_parser_panic(text in ".*") {
        drop(Subject::parse(&text));
    }
}

#[test]
fn stories_have_short_addresses() {
    for story in stories() {
        let subject = Subject::Story(story);
        assert_eq!(Ok(subject.clone()), Subject::parse(&subject.address()));
    }
}

fn unguarded() -> Experiment {
    Experiment::new(5).servers(3).faults(Faults::Losses).without_admission()
}

fn guarded() -> Experiment {
    Experiment::new(5).servers(3).with_admission()
}

#[test]
fn a_report_states_an_unusual_restart_admission() {
    for (experiment, is) in [(unguarded(), "off"), (guarded(), "on")] {
        let report = experiment.run();
        let page = report.page().unwrap();
        assert!(page.contains(&format!("&admission={is}&")), "{page}");
        assert!(report.replay().contains(&format!(" --admission {is} ")), "{}", report.replay());
    }
    let usual = Experiment::new(5).servers(3).faults(Faults::Losses).run();
    assert!(!usual.page().unwrap().contains("admission") && !usual.replay().contains("admission"), "{usual}");
}

#[test]
fn a_report_has_no_address_that_would_show_another_run() {
    let usual = || Experiment::new(5).servers(3).lasts(Duration::from_secs(2));
    for experiment in [usual(), usual().lasts(Duration::from_secs(20)).waiting(), usual().whole()] {
        let report = experiment.run();
        assert!(report.page().is_none() && !report.to_string().contains("page:"), "{report}");
    }
}

#[test]
fn an_address_without_restart_admission_has_none() {
    let Ok(Subject::Own(setup)) = Subject::parse("nodes=3") else { panic!("it is a custom experiment") };
    assert!(!setup.restart_admission);
}

#[test]
fn the_address_in_a_report_shows_the_same_run() {
    let experiments = Faults::ALL.map(|(_, faults)| Experiment::new(5).servers(3).faults(faults));
    for experiment in experiments.into_iter().chain([Experiment::new(5).fenced(true), unguarded(), guarded()])
    {
        let report = experiment.run();
        let page = report.page().unwrap();
        let (_, query) = page.split_once("/?").unwrap();
        let again = Subject::parse(query).unwrap().experiment().run();
        assert_eq!(report.history, again.history, "{page}");
        assert!(report.to_string().contains(&page));
    }
}
