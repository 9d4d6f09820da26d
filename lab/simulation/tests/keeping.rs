//! Locks that are kept for a time with the real core. Under all bounded faults, no other client acquires them before the
//! promised end.

use redlock_simulation::experiment::Experiment;
use redlock_simulation::history::EventKind;

fn keeping(servers: usize) {
    let (mut kept, mut given_up) = (0, 0);
    for seed in 0..60 {
        let report = Experiment::new(seed).servers(servers).keeping().run();
        assert!(report.defects().next().is_none(), "{report}");
        let count = |wanted: fn(&EventKind) -> bool| {
            report.history.0.iter().filter(|event| wanted(&event.kind)).count()
        };
        kept += count(|kind| matches!(kind, EventKind::Kept { .. }));
        given_up += count(|kind| matches!(kind, EventKind::Keeping { .. }));
    }
    assert!(kept > 200 && kept < given_up, "{kept} of {given_up} locks were kept");
}

#[test]
fn no_client_acquires_a_kept_lock_on_three_servers() {
    keeping(3);
}

#[test]
fn no_client_acquires_a_kept_lock_on_five_servers() {
    keeping(5);
}
