//! A history as a picture: a lane for each server and client, holds as bars, faults as marks.
//!
//! As text for a terminal, and with feature `svg` as a file for a browser. There the keys on the servers are drawn too,
//! in the colour of the client that they belong to, so one sees who had a quorum and when.

mod keys;
mod scene;
#[cfg(feature = "svg")]
mod svg;
mod text;

use std::time::Duration;

use redlock_core::Instant;

use self::scene::Scene;
pub use self::text::LEGEND;
use crate::history::{History, Place, What};
use crate::invariant::Violation;
use crate::invariant::prefix::Involved;

/// A picture of a history, or of what a violation is about.
///
/// ```
/// use redlock_testkit::experiment::Experiment;
/// use redlock_testkit::timeline::Timeline;
///
/// let report = Experiment::new(7).servers(3).run();
/// println!("{}", Timeline::new(&report.history, &report.violations).text(100));
/// ```
#[derive(Clone, Debug)]
pub struct Timeline<'a> {
    history: &'a History,
    violations: Vec<&'a Violation>,
    from: Instant,
    until: Instant,
    title: String,
    about: Option<Involved>,
}

/// Draws a history from its beginning until shortly after the last fault: [`Timeline::text`], with as many `columns`.
pub fn draw(history: &History, violations: &[Violation], columns: usize) -> String {
    Timeline::new(history, violations).text(columns)
}

/// How much of a window lies before and after what it shows: one part in so many.
const MARGIN: u32 = 15;

impl<'a> Timeline<'a> {
    /// Everything, from the beginning until a second after the last fault, or to the end where it comes sooner. Of the
    /// violations those are shown that are in that time.
    pub fn new(history: &'a History, violations: &'a [Violation]) -> Self {
        let calm = history.0.iter().find(|event| event.what == What::Calm).map(|event| event.at);
        let last = end(history);
        let until = calm.map_or(last, |calm| (calm + Duration::from_secs(1)).min(last));
        let (from, title) = (Instant::ORIGIN, String::new());
        Self { history, violations: violations.iter().collect(), from, until, title, about: None }
    }

    /// The time from the first event about a violation's tokens until shortly after the violation, and in it the clients
    /// and the keys that it is about.
    pub fn about(history: &'a History, violation: &'a Violation) -> Self {
        let involved = Involved::new(violation, history);
        let at = |index: usize| history.0.get(index).map_or(end(history), |event| event.at);
        let (from, until) = (at(involved.begin(&history.0)), at(violation.event));
        let margin = until.saturating_duration_since(from) / MARGIN;
        let from = from - margin.min(from.elapsed_since_origin());
        let (until, title) = (until + margin, String::new());
        Self { history, violations: vec![violation], from, until, title, about: Some(involved) }
    }

    /// What stands above the picture: one line of text. Nothing if not set.
    #[must_use]
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.title = title.into();
        self
    }

    /// For a terminal: a line for each lane, what was violated, the time, and the [legend](LEGEND).
    ///
    /// The whole time takes `columns` characters; at least 10, and less counts as that. With the names in front a line is 8
    /// longer, and the legend takes some 110, however few they are. There is no upper bound.
    ///
    /// A column is one stretch of time, and shows one thing: what went wrong rather than what was held, what a client did
    /// rather than either, and of several things of a kind the last. What is shorter than a column fills one all the same, so
    /// two things that touch may have been apart. A resource or a client is shown by the last digit of its number. Keys
    /// on servers, and what clients ask and do, are shown in the picture of [one violation](Timeline::about) alone.
    pub fn text(&self, columns: usize) -> String {
        text::draw(&self.scene(), columns)
    }

    /// As an SVG document, 1,200 units wide however long the time is, and as high as its lanes need. What would be narrower
    /// than 2 units is drawn that wide, and positions are told to a tenth of a unit. The same history gives the same
    /// document, to the byte.
    #[cfg(feature = "svg")]
    pub fn svg(&self) -> String {
        svg::draw(&self.scene())
    }

    fn scene(&self) -> Scene<'_> {
        Scene::new(self)
    }

    fn shows_resource(&self, resource: usize) -> bool {
        self.about.as_ref().is_none_or(|involved| involved.resources.contains(&resource))
    }

    /// Whether a lane has anything to do with what is shown.
    fn shows(&self, place: Place) -> bool {
        match (place, &self.about) {
            (Place::Client(client) | Place::Between(client, _), Some(involved)) => {
                involved.clients.contains(&client)
            }
            (Place::Server(_) | Place::Network, _) | (_, None) => true,
        }
    }
}

fn end(history: &History) -> Instant {
    history.0.last().map_or(Instant::ORIGIN, |event| event.at)
}
