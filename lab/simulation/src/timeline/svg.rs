//! The picture for a browser.
//!
//! From top to bottom it has the title, numbers of violations, the lanes, the time axis, the descriptions of
//! violations, and the legend. Every lane has a row for each of its resources. Below them are as many rows for faults
//! as are needed to avoid overlaps. Colors are those of clients: a key on a server has the color of its client.

mod axis;
mod footer;
mod lane;
mod layout;
mod paint;

use std::collections::BTreeSet;

use ::svg::Document;
use ::svg::node::element::{Definitions, Group, Line, Path, Pattern, Rectangle, Style};

use self::lane::Rows;
pub(super) use self::layout::WIDTH;
use self::layout::{LEFT, Layout};
use self::paint::{label, title};
use super::Drawing;
use super::scale::Scale;
use super::scene::Scene;
use crate::history::{Place, TokenNumber};

/// The space between the parts of the picture.
const GAP: f64 = 10.0;

pub(super) fn draw(scene: &Scene<'_>, width: f64, has_texts: bool) -> Drawing {
    let scale = match &scene.moments {
        Some(moments) => Scale::stretched(scene.window, moments.iter().copied()),
        None => Scale::even(scene.window),
    };
    let layout = Layout { window: scene.window, scale, width };
    let tokens: BTreeSet<TokenNumber> =
        scene.violations.iter().flat_map(|(_, one)| one.tokens.clone()).collect();
    let rows: Vec<(Place, Rows<'_>)> =
        in_order(scene).map(|place| (place, Rows::new(place, &scene.lanes[&place], &layout))).collect();

    let mut picture = Group::new();
    let mut y = GAP;
    if has_texts && !scene.title.is_empty() {
        y += 16.0;
        picture = picture
            .add(label(scene.title, GAP, y, paint::INK).set("font-size", 14).set("font-weight", "bold"));
        y += GAP;
    }
    let (badges, lanes_begin) = footer::badges(scene, &layout, y);
    let height: f64 = rows.iter().map(|(_, rows)| rows.height()).sum();
    picture = picture.add(axis::draw(&layout, lanes_begin, lanes_begin + height));
    y = lanes_begin;
    let mut lanes = Vec::new();
    for (place, rows) in &rows {
        picture = picture.add(rows.draw(*place, &layout, y, &tokens));
        lanes.push((*place, y, y + rows.height()));
        y += rows.height();
    }
    let marks = scene.violations.iter().map(|(at, one)| {
        let (x, line) = (layout.x(*at), Line::new().set("stroke", paint::ALARM).set("stroke-width", 1.5));
        let line = line.set("x1", x).set("x2", x).set("y1", lanes_begin).set("y2", y);
        Group::new().add(line).add(title(one.to_string()))
    });
    picture = marks.fold(picture, Group::add).add(badges);
    y += axis::HEIGHT + GAP;
    if has_texts {
        let (texts, below) = footer::violations(scene, y);
        picture = picture.add(texts);
        y = below;
    }
    let (legend, bottom) = footer::legend(scene, &layout, y + GAP);
    picture = picture.add(legend);

    let height = bottom + GAP;
    let paper = Rectangle::new().set("width", "100%").set("height", "100%").set("fill", paint::PAPER);
    let document = Document::new()
        .set("viewBox", (0, 0, width, height))
        .set("width", width)
        .set("height", height)
        .set("style", "max-width: 100%; height: auto")
        .set("font-family", "sans-serif")
        .set("font-size", layout::FONT);
    let document = document.add(Style::new(paint::dark())).add(definitions()).add(paper).add(picture);
    Drawing {
        svg: document.to_string(),
        width,
        height,
        left: LEFT,
        right: layout.right(),
        from: scene.window.from,
        until: scene.window.until,
        scale: layout.scale,
        lanes,
    }
}

/// Returns the lanes in order.
///
/// Clients come first, since the picture is about their holds, then the resources that they write to. Lanes between
/// clients and servers come between them.
fn in_order<'a>(scene: &'a Scene<'_>) -> impl Iterator<Item = Place> + 'a {
    let mut places: Vec<_> = scene.lanes.keys().copied().collect();
    places.sort_by_key(|place| match place {
        Place::Client(_) => 0,
        Place::Resource(_) => 1,
        Place::Network => 2,
        Place::Between(..) => 3,
        Place::Server(_) => 4,
    });
    places.into_iter()
}

/// Returns the hatching for lanes that are down or stopped.
fn definitions() -> Definitions {
    let stroke = Path::new().set("d", "M0 6L6 0").set("stroke", paint::STOPPED).set("stroke-width", 1);
    let pattern = Pattern::new().set("id", "stopped").set("width", 6).set("height", 6);
    Definitions::new().add(pattern.set("patternUnits", "userSpaceOnUse").add(stroke))
}

#[cfg(test)]
mod tests {
    use ::svg::node::element::tag;
    use ::svg::parser::Event;

    use crate::history::TokenNumber;
    use crate::invariant::history_builder::HistoryBuilder;
    use crate::invariant::{Invariant, Violation};
    use crate::timeline::Timeline;

    /// Draws a lease of one client, a key of it, and an early lease of another client.
    ///
    /// One server hangs and is flushed.
    fn picture(title: &str) -> String {
        let builder = HistoryBuilder::default()
            .requested(0, 0)
            .sent(0, 0, 0, 7)
            .carried(10, 0, 0, 7, 900)
            .granted(20, 0, 7, 800);
        let builder = builder
            .requested(30, 1)
            .stepped(300, 0)
            .paused(350, 0)
            .resumed(450, 0)
            .granted(500, 1, 8, 900)
            .closed(900, 1);
        let tokens = vec![TokenNumber(7), TokenNumber(8)];
        let description = "c1 acquires r0 as #8 while c0 holds it as #7".into();
        let violation =
            Violation { invariant: Invariant::Exclusion, broken: None, description, tokens, event: 8 };
        Timeline::new(&builder.history(), &[violation]).title(title).svg()
    }

    /// Returns the visible texts, in the order of the file.
    fn texts(document: &str) -> Vec<String> {
        let (mut texts, mut inside) = (Vec::new(), false);
        for event in svg::read(document).unwrap() {
            match event {
                Event::Error(error) => panic!("{error}"),
                Event::Tag(tag::Text, tag::Type::Start, _) => inside = true,
                Event::Tag(..) => inside = false,
                Event::Text(text) if inside => texts.push(text.to_owned()),
                _ => {}
            }
        }
        texts
    }

    #[test]
    fn a_picture_has_lanes_bars_faults_and_violations() {
        let texts = texts(&picture("seed 1"));
        for expected in
            ["seed 1", "c0", "c1", "n0", "r0 #7", "r0 #8", "paused", "clock +5000 ms", "1", "0.5 s"]
        {
            assert!(texts.iter().any(|text| text == expected), "{expected}: {texts:?}");
        }
        assert!(texts.iter().any(|text| text.contains("c1 acquires r0 as #8")), "{texts:?}");
    }

    #[test]
    fn the_legend_explains_the_marks_of_the_picture_only() {
        let texts = texts(&picture(""));
        let explains = |mark: &&str| texts.iter().any(|text| text == mark);
        let present = ["c0 holds a lock", "requests the lock", "down or stopped", "part of a violation"];
        assert_eq!(present.to_vec(), present.iter().copied().filter(explains).collect::<Vec<_>>());
        let absent = [
            "acts under the lock",
            "acts without the lock",
            "write that it rejects",
            "key whose vote does not count",
        ];
        assert_eq!(Vec::<&str>::new(), absent.iter().copied().filter(explains).collect::<Vec<_>>());
    }

    #[test]
    fn texts_are_escaped() {
        let picture = picture("<b> & co");
        assert!(picture.contains("&lt;b&gt; &amp; co"), "{picture}");
        assert!(!picture.contains("<b>"));
    }

    #[test]
    fn the_same_history_gives_the_same_document() {
        assert_eq!(picture("a"), picture("a"));
    }
}
