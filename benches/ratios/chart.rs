//! The bar chart of the ratios: one panel for costs, where less is better, and one for rates, where more is better.

use std::error::Error;
use std::path::Path;

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::report::{Goal, Row};

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Drawn = Result<(), Box<dyn Error>>;

const WIDTH: i32 = 960;
const MARGIN: i32 = 12;
const LINE: i32 = 18;
const BAR: i32 = 16;
const STEP: i32 = 24;
const GROUP: i32 = 28;
const TITLE: i32 = 44;
/// The left end of the bars, and the length of a bar for a ratio of 1.
const LEFT: i32 = 480;
const UNIT: f64 = 200.0;
/// The greatest ratio that is drawn. Longer bars are cut.
const LONGEST: f64 = 2.0;

const GOOD: RGBColor = RGBColor(46, 125, 50);
const MISSED: RGBColor = RGBColor(198, 40, 40);
const PLAIN: RGBColor = RGBColor(84, 110, 122);
const BETTER: RGBColor = RGBColor(232, 245, 233);

const LEGEND: [&str; 4] = [
    "Each bar is a ratio: this library compared with the peer that is named behind \"against\".",
    "The line is a ratio of 1, which is equal to the peer. The shaded side of it is better.",
    "By hand: the same client crate without this library. rslock: another Redlock crate. Others: the same library.",
    "A short vertical mark is the goal. Green bars meet it, red ones miss it, and gray ones have none.",
];

/// A part of the chart in which the same side is better.
struct Panel<'a> {
    title: &'static str,
    /// The ratios that are better.
    better: [f64; 2],
    rows: Vec<&'a Row>,
}

/// Draws one bar for each charted row, with a line at 1 and a mark at the goal.
pub(crate) fn draw(rows: &[Row], path: &Path) -> Drawn {
    let of = |is_rate| rows.iter().filter(|row| row.charted && row.is_rate() == is_rate).collect();
    let panels = [
        Panel { title: "Time: less is better", better: [0.0, 1.0], rows: of(false) },
        Panel { title: "Locks per second: more is better", better: [1.0, LONGEST], rows: of(true) },
    ];
    let top = MARGIN + LINE * i32::try_from(LEGEND.len())?;
    let height = top + panels.iter().map(Panel::height).sum::<i32>() + MARGIN;
    let size = (u32::try_from(WIDTH)?, u32::try_from(height)?);
    let root = SVGBackend::new(path, size).into_drawing_area();
    root.fill(&WHITE)?;
    for (line, y) in LEGEND.into_iter().zip((MARGIN..).step_by(LINE.unsigned_abs() as usize)) {
        root.draw(&Text::new(line, (MARGIN, y), ("sans-serif", 13).into_font()))?;
    }
    let mut y = top;
    for panel in &panels {
        panel.draw(&root, y)?;
        y += panel.height();
    }
    root.present()?;
    Ok(())
}

impl Panel<'_> {
    fn height(&self) -> i32 {
        let mut groups: Vec<&str> = self.rows.iter().map(|row| row.group).collect();
        groups.dedup();
        let count = |length: usize| i32::try_from(length).expect("a chart has few rows");
        TITLE + count(groups.len()) * GROUP + count(self.rows.len()) * STEP
    }

    fn draw(&self, area: &Area<'_>, top: i32) -> Drawn {
        let bottom = top + self.height();
        let shade = self.better.map(x);
        area.draw(&Rectangle::new([(shade[0], top + TITLE), (shade[1], bottom)], BETTER.filled()))?;
        area.draw(&Text::new(self.title, (MARGIN, top + LINE), ("sans-serif", 19).into_font()))?;
        let center = Pos::new(HPos::Center, VPos::Bottom);
        for ratio in [0.0, 0.5, 1.0, 1.5, LONGEST] {
            let tick = ("sans-serif", 12).into_font().color(&BLACK).pos(center);
            area.draw(&Text::new(format!("{ratio}"), (x(ratio), top + TITLE - 2), tick))?;
        }
        let (mut y, mut group) = (top + TITLE, "");
        for row in &self.rows {
            if row.group != group {
                group = row.group;
                area.draw(&Text::new(group, (MARGIN, y + 8), ("sans-serif", 15).into_font()))?;
                y += GROUP;
            }
            bar(area, row, y)?;
            y += STEP;
        }
        area.draw(&PathElement::new([(x(1.0), top + TITLE), (x(1.0), bottom)], BLACK.mix(0.6)))?;
        Ok(())
    }
}

fn bar(area: &Area<'_>, row: &Row, y: i32) -> Drawn {
    let ratio = row.ratio();
    let color = match row.goal {
        None => PLAIN,
        Some(goal) if goal.is_met(ratio) => GOOD,
        Some(_) => MISSED,
    };
    let middle = y + BAR / 2;
    let text = |side| ("sans-serif", 13).into_font().color(&BLACK).pos(Pos::new(side, VPos::Center));
    let what = format!("{}, against {}", row.what, row.against);
    area.draw(&Text::new(what, (LEFT - 8, middle), text(HPos::Right)))?;
    let end = x(ratio.min(LONGEST));
    area.draw(&Rectangle::new([(LEFT, y), (end, y + BAR)], color.mix(0.85).filled()))?;
    area.draw(&Text::new(format!("{ratio:.2}"), (x(LONGEST) + 12, middle), text(HPos::Left)))?;
    if let Some(Goal::AtMost(bound) | Goal::AtLeast(bound)) = row.goal {
        let mark = [(x(bound), y - 3), (x(bound), y + BAR + 3)];
        area.draw(&PathElement::new(mark, BLACK.stroke_width(2)))?;
    }
    Ok(())
}

#[allow(clippy::cast_possible_truncation)] // a few hundred pixels
fn x(ratio: f64) -> i32 {
    LEFT + (ratio * UNIT) as i32
}
