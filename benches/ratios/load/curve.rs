//! The chart of goodput and latency against demand.

use std::error::Error;
use std::path::Path;

use plotters::coord::Shift;
use plotters::prelude::*;

use super::client::Kind;
use super::open::{Curve, Point};

const SIZE: (u32, u32) = (900, 380);

/// The range of demand in multiples of the capacity.
const FROM: f64 = 0.4;
const TO: f64 = 12.0;

/// Draws goodput on the left and p99 on the right, with one line per client.
pub(super) fn draw(curves: &[Curve], path: &Path) -> Result<(), Box<dyn Error>> {
    let root = SVGBackend::new(path, SIZE).into_drawing_area();
    root.fill(&WHITE)?;
    let (left, right) = root.split_horizontally(SIZE.0 / 2);
    panel(&left, "goodput, locks per second", curves, |point| Some(point.goodput))?;
    panel(&right, "p99 of the successful, in ms", curves, |point| point.p99().map(|p99| p99 / 1e3))?;
    root.present()?;
    Ok(())
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

fn panel(
    area: &Area<'_>,
    caption: &str,
    curves: &[Curve],
    figure: impl Fn(&Point) -> Option<f64>,
) -> Result<(), Box<dyn Error>> {
    let lines: Vec<(Kind, Vec<(f64, f64)>)> = curves
        .iter()
        .map(|curve| {
            let at = |point: &Point| figure(point).map(|figure| (point.demand, figure));
            (curve.kind, curve.points.iter().filter_map(at).collect())
        })
        .collect();
    let greatest = lines.iter().flat_map(|(_, line)| line).map(|(_, figure)| *figure).fold(1.0, f64::max);
    let mut chart = ChartBuilder::on(area)
        .caption(caption, ("sans-serif", 16))
        .margin(12)
        .x_label_area_size(40)
        .y_label_area_size(60)
        .build_cartesian_2d(
            (FROM..TO).log_scale().with_key_points(vec![0.5, 1.0, 2.0, 5.0, 10.0]),
            0.0..greatest * 1.4, // leaves room for the legend
        )?;
    chart
        .configure_mesh()
        .x_desc("demand, as a multiple of the capacity")
        .x_label_formatter(&|demand| format!("{demand}"))
        .y_label_formatter(&|figure| format!("{figure:.0}"))
        .light_line_style(TRANSPARENT)
        .draw()?;
    for (kind, line) in lines {
        let color = color(kind);
        chart
            .draw_series([PathElement::new(line.clone(), color.stroke_width(2))])?
            .label(kind.name())
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], color.stroke_width(2)));
        chart.draw_series(line.into_iter().map(|point| Circle::new(point, 3, color.filled())))?;
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .background_style(WHITE.mix(0.8))
        .border_style(BLACK.mix(0.3))
        .draw()?;
    Ok(())
}

fn color(kind: Kind) -> RGBColor {
    match kind {
        Kind::RedisRs => RGBColor(46, 125, 50),
        Kind::Fred => RGBColor(21, 101, 192),
        Kind::Rslock => RGBColor(198, 40, 40),
    }
}
