//! Counters and durations that are recorded through the `metrics` facade.
#![allow(clippy::float_cmp)] // whole numbers

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::time::Duration;

use crate::common::{MS, TTL, World, foreign_claim, is_pending, with_five};
use metrics_util::debugging::{DebugValue, DebuggingRecorder, Snapshotter};
use redlock_core::node::Ttl;
use redlock_core::{Error, JobOutcome, KeepAlive, ReleaseOutcome};
use redlock_testkit::{FakeNode, Fault, Operation};

/// Counters and durations in whole milliseconds, without losses that have not occurred.
///
/// The key is the name of the metric with its labels.
struct Numbers(BTreeMap<String, Vec<u64>>);

impl Numbers {
    fn of(snapshotter: &Snapshotter) -> Self {
        let metrics = snapshotter.snapshot().into_vec().into_iter();
        let has_occurred =
            |key: &str, value: &DebugValue| key != "redlock_losses_total" || *value != DebugValue::Counter(0);
        let metrics = metrics.filter(|(key, _, _, value)| has_occurred(key.key().name(), value));
        let numbers = metrics.map(|(key, _, _, value)| {
            let labels: Vec<_> =
                key.key().labels().map(|label| format!("{}={}", label.key(), label.value())).collect();
            let values = match value {
                DebugValue::Counter(count) => vec![count],
                DebugValue::Gauge(_) => Vec::new(),
                DebugValue::Histogram(seconds) => seconds
                    .iter()
                    .map(|seconds| {
                        u64::try_from(Duration::from_secs_f64(seconds.into_inner()).as_millis()).unwrap()
                    })
                    .collect(),
            };
            (format!("{} {}", key.key().name(), labels.join(" ")).trim_end().to_owned(), values)
        });
        Self(numbers.collect())
    }

    fn take(&mut self, metric: &str) -> Vec<u64> {
        let Self(numbers) = self;
        numbers.remove(metric).unwrap_or_else(|| panic!("no {metric} in {numbers:#?}"))
    }

    fn no_loss(&self) {
        let losses: Vec<_> = self.0.keys().filter(|name| name.starts_with("redlock_losses_total")).collect();
        assert!(losses.is_empty(), "{losses:?}");
    }

    /// Removes and returns the response times of all nodes.
    fn take_latencies(&mut self, operation: &str, outcome: &str) -> Vec<u64> {
        let end = format!(" operation={operation} outcome={outcome}");
        let names: Vec<_> = self.0.keys().filter(|name| name.ends_with(&end)).cloned().collect();
        assert!(
            names.iter().all(|name| name.starts_with("redlock_node_latency_seconds node=fake-")),
            "{names:?}"
        );
        names.iter().flat_map(|name| self.take(name)).collect()
    }

    #[track_caller]
    fn nothing_else(&self) {
        assert!(self.0.is_empty(), "{:#?}", self.0);
    }
}

/// Runs a test on five fake nodes, with a recorder.
fn recorded<F>(test: impl FnOnce(World, Snapshotter) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    metrics::with_local_recorder(&recorder, || with_five(|world| test(world, snapshotter)));
}

#[test]
fn a_lock_is_counted_and_timed() {
    recorded(async |world, recorder| {
        world.nodes[4].inject(Fault::delay(7 * MS).on(Operation::Acquire));
        world.nodes[3].crash();
        let guard = world.redlock.lock("a", TTL).await.unwrap();
        world.sleep(Duration::from_secs(3)).await;
        guard.release().await.unwrap();
        world.settle().await;
        let mut numbers = Numbers::of(&recorder);
        assert_eq!(vec![1], numbers.take("redlock_attempts_total outcome=granted"));
        assert_eq!(vec![0], numbers.take("redlock_wait_seconds outcome=granted"));
        assert_eq!(vec![3_000], numbers.take("redlock_hold_seconds"));
        assert_eq!(vec![1], numbers.take("redlock_releases_total outcome=released"));
        numbers.take("redlock_locks_held kind=exclusive");
        numbers.take("redlock_requests_pending");
        assert_eq!(vec![0, 0, 0, 7], numbers.take_latencies("acquire", "granted"));
        assert_eq!(vec![0], numbers.take_latencies("acquire", "failed"));
        assert_eq!(vec![0; 4], numbers.take_latencies("release", "released"));
        assert_eq!(vec![0], numbers.take_latencies("release", "failed"));
        numbers.nothing_else();
    });
}

#[test]
fn a_failed_wait_is_timed_and_every_attempt_is_counted() {
    recorded(async |world, recorder| {
        for node in &world.nodes {
            node.inner().set_holder("a", foreign_claim().token().clone(), Ttl::MAX);
        }
        let (result, took) = world.time(world.redlock.lock("a", TTL).max_attempts(3)).await;
        result.unwrap_err();
        assert!(world.redlock.lock("a", TTL).try_now().await.unwrap().is_none());
        world.settle().await;
        let mut numbers = Numbers::of(&recorder);
        assert_eq!(vec![4], numbers.take("redlock_attempts_total outcome=contended"));
        let waited = u64::try_from(took.as_millis()).unwrap();
        assert_eq!(vec![waited, 0], numbers.take("redlock_wait_seconds outcome=contended"));
        assert_eq!(20, numbers.take_latencies("acquire", "denied").len());
        let releases = numbers.take_latencies("release", "not_held").len();
        assert_eq!(25, releases, "the cleanup of each attempt, and of the place");
        numbers.take("redlock_requests_pending");
        numbers.nothing_else();
    });
}

#[test]
fn renewals_and_a_loss_are_counted() {
    recorded(async |world, recorder| {
        let guard = world.redlock.lock("a", TTL).keep_alive(KeepAlive::new()).await.unwrap();
        world.sleep(TTL).await;
        let renewed = world.nodes[0].request_count(Operation::Extend);
        world.nodes.iter().for_each(|node| node.inner().clear());
        let ((), took) = world.time(async { drop(guard.lost().await) }).await;
        let held = u64::try_from((TTL + took).as_millis()).unwrap();
        // Past the deadline of the last renewal.
        world.sleep(TTL).await;
        assert_ne!(
            0,
            world.nodes[0].request_count(Operation::Release),
            "by keep-alive, which is not counted"
        );
        drop(guard);
        world.settle().await;
        let mut numbers = Numbers::of(&recorder);
        assert_eq!(vec![renewed], numbers.take("redlock_renewals_total outcome=granted"));
        assert_eq!(vec![1], numbers.take("redlock_renewals_total outcome=lost"));
        assert_eq!(vec![1], numbers.take("redlock_losses_total reason=revoked"));
        assert_eq!(vec![held], numbers.take("redlock_hold_seconds"), "once, at the loss");
        assert_eq!(vec![1], numbers.take("redlock_releases_total outcome=already_lost"));
    });
}

#[test]
fn a_lock_that_expired_before_its_release_is_lost() {
    recorded(async |world, recorder| {
        let (one, two) =
            (world.redlock.lock("a", TTL).await.unwrap(), world.redlock.lock("b", TTL).await.unwrap());
        let in_time = world.redlock.lock("c", TTL).await.unwrap();
        // After the report of the loss, and before the end of the validity.
        world.sleep(Duration::from_millis(9_850)).await;
        in_time.release().await.unwrap();
        world.sleep(150 * MS).await;
        assert_eq!(ReleaseOutcome::AlreadyExpired, one.release().await.unwrap());
        drop(two);
        world.settle().await;
        let mut numbers = Numbers::of(&recorder);
        assert_eq!(vec![2], numbers.take("redlock_losses_total reason=expired"));
        assert_eq!(vec![2], numbers.take("redlock_releases_total outcome=already_expired"));
        assert_eq!(vec![1], numbers.take("redlock_releases_total outcome=released"));
    });
}

/// The lock that keeps readers out expires while the writer holds its own.
#[test]
fn a_writer_that_had_to_wait_loses_nothing() {
    recorded(async |world, recorder| {
        let lock = world.redlock.rw_lock("a").unwrap();
        let reader = lock.read(TTL).await.unwrap();
        let there = world.clone();
        world.spawn(async move {
            there.sleep(500 * MS).await;
            drop(reader);
        });
        let writer = lock.write(TTL).await.unwrap();
        world.sleep(TTL / 2).await;
        assert_eq!(ReleaseOutcome::Released, writer.release().await.unwrap());
        world.settle().await;
        let mut numbers = Numbers::of(&recorder);
        assert_eq!(2, numbers.take("redlock_releases_total outcome=released").iter().sum::<u64>());
        assert_eq!(vec![1], numbers.take("redlock_releases_total outcome=already_expired"), "the gate");
        numbers.no_loss();
    });
}

/// The lock that keeps readers out expires while the writer waits, and the writer gives up.
#[test]
fn a_writer_that_gives_up_loses_nothing() {
    recorded(async |world, recorder| {
        let lock = world.redlock.rw_lock("a").unwrap();
        let reader = lock.read(TTL).await.unwrap();
        let there = world.clone();
        world.spawn(async move {
            there.sleep(500 * MS).await;
            there.nodes[2..].iter().for_each(|node| node.inject(Fault::reject().on(Operation::Extend)));
        });
        assert!(lock.write(TTL).max_wait(TTL / 2).await.is_err());
        drop(reader);
        world.settle().await;
        Numbers::of(&recorder).no_loss();
    });
}

/// A lock that has expired is not detached, and counts as lost.
#[test]
fn a_lock_that_expired_before_it_is_detached_or_kept_is_lost() {
    recorded(async |world, recorder| {
        let one = world.redlock.lock("a", TTL).await.unwrap();
        let two = world.redlock.lock("b", TTL).await.unwrap();
        world.sleep(TTL).await;
        drop(one.detach().await);
        two.keep_for(TTL).await.unwrap_err();
        world.settle().await;
        assert_eq!(vec![2], Numbers::of(&recorder).take("redlock_losses_total reason=expired"));
    });
}

/// A monitoring system does not see a loss that creates its counter.
#[test]
fn counters_of_losses_begin_at_zero() {
    recorded(async |world, recorder| {
        drop(world.redlock.lock("a", TTL).label("invoices").await.unwrap());
        world.settle().await;
        let is_loss = |name: &str| name == "redlock_losses_total";
        let metrics = recorder.snapshot().into_vec().into_iter();
        let losses = metrics.filter(|(key, _, _, _)| is_loss(key.key().name())).map(|(key, _, _, value)| {
            assert_eq!(DebugValue::Counter(0), value);
            key.key().labels().map(|label| label.value().to_owned()).collect::<Vec<_>>().join(" ")
        });
        let losses: BTreeSet<_> = losses.collect();
        let row = &rows()["redlock_losses_total"];
        let documented = row.split('|').nth(3).unwrap().split('`').skip(3).step_by(2);
        let documented =
            documented.flat_map(|reason| [reason.to_owned(), format!("invoices {reason}")]).collect();
        assert_eq!(losses, documented);
    });
}

/// Returns the changes of all gauges since the last call, except those that are zero.
fn changes(recorder: &Snapshotter) -> BTreeMap<String, f64> {
    let gauges = recorder.snapshot().into_vec().into_iter().filter_map(|(key, _, _, value)| match value {
        DebugValue::Gauge(change) => {
            let labels = key.key().labels().map(|label| format!(" {}={}", label.key(), label.value()));
            Some((format!("{}{}", key.key().name(), labels.collect::<String>()), change.into_inner()))
        }
        _ => None,
    });
    gauges.filter(|(_, change)| *change != 0.0).collect()
}

/// Returns the change of the number of held locks since the last call.
fn change_of_held(recorder: &Snapshotter) -> f64 {
    let changes = changes(recorder).into_iter();
    changes.filter(|(name, _)| name.starts_with("redlock_locks_held")).map(|(_, change)| change).sum()
}

#[test]
fn locks_count_as_held_while_their_guards_exist() {
    recorded(async |world, recorder| {
        let change = || change_of_held(&recorder);
        let (one, two) = (world.redlock.lock("a", TTL).await.unwrap(), world.redlock.lock("b", TTL).await);
        assert_eq!([2.0, 0.0], [change(), change()]);
        drop(two);
        assert_eq!(-1.0, change());
        let detached = one.detach().await;
        assert_eq!(-1.0, change());
        let resumed = world.redlock.resume(&detached).await.unwrap();
        assert_eq!(1.0, change());
        resumed.forget();
        assert_eq!(-1.0, change());
        world.redlock.lock("c", TTL).run(async |_| assert_eq!(1.0, change())).await.unwrap();
        assert_eq!(-1.0, change());
    });
}

#[test]
fn a_writer_that_runs_once_per_period_counts_as_a_writer() {
    recorded(async |world, recorder| {
        let catalog = world.redlock.rw_lock("catalog").unwrap();
        let held = || -> Vec<_> {
            let names = changes(&recorder).into_keys();
            names.filter(|name| name.starts_with("redlock_locks_held")).collect()
        };
        let job = catalog.write(TTL).once_per(TTL * 6, async |_| Ok::<_, Error>(held()));
        let JobOutcome::Ran(Ok(held)) = job.await.unwrap() else { panic!("the job did not run") };
        assert_eq!(vec!["redlock_locks_held kind=write"], held);
    });
}

#[test]
fn a_waiting_writer_holds_no_lock() {
    recorded(async |world, recorder| {
        let catalog = world.redlock.rw_lock("catalog").unwrap();
        let reader = catalog.read(TTL).await.unwrap();
        assert_eq!(1.0, change_of_held(&recorder));
        let mut writer = Box::pin(catalog.write(TTL).into_future());
        assert!(is_pending(&mut writer).await);
        world.sleep(MS).await;
        assert!(is_pending(&mut writer).await);
        assert!(world.nodes[0].inner().holder("catalog:writer").is_some());
        assert_eq!(0.0, change_of_held(&recorder), "the writer holds only the gate");
        reader.release().await.unwrap();
        let writer = writer.await.unwrap();
        assert_eq!(0.0, change_of_held(&recorder), "the reader has released, and the writer holds the lock");
        drop(writer);
        world.settle().await;
        assert_eq!(-1.0, change_of_held(&recorder));
    });
}

#[test]
fn a_label_is_in_every_metric_of_its_request_and_its_lock() {
    recorded(async |world, recorder| {
        let request = || world.redlock.lock("a", TTL).label("invoices");
        let guard = request().keep_alive(KeepAlive::new()).await.unwrap();
        assert!(request().try_now().await.unwrap().is_none());
        world.sleep(TTL).await;
        guard.release().await.unwrap();
        world.settle().await;
        let mut numbers = Numbers::of(&recorder);
        numbers.0.retain(|name, _| !name.starts_with("redlock_node_latency_seconds"));
        for name in [
            "redlock_attempts_total label=invoices outcome=granted",
            "redlock_hold_seconds label=invoices",
            "redlock_locks_held label=invoices kind=exclusive",
            "redlock_releases_total label=invoices outcome=released",
            "redlock_renewals_total label=invoices outcome=granted",
            "redlock_requests_pending label=invoices",
            "redlock_wait_seconds label=invoices outcome=contended",
            "redlock_wait_seconds label=invoices outcome=granted",
        ] {
            numbers.take(name);
        }
        numbers.nothing_else();
    });
}

#[test]
fn gauges_show_kinds_of_locks_waiting_requests_and_leaders() {
    recorded(async |world, recorder| {
        let one = |name: &str| BTreeMap::from([(name.to_owned(), 1.0)]);
        let slots = world.redlock.slots("disks", 2).unwrap();
        let slot = slots.acquire(TTL).fenced().await.unwrap();
        assert_eq!(one("redlock_locks_held kind=slot"), changes(&recorder));
        let reader = world.redlock.rw_lock("catalog").unwrap().read(TTL).await.unwrap();
        assert_eq!(one("redlock_locks_held kind=read"), changes(&recorder));
        let mut waiting = Box::pin(world.redlock.lock("catalog", TTL).label("import").into_future());
        assert!(is_pending(&mut waiting).await);
        assert_eq!(one("redlock_requests_pending label=import"), changes(&recorder));
        drop((slot, reader, waiting));
        changes(&recorder);

        let candidate = world.redlock.lock("scheduler", TTL).label("scheduler").lead();
        let leading = async |_lease| {
            ControlFlow::Break(changes(&recorder).contains_key("redlock_leading label=scheduler"))
        };
        assert!(candidate.run(leading).await.unwrap());
        assert_eq!(Some(&-1.0), changes(&recorder).get("redlock_leading label=scheduler"));
    });
}

#[test]
fn jobs_are_counted_by_their_outcome() {
    recorded(async |world, recorder| {
        let day = Duration::from_secs(24 * 60 * 60);
        for _ in 0..3 {
            let request = world.redlock.lock("reminders", TTL).label("reminders");
            drop(request.once_per(day, async |_| Ok::<_, ()>(())).await.unwrap());
        }
        world.nodes.iter().for_each(FakeNode::crash);
        let request = world.redlock.lock("reports", TTL);
        drop(request.once_per(day, async |_| Ok::<_, ()>(())).await.unwrap());
        let mut numbers = Numbers::of(&recorder);
        assert_eq!(vec![1], numbers.take("redlock_jobs_total label=reminders outcome=ran"));
        assert_eq!(vec![2], numbers.take("redlock_jobs_total label=reminders outcome=elsewhere"));
        assert_eq!(vec![1], numbers.take("redlock_jobs_total outcome=undecided"));
    });
}

/// Returns the table in `docs/monitoring.md`: the row of each metric.
fn rows() -> BTreeMap<String, String> {
    let text = read("docs/monitoring.md");
    let row = |line: &str| {
        let name = line.strip_prefix("| `")?.split('`').next()?;
        name.starts_with("redlock_").then(|| (name.to_owned(), line.to_owned()))
    };
    text.lines().filter_map(row).collect()
}

fn documented() -> BTreeSet<String> {
    rows().into_keys().collect()
}

/// Reads a file of the repository.
fn read(path: &str) -> String {
    std::fs::read_to_string(format!("{}/../{path}", env!("CARGO_MANIFEST_DIR"))).unwrap()
}

/// Returns the metrics that queries use, each with its matchers of labels: `outcome`, and `failed|timed_out`.
fn used(queries: &str) -> Vec<(String, Vec<(String, String)>)> {
    let mut uses = Vec::new();
    for (start, _) in queries.match_indices("redlock_") {
        let end = |text: &str| text.find(|letter: char| letter != '_' && !letter.is_ascii_lowercase());
        let (name, rest) = queries[start..].split_at(end(&queries[start..]).unwrap());
        let suffixes = ["_bucket", "_count", "_sum"];
        let name = suffixes.iter().find_map(|suffix| name.strip_suffix(suffix)).unwrap_or(name);
        let matchers = rest.strip_prefix('{').map(|rest| rest.split('}').next().unwrap().replace('\\', ""));
        let matcher = |text: &str| {
            let (label, value) = text.split_once(['=', '!']).unwrap();
            (label.trim().to_owned(), value.trim_matches(['=', '~', '"', ' ']).to_owned())
        };
        let matchers = matchers.filter(|text| text.contains('"'));
        let matchers = matchers.map(|text| text.split(", ").map(matcher).collect()).unwrap_or_default();
        uses.push((name.to_owned(), matchers));
    }
    uses
}

#[test]
fn the_dashboard_and_the_alerts_use_metrics_as_they_are_documented() {
    let dashboard: serde_json::Value = serde_json::from_str(&read("deploy/grafana/redlock.json")).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let targets = panels.iter().filter_map(|panel| panel["targets"].as_array()).flatten();
    let queries: Vec<_> = targets.map(|target| target["expr"].as_str().unwrap()).collect();
    let rules = read("deploy/prometheus/redlock.rules.yml");
    let rows = rows();
    let mut shown = BTreeSet::new();
    for (query, text) in queries.iter().map(|query| (true, *query)).chain([(false, &*rules)]) {
        for (name, matchers) in used(text) {
            let row = rows.get(&name).unwrap_or_else(|| panic!("{name} is not documented"));
            for (label, values) in matchers.iter().filter(|(label, _)| label != "instance") {
                assert!(row.contains(&format!("`{label}`")), "{name} has no label {label}");
                let above = if row.contains("as above") { &rows["redlock_attempts_total"] } else { row };
                let is_known =
                    |value: &&str| [row, above].iter().any(|row| row.contains(&format!("`{value}`")));
                let unknown: Vec<_> = values.split('|').filter(|value| !is_known(value)).collect();
                assert!(unknown.is_empty(), "{name} has no {label} {unknown:?}");
            }
            if query {
                shown.insert(name);
            }
        }
    }
    assert_eq!(documented(), shown, "the dashboard shows all metrics");
}

#[test]
fn every_metric_has_a_description_and_is_documented() {
    recorded(async |world, recorder| {
        redlock_core::describe_metrics();
        let guard = world.redlock.lock("a", TTL).keep_alive(KeepAlive::new()).await.unwrap();
        world.sleep(TTL).await;
        world.nodes.iter().for_each(|node| node.inner().clear());
        guard.lost().await;
        drop(guard);
        world.nodes[0].inner().set_longest_ttl(TTL);
        let guarded =
            crate::common::builder(&world.process, &world.nodes).compare_node_lists(true).build().unwrap();
        world.nodes[0].inner().flush();
        guarded.lock("a", TTL).try_now().await.unwrap();
        let candidate = world.redlock.lock("b", TTL).lead();
        candidate.run(async |_| ControlFlow::Break(())).await.unwrap();
        let job = async |_| Ok::<_, ()>(());
        drop(world.redlock.lock("c", TTL).once_per(TTL, job).await.unwrap());
        world.settle().await;
        let mut seen = BTreeSet::new();
        for (key, _, description, _) in recorder.snapshot().into_vec() {
            assert!(description.is_some(), "{key:?} has no description");
            seen.insert(key.key().name().to_owned());
        }
        // The nodes of the adapters record these metrics.
        let of_adapters = ["redlock_node_connected", "redlock_node_clock_ppm", "redlock_node_clock_fast"];
        seen.extend(of_adapters.map(str::to_owned));
        assert_eq!(documented(), seen);
    });
}
