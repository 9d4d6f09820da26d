//! A history as a picture: a lane for each server and client, holds as bars, faults as marks.
//!
//! The picture is text for a terminal, or an SVG document. The document also shows the keys on the servers, in the color
//! of their client. It thus shows the quorums of clients over time.

mod keys;
mod scale;
mod scene;
mod svg;
mod text;

use std::time::Duration;

use redlock_core::runtime::Instant;

pub use self::scale::Scale;
use self::scene::Scene;
pub use self::text::LEGEND;
use crate::history::{EventKind, History, Place};
use crate::invariant::Violation;
use crate::invariant::prefix::Involved;

/// A picture of a history, or of one violation.
///
/// ```
/// use redlock_simulation::experiment::Experiment;
/// use redlock_simulation::timeline::Timeline;
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
    width: f64,
    has_texts: bool,
    is_stretched: bool,
}

/// A picture as an SVG document, and the places of its parts.
#[derive(Clone, Debug)]
pub struct Drawing {
    /// The document.
    pub svg: String,
    /// The width, in the units of the document.
    pub width: f64,
    /// The height.
    pub height: f64,
    /// The position of the first moment.
    pub left: f64,
    /// The position of the last moment.
    pub right: f64,
    /// The first moment.
    pub from: Instant,
    /// The last moment.
    pub until: Instant,
    /// The positions of moments between the first and the last one.
    pub scale: Scale,
    /// The lanes from top to bottom, each with its beginning and its end.
    pub lanes: Vec<(Place, f64, f64)>,
}

/// Draws a history from its beginning until shortly after the last fault.
///
/// Same as [`Timeline::text`], with this number of `columns`.
pub fn draw(history: &History, violations: &[Violation], columns: usize) -> String {
    Timeline::new(history, violations).text(columns)
}

/// The margin before and after the content of a window, as a fraction: one part in this number.
const MARGIN: u32 = 15;

impl<'a> Timeline<'a> {
    /// Shows the whole history.
    ///
    /// The window ends a second after the last fault, or at the end of the history if that is earlier. It shows the
    /// violations in that time.
    pub fn new(history: &'a History, violations: &'a [Violation]) -> Self {
        let calm = history.0.iter().find(|event| event.kind == EventKind::Calm).map(|event| event.at);
        let last = end(history);
        let until = calm.map_or(last, |calm| (calm + Duration::from_secs(1)).min(last));
        Self::of(history, violations.iter().collect(), Instant::ORIGIN, until, None)
    }

    /// Shows a violation.
    ///
    /// The window begins with the first event about the violation's tokens and ends shortly after the violation. It
    /// shows the clients and keys of the violation.
    pub fn about(history: &'a History, violation: &'a Violation) -> Self {
        let involved = Involved::new(violation, history);
        let at = |index: usize| history.0.get(index).map_or(end(history), |event| event.at);
        let (from, until) = (at(involved.begin(&history.0)), at(violation.event));
        let margin = until.saturating_duration_since(from) / MARGIN;
        let from = from - margin.min(from.elapsed_since_origin());
        Self::of(history, vec![violation], from, until + margin, Some(involved))
    }

    fn of(
        history: &'a History,
        violations: Vec<&'a Violation>,
        from: Instant,
        until: Instant,
        about: Option<Involved>,
    ) -> Self {
        let (title, width, has_texts) = (String::new(), svg::WIDTH, true);
        Self { history, violations, from, until, title, about, width, has_texts, is_stretched: false }
    }

    /// Sets the title, one line of text above the picture. The default is none.
    #[must_use]
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.title = title.into();
        self
    }

    /// Sets the width of the SVG document in units. The default is 1,200, the minimum 240.
    ///
    /// Texts have the same size at every width, so a narrow picture suits a small screen.
    #[must_use]
    pub fn width(mut self, width: f64) -> Self {
        self.width = width.max(240.0);
        self
    }

    /// Leaves the title and the descriptions of violations out of the SVG document, for a page that shows them itself.
    #[must_use]
    pub fn without_texts(mut self) -> Self {
        self.has_texts = false;
        self
    }

    /// Stretches the time axis of the SVG document where much happens, so that events close together are visible.
    #[must_use]
    pub fn stretched(mut self) -> Self {
        self.is_stretched = true;
        self
    }

    /// Returns the picture for a terminal.
    ///
    /// It has a line for each lane, the violations, the time, and the [legend](LEGEND). The whole time takes `columns`
    /// characters. The minimum is 10; smaller values count as 10. There is no maximum. With the names in front a line
    /// is 8 characters longer, and the legend takes about 110 in any case.
    ///
    /// A column is a period of time and shows one mark. Faults take precedence over holds, and actions of a client over
    /// both. Of several marks of a kind, the last one is shown. A shorter event fills a column anyway, so there may be a
    /// gap between two adjacent marks. A resource or a client is shown by the last digit of its number. Keys on servers,
    /// and requests and actions of clients, are shown only in the picture of [one violation](Timeline::about). Writes to
    /// resources that check fencing tokens are shown only in the [SVG document](Timeline::svg).
    pub fn text(&self, columns: usize) -> String {
        text::draw(&self.scene(), columns)
    }

    /// Returns the picture as an SVG document.
    ///
    /// It is 1,200 units wide unless a [width](Timeline::width) is set, and as high as its lanes require. The minimum
    /// width of a bar is 2 units. Positions are rounded to a tenth of a unit. The same history gives the same document,
    /// byte for byte.
    pub fn svg(&self) -> String {
        self.drawing().svg
    }

    /// Returns the picture as an SVG document, with the places of its lanes.
    pub fn drawing(&self) -> Drawing {
        svg::draw(&self.scene(), self.width, self.has_texts)
    }

    fn scene(&self) -> Scene<'_> {
        Scene::new(self)
    }

    fn shows_resource(&self, resource: usize) -> bool {
        self.about.as_ref().is_none_or(|involved| involved.resources.contains(&resource))
    }

    /// Returns whether a lane is relevant to the picture.
    fn shows(&self, place: Place) -> bool {
        match (place, &self.about) {
            (Place::Client(client) | Place::Between(client, _), Some(involved)) => {
                involved.clients.contains(&client)
            }
            (Place::Resource(resource), Some(_)) => self.shows_resource(resource),
            (Place::Server(_) | Place::Network, _) | (_, None) => true,
        }
    }
}

fn end(history: &History) -> Instant {
    history.0.last().map_or(Instant::ORIGIN, |event| event.at)
}
