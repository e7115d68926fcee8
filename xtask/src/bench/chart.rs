//! Figures as SVG.

use std::path::Path;

use plotters::prelude::*;

use crate::error::{Error, Result};

/// Bars of one unit, one below the other.
pub struct Panel<'a> {
    pub unit: &'a str,
    pub bars: Vec<(&'a str, f64)>,
}

const WIDTH: u32 = 900;
const BAR: u32 = 26;
const TITLE: u32 = 40;
/// Heading and scale of a panel.
const PANEL: u32 = 60;

fn draws<E: std::error::Error>(path: &Path) -> impl Fn(E) -> Error {
    move |error| Error(format!("cannot draw {}: {error}", path.display()))
}

/// Draws panels of bars, one below the other.
pub fn bars(path: &Path, title: &str, panels: &[Panel<'_>]) -> Result<()> {
    let heights: Vec<u32> = panels.iter().map(|panel| PANEL + BAR * as_u32(panel.bars.len())).collect();
    let total = TITLE + heights.iter().sum::<u32>();
    let root = SVGBackend::new(path, (WIDTH, total)).into_drawing_area();
    root.fill(&WHITE).map_err(draws(path))?;
    let root = root.titled(title, ("sans-serif", 20)).map_err(draws(path))?;
    let mut rest = root;
    for (panel, height) in panels.iter().zip(heights) {
        let (area, below) = rest.split_vertically(height);
        draw_panel(&area, panel).map_err(draws(path))?;
        rest = below;
    }
    rest.present().map_err(draws(path))
}

type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;
type Drawn = std::result::Result<(), DrawingAreaErrorKind<std::io::Error>>;

fn draw_panel(area: &Area<'_>, panel: &Panel<'_>) -> Drawn {
    let most = panel.bars.iter().map(|(_, value)| *value).fold(0.0, f64::max).max(1e-9);
    let count = panel.bars.len();
    let mut chart = ChartBuilder::on(area)
        .margin(8)
        .x_label_area_size(30)
        .y_label_area_size(260)
        .build_cartesian_2d(0.0..most * 1.15, (0..count).into_segmented())?;
    // The first bar is the topmost.
    let of = |row: usize| count.checked_sub(row + 1).and_then(|index| panel.bars.get(index));
    let label = |segment: &SegmentValue<usize>| match segment {
        SegmentValue::CenterOf(row) => of(*row).map_or("", |(label, _)| *label).to_owned(),
        _ => String::new(),
    };
    chart
        .configure_mesh()
        .disable_y_mesh()
        .y_labels(count)
        .y_label_formatter(&label)
        .x_desc(panel.unit)
        .draw()?;
    let bar = |(index, (_, value)): (usize, &(&str, f64))| {
        let row = count - 1 - index;
        let corners = [(0.0, SegmentValue::Exact(row)), (*value, SegmentValue::Exact(row + 1))];
        let mut bar = Rectangle::new(corners, Palette99::pick(0).filled());
        bar.set_margin(4, 4, 0, 0);
        bar
    };
    chart.draw_series(panel.bars.iter().enumerate().map(bar))?;
    let number = |(index, (_, value)): (usize, &(&str, f64))| {
        let place = (*value, SegmentValue::CenterOf(count - 1 - index));
        Text::new(format!(" {value:.2}"), place, ("sans-serif", 14))
    };
    chart.draw_series(panel.bars.iter().enumerate().map(number))?;
    Ok(())
}

/// A line of points.
pub struct Line<'a> {
    pub name: &'a str,
    pub points: Vec<(f64, f64)>,
}

/// Draws lines over positions that have names, from left to right.
pub fn lines(
    path: &Path,
    title: &str,
    [x, y]: [&str; 2],
    names: &[String],
    lines: &[Line<'_>],
) -> Result<()> {
    lines_marked(path, title, [x, y], names, lines, &[])
}

/// Draws lines as [`lines`] does, and upright ones with a text at these places.
pub fn lines_marked(
    path: &Path,
    title: &str,
    [x, y]: [&str; 2],
    names: &[String],
    lines: &[Line<'_>],
    marks: &[(f64, String)],
) -> Result<()> {
    let root = SVGBackend::new(path, (WIDTH, 480)).into_drawing_area();
    draw_lines(&root, title, [x, y], names, (lines, marks)).map_err(draws(path))?;
    root.present().map_err(draws(path))
}

#[expect(clippy::cast_precision_loss, reason = "a handful of positions")]
fn draw_lines(
    area: &Area<'_>,
    title: &str,
    [x, y]: [&str; 2],
    names: &[String],
    (lines, marks): (&[Line<'_>], &[(f64, String)]),
) -> Drawn {
    area.fill(&WHITE)?;
    let most = lines.iter().flat_map(|line| &line.points).map(|point| point.1).fold(0.0, f64::max).max(1e-9);
    let mut chart = ChartBuilder::on(area)
        .caption(title, ("sans-serif", 20))
        .margin(12)
        .x_label_area_size(40)
        .y_label_area_size(60)
        .build_cartesian_2d(-0.2..names.len() as f64 - 0.8, 0.0..most * 1.1)?;
    let name = |position: &f64| {
        let whole = (position - position.round()).abs() < 1e-6;
        let nearest = names.iter().enumerate().find(|(index, _)| (*index as f64 - position).abs() < 0.5);
        nearest.filter(|_| whole).map_or_else(String::new, |(_, name)| name.clone())
    };
    chart.configure_mesh().x_labels(2 * names.len()).x_label_formatter(&name).x_desc(x).y_desc(y).draw()?;
    for (index, line) in lines.iter().enumerate() {
        let color = Palette99::pick(index).to_rgba();
        let points = line.points.iter().copied();
        chart
            .draw_series(LineSeries::new(points.clone(), color.stroke_width(2)))?
            .label(line.name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 20, y)], color.stroke_width(2)));
        chart.draw_series(points.map(|point| Circle::new(point, 3, color.filled())))?;
    }
    for (at, text) in marks {
        chart.draw_series(LineSeries::new([(*at, 0.0), (*at, most * 1.05)], BLACK.mix(0.5)))?;
        chart.draw_series([Text::new(text.clone(), (*at, most * 1.08), ("sans-serif", 12))])?;
    }
    chart.configure_series_labels().background_style(WHITE).border_style(BLACK).draw()?;
    Ok(())
}

fn as_u32(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;

    #[test]
    fn labels_and_values_are_in_the_picture() {
        let scratch = Scratch::new().expect("a directory");
        let path = scratch.path().join("chart.svg");
        let panel = Panel { unit: "Gb/s", bars: vec![("raw", 120.5), ("srnic", 80.25)] };
        bars(&path, "beside", &[panel]).expect("drawn");
        let svg = std::fs::read_to_string(&path).expect("written");
        for text in ["beside", "Gb/s", "raw", "srnic", "120.50", "80.25"] {
            assert!(svg.contains(text), "{text} is missing");
        }
        let line = Line { name: "selective repeat", points: vec![(0.0, 1.0), (1.0, 0.5)] };
        let marks = [(0.5, "from here".to_owned())];
        let names = ["0 %".to_owned(), "1 %".to_owned()];
        lines_marked(&path, "goodput", ["loss", "of lossless"], &names, &[line], &marks).expect("drawn");
        let svg = std::fs::read_to_string(&path).expect("written");
        for text in ["goodput", "loss", "of lossless", "0 %", "1 %", "selective repeat", "from here"] {
            assert!(svg.contains(text), "{text} is missing");
        }
    }
}
