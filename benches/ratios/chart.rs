//! The bar chart of the ratios.

use std::error::Error;
use std::path::Path;

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::report::{Goal, Row};

const WIDTH: u32 = 900;
const BAR: i32 = 16;
const STEP: i32 = 24;
const HEADING: i32 = 34;
/// The left end of the bars, and the length of a bar for a ratio of 1.
const LEFT: i32 = 430;
const UNIT: f64 = 200.0;
/// The greatest ratio that is drawn. Longer bars are cut.
const LONGEST: f64 = 2.0;

const GOOD: RGBColor = RGBColor(46, 125, 50);
const MISSED: RGBColor = RGBColor(198, 40, 40);
const PLAIN: RGBColor = RGBColor(84, 110, 122);

/// Draws one bar for each charted row, with a line at 1 and a mark at the goal.
pub(crate) fn draw(rows: &[Row], path: &Path) -> Result<(), Box<dyn Error>> {
    let rows: Vec<&Row> = rows.iter().filter(|row| row.charted).collect();
    let mut groups: Vec<&str> = rows.iter().map(|row| row.group).collect();
    groups.dedup();
    let height =
        (rows.len() * STEP.unsigned_abs() as usize) + groups.len() * HEADING.unsigned_abs() as usize + 20;
    let root = SVGBackend::new(path, (WIDTH, u32::try_from(height)?)).into_drawing_area();
    root.fill(&WHITE)?;

    let (mut y, mut group) = (0, "");
    for row in rows {
        if row.group != group {
            group = row.group;
            y += HEADING;
            root.draw(&Text::new(group, (12, y - 14), ("sans-serif", 16).into_font()))?;
        }
        bar(&root, row, y)?;
        y += STEP;
    }
    root.draw(&PathElement::new([(x(1.0), 8), (x(1.0), y)], BLACK.mix(0.6)))?;
    root.present()?;
    Ok(())
}

fn bar<B: DrawingBackend>(
    area: &DrawingArea<B, plotters::coord::Shift>,
    row: &Row,
    y: i32,
) -> Result<(), DrawingAreaErrorKind<B::ErrorType>> {
    let ratio = row.ratio();
    let color = match row.goal {
        None => PLAIN,
        Some(goal) if goal.is_met(ratio) => GOOD,
        Some(_) => MISSED,
    };
    let middle = y + BAR / 2;
    let label = ("sans-serif", 13).into_font().color(&BLACK);
    let end = x(ratio.min(LONGEST));
    area.draw(&Text::new(
        format!("{} / {}", row.what, row.against),
        (LEFT - 8, middle),
        label.pos(Pos::new(HPos::Right, VPos::Center)),
    ))?;
    area.draw(&Rectangle::new([(LEFT, y), (end, y + BAR)], color.mix(0.85).filled()))?;
    let value = ("sans-serif", 13).into_font().color(&BLACK).pos(Pos::new(HPos::Left, VPos::Center));
    area.draw(&Text::new(format!("{ratio:.2}"), (x(LONGEST) + 12, middle), value))?;
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
