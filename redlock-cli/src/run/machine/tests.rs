use proptest::prelude::*;

use super::*;
use crate::args::Leftover;
use crate::run::keep::Keep;
use crate::run::timing::Times;
use crate::run::verdict::Ended;
use crate::run::wire::Lost;

fn at(millis: u64) -> Instant {
    Instant::since_origin(Duration::from_millis(millis))
}

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// TTL 10 s, grace 2.5 s: with a validity until 9.898 s, TERM is due at 7.198 s and KILL at 9.698 s.
fn settings() -> Settings {
    Settings {
        times: Times::new(ms(10_000), None).unwrap(),
        own_group: true,
        leads_session: false,
        signal: Signal::TERM,
        stolen_grace: Duration::ZERO,
        max_runtime: None,
        kill_after: None,
        leftover: Leftover::Kill,
        release_limit: ms(4_000),
        shows_waits: false,
        keep: None,
    }
}

const DEADLINE: u64 = 9_898;
const TERM_AT: u64 = 7_198;
const KILL_AT: u64 = 9_698;

fn held() -> Event {
    let held =
        Held { granted: at(0).into(), holder: "a#1".into(), fencing_token: None, slot: None, waited: ms(0) };
    Event::Keeper(FromKeeper::Held(held))
}

fn lost(revoked: bool, killing: bool) -> Event {
    Event::Keeper(FromKeeper::Lost(Lost { reason: "gone".into(), revoked, killing }))
}

fn released() -> Event {
    Event::Keeper(FromKeeper::Released { warning: None, kept: None })
}

/// A machine with a clock that is set by hand.
struct Test {
    machine: Machine,
    deadline: Instant,
}

impl Test {
    fn new(settings: Settings) -> Self {
        Self { machine: Machine::new(settings), deadline: at(0) }
    }

    /// A machine whose command was started at 0.
    fn running(settings: Settings) -> Self {
        let mut test = Self::new(settings);
        test.renew(0, DEADLINE);
        assert!(matches!(*test.on(0, held()), [Action::Spawn(_)]));
        assert!(test.on(0, Event::Started).is_empty());
        test
    }

    fn renew(&mut self, now: u64, deadline: u64) -> Vec<Action> {
        self.deadline = at(deadline);
        self.tick(now)
    }

    fn tick(&mut self, now: u64) -> Vec<Action> {
        self.machine.learn(self.deadline);
        self.machine.tick(at(now));
        self.actions()
    }

    fn on(&mut self, now: u64, event: Event) -> Vec<Action> {
        self.machine.handle(event, at(now));
        self.actions()
    }

    /// All actions but notes.
    fn actions(&mut self) -> Vec<Action> {
        let mut actions = self.machine.actions();
        actions.retain(|action| !matches!(action, Action::Note(_)));
        actions
    }

    /// The command ends and leaves nothing; returns the verdict.
    fn end(&mut self, now: u64, ended: Ended) -> Verdict {
        assert_eq!(Vec::<Action>::new(), self.on(now, Event::Ended(ended)));
        let actions = self.on(now, Event::Left(0));
        assert!(matches!(*actions, [Action::Send(ToKeeper::Ended { .. })]), "{actions:?}");
        exit(&self.on(now, released()))
    }
}

fn exit(actions: &[Action]) -> Verdict {
    match actions {
        [.., Action::Exit(verdict)] => verdict.clone(),
        other => panic!("no exit: {other:?}"),
    }
}

fn stop() -> Vec<Action> {
    vec![Action::SignalTree(Signal::TERM), Action::SignalTree(Signal::CONT)]
}

fn kill() -> Vec<Action> {
    vec![Action::SignalTree(Signal::KILL)]
}

#[test]
fn a_command_that_ends_by_itself_keeps_its_code() {
    for ended in [Ended::Exited(0), Ended::Exited(75), Ended::Killed(9)] {
        let mut test = Test::running(settings());
        assert_eq!(Verdict::Command(ended), test.end(100, ended));
    }
}

#[test]
fn signals_are_sent_at_their_times() {
    let mut test = Test::running(settings());
    assert!(test.tick(TERM_AT - 1).is_empty());
    assert_eq!(stop(), test.tick(TERM_AT));
    assert!(test.tick(KILL_AT - 1).is_empty());
    assert_eq!(kill(), test.tick(KILL_AT));
    assert_eq!(kill(), test.tick(KILL_AT + 10), "again, for processes started in between");
    assert!(matches!(test.end(KILL_AT + 20, Ended::Killed(9)), Verdict::Lost(_)));
}

#[test]
fn renewals_move_both_times() {
    let mut test = Test::running(settings());
    assert!(test.renew(TERM_AT, 20_000).is_empty());
    assert!(test.tick(17_299).is_empty());
    assert_eq!(stop(), test.tick(17_300));
}

#[test]
fn a_renewal_after_the_first_signal_is_too_late() {
    let mut test = Test::running(settings());
    assert_eq!(stop(), test.tick(TERM_AT));
    assert!(test.renew(TERM_AT + 1, 60_000).is_empty());
    assert_eq!(kill(), test.tick(TERM_AT + 2_500));
    assert!(matches!(test.end(TERM_AT + 2_510, Ended::Exited(0)), Verdict::Lost(_)));
}

#[test]
fn a_command_that_obeys_the_first_signal_counts_as_stopped() {
    let mut test = Test::running(settings());
    assert_eq!(stop(), test.tick(TERM_AT));
    assert!(matches!(test.end(TERM_AT + 1, Ended::Exited(0)), Verdict::Lost(_)));
}

#[test]
fn a_late_supervisor_kills_at_once() {
    let mut test = Test::running(settings());
    assert_eq!(kill(), test.tick(DEADLINE + 1_000_000));
}

#[test]
fn keys_that_are_gone_no_longer_exclude_others() {
    let mut test = Test::running(settings());
    assert_eq!(kill(), test.on(100, lost(true, false)));
    assert_eq!(Verdict::Lost("gone".into()), test.end(110, Ended::Killed(9)));

    let mut test = Test::running(Settings { stolen_grace: ms(3_000), ..settings() });
    assert_eq!(stop(), test.on(100, lost(true, false)));
    assert!(test.tick(3_099).is_empty());
    assert_eq!(kill(), test.tick(3_100));
}

#[test]
fn a_loss_by_time_changes_nothing_but_the_reason() {
    let mut test = Test::running(settings());
    assert!(test.on(100, lost(false, false)).is_empty());
    assert_eq!(Verdict::Command(Ended::Exited(0)), test.end(110, Ended::Exited(0)));
}

#[test]
fn a_command_that_the_keeper_has_killed_was_lost() {
    let mut test = Test::running(settings());
    assert_eq!(kill(), test.on(100, lost(false, true)));
    assert_eq!(Verdict::Lost("gone".into()), test.end(100, Ended::Killed(9)));
}

#[test]
fn the_reason_of_a_loss_may_be_late() {
    let mut test = Test::running(settings());
    assert_eq!(kill(), test.tick(KILL_AT));
    test.on(KILL_AT, Event::Ended(Ended::Killed(9)));
    test.on(KILL_AT, Event::Left(0));
    assert!(test.on(KILL_AT, lost(false, false)).is_empty());
    assert_eq!(Verdict::Lost("gone".into()), exit(&test.on(KILL_AT, released())));
}

#[test]
fn without_a_keeper_the_last_deadline_counts() {
    let mut test = Test::running(settings());
    assert!(matches!(*test.on(100, Event::KeeperGone), [Action::Warn(_)]));
    assert!(test.on(101, Event::KeeperGone).is_empty(), "reported once");
    assert_eq!(stop(), test.tick(TERM_AT));
    assert!(test.on(TERM_AT + 1, Event::Ended(Ended::Exited(0))).is_empty());
    assert!(matches!(exit(&test.on(TERM_AT + 1, Event::Left(0))), Verdict::Lost(_)));
}

#[test]
fn nothing_is_started_with_too_little_validity() {
    let mut test = Test::new(settings());
    test.renew(TERM_AT, DEADLINE);
    let actions = test.on(TERM_AT, held());
    assert_eq!([Action::Send(ToKeeper::Ended { keep: None })], *actions);
    assert!(matches!(exit(&test.on(TERM_AT, released())), Verdict::NotAcquired(_)));
}

/// The signal comes before the grant, or together with it.
#[test]
fn a_signal_before_the_start_means_no_start() {
    let signal = || Event::Signal(Signal::TERM);
    for events in [[signal(), held()], [held(), signal()]] {
        let mut test = Test::new(settings());
        test.renew(0, DEADLINE);
        for event in events {
            test.machine.handle(event, at(0));
        }
        assert_eq!([Action::Send(ToKeeper::Cancel)], *test.actions());
        assert_eq!(Verdict::Canceled(Signal::TERM), exit(&test.on(1, released())));
    }
}

#[test]
fn nothing_is_started_without_a_keeper() {
    let mut test = Test::new(settings());
    test.renew(0, DEADLINE);
    test.machine.handle(held(), at(0));
    let actions = test.on(0, Event::KeeperGone);
    assert!(matches!(*actions, [Action::Exit(Verdict::Internal(_))]), "{actions:?}");
}

#[test]
fn the_second_signal_does_not_wait_for_the_cleanup() {
    let mut test = Test::new(settings());
    assert_eq!([Action::Send(ToKeeper::Cancel)], *test.on(0, Event::Signal(Signal::INT)));
    assert_eq!(Verdict::Canceled(Signal::INT), exit(&test.on(1, Event::Signal(Signal::INT))));

    let mut test = Test::new(settings());
    test.on(0, Event::Signal(Signal::INT));
    assert!(test.tick(999).is_empty());
    assert_eq!(Verdict::Canceled(Signal::INT), exit(&test.tick(1000)));
}

/// Returns whether a signal is passed on.
fn forwards(signal: Signal, settings: Settings) -> bool {
    let mut test = Test::running(settings);
    test.on(100, Event::Signal(signal)).contains(&Action::Forward(signal))
}

#[test]
fn signals_of_the_terminal_are_not_passed_on_twice() {
    let forwarded = |own_group, signal| forwards(signal, Settings { own_group, ..settings() });
    for signal in [Signal::INT, Signal::QUIT, Signal::HUP, Signal::TSTP, Signal::WINCH] {
        assert!(forwarded(true, signal) && !forwarded(false, signal), "{signal:?}");
    }
    for signal in [Signal::TERM, Signal::USR1, Signal::USR2, Signal::CONT] {
        assert!(forwarded(true, signal) && forwarded(false, signal), "{signal:?}");
    }
}

#[test]
fn the_leader_of_a_session_passes_on_the_end_of_its_terminal() {
    let leader = || Settings { own_group: false, leads_session: true, ..settings() };
    assert!(forwards(Signal::HUP, leader()));
    assert!(!forwards(Signal::INT, leader()), "the terminal has sent it to the command");
}

#[test]
fn a_second_signal_kills_a_command_that_is_being_stopped() {
    let mut test = Test::running(settings());
    assert_eq!(stop(), test.tick(TERM_AT));
    assert_eq!(kill(), test.on(TERM_AT + 1, Event::Signal(Signal::TERM)));
}

#[test]
fn kill_after_follows_a_signal_that_was_passed_on() {
    let mut test = Test::running(Settings { kill_after: Some(ms(500)), ..settings() });
    assert_eq!([Action::Forward(Signal::TERM)], *test.on(100, Event::Signal(Signal::TERM)));
    assert!(test.tick(599).is_empty());
    assert_eq!(kill(), test.tick(600));
    assert_eq!(Verdict::Command(Ended::Killed(9)), test.end(601, Ended::Killed(9)));
}

#[test]
fn a_command_that_runs_too_long_is_stopped() {
    let mut test = Test::running(Settings { max_runtime: Some(ms(1_000)), ..settings() });
    assert!(test.tick(999).is_empty());
    assert_eq!(stop(), test.tick(1_000));
    assert_eq!(kill(), test.tick(3_500));
    assert_eq!(Verdict::MaxRuntime, test.end(3_510, Ended::Killed(9)));
}

#[test]
fn a_wait_is_shown_to_a_person() {
    let waiting = || Event::Keeper(FromKeeper::Waiting { message: "waiting".into() });
    let mut test = Test::new(Settings { shows_waits: true, ..settings() });
    assert_eq!([Action::Warn("waiting".into())], *test.on(0, waiting()));
    assert!(Test::new(settings()).on(0, waiting()).is_empty(), "a note");
}

#[test]
fn no_release_is_noted_after_a_loss() {
    let notes = |ended: u64| {
        let mut test = Test::running(settings());
        test.tick(ended);
        test.on(ended, Event::Ended(Ended::Killed(15)));
        test.on(ended, Event::Left(0));
        test.machine.handle(released(), at(ended));
        test.machine.actions().iter().filter(|action| matches!(action, Action::Note(_))).count()
    };
    assert_eq!((1, 0), (notes(TERM_AT - 1), notes(TERM_AT)));
}

#[test]
fn a_stopped_command_stops_the_supervisor_in_its_group_only() {
    assert_eq!(
        [Action::StopSelf],
        *Test::running(Settings { own_group: false, ..settings() }).on(1, Event::Stopped)
    );
    assert!(Test::running(settings()).on(1, Event::Stopped).is_empty());
}

#[test]
fn leftovers_are_stopped_before_the_release() {
    let mut test = Test::running(settings());
    test.on(100, Event::Ended(Ended::Exited(3)));
    assert_eq!(stop(), test.on(100, Event::Left(2)));
    assert!(test.on(110, Event::Left(1)).is_empty());
    assert_eq!(kill(), test.tick(2_600));
    assert_eq!([Action::Send(ToKeeper::Ended { keep: None })], *test.on(2_610, Event::Left(0)));
    assert_eq!(Verdict::Command(Ended::Exited(3)), exit(&test.on(2_611, released())));
}

#[test]
fn leftovers_are_awaited_or_left() {
    let mut test = Test::running(Settings { leftover: Leftover::Wait, ..settings() });
    test.on(100, Event::Ended(Ended::Exited(0)));
    assert!(test.on(5_000, Event::Left(1)).is_empty());
    assert_eq!(stop(), test.tick(TERM_AT), "the lock ends before they do");

    let mut test = Test::running(Settings { leftover: Leftover::Leave, ..settings() });
    test.on(100, Event::Ended(Ended::Exited(0)));
    assert_eq!([Action::Send(ToKeeper::Ended { keep: None })], *test.on(100, Event::Left(1)));
}

#[test]
fn a_lock_is_kept_for_the_rest_but_not_after_a_loss() {
    let keep = Some(Keep { at_least: ms(50_000), since_request: false, success_only: false });
    let mut test = Test::running(Settings { keep, ..settings() });
    test.on(100, Event::Ended(Ended::Exited(1)));
    let rest = Some(ms(49_900));
    assert_eq!([Action::Send(ToKeeper::Ended { keep: rest })], *test.on(100, Event::Left(0)));

    let mut test = Test::running(Settings { keep, ..settings() });
    test.on(100, lost(true, false));
    test.on(110, Event::Ended(Ended::Killed(9)));
    assert_eq!([Action::Send(ToKeeper::Ended { keep: None })], *test.on(110, Event::Left(0)));
}

#[test]
fn a_release_that_is_not_confirmed_ends_the_wait_with_a_warning() {
    let mut test = Test::running(settings());
    test.on(100, Event::Ended(Ended::Exited(0)));
    test.on(100, Event::Left(0));
    assert!(test.tick(4_099).is_empty());
    assert!(matches!(*test.tick(4_100), [Action::Warn(_), Action::Exit(Verdict::Command(_))]));
}

#[test]
fn a_signal_shortens_the_wait_for_a_release() {
    let mut test = Test::running(settings());
    test.on(100, Event::Ended(Ended::Exited(0)));
    test.on(100, Event::Left(0));
    assert!(test.on(200, Event::Signal(Signal::TERM)).is_empty());
    assert!(test.tick(1_199).is_empty());
    assert!(matches!(*test.tick(1_200), [Action::Warn(_), Action::Exit(Verdict::Command(_))]));
}

/// Any event, at any time.
fn event() -> impl Strategy<Value = Event> {
    let signal = prop::sample::select(vec![
        Signal::INT,
        Signal::TERM,
        Signal::HUP,
        Signal::USR1,
        Signal::TSTP,
        Signal::CONT,
    ]);
    prop_oneof![
        2 => Just(held()),
        3 => signal.prop_map(Event::Signal),
        2 => Just(Event::Started),
        1 => Just(Event::Stopped),
        1 => Just(Event::KeeperGone),
        1 => (any::<bool>(), any::<bool>()).prop_map(|(revoked, killing)| lost(revoked, killing)),
        2 => Just(Event::Ended(Ended::Exited(0))),
        3 => (0_usize..3).prop_map(Event::Left),
        1 => Just(released()),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// In any order of events, with renewals that come or do not:
    ///
    /// - A command is started once at most, and never after a signal to end or a failed request.
    /// - The machine never sleeps past the time of a signal.
    /// - SIGKILL is sent at the first tick after its time, unless the tree is dead.
    /// - The lock is released only when nothing is left.
    #[test]
    fn every_order_of_events_is_safe(
        steps in prop::collection::vec((0_u64..2_000, event(), prop::option::weighted(0.3, Just(()))), 1..40),
        own_group: bool,
        max_runtime in prop::option::of(1_u64..20_000),
    ) {
        let settings = Settings { own_group, max_runtime: max_runtime.map(ms), ..settings() };
        let times = settings.times;
        let mut test = Test::new(settings);
        let (mut now, mut deadline) = (0, DEADLINE);
        let (mut started, mut asked_to_end, mut dead, mut over) = (0, false, false, false);
        test.renew(0, deadline);
        for (later, event, renewal) in steps {
            now += later;
            if renewal.is_some() && at(now) < at(deadline) {
                deadline = now + DEADLINE;
            }
            if !over && started == 0 && matches!(event, Event::Signal(signal) if ends(signal)) {
                asked_to_end = true;
            }
            dead |= started > 0 && matches!(event, Event::Ended(_));
            let is_empty = dead && matches!(event, Event::Left(0));
            let mut actions = test.on(now, event);
            let was_running = matches!(test.machine.phase, Phase::Working(_));
            actions.extend(test.renew(now, deadline));
            prop_assert!(!over || actions.is_empty(), "{actions:?} after the end");
            for action in &actions {
                match action {
                    Action::Spawn(_) => {
                        prop_assert!(!asked_to_end);
                        started += 1;
                    }
                    Action::Send(ToKeeper::Ended { .. }) => {
                        prop_assert!(is_empty || at(now) >= times.term_at(at(deadline)) || started == 0, "released too early");
                    }
                    Action::Exit(_) => over = true,
                    _ => {}
                }
            }
            prop_assert!(started <= 1);
            let is_running = matches!(test.machine.phase, Phase::Working(_));
            if was_running && is_running && at(now) >= times.kill_at(at(deadline)) {
                prop_assert!(actions.contains(&Action::SignalTree(Signal::KILL)), "{actions:?} at {now}");
            }
            if let (true, Some(wake)) = (is_running, test.machine.wake_at(at(now))) {
                prop_assert!(wake <= at(now) + times.tick());
                for due in [times.term_at(at(deadline)), times.kill_at(at(deadline))] {
                    let is_done = test.machine.record().kill.is_some() || (test.machine.record().term.is_some() && due < times.kill_at(at(deadline)));
                    prop_assert!(due <= at(now) || wake <= due || is_done);
                }
            }
        }
    }
}
