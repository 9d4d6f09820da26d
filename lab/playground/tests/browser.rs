//! The page in a real browser: stories, custom experiments, the search, and control by keyboard.
//!
//! `scripts/test-playground` runs these tests. With `--screenshots DIRECTORY`, it also writes pictures of every story.
#![allow(clippy::unwrap_used)] // a panic is how a test reports

mod http;
mod webdriver;

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::path::PathBuf;

use redlock_playground::server;
use redlock_playground::stories::{Story, stories};
use redlock_simulation::invariant::Invariant;
use tokio::net::TcpListener;

use self::webdriver::{Browser, key};

/// The page with its server, in a browser.
struct Page {
    browser: Browser,
    address: String,
}

/// True as soon as a run is shown.
const IS_SHOWN: &str = "document.querySelector('#drawing svg') && !document.querySelector('#run[aria-busy]')";

impl Page {
    /// Opens a query of the page.
    async fn open(query: &str) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = format!("http://{}/", listener.local_addr().unwrap());
        tokio::spawn(server::serve(listener));
        let page = Self { browser: Browser::start(1_280, 1_600).await, address };
        page.go(query).await;
        page
    }

    async fn go(&self, query: &str) {
        self.browser.open(&format!("{}{query}", self.address)).await;
        self.browser.wait_for(IS_SHOWN).await;
    }

    /// Returns the text of an element.
    async fn text(&self, selector: &str) -> String {
        self.browser.text(&format!("document.querySelector('{selector}').innerText")).await
    }

    /// Returns the setup in the form, and the picture.
    async fn experiment(&self) -> [String; 3] {
        let fields = "JSON.stringify([...document.querySelectorAll('#setup :is(input, select)')]\
                      .map((field) => [field.id, field.type === 'checkbox' ? field.checked : field.value]))";
        let picture = "document.querySelector('#drawing svg').outerHTML";
        [
            self.browser.text("location.search").await,
            self.browser.text(fields).await,
            self.browser.text(picture).await,
        ]
    }

    /// Returns the text of the first accessible element, with its role.
    async fn accessible(&self, selector: &str) -> (String, String) {
        self.browser.accessible(selector).await.remove(0)
    }

    /// Waits until the address has a part, and the run is shown.
    async fn wait_for_address(&self, part: &str) {
        self.browser.wait_for(&format!("location.search.includes('{part}')")).await;
        self.browser.wait_for(IS_SHOWN).await;
    }

    /// Moves the cursor to a time, in seconds, and returns what each place knows then.
    async fn seek(&self, time: &str) -> BTreeMap<String, String> {
        let script = format!(
            "const slider = document.querySelector('#time'); slider.value = {time};\
             slider.dispatchEvent(new Event('input'));\
             return Object.fromEntries([...document.querySelector('#knowledge').tBodies[0].rows]\
                .map((row) => [...row.cells].map((cell) => cell.innerText)))"
        );
        serde_json::from_value(self.browser.evaluate(&script).await).unwrap()
    }

    /// Chooses an option of a list.
    async fn choose(&self, selector: &str, option: &str) {
        let list = format!("document.querySelector('{selector}')");
        let script = format!("{list}.value = '{option}'; {list}.dispatchEvent(new Event('change'))");
        self.browser.evaluate(&script).await;
    }

    /// Presses Tab until an element has the focus.
    async fn tab_to(&self, selector: &str) {
        for _ in 0..200 {
            self.browser.press(&[key::TAB]).await;
            if self.browser.text(&format!("document.activeElement.matches('{selector}')")).await == "true" {
                return;
            }
        }
        panic!("{selector} cannot be reached by Tab");
    }
}

/// The expected content of the page at a time: the story, the time in seconds, and a part of the knowledge of some places.
type Moment = (&'static str, &'static str, &'static [(&'static str, &'static str)]);

const MOMENTS: [Moment; 28] = [
    // The TTL of 3 s began shortly after 0.5 s.
    (
        "uncontended",
        "2",
        &[("c0", "holds r0"), ("c0", "valid for 1.46"), ("n0", "key of c0"), ("n4", "expires in 1.50")],
    ),
    ("uncontended", "3.9", &[("c0", "holds no lock"), ("n0", "no key"), ("n4", "no key")]),
    ("hand-over", "2", &[("c0", "holds r0"), ("c1", "requests the lock")]),
    ("hand-over", "2.6", &[("c0", "holds no lock"), ("c1", "holds r0")]),
    ("first-come", "1.5", &[("c1", "holds r0"), ("c0", "requests the lock"), ("c2", "requests the lock")]),
    ("first-come", "2.5", &[("c2", "holds r0"), ("c0", "requests the lock")]),
    ("first-come", "3.2", &[("c0", "holds r0")]),
    ("hung-node", "2", &[("n0", "hangs"), ("c0", "holds r0"), ("n1", "key of c0")]),
    ("dead-minority", "1.5", &[("n0", "is down"), ("n1", "is down"), ("c0", "holds r0")]),
    ("dead-minority", "3", &[("n0", "is down"), ("n1", "is down"), ("c1", "holds r0")]),
    (
        "hung-majority",
        "0.6",
        &[("n0", "hangs"), ("n4", "key of c0"), ("c0", "votes for #0: n0 no reply yet")],
    ),
    ("hung-majority", "5", &[("n0", "key of c0"), ("c0", "holds r0")]),
    ("lost-majority", "1", &[("n0", "is down"), ("n2", "is down"), ("c0", "holds no lock")]),
    ("lost-majority", "6", &[("n0", "key of c0"), ("c0", "holds r0")]),
    ("dead-holder", "2", &[("c0", "is dead"), ("n0", "key of c0"), ("c1", "requests the lock")]),
    ("dead-holder", "4.2", &[("c0", "is dead"), ("n0", "key of c1"), ("c1", "holds r0")]),
    ("paused-holder", "4.3", &[("c0", "is paused"), ("n0", "key of c1"), ("c1", "holds r0")]),
    (
        "fenced-holder",
        "4.3",
        &[("c0", "is paused"), ("c1", "fencing token"), ("r0", "greatest fencing token")],
    ),
    (
        "empty-restart",
        "3",
        &[("c0", "holds r0"), ("c1", "holds r0"), ("n0", "key of c0"), ("n2", "key of c1")],
    ),
    (
        "empty-restart-guarded",
        "2.62",
        &[("c0", "holds r0"), ("c1", "n2 does not count"), ("c1", "requests the lock")],
    ),
    ("empty-restart-guarded", "4.6", &[("c0", "holds no lock"), ("c1", "holds r0")]),
    ("clock-step", "3", &[("c0", "holds r0"), ("c1", "holds r0"), ("n0", "key of c0"), ("n2", "key of c1")]),
    (
        "clock-step-guarded",
        "2.62",
        &[("c0", "holds r0"), ("c1", "n2 does not count"), ("c1", "requests the lock")],
    ),
    ("late-write", "2.3", &[("c0", "holds no lock"), ("n0", "key of c0"), ("n1", "key of c0")]),
    ("late-write", "4.2", &[("n0", "key of c1"), ("n2", "key of c1"), ("c1", "holds r0")]),
    ("split-vote", "0.52", &[("n0", "key of c0"), ("n1", "key of c1"), ("n2", "key of c2")]),
    (
        "failed-renewal",
        "4",
        &[("c0-n0", "all messages are lost"), ("c0", "holds r0"), ("c1", "requests the lock")],
    ),
    ("failed-renewal", "5.3", &[("c0", "holds no lock"), ("c1", "holds r0")]),
];

/// Returns the sentences of the violations that the page lists.
async fn violations(page: &Page) -> Vec<String> {
    let script = "return [...document.querySelectorAll('#violations strong')].map((one) => one.innerText)";
    serde_json::from_value(page.browser.evaluate(script).await).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn each_story_plays_and_shows_its_text() {
    let page = Page::open("").await;
    for Story { id, title, sentences, violated, .. } in stories() {
        // The story plays slowly until the test has seen this.
        page.choose("#speed", "0.02").await;
        page.browser.click(&format!("[data-story={id}]")).await;
        page.wait_for_address(&format!("story={id}")).await;
        page.browser.click("#play").await;
        page.browser.wait_for("document.querySelector('#play').textContent === 'Pause'").await;
        page.choose("#speed", "4").await;
        page.browser.wait_for("document.querySelector('#play').textContent === 'Play'").await;
        let time = "document.querySelector('#time')";
        assert_eq!("true", page.browser.text(&format!("{time}.value === {time}.max")).await, "{id}");
        assert_eq!(title, page.text("#title").await);
        assert_eq!(sentences.join(" "), page.text("#text").await);
        let mut shown = violations(&page).await;
        shown.dedup();
        let expected: Vec<_> = violated.into_iter().map(Invariant::sentence).collect();
        assert_eq!(expected, shown, "{id}");
        let marks = "document.querySelectorAll('#drawing svg circle[r=\"8\"]').length";
        assert_eq!(expected.len().to_string(), page.browser.text(marks).await, "{id}: marks in the picture");
        let current = page.text("[data-story][aria-current=page]").await;
        assert_eq!(title, current);
        if !expected.is_empty() {
            let last = page.text("#violations li:last-child").await;
            assert!(last.contains("The assumption that was broken: "), "{id}: {last}");
            page.browser.click("#violations li:last-child button").await;
            assert!(last.contains(&format!("At {}:", page.text("#now").await)), "{id}: {last}");
        }
    }
    page.browser.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_story_shows_its_text_at_the_cursor() {
    let page = Page::open("").await;
    let mut missing = Vec::new();
    for Story { id, .. } in stories() {
        page.go(&format!("?story={id}")).await;
        let mut moments = MOMENTS.into_iter().filter(|(story, ..)| *story == id).peekable();
        assert!(moments.peek().is_some(), "{id} has no moment");
        for (_, time, expected) in moments {
            let known = page.seek(time).await;
            let is_missing =
                |(place, text): &&(&str, &str)| known.get(*place).is_none_or(|known| !known.contains(text));
            missing.extend(expected.iter().filter(is_missing).map(|one| (id, time, *one, known.clone())));
        }
    }
    assert!(missing.is_empty(), "{missing:#?}");
    page.browser.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_story_opens_at_its_marked_moment_and_returns_to_it() {
    let page = Page::open("?story=split-vote").await;
    assert_eq!("0.538 s", page.text("#now").await);
    let events = page.text("#events").await;
    for expected in ["attempt #0 of c1 fails", "attempt #1 of c2 fails", "attempt #2 of c0 fails"] {
        assert!(events.contains(expected), "{expected}: {events}");
    }
    assert!(events.contains("and its votes are released"), "{events}");
    let position =
        "document.querySelector('#mark').style.left === document.querySelector('#cursor').style.left";
    assert_eq!("true", page.browser.text(position).await);
    page.seek("3").await;
    assert_eq!("false", page.browser.text(position).await);
    page.browser.click("#moment").await;
    assert_eq!("0.538 s", page.text("#now").await);
    // Its link opens the same moment.
    page.browser.click("[data-story=hand-over]").await;
    page.wait_for_address("story=hand-over").await;
    page.browser.click("[data-story=split-vote]").await;
    page.wait_for_address("story=split-vote").await;
    assert_eq!("0.538 s", page.text("#now").await);
    page.browser.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_cursor_follows_the_time_axis_and_the_pointer() {
    let page = Page::open("?story=split-vote").await;
    let center = |element: &str| {
        format!(
            "return ((box) => [box.left + box.width / 2, box.top + box.height / 2])({element}.getBoundingClientRect())"
        )
    };
    let point = async |element: &str| -> [f64; 2] {
        serde_json::from_value(page.browser.evaluate(&center(element)).await).unwrap()
    };
    let label = |text: &str| {
        format!(
            "[...document.querySelectorAll('#drawing text')].find((one) => one.textContent.trim() === '{text}')"
        )
    };
    let (cursor, one, three) = ("document.querySelector('#cursor')", label("1 s"), label("3 s"));
    page.seek("3").await;
    let (on_axis, shown) = (point(&three).await, point(cursor).await);
    assert!((on_axis[0] - shown[0]).abs() < 2.0, "{on_axis:?} {shown:?}");

    // The pointer is pressed at 1 s, and then dragged to 3 s.
    let height = shown[1];
    let from = point(&one).await[0];
    page.browser.press_at([from, height]).await;
    let time = "Number(document.querySelector('#time').value)";
    let pressed: f64 = page.browser.text(time).await.parse().unwrap();
    assert!((pressed - 1.0).abs() < 0.02, "{pressed}");
    assert!(page.text("#knowledge").await.contains("holds r0 as #6"));
    page.browser.drag([from, height], [on_axis[0], height]).await;
    let dragged: f64 = page.browser.text(time).await.parse().unwrap();
    assert!((dragged - 3.0).abs() < 0.02, "{dragged}");
    assert!(page.text("#knowledge").await.contains("holds r0 as #9"));
    page.browser.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_selected_speed_applies() {
    let page = Page::open("?story=uncontended").await;
    page.seek("0").await;
    page.choose("#speed", "0.02").await;
    let times = "[performance.now() / 1000, Number(document.querySelector('#time').value)]";
    let begin = format!("document.querySelector('#play').click(); return {times}");
    let [from, _]: [f64; 2] = serde_json::from_value(page.browser.evaluate(&begin).await).unwrap();
    page.browser.wait_for("Number(document.querySelector('#time').value) >= 0.02").await;
    let end = page.browser.evaluate(&format!("return {times}")).await;
    let [until, shown]: [f64; 2] = serde_json::from_value(end).unwrap();
    // A frame may be slightly older than the click.
    let passed = until - from + 0.1;
    assert!(shown <= passed * 0.02 + 0.001, "{shown} s of the run in {passed} s");
    page.browser.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn back_and_forward_move_between_stories() {
    let page = Page::open("?story=uncontended").await;
    page.browser.click("[data-story=hand-over]").await;
    page.wait_for_address("story=hand-over").await;
    page.browser.back().await;
    page.wait_for_address("story=uncontended").await;
    page.browser.wait_for("document.querySelector('#title').innerText === 'One client, no contention'").await;
    page.browser.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_and_incidents_are_added_and_removed() {
    let clients = "?nodes=3&client=500:1000&client=600:1100&client=700:1200";
    let page = Page::open(&format!("{clients}&at=1000:kill:c0:400&at=1000:pause:c2:500")).await;
    page.browser.click("#edit summary").await;
    // The third client becomes the second one, with its incident.
    page.browser.click("[aria-label=\"Remove c1\"]").await;
    page.wait_for_address("client=500:1000&client=700:1200&at=1000:kill:c0:400&at=1000:pause:c1:500").await;
    page.browser.click("[aria-label=\"Remove incident 1\"]").await;
    page.wait_for_address("client=700:1200&at=1000:pause:c1:500").await;
    page.browser.click("#add-client").await;
    page.wait_for_address("client=700:1200&client=1200:1200&at=1000:pause:c1:500").await;
    page.choose("#incident-0-kind", "partition").await;
    page.wait_for_address("&at=1000:partition:c1-n0:500").await;
    page.browser.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_incident_of_an_own_experiment_changes_it() {
    let page = Page::open("").await;
    page.browser.click("#blank").await;
    page.wait_for_address("nodes=5").await;
    let hint = page.text("#attempts-help").await;
    assert!(hint.contains("200 ms") && hint.contains("Three attempts in a row"), "{hint}");
    let holds = page.text("#knowledge").await;
    assert!(holds.contains("holds r0 as #0"), "the experiment opens at the first grant: {holds}");
    assert!(page.text("#palette button:nth-child(6)").await.contains("client is killed"));
    page.browser.click("#palette button:nth-child(6)").await;
    page.wait_for_address(":kill:c0:1500").await;
    page.seek("1").await;
    assert!(page.text("#knowledge").await.contains("is dead"));
    page.browser.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_incident_of_a_removed_node_is_marked() {
    let page = Page::open("?nodes=5&client=500:2000&at=1000:hang:n0:500&at=1000:hang:n4:500").await;
    page.browser.click("#edit summary").await;
    page.browser.fill("#world-nodes", "3").await;
    page.browser.wait_for("!document.querySelector('#message').hidden").await;
    let expected = "incident 2, \"node hangs\": n4 does not exist, the last node is n2";
    assert_eq!(expected, page.text("#message").await);
    let marked = "[...document.querySelectorAll('.wrong')].map((one) => one.ariaLabel ?? one.firstChild.innerText).join()";
    assert_eq!("n4: node hangs, at 1.000 s for 0.500 s,Incident 2", page.browser.text(marked).await);
    page.browser.fill("#world-nodes", "5").await;
    page.browser.wait_for("document.querySelector('#message').hidden").await;
    assert_eq!("", page.browser.text(marked).await);
    page.browser.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_cursor_shows_what_each_place_knows() {
    let page = Page::open("?story=fenced-holder").await;
    page.seek("4").await;
    let knowledge = page.text("#knowledge").await;
    for expected in
        ["is paused", "holds r0 as", "fencing token", "valid for", "key of c1", "expires in", "greatest"]
    {
        assert!(knowledge.contains(expected), "{expected}: {knowledge}");
    }
    let rejected = "document.querySelector('#events').innerText.includes('rejects')";
    assert_eq!("false", page.browser.text(rejected).await);
    let drawn = "document.querySelector('#drawing').innerHTML.includes('rejects a write')";
    assert_eq!("true", page.browser.text(drawn).await);
    assert!(!page.text("#events").await.contains(" returns to c1: "));
    page.browser.click("#messages").await;
    assert!(page.text("#events").await.contains(" returns to c1: "), "{}", page.text("#events").await);
    page.browser.click("#messages").await;
    for _ in 0..40 {
        page.browser.click("#next").await;
        if page.browser.text(rejected).await == "true" {
            return page.browser.close().await;
        }
    }
    panic!("no step shows the rejected write: {}", page.text("#events").await);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_own_experiment_survives_a_reload_by_its_address() {
    let page = Page::open("").await;
    page.browser.click("#blank").await;
    page.wait_for_address("nodes=5").await;
    page.browser.fill("#world-nodes", "3").await;
    page.wait_for_address("nodes=3").await;
    page.browser.fill("#client-0-works", "4000").await;
    page.wait_for_address("client=500:4000").await;
    page.browser.click("#world-restart_admission").await;
    page.wait_for_address("admission=on").await;

    // A pause is dragged from its button onto the lane of the first client.
    page.browser.evaluate("document.querySelector('#stage').scrollIntoView({ block: 'start' })").await;
    let lane =
        "[...document.querySelectorAll('#drawing text')].find((text) => text.textContent.trim() === 'c0')";
    let place = format!("const box = {lane}.getBoundingClientRect(); return [box.right + 300, box.top + 4]");
    let target: [f64; 2] = serde_json::from_value(page.browser.evaluate(&place).await).unwrap();
    let button = "#palette button:nth-child(5)";
    assert!(page.text(button).await.contains("client is paused"));
    page.browser.drag(page.browser.center(button).await, target).await;
    page.wait_for_address(":pause:c0:1500").await;

    // It is then dragged along the timeline.
    let before = page.browser.text("location.search").await;
    let handle = page.browser.center(".handle").await;
    page.browser.drag(handle, [handle[0] + 120.0, handle[1]]).await;
    page.browser.wait_for(&format!("location.search !== '{before}'")).await;
    page.browser.wait_for(IS_SHOWN).await;

    let edited = page.experiment().await;
    assert!(edited[0].contains(":pause:c0:1500"), "{}", edited[0]);
    // The shown address, the copied one, and the link to the history are those of this experiment.
    page.browser.evaluate("navigator.clipboard.writeText = (text) => { window.copied = text; }").await;
    page.browser.click("#copy").await;
    for shown in ["document.querySelector('#address').value", "window.copied"] {
        assert_eq!("true", page.browser.text(&format!("{shown} === location.href")).await, "{shown}");
    }
    let history = "document.querySelector('#history').search";
    assert_eq!(edited[0], page.browser.text(history).await);
    page.browser.reload().await;
    page.browser.wait_for(IS_SHOWN).await;
    assert_eq!(edited, page.experiment().await);
    page.browser.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_input_is_reported_and_changes_nothing() {
    let page = Page::open("?story=hand-over").await;
    page.browser.click("#edit summary").await;
    let picture = page.experiment().await[2].clone();
    page.browser.fill("#world-ttl", "5").await;
    page.browser.wait_for("!document.querySelector('#message').hidden").await;
    assert_eq!("the TTL in ms is 5, and must be between 100 and 10000", page.text("#message").await);
    assert_eq!("alert", page.accessible("#message").await.0);
    let bounds = "['min', 'max'].map((name) => document.querySelector('#world-ttl')[name]).join()";
    assert_eq!("100,10000", page.browser.text(bounds).await);
    assert_eq!(picture, page.experiment().await[2]);
    page.browser.fill("#world-ttl", "2500").await;
    page.wait_for_address("ttl=2500").await;
    assert_eq!("true", page.browser.text("document.querySelector('#message').hidden").await);
    page.browser.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_search_finds_a_known_seed() {
    let page = Page::open("").await;
    page.choose("#search-faults", "careless-holders").await;
    page.browser.click("#search-start").await;
    page.browser.wait_for("!document.querySelector('#found').hidden").await;
    let status = page.text("#search-status").await;
    let seed = known_seed("careless-holders");
    let seeds = if seed == 0 { "1 seed".into() } else { format!("{} seeds", seed + 1) };
    assert_eq!(format!("Seed {seed} violates an invariant, after {seeds}."), status);
    assert!(page.text("#found").await.contains("A resource has at most one valid holder."));
    assert_eq!("true", page.browser.text("Boolean(document.querySelector('#found svg'))").await);
    let announced = page.text("#found p").await;
    page.browser.click("#found a").await;
    page.wait_for_address(&format!("faults=careless-holders&nodes=3&clients=3&seed={seed}")).await;
    assert!(!violations(&page).await.is_empty());
    let command = format!("scripts/simulate --nodes 3 --clients 3 --faults careless-holders --seed {seed}");
    assert_eq!(format!("On the command line: {command}"), page.text("#replay").await);
    // The run opens at the announced violation, of the search.
    assert!(announced.contains(&format!("At {}:", page.text("#now").await)), "{announced}");

    page.choose("#search-faults", "losses").await;
    for (name, number) in [("nodes", "4"), ("clients", "2"), ("first", "1"), ("seeds", "7")] {
        page.browser.fill(&format!("#search-{name}"), number).await;
    }
    page.browser.click("#search-start").await;
    page.browser.wait_for("document.querySelector('#search-status').textContent.includes('tried')").await;
    assert_eq!("7 seeds were tried, without a violation.", page.text("#search-status").await);

    // The address has the settings of the search.
    page.browser.reload().await;
    page.browser.wait_for(IS_SHOWN).await;
    let settings =
        "[...document.querySelectorAll('#search-form :is(input, select)')].map((one) => one.value).join()";
    assert_eq!("losses,4,2,1,7", page.browser.text(settings).await);
    page.browser.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_search_shows_its_progress_and_is_stopped_by_its_button() {
    let page = Page::open("").await;
    page.browser.fill("#search-seeds", "5000").await;
    page.browser.click("#search-start").await;
    page.browser.wait_for("document.querySelector('#progress').value >= 5").await;
    assert_eq!(("progressbar".into(), "Seeds tried".into()), page.accessible("#progress").await);
    assert_eq!("Stop", page.text("#search-start").await);
    page.browser.click("#search-start").await;
    page.browser.wait_for("document.querySelector('#search-start').textContent === 'Search'").await;
    let status = page.text("#search-status").await;
    let tried = status
        .strip_prefix("Stopped after ")
        .and_then(|rest| rest.strip_suffix(" seeds, without a violation."));
    assert!((5..5_000).contains(&tried.unwrap_or(&status).parse::<u64>().unwrap()), "{status}");
    page.browser.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_search_with_lost_data_finds_two_holders_only_without_restart_admission() {
    let page = Page::open("").await;
    let done = "document.querySelector('#search-start').textContent === 'Search'";
    page.browser.fill("#search-seeds", "20").await;
    for (faults, expected) in [
        ("losses", "20 seeds were tried, without a violation.".into()),
        ("data-loss", format!("Seed {} violates an invariant", known_seed("data-loss"))),
    ] {
        page.choose("#search-faults", faults).await;
        page.browser.click("#search-start").await;
        page.browser.wait_for(done).await;
        let status = page.text("#search-status").await;
        assert!(status.starts_with(&expected), "{faults}: {status}");
    }
    assert!(page.text("#found").await.contains("The assumption that was broken: nodes keep their data."));
    page.browser.close().await;
}

/// Returns the first seed in which these faults break exclusion.
fn known_seed(faults: &str) -> u64 {
    use redlock_simulation::experiment::Experiment;
    use redlock_simulation::plan::Faults;

    let faults = Faults::named(faults).unwrap();
    let is_broken = |seed: &u64| {
        let report = Experiment::new(*seed).servers(3).clients(3).faults(faults).run();
        report.violations.iter().any(|violation| violation.invariant == Invariant::Exclusion)
    };
    (0..300).find(is_broken).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn all_controls_work_with_the_keyboard() {
    let page = Page::open("").await;
    page.browser.evaluate("document.querySelector('#speed').value = '4'").await;
    page.tab_to("[data-story=hand-over]").await;
    page.browser.press(&[key::ENTER]).await;
    page.wait_for_address("story=hand-over").await;
    page.tab_to("#play").await;
    page.browser.wait_for("document.querySelector('#play').textContent === 'Play'").await;

    // Steps are announced, and the slider has the time and the event as its value.
    page.tab_to("#back").await;
    page.browser.press(&[key::SPACE, key::SPACE, key::SPACE]).await;
    assert!(page.text("#announcement").await.contains(" s, "));
    let announced = page.text("#announcement").await;
    page.tab_to("#next").await;
    page.browser.press(&[key::SPACE]).await;
    assert_ne!(announced, page.text("#announcement").await);
    page.tab_to("#time").await;
    let before = page.text("#now").await;
    page.browser.press(&[key::LEFT]).await;
    assert_ne!(before, page.text("#now").await);
    assert!(page.browser.text("document.activeElement.getAttribute('aria-valuetext')").await.contains(": "));

    // An incident is added, moved in time and place, made longer, and deleted.
    page.tab_to("#edit summary").await;
    page.browser.press(&[key::ENTER]).await;
    page.tab_to("#palette button").await;
    page.browser.press(&[key::ENTER]).await;
    page.wait_for_address(":hang:n0:1500").await;
    let is_focused = "document.activeElement.matches('.handle')";
    page.browser.wait_for(is_focused).await;
    page.browser.press(&[key::DOWN]).await;
    page.wait_for_address(":hang:n1:1500").await;
    for (key, expected) in [
        (key::UP, ":hang:n0:1500"),
        (key::DOWN, ":hang:n1:1500"),
        ("-", ":hang:n1:1400"),
        ("+", ":hang:n1:1500"),
    ] {
        page.browser.wait_for(is_focused).await;
        page.browser.press(&[key]).await;
        page.wait_for_address(expected).await;
    }
    page.browser.wait_for(is_focused).await;
    let time = "Number(location.search.match(/at=(\\d+)/)[1])";
    let at: u64 = page.browser.text(time).await.parse().unwrap();
    page.browser.press_with_shift(key::LEFT).await;
    page.wait_for_address(&format!("at={}:", at - 1_000)).await;
    page.browser.wait_for(is_focused).await;
    page.browser.press(&[key::RIGHT]).await;
    page.wait_for_address(&format!("at={}:", at - 900)).await;
    page.browser.wait_for(is_focused).await;
    page.browser.press(&[key::DELETE]).await;
    page.browser.wait_for("!location.search.includes('at=')").await;

    // A field of the form is changed.
    page.tab_to("#client-0-works").await;
    let before: u64 = page.browser.text("document.activeElement.value").await.parse().unwrap();
    page.browser.press(&[key::DOWN, key::TAB]).await;
    page.wait_for_address(&format!("client=500:{}:", before - 1)).await;
    // The focus stays in the form, although the form is drawn again.
    page.browser.wait_for("document.activeElement.id === 'client-0-has-waits'").await;
    page.tab_to("#world-restart_admission").await;
    page.browser.press(&[key::SPACE]).await;
    page.wait_for_address("admission=on").await;

    // A search is chosen, started and opened.
    page.tab_to("#search-faults").await;
    page.browser.press(&["h", "o", "l"]).await;
    page.tab_to("#search-start").await;
    page.browser.press(&[key::ENTER]).await;
    page.browser.wait_for("!document.querySelector('#found').hidden").await;
    page.tab_to("#found a").await;
    page.browser.press(&[key::ENTER]).await;
    page.wait_for_address("faults=careless-holders").await;
    page.browser.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_control_has_a_name_and_every_region_a_role() {
    let page = Page::open("?story=late-write").await;
    page.browser.click("#edit summary").await;
    for selector in
        ["button:not([hidden] *)", "input", "select", "a:not([hidden] *)", "section", "table", "nav"]
    {
        let found = page.browser.accessible(selector).await;
        assert!(!found.is_empty() && found.iter().all(|(_, name)| !name.is_empty()), "{selector}: {found:?}");
    }
    for (selector, role, name) in [
        ("#drawing", "image", "Timeline: A late write is cleaned up. No invariant is violated."),
        ("#time", "slider", "Time"),
        ("#speed", "combobox", "Speed"),
        ("#search-faults", "combobox", "Assumptions"),
        (".controls", "group", "Playback"),
        ("#palette", "group", "Add an incident"),
        (".handle", "button", "n0: node hangs, at 0.900 s for 1.100 s"),
        ("#announcement", "status", ""),
        ("#result", "status", ""),
        ("#search-status", "status", ""),
    ] {
        let found = page.accessible(selector).await;
        assert!(found.0 == role && found.1.starts_with(name), "{selector}: {found:?}");
    }
    page.browser.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_is_not_wider_than_a_phone() {
    let page = Page::open("?story=clock-step").await;
    for width in [390, 320] {
        // The picture is drawn again, since its texts have a fixed size.
        page.browser.resize(width, 1_600).await;
        let drawn = "document.querySelector('#drawing svg').viewBox.baseVal.width";
        page.browser.wait_for(&format!("{drawn} < {width}")).await;
        page.choose("#search-faults", "data-loss").await;
        page.browser.click("#search-start").await;
        page.browser.wait_for("!document.querySelector('#found').hidden").await;
        page.browser
            .evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
            .await;
        let wide = format!(
            "[...document.querySelectorAll('body *')].filter((one) => one.getBoundingClientRect().right > {width} \
             && !one.closest('nav ol, pre, .hidden, svg')).map((one) => one.outerHTML.slice(0, 80)).join()"
        );
        assert_eq!("", page.browser.text(&wide).await, "at {width}");
        let all = "document.documentElement.scrollWidth";
        assert_eq!(width.to_string(), page.browser.text(all).await);
    }
    page.browser.close().await;
}

/// Lists the texts whose contrast to what is below them is less than 4.5, with the contrast.
///
/// Text on a bar has the bar and the paper below it.
const FAINT_TEXTS: &str = r"
    const channels = (color) => {
        const [red, green, blue, opacity = 1] = color.match(/[\d.]+/g).map(Number);
        return [red, green, blue, opacity];
    };
    const over = ([red, green, blue, opacity], below) =>
        [red, green, blue].map((channel, index) => channel * opacity + below[index] * (1 - opacity));
    const luminance = (color) => {
        const [red, green, blue] = color.map((channel) => {
            const share = channel / 255;
            return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
        });
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
    };
    const contrast = (one, other) => {
        const [low, high] = [luminance(one), luminance(other)].sort((a, b) => a - b);
        return (high + 0.05) / (low + 0.05);
    };
    const paper = channels(getComputedStyle(document.documentElement).backgroundColor);
    const below = (element) => {
        if (!element) return paper.slice(0, 3);
        return over(channels(getComputedStyle(element).backgroundColor), below(element.parentElement));
    };
    const filled = (shape) => {
        const { fill, fillOpacity, opacity } = getComputedStyle(shape);
        return over([...channels(fill).slice(0, 3), fillOpacity * opacity], paper);
    };
    const isOver = (text, shape) => {
        const [inner, outer] = [text, shape].map((one) => one.getBoundingClientRect());
        const [x, y] = [(inner.left + inner.right) / 2, (inner.top + inner.bottom) / 2];
        return outer.left <= x && x <= outer.right && outer.top <= y && y <= outer.bottom;
    };
    const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    const faint = [];
    while (texts.nextNode()) {
        const [text, parent] = [texts.currentNode.textContent.trim(), texts.currentNode.parentElement];
        if (!text || !parent.checkVisibility() || parent.closest('title, style, script, option, :disabled')) continue;
        const drawn = parent.closest('svg');
        const color = channels(getComputedStyle(parent)[drawn ? 'fill' : 'color']);
        const shape = drawn && [...parent.parentElement.children].find((one) =>
            one.matches('rect, circle') && getComputedStyle(one).fill.startsWith('rgb') && isOver(parent, one));
        const ground = shape ? filled(shape) : below(drawn ? drawn.parentElement : parent);
        const ratio = contrast(over(color, ground), ground);
        if (ratio < 4.5) faint.push(`${text.slice(0, 40)}: ${ratio.toFixed(1)}`);
    }
    return [...new Set(faint)];
";

#[tokio::test(flavor = "multi_thread")]
async fn all_text_is_readable_on_light_and_dark_paper() {
    let page = Page::open("").await;
    for paper in ["light", "dark"] {
        page.browser.emulate(&[("prefers-color-scheme", paper)]).await;
        for story in ["clock-step", "fenced-holder", "split-vote", "failed-renewal"] {
            page.go(&format!("?story={story}")).await;
            page.browser
                .evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
                .await;
            let faint: Vec<String> =
                serde_json::from_value(page.browser.evaluate(FAINT_TEXTS).await).unwrap();
            assert_eq!(Vec::<String>::new(), faint, "{story} on {paper} paper");
        }
    }
    page.browser.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn reduced_motion_and_dark_paper_are_respected() {
    let page = Page::open("?story=uncontended").await;
    let paper = "getComputedStyle(document.querySelector('#drawing svg > rect')).fill";
    let light = page.browser.text(paper).await;
    page.browser.emulate(&[("prefers-color-scheme", "dark"), ("prefers-reduced-motion", "reduce")]).await;
    assert_ne!(light, page.browser.text(paper).await);
    // The cursor jumps from event to event.
    page.seek("0").await;
    page.browser.click("#play").await;
    page.browser.wait_for("Number(document.querySelector('#time').value) === 0.5").await;
    page.browser.close().await;
}

/// Writes pictures of all stories at two widths, of the editor, the terms, a search, and of dark paper.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "scripts/test-playground --screenshots DIRECTORY runs it"]
async fn screenshots() {
    let directory = PathBuf::from(std::env::var_os("PLAYGROUND_SCREENSHOTS").unwrap());
    std::fs::create_dir_all(&directory).unwrap();
    let page = Page::open("").await;
    let write = async |name: String| {
        let file = directory.join(name + ".png.base64");
        std::fs::write(file, page.browser.screenshot().await).unwrap();
    };
    for (width, height, paper) in [(1_280, 1_500, "light"), (390, 1_500, "light"), (1_280, 1_500, "dark")] {
        page.browser.resize(width, height).await;
        page.browser.emulate(&[("prefers-color-scheme", paper)]).await;
        for Story { id, .. } in stories() {
            page.go(&format!("?story={id}")).await;
            write(format!("{id}-{width}-{paper}")).await;
        }
        page.browser.click("#edit summary").await;
        page.browser.evaluate("document.querySelector('#stage').scrollIntoView({ block: 'start' })").await;
        write(format!("editor-{width}-{paper}")).await;
        page.go("").await;
        page.browser.click(".terms summary").await;
        write(format!("terms-{width}-{paper}")).await;
        page.go("?story=empty-restart").await;
        page.choose("#search-faults", "clock-steps").await;
        page.browser.click("#search-start").await;
        page.browser.wait_for("!document.querySelector('#found').hidden").await;
        page.browser.evaluate("document.querySelector('#search').scrollIntoView({ block: 'start' })").await;
        write(format!("search-{width}-{paper}")).await;
    }
    page.browser.close().await;
}
