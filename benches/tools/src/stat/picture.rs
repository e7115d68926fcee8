//! The README's picture of the view: what is drawn, as SVG.

use super::draw::{Theme, draw};
use super::tests::history;
use super::view::View;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::{Buffer, Cell};
use ratatui::style::{Color, Modifier};
use std::fmt::Write as _;
use std::path::Path;

/// Of a cell, in pixels.
const WIDTH: u16 = 8;
const HEIGHT: u16 = 17;
/// Around all cells.
const MARGIN: u16 = 10;
/// Set to anything, the picture is written instead of compared.
const WRITE: &str = "SRNIC_WRITE_FIGURES";

/// The cells as SVG, in a font whose characters are equally wide.
fn svg(buffer: &Buffer) -> String {
    let (width, height) = (buffer.area.width * WIDTH + 2 * MARGIN, buffer.area.height * HEIGHT + 2 * MARGIN);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" \
         font-family=\"DejaVu Sans Mono,Menlo,Consolas,monospace\" font-size=\"13\" xml:space=\"preserve\">\n\
         <rect width=\"{width}\" height=\"{height}\" rx=\"6\" fill=\"#15191e\"/>\n"
    );
    for row in 0..buffer.area.height {
        let cells: Vec<&Cell> =
            (0..buffer.area.width).filter_map(|column| buffer.cell((column, row))).collect();
        let mut column = 0;
        for run in cells.chunk_by(|a, b| (a.fg, a.modifier) == (b.fg, b.modifier)) {
            let length = u16::try_from(run.len()).expect("at most a row");
            write_run(&mut svg, run, (column, row), length);
            column += length;
        }
    }
    svg.push_str("</svg>\n");
    svg
}

/// Cells of one style, beside each other.
fn write_run(svg: &mut String, run: &[&Cell], (column, row): (u16, u16), length: u16) {
    let text: String = run.iter().map(|cell| cell.symbol()).collect();
    let style = run[0];
    let (x, y) = (MARGIN + column * WIDTH, MARGIN + row * HEIGHT);
    let is = |modifier| style.modifier.contains(modifier);
    let mut fill = colour(style.fg);
    if is(Modifier::REVERSED) {
        let _ = writeln!(
            svg,
            "<rect x=\"{x}\" y=\"{y}\" width=\"{}\" height=\"{HEIGHT}\" fill=\"{fill}\"/>",
            length * WIDTH
        );
        fill = "#15191e";
    }
    if text.trim().is_empty() {
        return;
    }
    let bold = if is(Modifier::BOLD) { " font-weight=\"bold\"" } else { "" };
    let faint = if is(Modifier::DIM) { " opacity=\"0.6\"" } else { "" };
    let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let _ = writeln!(
        svg,
        "<text x=\"{x}\" y=\"{}\" textLength=\"{}\" fill=\"{fill}\"{bold}{faint}>{text}</text>",
        y + HEIGHT - 4,
        length * WIDTH
    );
}

const fn colour(colour: Color) -> &'static str {
    match colour {
        Color::Cyan => "#56b6c2",
        Color::Green => "#98c379",
        Color::Red => "#ff6c6b",
        Color::Yellow => "#e5c07b",
        _ => "#d7dae0",
    }
}

/// `docs/figures/live.svg` is what the view draws today.
#[test]
fn the_picture_of_the_readme_is_what_is_drawn() {
    let mut terminal = Terminal::new(TestBackend::new(88, 14)).expect("it is in memory");
    let history = history(1);
    terminal.draw(|frame| draw(frame, &history, &View::default(), Theme::Colours)).expect("it is in memory");
    let drawn = svg(terminal.backend().buffer());
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/figures/live.svg");
    if std::env::var_os(WRITE).is_some() {
        std::fs::write(&path, &drawn).expect("a file of ours");
    }
    let shown = std::fs::read_to_string(&path).expect("the README shows it");
    assert!(shown == drawn, "draw it again: {WRITE}=1 cargo test -p srnic-tools picture");
}
