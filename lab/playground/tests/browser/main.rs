//! The page in a real browser: stories, own experiments, the search, and the keyboard alone.
//!
//! `scripts/test-playground` runs these tests. With `--screenshots DIRECTORY`, it also writes pictures of every story.
#![allow(clippy::unwrap_used)] // a panic is how a test reports

#[path = "../http/mod.rs"]
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

const MOMENTS: [Moment; 24] = [
    ("uncontended", "2", &[("c0", "holds r0"), ("n0", "key of c0"), ("n4", "key of c0")]),
    ("uncontended", "3.9", &[("c0", "holds no lock"), ("n0", "no key"), ("n4", "no key")]),
    ("hand-over", "2", &[("c0", "holds r0"), ("c1", "requests the lock")]),
    ("hand-over", "2.6", &[("c0", "holds no lock"), ("c1", "holds r0")]),
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
    ("late-write", "2.3", &[("c0", "holds no lock"), ("n0", "key of c0"), ("n1", "key of c0")]),
    ("late-write", "4.2", &[("n0", "key of c1"), ("n2", "key of c1"), ("c1", "holds r0")]),
    ("split-vote", "0.52", &[("n0", "key of c0"), ("n1", "key of c1"), ("n2", "key of c2")]),
    (
        "failed-renewal",
        "4",
        &[("c0-n0", "nothing gets through"), ("c0", "holds r0"), ("c1", "requests the lock")],
    ),
    ("failed-renewal", "5.3", &[("c0", "holds no lock"), ("c1", "holds r0")]),
];

/// Returns the sentences of the violations that the page lists.
async fn violations(page: &Page) -> Vec<String> {
    let script = "return [...document.querySelectorAll('#violations strong')].map((one) => one.innerText)";
    serde_json::from_value(page.browser.evaluate(script).await).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn each_story_plays_and_shows_what_its_text_says() {
    let page = Page::open("").await;
    for Story { id, title, sentences, violated, .. } in stories() {
        // It plays slowly until this is seen, however slow the test is.
        page.choose("#speed", "0.02").await;
        page.browser.click(&format!("[data-story={id}]")).await;
        page.wait_for_address(&format!("story={id}")).await;
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
    }
    page.browser.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn at_the_cursor_each_story_shows_what_its_text_says() {
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
    assert_eq!("0.535 s", page.text("#now").await);
    let events = page.text("#events").await;
    for expected in ["attempt #0 of c1 fails", "attempt #1 of c0 fails", "attempt #2 of c2 fails"] {
        assert!(events.contains(expected), "{expected}: {events}");
    }
    assert!(events.contains("and its votes are released"), "{events}");
    let position =
        "document.querySelector('#mark').style.left === document.querySelector('#cursor').style.left";
    assert_eq!("true", page.browser.text(position).await);
    page.seek("3").await;
    assert_eq!("false", page.browser.text(position).await);
    page.browser.click("#moment").await;
    assert_eq!("0.535 s", page.text("#now").await);
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
    assert!(holds.contains("holds r0 as #0"), "it opens at the first grant: {holds}");
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
    assert!(status.starts_with(&format!("Seed {seed} violates an invariant")), "{status}");
    assert!(page.text("#found").await.contains("A resource has at most one valid holder."));
    assert_eq!("true", page.browser.text("Boolean(document.querySelector('#found svg'))").await);
    let announced = page.text("#found p").await;
    page.browser.click("#found a").await;
    page.wait_for_address(&format!("faults=careless-holders&nodes=3&clients=3&seed={seed}")).await;
    assert!(!violations(&page).await.is_empty());
    // The run opens at the announced violation, of the search.
    assert!(announced.contains(&format!("At {}:", page.text("#now").await)), "{announced}");

    page.choose("#search-faults", "losses").await;
    page.browser.fill("#search-seeds", "7").await;
    page.browser.click("#search-start").await;
    page.browser.wait_for("document.querySelector('#search-status').textContent.includes('tried')").await;
    assert_eq!("7 seeds were tried, without a violation.", page.text("#search-status").await);

    // The address has the settings of the search.
    page.browser.reload().await;
    page.browser.wait_for(IS_SHOWN).await;
    let settings =
        "[...document.querySelectorAll('#search-form :is(input, select)')].map((one) => one.value).join()";
    assert_eq!("losses,3,3,0,7", page.browser.text(settings).await);
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
async fn everything_works_with_the_keyboard_alone() {
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
    page.browser.wait_for(is_focused).await;
    page.browser.press(&["+"]).await;
    page.wait_for_address(":hang:n1:1600").await;
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
async fn every_control_has_a_name_and_the_page_is_not_wider_than_a_phone() {
    let page = Page::open("?story=late-write").await;
    page.browser.resize(390, 1_600).await;
    page.browser.wait_for("document.querySelector('#drawing svg').viewBox.baseVal.width < 390").await;
    page.browser.click("#edit summary").await;
    let nameless = "[...document.querySelectorAll('button, input, select, a')].filter((one) => \
                    !(one.innerText || one.getAttribute('aria-label') || one.labels?.[0]?.innerText)).length";
    assert_eq!("0", page.browser.text(nameless).await);
    assert_eq!("true", page.browser.text("document.documentElement.scrollWidth <= 390").await);
    let unlabeled = "[...document.querySelectorAll('section')].filter((one) => !one.hasAttribute('aria-labelledby')).length";
    assert_eq!("0", page.browser.text(unlabeled).await);
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
