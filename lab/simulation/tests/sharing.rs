//! Readers and writers with the real core. They exclude each other under all bounded faults.

use std::collections::BTreeSet;

use redlock_simulation::experiment::Experiment;
use redlock_simulation::history::EventKind;

fn sharing(servers: usize) {
    let (mut readers, mut writers) = (0, 0);
    for seed in 0..60 {
        let report = Experiment::new(seed).servers(servers).clients(5).sharing().run();
        assert!(report.defects().next().is_none(), "{report}");
        let reads =
            |kind: &EventKind| if let EventKind::Reads { token, .. } = kind { Some(*token) } else { None };
        let tokens: BTreeSet<_> = report.history.0.iter().filter_map(|event| reads(&event.kind)).collect();
        readers += tokens.len();
        writers += report.history.grants() - tokens.len();
    }
    assert!(readers > 1_000 && writers > 300, "{readers} readers, {writers} writers");
}

#[test]
fn readers_and_writers_exclude_each_other_on_three_servers() {
    sharing(3);
}

#[test]
fn readers_and_writers_exclude_each_other_on_five_servers() {
    sharing(5);
}
