//! The serialized form of reports and errors.

use std::time::Duration;

use crate::common::*;
use redlock_core::{KeepAlive, ReleaseOutcome};
use redlock_testkit::{FakeNode, Fault, Operation};
use serde_json::{Value, json};

fn value(found: &impl serde::Serialize) -> Value {
    serde_json::to_value(found).unwrap()
}

#[test]
fn an_inspection_has_the_holder_and_the_reports() {
    with_nodes(3, async |world| {
        let guard = world.redlock.lock("orders:42", TTL).owner("host-1").await.unwrap();
        world.nodes[2].inject(Fault::unavailable().on(Operation::Inspect));
        world.nodes[0].inject(Fault::delay(MS).on(Operation::Inspect));
        world.sleep(Duration::from_secs(1)).await;
        let holder = guard.fingerprint().to_string();
        assert!(holder.starts_with("host-1#"), "{holder}");
        let inspection = world.redlock.inspect("orders:42").await.unwrap();
        let held = |index: usize, latency: f64| {
            json!({
                "index": index, "label": format!("fake-{index}"), "outcome": "held", "latency_ms": latency,
                "holder": holder, "remaining_ms": 9000 - u64::from(index == 0), "waiters": 0,
                "fencing_counter": null, "quarantine": null, "error": null, "same_server_as": null,
            })
        };
        let expected = json!({
            "resource": "orders:42", "status": "held", "holder": holder, "remaining_ms": 8998,
            "waiters": 0,
            "nodes": [held(0, 1.0), held(1, 0.0), {
                "index": 2, "label": "fake-2", "outcome": "failed", "latency_ms": 0.0, "holder": null,
                "remaining_ms": null, "waiters": null, "fencing_counter": null, "quarantine": null, "error": "connection refused",
                "same_server_as": null,
            }],
        });
        assert_eq!(expected, value(&inspection));
    });
}

#[test]
fn a_health_check_has_the_numbers_and_the_nodes() {
    with_nodes(3, async |world| {
        world.nodes[1].inner().set_longest_ttl(TTL);
        let guarded = builder(&world.process, &world.nodes).build().unwrap();
        world.nodes[1].inner().flush();
        let health = value(&guarded.health().await);
        assert_eq!(json!([true, 2, 2]), json!([health["available"], health["healthy"], health["quorum"]]));
        let node = &health["nodes"][1];
        assert_eq!((&json!("fake-1"), &json!(false)), (&node["label"], &node["healthy"]));
        assert_eq!(json!("data_lost"), node["quarantine"]["reason"]);
        assert!(node["quarantine"]["remaining_ms"].as_u64().unwrap() > 9_000, "{node}");
        assert!(node["message"].as_str().unwrap().contains("may have lost locks"), "{node}");
        assert_eq!((&json!(0.01), &json!(null)), (&health["clock_drift_factor"], &node["clock"]));

        world.nodes[2].inner().set_clock_rate(-50);
        world.nodes[0].inner().set_clock_rate(83_000);
        world.sleep(Duration::from_secs(2)).await;
        let health = value(&guarded.health().await);
        let clock = |node: usize| health["nodes"][node]["clock"].clone();
        assert_eq!(json!({ "ppm": 83_000, "error_ppm": 0, "over_ms": 2000, "fast": true }), clock(0));
        assert_eq!(json!([-50, false]), json!([clock(2)["ppm"], clock(2)["fast"]]));
    });
}

#[test]
fn an_error_has_its_kind_its_holder_and_its_nodes() {
    with_nodes(3, async |world| {
        let _guard = world.redlock.lock("a", TTL).owner("host-1").await.unwrap();
        let other = world.other_client();
        let error = value(&other.lock("a", TTL).max_attempts(1).await.unwrap_err());
        assert_eq!(json!("contended"), error["kind"]);
        assert_eq!(json!(true), error["is_retryable"]);
        assert!(error["holder"].as_str().unwrap().starts_with("host-1#"), "{error}");
        assert_eq!(json!("denied"), error["nodes"][0]["outcome"]);
        assert!(error["message"].as_str().unwrap().starts_with("\"a\" is locked by host-1#"), "{error}");

        let guard = world.redlock.lock("b", TTL).keep_alive(KeepAlive::new()).await.unwrap();
        world.nodes.iter().for_each(|node: &FakeNode| node.inner().clear());
        guard.lost().await;
        let error = value(&guard.check().unwrap_err());
        assert_eq!((json!("lost"), json!("revoked")), (error["kind"].clone(), error["loss"].clone()));
        assert_eq!(json!("already_lost"), value(&guard.release().await.unwrap()));
        assert_eq!(json!("released"), value(&ReleaseOutcome::Released));
    });
}

#[test]
fn no_text_contains_a_token() {
    with_nodes(3, async |world| {
        let guard = world.redlock.lock("a", TTL).owner("host-1").fenced().await.unwrap();
        let token =
            String::from_utf8(world.nodes[0].inner().holder("a").unwrap().as_bytes().to_vec()).unwrap();
        let secret = token.rsplit('#').next().unwrap().to_owned();
        let error = world.other_client().lock("a", TTL).max_attempts(1).await.unwrap_err();
        let texts = [
            value(&guard.node_reports()),
            value(&world.redlock.inspect("a").await.unwrap()),
            value(&world.redlock.health().await),
            value(&error),
        ];
        for text in texts {
            assert!(secret.len() == 40 && !text.to_string().contains(&secret), "{text}");
        }
    });
}
