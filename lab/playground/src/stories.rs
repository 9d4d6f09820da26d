//! The stories: experiments with two sentences each.

use redlock_simulation::invariant::Invariant;

use crate::setup::{Client, Kind, Setup};

/// An experiment that shows one property of the lock.
#[derive(Clone, Debug, PartialEq)]
pub struct Story {
    /// The name in addresses.
    pub id: &'static str,
    /// The title.
    pub title: &'static str,
    /// The text: the events and their reasons.
    pub sentences: [&'static str; 2],
    /// The experiment.
    pub setup: Setup,
    /// The invariants that it violates.
    pub violated: Vec<Invariant>,
    /// The marked moment in milliseconds, at which the page opens.
    pub moment: u64,
}

/// Returns all stories, in the order of the page.
pub fn stories() -> Vec<Story> {
    vec![
        uncontended(),
        hand_over(),
        first_come(),
        hung_node(),
        dead_minority(),
        hung_majority(),
        lost_majority(),
        dead_holder(),
        paused_holder(),
        fenced_holder(),
        empty_restart(),
        empty_restart_guarded(),
        clock_step(),
        clock_step_guarded(),
        late_write(),
        split_vote(),
        failed_renewal(),
    ]
}

/// Returns the story of that name.
pub fn named(id: &str) -> Option<Story> {
    stories().into_iter().find(|story| story.id == id)
}

/// Returns the story of a page without an address.
pub fn first() -> Story {
    uncontended()
}

fn story(id: &'static str, title: &'static str, sentences: [&'static str; 2], setup: Setup) -> Story {
    Story { id, title, sentences, setup, violated: Vec::new(), moment: 0 }
}

impl Story {
    fn opens_at(self, moment: u64) -> Self {
        Self { moment, ..self }
    }

    fn violates(self, violated: &[Invariant]) -> Self {
        Self { violated: violated.to_vec(), ..self }
    }
}

fn setup(clients: Vec<Client>) -> Setup {
    Setup { clients, ..Setup::default() }
}

fn uncontended() -> Story {
    story(
        "uncontended",
        "One client, no contention",
        [
            "One client requests the lock from five nodes at once, and holds it as soon as three of them have granted it.",
            "When its work is done, it releases the lock on all nodes.",
        ],
        Setup { lasts: 4_000, ..setup(vec![Client::at(500).works(2_500)]) },
    )
    .opens_at(600)
}

fn hand_over() -> Story {
    story(
        "hand-over",
        "Contention and hand-over",
        [
            "The second client requests the lock while the first one holds it, and waits.",
            "The nodes notify it of the release, so it acquires the lock within milliseconds, without polling.",
        ],
        Setup {
            lasts: 6_000,
            ..setup(vec![Client::at(500).works(2_000), Client::at(1_200).works(1_500).waits(5_000)])
        },
    )
    .opens_at(2_530)
}

fn first_come() -> Story {
    let returns = Client::at(500).works(800).waits(6_000).rests(50);
    let waits = |at| Client::at(at).works(800).waits(6_000);
    story(
        "first-come",
        "First come, first served",
        [
            "Two clients wait, and the holder requests the lock again soon after its release.",
            "The nodes reserve the lock for the client that has waited longest, so the first holder has its second turn after both.",
        ],
        Setup { lasts: 5_000, ..setup(vec![returns, waits(700), waits(900)]) },
    )
    .opens_at(3_100)
}

fn hung_node() -> Story {
    story(
        "hung-node",
        "One node hangs",
        [
            "One of five nodes receives requests and does not reply.",
            "The other nodes are a quorum, so the client acquires, renews and releases the lock without a delay.",
        ],
        Setup { lasts: 6_000, ..setup(vec![Client::at(500).works(4_000).renews()]) }.on_node(
            100,
            Kind::Hang,
            0,
            5_000,
        ),
    )
    .opens_at(2_300)
}

fn dead_minority() -> Story {
    story(
        "dead-minority",
        "Two of five nodes are down",
        [
            "Two of five nodes are down while two clients lock one after the other.",
            "Three nodes are still a quorum, so nothing else changes.",
        ],
        Setup {
            lasts: 6_000,
            ..setup(vec![Client::at(500).works(2_000), Client::at(1_200).works(1_500).waits(5_000)])
        }
        .on_node(100, Kind::Crash, 0, 5_500)
        .on_node(100, Kind::Crash, 1, 5_500),
    )
    .opens_at(2_600)
}

fn hung_majority() -> Story {
    let setup = setup(vec![Client::at(500).works(1_500).waits(1_000).rests(1_500)]);
    let hangs = |setup: Setup, node| setup.on_node(100, Kind::Hang, node, 4_000);
    story(
        "hung-majority",
        "Three of five nodes hang",
        [
            "Two nodes reply and three do not, so each attempt of the client fails after the node timeout of 200 ms.",
            "After three such attempts, the client reports an error and waits no longer; when the nodes resume, its next request is granted.",
        ],
        (0..3).fold(setup, hangs),
    )
    .opens_at(1_175)
}

fn lost_majority() -> Story {
    let setup = setup(vec![Client::at(500).works(1_500).waits(1_000).rests(1_500)]);
    let down = |setup: Setup, node| setup.on_node(100, Kind::Crash, node, 4_000);
    story(
        "lost-majority",
        "Three of five nodes are down",
        [
            "Three nodes refuse connections, so three attempts fail within 0.1 s, and the client reports an error: safety goes before availability.",
            "When the nodes are back, the next request is granted.",
        ],
        (0..3).fold(setup, down),
    )
    .opens_at(570)
}

fn dead_holder() -> Story {
    let clients = vec![Client::at(500).works(3_000), Client::at(1_000).works(1_500).waits(6_000)];
    story(
        "dead-holder",
        "A holder dies",
        [
            "The first client is killed while it holds the lock, and cannot release it.",
            "Its keys expire after the TTL of 3 s, and the second client acquires the lock then.",
        ],
        Setup { lasts: 6_000, ..setup(clients) }.on_client(1_600, Kind::Kill, 0, 6_000),
    )
    .opens_at(3_520)
}

/// The first client is paused for longer than its TTL, while the second one waits.
fn long_pause(client: fn(Client) -> Client) -> Setup {
    let first = Client::at(500).works(4_600).careless();
    let second = Client::at(1_000).works(2_200).waits(6_000);
    Setup { lasts: 6_500, ..setup(vec![client(first), client(second)]) }.on_client(
        1_600,
        Kind::Pause,
        0,
        3_400,
    )
}

fn paused_holder() -> Story {
    story(
        "paused-holder",
        "A holder is paused past its TTL",
        [
            "The first client is paused while its lease expires, and the second client acquires the lock.",
            "Then the first client resumes and acts without a check of its lease: two clients act at the same time.",
        ],
        long_pause(|client| client),
    )
    .opens_at(5_000)
    .violates(&[Invariant::Exclusion])
}

fn fenced_holder() -> Story {
    story(
        "fenced-holder",
        "The same pause with a fencing token",
        [
            "Each lock has a greater fencing token than the one before; clients send it with each write, and the resource keeps the greatest.",
            "The resumed client writes with the older token, so the resource rejects the write and no harm is done.",
        ],
        long_pause(Client::fenced),
    )
    .opens_at(5_007)
}

/// The first client has the grants of n0, n1 and n2 only.
fn narrow_quorum() -> Setup {
    let clients = vec![Client::at(500).works(3_500), Client::at(2_600).works(1_500).waits(3_500)];
    Setup { ttl: 4_500, lasts: 7_000, ..setup(clients) }.between(0, 0, 3, 6_500).between(0, 0, 4, 6_500)
}

fn empty_restart() -> Story {
    story(
        "empty-restart",
        "A node restarts empty",
        [
            "The first client holds the lock by the grants of n0, n1 and n2, then n2 restarts without its data.",
            "It grants the same lock again, so the second client has a quorum of n2, n3 and n4: both clients hold the lock.",
        ],
        narrow_quorum().on_node(1_500, Kind::CrashEmpty, 2, 600),
    )
    .opens_at(2_606)
    .violates(&[Invariant::Validity, Invariant::Exclusion])
}

fn empty_restart_guarded() -> Story {
    story(
        "empty-restart-guarded",
        "The same restart with restart admission",
        [
            "Again, n2 restarts without its data and grants the lock that the first client holds.",
            "Its vote does not count until the lost locks have expired, so the second client acquires the lock only after the release.",
        ],
        Setup { restart_admission: true, ..narrow_quorum() }.on_node(1_500, Kind::CrashEmpty, 2, 600),
    )
    .opens_at(2_620)
}

fn clock_step() -> Story {
    story(
        "clock-step",
        "The clock of a node jumps",
        [
            "The first client holds the lock by the grants of n0, n1 and n2, then the clock of n2 is set 10 s forward.",
            "Its key expires at once, so the second client has a quorum of n2, n3 and n4: both clients hold the lock.",
        ],
        narrow_quorum().on_node(1_500, Kind::Step, 2, 10_000),
    )
    .opens_at(2_606)
    .violates(&[Invariant::Validity, Invariant::Exclusion])
}

fn clock_step_guarded() -> Story {
    story(
        "clock-step-guarded",
        "The same jump with restart admission",
        [
            "Again, the clock of n2 is set forward, and n2 grants the lock that the first client holds.",
            "Clients compare this clock with their own, so n2 has no vote, and the second client acquires the lock only after the release.",
        ],
        Setup { restart_admission: true, ..narrow_quorum() }.on_node(1_500, Kind::Step, 2, 10_000),
    )
    .opens_at(2_620)
    .violates(&[Invariant::Validity])
}

fn late_write() -> Story {
    let clients = vec![Client::at(1_000).works(1_000), Client::at(2_400).works(1_500).waits(5_000)];
    let setup = Setup { nodes: 3, ttl: 6_000, lasts: 7_000, ..setup(clients) };
    let stalls =
        |setup: Setup, node| setup.on_node(900, Kind::Hang, node, 1_100).between(1_100, 0, node, 2_400);
    story(
        "late-write",
        "A late write is cleaned up",
        [
            "The request of the first client fails, but two hung nodes carry it out a second later, and their keys block others.",
            "The client retries the cleanup until both nodes have confirmed it, so the second client need not wait for the TTL.",
        ],
        (0..2).fold(setup, stalls),
    )
    .opens_at(2_410)
}

fn split_vote() -> Story {
    let client = || Client::at(500).works(900).waits(6_000);
    story(
        "split-vote",
        "A split vote",
        [
            "Three clients request the lock at the same moment, and each of them gets the vote of one node.",
            "No client has a quorum, so all of them release their votes and retry after different delays, until each one has held the lock.",
        ],
        Setup {
            nodes: 3,
            most_delay: 20,
            seed: 5111,
            lasts: 4_000,
            ..setup(vec![client(), client(), client()])
        },
    )
    .opens_at(538)
}

fn failed_renewal() -> Story {
    let clients = vec![Client::at(500).works(6_000).renews(), Client::at(2_600).works(1_500).waits(6_000)];
    let cut = |setup: Setup, node| setup.between(2_200, 0, node, 5_000);
    story(
        "failed-renewal",
        "A renewal fails, and the loss is reported",
        [
            "The first client loses its connection to three of five nodes, so its renewals fail.",
            "It learns of the loss before its lease ends and stops, and only then does the second client acquire the lock.",
        ],
        (0..3).fold(setup(clients), cut),
    )
    .opens_at(5_013)
}
