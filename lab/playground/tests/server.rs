//! The routes of the server, and the bounds of requests.
#![allow(clippy::unwrap_used)] // a panic is how a test reports

mod http;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use http_body_util::BodyExt;
use hyper::{Method, StatusCode};
use redlock_playground::server;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

/// Starts a server on a free port. It ends with the runtime of the test.
async fn server() -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(server::serve(listener));
    address
}

async fn get(path: &str) -> (StatusCode, String) {
    let server = server().await;
    http::text(http::send(server, "localhost", Method::GET, path, "").await).await
}

async fn post(path: &str, body: &Value) -> (StatusCode, String) {
    let server = server().await;
    http::text(http::send(server, "localhost", Method::POST, path, &body.to_string()).await).await
}

async fn run(body: &Value) -> Value {
    let (status, text) = post("/api/run", body).await;
    assert_eq!(StatusCode::OK, status, "{text}");
    serde_json::from_str(&text).unwrap()
}

fn search(faults: &str, seeds: u64) -> Value {
    json!({ "faults": faults, "nodes": 3, "clients": 3, "first": 0, "seeds": seeds, "width": 600.0 })
}

#[tokio::test]
async fn every_file_of_the_page_is_served_and_refers_to_no_other_site() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("page");
    for file in std::fs::read_dir(page).unwrap() {
        let name = file.unwrap().file_name().into_string().unwrap();
        let (status, text) = get(&format!("/{name}")).await;
        assert_eq!(StatusCode::OK, status, "{name}");
        assert!(!text.contains("https://") && !text.contains("http://"), "{name} needs the network");
    }
    assert_eq!(get("/index.html").await, get("/").await);
    assert_eq!(StatusCode::NOT_FOUND, get("/missing.js").await.0);
}

#[tokio::test]
async fn a_request_for_a_foreign_name_is_rejected() {
    let server = server().await;
    for (method, path) in [
        (Method::GET, "/"),
        (Method::GET, "/main.js"),
        (Method::GET, "/api/catalog"),
        (Method::GET, "/api/history"),
        (Method::POST, "/api/run"),
        (Method::POST, "/api/search"),
    ] {
        let (status, text) = http::text(http::send(server, "rebound.example", method, path, "").await).await;
        assert_eq!(StatusCode::MISDIRECTED_REQUEST, status, "{path}");
        assert!(text.contains("only to requests for 127.0.0.1 or localhost"), "{path}: {text}");
    }
}

#[tokio::test]
async fn every_response_forbids_scripts_and_data_of_other_sites() {
    let server = server().await;
    for (host, path) in [("localhost", "/"), ("localhost", "/api/catalog"), ("rebound.example", "/")] {
        let response = http::send(server, host, Method::GET, path, "").await;
        let header = |name: &str| response.headers()[name].to_str().unwrap();
        let policy: Vec<_> = header("content-security-policy").split("; ").collect();
        for directive in
            ["default-src 'none'", "script-src 'self'", "connect-src 'self'", "frame-ancestors 'none'"]
        {
            assert!(policy.contains(&directive), "{host}{path}: {policy:?}");
        }
        assert_eq!("nosniff", header("x-content-type-options"), "{host}{path}");
    }
}

/// Other machines can reach only the non-loopback addresses of this one.
#[tokio::test]
async fn the_command_listens_on_one_loopback_address_only() {
    let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_redlock-playground"));
    let mut process =
        command.args(["--port", "0"]).stdout(Stdio::piped()).kill_on_drop(true).spawn().unwrap();
    let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
    let line = lines.next_line().await.unwrap().unwrap();
    let address = line.strip_prefix("http://").and_then(|rest| rest.strip_suffix('/'));
    let address: SocketAddr = address.unwrap().parse().unwrap();
    let response = http::send(address, &address.to_string(), Method::GET, "/", "").await;
    assert_eq!(StatusCode::OK, response.status());
    let other = SocketAddr::from((Ipv4Addr::new(127, 0, 0, 2), address.port()));
    assert!(TcpStream::connect(other).await.is_err(), "the command listens on {other} too");
    process.kill().await.unwrap();
}

#[tokio::test]
async fn the_catalog_has_every_story_and_each_of_them_runs() {
    let catalog: Value = serde_json::from_str(&get("/api/catalog").await.1).unwrap();
    let stories = catalog["stories"].as_array().unwrap();
    assert!(stories.len() >= 12);
    for story in stories {
        let view = run(&json!({ "address": story["address"], "width": 800.0 })).await;
        assert_eq!(story["address"], view["address"]);
        assert_eq!(story["title"], view["title"]);
        assert_eq!(2, view["sentences"].as_array().unwrap().len());
    }
}

#[tokio::test]
async fn a_setup_and_its_address_have_the_same_run() {
    let story = run(&json!({ "address": "?story=clock-step", "width": 800.0 })).await;
    let own = run(&json!({ "setup": story["setup"], "width": 800.0 })).await;
    assert_ne!(story["address"], own["address"], "the address of a setup contains all of it");
    let again = run(&json!({ "address": own["address"], "width": 800.0 })).await;
    assert_eq!(own, again);
    assert_eq!(story["events"], own["events"]);
    assert_eq!(2, own["violations"].as_array().unwrap().len());
}

/// Returns a setup with three nodes.
async fn three_nodes() -> Value {
    run(&json!({ "address": "nodes=3", "width": 800.0 })).await["setup"].clone()
}

/// Returns a request for a setup with one other value. The name is a JSON pointer.
fn with(setup: &Value, name: &str, value: Value) -> Value {
    let mut setup = setup.clone();
    *setup.pointer_mut(name).unwrap() = value;
    json!({ "setup": setup, "width": 800.0 })
}

#[tokio::test]
async fn bad_input_is_rejected_with_a_sentence() {
    let blank = three_nodes().await;
    let with = |name: &str, value: Value| with(&blank, &format!("/{name}"), value);
    let hang = json!({ "at": 1, "kind": "hang", "node": 0, "client": null, "ms": 5 });
    let incident = |kind: &str, node: Value| {
        with("incidents", json!([{ "at": 1, "kind": kind, "node": node, "client": null, "ms": 5 }]))
    };
    let at = |address: &str| json!({ "address": address, "width": 800.0 });
    let cases = [
        (with("least_delay", json!(900)), "the shortest delay of 900 ms is longer than the longest"),
        (with("clients", json!([])), "the number of clients is 0, and must be between 1 and 6"),
        (with("clients", json!(vec![&blank["clients"][0]; 7])), "the number of clients is 7"),
        (
            with("incidents", json!(vec![&hang; 41])),
            "the number of incidents is 41, and must be between 0 and 40",
        ),
        (with("clients/0/starts", json!(8_001)), "the start of client c0 in ms is 8001"),
        (with("clients/1/works", json!(8_001)), "the work of client c1 in ms is 8001"),
        (with("seed", json!(-1)), "the request is not readable"),
        (json!({ "setup": { "owner": 1 }, "width": 800.0 }), "unknown field `owner`"),
        (incident("hang", json!(3)), "incident 1, \"node hangs\": n3 does not exist, the last node is n2"),
        (incident("hang", Value::Null), "incident 1, \"node hangs\": it names no node"),
        (incident("pause", json!(0)), "incident 1, \"client is paused\": it concerns no node"),
        (
            at("at=1:hang:n0:5&at=2:kill:c7:5"),
            "incident 2, \"client is killed\": c7 does not exist, the last client is c1",
        ),
        (at("at=9000:hang:n0:5"), "incident 1, \"node hangs\": the time in ms is 9000"),
        (at("at=1:hang:n0:0"), "incident 1, \"node hangs\": the duration in ms is 0"),
        (at("at=1:hang:n0:30001"), "the duration in ms is 30001, and must be between 1 and 30000"),
        (incident("earthquake", json!(0)), "unknown variant `earthquake`"),
        (at("story=none"), "there is no story \"none\""),
        (at("faults=none&nodes=99"), "the number of nodes is 99"),
        (at("faults=none&clients=7"), "the number of clients is 7"),
        (at("faults=gremlins"), "there are no faults \"gremlins\""),
        (at("nodes=three"), "the address has nodes=three, which is not readable"),
        (at("at=1:hang:n0"), "the address has at=1:hang:n0, which is not readable"),
        (at("admission=maybe"), "the address has admission=maybe, which is not readable"),
        (at("color=blue"), "the address has an unknown field \"color\""),
        (at(&"x".repeat(9_000)), "the length of the address is 9000"),
        (json!({ "address": "story=hand-over", "width": 1e9 }), "the width of the picture is 1000000000"),
        (json!({ "width": 800.0 }), "a run needs either an address or a setup"),
    ];
    for (body, expected) in cases {
        let (status, text) = post("/api/run", &body).await;
        assert_eq!(StatusCode::BAD_REQUEST, status, "{expected}: {text}");
        assert!(text.contains(expected), "{expected}: {text}");
    }
    for (name, value, expected) in [
        ("seeds", json!(1_000_000), "the number of seeds is 1000000, and must be between 1 and 5000"),
        ("seeds", json!(0), "the number of seeds is 0"),
        ("nodes", json!(10), "the number of nodes is 10"),
        ("clients", json!(7), "the number of clients is 7"),
        ("width", json!(1e9), "the width of the picture is 1000000000"),
        ("faults", json!("gremlins"), "there are no faults \"gremlins\""),
    ] {
        let mut body = search("bounded", 10);
        body[name] = value;
        let (status, text) = post("/api/search", &body).await;
        assert_eq!(StatusCode::BAD_REQUEST, status, "{expected}: {text}");
        assert!(text.contains(expected), "{expected}: {text}");
    }
}

#[tokio::test]
async fn the_bounds_of_the_form_are_those_of_the_server() {
    let catalog: Value = serde_json::from_str(&get("/api/catalog").await.1).unwrap();
    let mut setup = three_nodes().await;
    setup["incidents"] = json!([{ "at": 1, "kind": "step", "node": 0, "client": null, "ms": 5 }]);
    let mut left = catalog["bounds"].clone();
    for (bound, name) in [
        ("nodes", "/nodes"),
        ("ttl", "/ttl"),
        ("delay", "/least_delay"),
        ("delay", "/most_delay"),
        ("drift", "/drift"),
        ("drift", "/allowed_drift"),
        ("lasts", "/lasts"),
        ("waits", "/clients/0/waits"),
        ("rests", "/clients/0/rests"),
        ("step", "/incidents/0/ms"),
    ] {
        let [least, most] = [0, 1].map(|end| catalog["bounds"][bound][end].as_i64().unwrap());
        // A negative number of most fields is not readable.
        for outside in [least - 1, most + 1].into_iter().filter(|outside| *outside >= 0 || least < 0) {
            let (status, text) = post("/api/run", &with(&setup, name, json!(outside))).await;
            assert_eq!(StatusCode::BAD_REQUEST, status, "{name}: {text}");
            let expected = format!(" is {outside}, and must be between {least} and {most}");
            assert!(text.contains(&expected), "{name}: {text}");
        }
        left.as_object_mut().unwrap().remove(bound);
    }
    assert_eq!(json!({ "clients": [1, 6], "seeds": [1, 5_000] }), left, "the other bounds");
}

#[tokio::test]
async fn a_run_with_too_many_events_is_stopped() {
    let clients = "&client=0:0:w10000:r50".repeat(6);
    let address = format!("nodes=9&ttl=100&lasts=30000{clients}");
    let (status, text) = post("/api/run", &json!({ "address": address, "width": 800.0 })).await;
    assert_eq!(StatusCode::BAD_REQUEST, status, "{text}");
    assert!(text.contains("the run has more than 40000 events"), "{text}");
}

#[tokio::test]
async fn a_long_body_is_rejected() {
    let (status, _) = post("/api/run", &json!({ "address": "x".repeat(100_000), "width": 800.0 })).await;
    assert_eq!(StatusCode::PAYLOAD_TOO_LARGE, status);
}

/// Returns what `scripts/simulate` prints.
fn simulate(arguments: &str) -> String {
    let target = std::env::current_exe().unwrap().parent().unwrap().parent().unwrap().to_owned();
    let program = target.join("examples/simulate").with_extension(std::env::consts::EXE_EXTENSION);
    if !program.exists() {
        // This example is built only by tests of the whole workspace.
        let build = ["build", "--locked", "-p", "redlock-simulation", "--example", "simulate"];
        assert!(Command::new(env!("CARGO")).args(build).status().unwrap().success());
    }
    let output = Command::new(program).args(arguments.split(' ')).output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

#[tokio::test]
async fn the_history_is_byte_for_byte_that_of_the_command() {
    for (address, arguments) in [
        ("faults=bounded&nodes=5&clients=3&seed=7", "--nodes 5 --clients 3 --seed 7"),
        ("faults=data-loss&nodes=3&clients=2&seed=12", "--nodes 3 --clients 2 --faults data-loss --seed 12"),
        (
            "faults=bounded&nodes=4&clients=3&locks=mixed&seed=3",
            "--nodes 4 --clients 3 --locks mixed --seed 3",
        ),
        (
            "faults=losses&nodes=3&clients=3&admission=off&seed=4",
            "--nodes 3 --clients 3 --faults losses --admission off --seed 4",
        ),
    ] {
        let (status, history) = get(&format!("/api/history?{address}")).await;
        assert_eq!(StatusCode::OK, status, "{history}");
        let printed = simulate(arguments);
        let (expected, _) = printed.split_once("\nplan:\n").unwrap();
        assert!(history.len() > 10_000, "{address}");
        assert!(
            history == expected,
            "{address}: the histories differ, or the example is older than the core"
        );
    }
}

#[tokio::test]
async fn the_history_names_the_final_check_after_the_experiment() {
    let (_, history) = get("/api/history?nodes=3&client=500:2000&lasts=4000").await;
    let (experiment, check) = history.split_once("-- the final check: c1 requests each lock\n").unwrap();
    assert!(!experiment.contains(" c1"), "{experiment}");
    assert!(check.contains("c1 requests once r0") && !check.contains(" c0"), "{check}");
}

#[tokio::test]
async fn an_experiment_opens_at_its_first_violation_or_grant() {
    let moment =
        async |address: &str| run(&json!({ "address": address, "width": 800.0 })).await["moment"].as_f64();
    let granted = moment("nodes=3&client=500:2000").await.unwrap();
    assert!(granted > 0.5 && granted < 0.6, "{granted}");
    assert_eq!(Some(0.0), moment("nodes=1&client=500:2000&at=0:hang:n0:8000").await);
    // The TTL ends during the pause, and the client acts after it.
    let late = "nodes=3&ttl=1000&client=500:2000&client=600:2000:w5000&at=1000:pause:c0:1250";
    let acts = moment(late).await.unwrap();
    assert!(acts > 2.2, "{acts}");
}

/// Returns the lines of a search.
async fn searched(body: &Value) -> Vec<Value> {
    let (status, text) = post("/api/search", body).await;
    assert_eq!(StatusCode::OK, status, "{text}");
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[tokio::test]
async fn a_search_streams_its_progress_and_stops_at_the_first_violation() {
    let lines = searched(&search("careless-holders", 100)).await;
    let found = &lines.last().unwrap()["found"];
    let seed = found["seed"].as_u64().unwrap();
    assert_eq!("A resource has at most one valid holder.", found["violation"]["sentence"]);
    assert!(lines[..lines.len() - 1].iter().all(|line| line["tried"].as_u64().unwrap() <= seed));
    assert_eq!(seed + 1, found["tried"].as_u64().unwrap(), "the first seed is 0");
    let whole = run(&json!({ "address": found["address"], "width": 600.0 })).await;
    assert!(whole["violations"].as_array().unwrap().contains(&found["violation"]));
    let prefix = found["prefix"].as_str().unwrap();
    assert!(prefix.lines().last().unwrap().contains(" acts under "), "{prefix}");
}

#[tokio::test]
async fn a_run_opens_at_the_violation_that_the_search_announces() {
    let lines = searched(&search("data-loss", 100)).await;
    let found = &lines.last().unwrap()["found"];
    let whole = run(&json!({ "address": found["address"], "width": 600.0 })).await;
    assert_eq!(found["violation"]["at"], whole["moment"]);
    assert_ne!(whole["violations"][0]["at"], whole["moment"], "the announced violation is not the first one");
}

#[tokio::test]
async fn a_search_with_all_assumptions_kept_finds_nothing() {
    let lines = searched(&search("bounded", 10)).await;
    assert_eq!(
        json!([{ "tried": 5 }, { "tried": 10 }, { "nothing": { "tried": 10, "out_of_time": false } }]),
        json!(lines)
    );
}

#[tokio::test]
async fn one_search_runs_at_a_time_and_ends_with_its_connection() {
    let server = server().await;
    let body = search("none", 5_000).to_string();
    let start = || http::send(server, "localhost", Method::POST, "/api/search", &body);
    let mut first = start().await;
    assert!(first.body_mut().frame().await.is_some());
    let (status, text) = http::text(start().await).await;
    assert_eq!(StatusCode::TOO_MANY_REQUESTS, status);
    assert!(text.contains("another search is running"), "{text}");
    drop(first);
    // The server detects the end of the first search at its next run, which takes a few milliseconds. All runs take far
    // longer.
    let begun = Instant::now();
    while start().await.status() != StatusCode::OK {
        assert!(begun.elapsed() < Duration::from_secs(10), "the first search continues");
        tokio::task::yield_now().await;
    }
}
