//! A client of the `WebDriver` protocol of `chromedriver`, with the commands of these tests.

use std::net::{Ipv4Addr, SocketAddr};
use std::process::Stdio;
use std::time::Duration;

use hyper::{Method, StatusCode};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep};

use crate::http;

/// The name under which the protocol stores the number of an element.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

/// The longest time until a page fulfils a condition. It is long, for busy machines.
const PATIENCE: Duration = Duration::from_secs(60);

/// A browser without a window. Both processes end when it is dropped or closed.
pub(crate) struct Browser {
    driver: SocketAddr,
    session: String,
    _process: Child,
}

/// A key that is not a character.
pub(crate) mod key {
    pub(crate) const TAB: &str = "\u{E004}";
    pub(crate) const ENTER: &str = "\u{E007}";
    pub(crate) const SHIFT: &str = "\u{E008}";
    pub(crate) const SPACE: &str = " ";
    pub(crate) const LEFT: &str = "\u{E012}";
    pub(crate) const RIGHT: &str = "\u{E014}";
    pub(crate) const UP: &str = "\u{E013}";
    pub(crate) const DOWN: &str = "\u{E015}";
    pub(crate) const DELETE: &str = "\u{E017}";
}

/// Starts `chromedriver`, and returns its port.
///
/// It chooses a free port of IPv4 and needs the same port of IPv6. If another program uses that, `chromedriver` ends.
async fn driver() -> (Child, u16) {
    for _ in 0..10 {
        let mut process = Command::new("chromedriver")
            .arg("--port=0")
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("chromedriver is missing: scripts/test-playground installs it");
        let mut lines = BufReader::new(process.stdout.take().expect("the output is piped")).lines();
        while let Some(line) = lines.next_line().await.expect("its output is text") {
            if let Some((_, port)) = line.split_once("started successfully on port ") {
                let port = port.trim_end_matches('.').parse().expect("a port is a number");
                // A closed pipe would end the process.
                tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
                return (process, port);
            }
        }
    }
    panic!("chromedriver finds no free port");
}

impl Browser {
    /// Starts `chromedriver` and Chromium with a window of this size.
    pub(crate) async fn start(width: u32, height: u32) -> Self {
        let (process, port) = driver().await;
        let arguments = json!([
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--hide-scrollbars",
            // The browser ends with its driver, even if a test fails.
            "--remote-debugging-pipe",
            format!("--window-size={width},{height}")
        ]);
        let chrome = json!({ "args": arguments });
        let capabilities =
            json!({ "alwaysMatch": { "browserName": "chrome", "goog:chromeOptions": chrome } });
        let mut browser =
            Self { driver: (Ipv4Addr::LOCALHOST, port).into(), session: String::new(), _process: process };
        let session = browser.send(Method::POST, "/session", json!({ "capabilities": capabilities })).await;
        browser.session = session["sessionId"].as_str().expect("a session has a name").into();
        browser
    }

    /// Closes the browser, and waits until it has ended.
    pub(crate) async fn close(self) {
        self.command(Method::DELETE, "", Value::Null).await;
    }

    pub(crate) async fn open(&self, address: &str) {
        self.command(Method::POST, "/url", json!({ "url": address })).await;
    }

    /// Goes back to the previous address.
    pub(crate) async fn back(&self) {
        self.command(Method::POST, "/back", json!({})).await;
    }

    pub(crate) async fn reload(&self) {
        self.command(Method::POST, "/refresh", json!({})).await;
    }

    /// Runs a function body in the page, and returns its result.
    pub(crate) async fn evaluate(&self, script: &str) -> Value {
        self.command(Method::POST, "/execute/sync", json!({ "script": script, "args": [] })).await
    }

    /// Returns the result of an expression as text.
    pub(crate) async fn text(&self, expression: &str) -> String {
        let value = self.evaluate(&format!("return {expression}")).await;
        value.as_str().map_or_else(|| value.to_string(), String::from)
    }

    /// Waits until an expression is true in the page.
    pub(crate) async fn wait_for(&self, condition: &str) {
        let begun = Instant::now();
        while self.evaluate(&format!("return Boolean({condition})")).await != json!(true) {
            assert!(begun.elapsed() < PATIENCE, "{condition} is not fulfilled: {}", self.page().await);
            sleep(Duration::from_millis(20)).await;
        }
    }

    pub(crate) async fn click(&self, selector: &str) {
        let element = self.find(selector).await;
        self.command(Method::POST, &format!("/element/{element}/click"), json!({})).await;
    }

    /// Replaces the text of a field, and leaves it.
    pub(crate) async fn fill(&self, selector: &str, text: &str) {
        let element = self.find(selector).await;
        self.command(Method::POST, &format!("/element/{element}/clear"), json!({})).await;
        let keys = json!({ "text": format!("{text}{}", key::TAB) });
        self.command(Method::POST, &format!("/element/{element}/value"), keys).await;
    }

    /// Presses keys one after another. The element with the focus receives them.
    pub(crate) async fn press(&self, keys: &[&str]) {
        let press = |key: &&str| {
            [json!({ "type": "keyDown", "value": key }), json!({ "type": "keyUp", "value": key })]
        };
        let actions: Vec<_> = keys.iter().flat_map(press).collect();
        self.act(json!({ "type": "key", "id": "keyboard", "actions": actions })).await;
    }

    /// Presses a key while Shift is down.
    pub(crate) async fn press_with_shift(&self, key: &str) {
        let events = [("keyDown", key::SHIFT), ("keyDown", key), ("keyUp", key), ("keyUp", key::SHIFT)];
        let actions = events.map(|(kind, value)| json!({ "type": kind, "value": value }));
        self.act(json!({ "type": "key", "id": "keyboard", "actions": actions })).await;
    }

    /// Presses the pointer at a point of the window, without a movement.
    pub(crate) async fn press_at(&self, point: [f64; 2]) {
        let actions = [to_point(point, 0), button("pointerDown"), button("pointerUp")];
        self.act(json!({ "type": "pointer", "id": "mouse", "actions": actions })).await;
    }

    /// Drags the pointer from one point of the window to another.
    pub(crate) async fn drag(&self, from: [f64; 2], to: [f64; 2]) {
        let half = [f64::midpoint(from[0], to[0]), f64::midpoint(from[1], to[1])];
        let actions = [
            to_point(from, 0),
            button("pointerDown"),
            to_point(half, 50),
            to_point(to, 50),
            button("pointerUp"),
        ];
        self.act(json!({ "type": "pointer", "id": "mouse", "actions": actions })).await;
    }

    /// Returns the center of an element in the window.
    pub(crate) async fn center(&self, selector: &str) -> [f64; 2] {
        let script = format!(
            "const box = document.querySelector('{selector}').getBoundingClientRect();\
             return [box.left + box.width / 2, box.top + box.height / 2]"
        );
        serde_json::from_value(self.evaluate(&script).await).expect("two numbers")
    }

    /// Returns the roles and names of elements, as assistive technology sees them.
    pub(crate) async fn accessible(&self, selector: &str) -> Vec<(String, String)> {
        let query = json!({ "using": "css selector", "value": selector });
        let elements = self.command(Method::POST, "/elements", query).await;
        let mut found = Vec::new();
        for element in elements.as_array().expect("a list of elements") {
            let element = element[ELEMENT].as_str().expect("an element has a number");
            let [mut role, mut name] = [const { String::new() }; 2];
            for (text, property) in [(&mut role, "computedrole"), (&mut name, "computedlabel")] {
                let value =
                    self.command(Method::GET, &format!("/element/{element}/{property}"), Value::Null).await;
                *text = value.as_str().expect("the value is text").trim().into();
            }
            found.push((role, name));
        }
        found
    }

    /// Returns a picture of the window, as PNG in base 64.
    pub(crate) async fn screenshot(&self) -> String {
        let picture = self.command(Method::GET, "/screenshot", Value::Null).await;
        picture.as_str().expect("a picture is text").into()
    }

    /// Makes media queries of the page return these values.
    pub(crate) async fn emulate(&self, features: &[(&str, &str)]) {
        let feature = |(name, value): &(&str, &str)| json!({ "name": name, "value": value });
        let features: Vec<_> = features.iter().map(feature).collect();
        let command = json!({ "cmd": "Emulation.setEmulatedMedia", "params": { "features": features } });
        self.command(Method::POST, "/goog/cdp/execute", command).await;
    }

    /// Sets the size of the page, which may be smaller than any window.
    pub(crate) async fn resize(&self, width: u32, height: u32) {
        let metrics = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
        let command = json!({ "cmd": "Emulation.setDeviceMetricsOverride", "params": metrics });
        self.command(Method::POST, "/goog/cdp/execute", command).await;
    }

    async fn act(&self, source: Value) {
        self.command(Method::POST, "/actions", json!({ "actions": [source] })).await;
    }

    async fn find(&self, selector: &str) -> String {
        let query = json!({ "using": "css selector", "value": selector });
        let element = self.command(Method::POST, "/element", query).await;
        element[ELEMENT].as_str().expect("an element has a number").into()
    }

    async fn page(&self) -> Value {
        self.evaluate("return document.body.innerText").await
    }

    async fn command(&self, method: Method, path: &str, body: Value) -> Value {
        self.send(method, &format!("/session/{}{path}", self.session), body).await
    }

    async fn send(&self, method: Method, path: &str, body: Value) -> Value {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let response = http::send(self.driver, "localhost", method, path, &body).await;
        let (status, text) = http::text(response).await;
        assert_eq!(StatusCode::OK, status, "{path} {body}: {text}");
        let mut reply: Value = serde_json::from_str(&text).expect("replies are JSON");
        reply["value"].take()
    }
}

/// Returns the action that moves the pointer to a point of the window, in this number of milliseconds.
fn to_point([x, y]: [f64; 2], duration: u32) -> Value {
    json!({ "type": "pointerMove", "x": x.round(), "y": y.round(), "duration": duration })
}

/// Returns an action of the left button of the pointer.
fn button(kind: &str) -> Value {
    json!({ "type": kind, "button": 0 })
}
