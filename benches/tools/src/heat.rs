//! A heat map: how bad each pair of two things is, in a terminal and as SVG.

use core::fmt;
use std::fmt::Write as _;

/// Shades of a terminal, from nothing to the worst.
const SHADES: [char; LEVELS] = ['·', '░', '▒', '▓', '█'];
/// Fills of the picture, from good to bad.
const FILLS: [&str; LEVELS] = ["#2e7d4f", "#8aa63c", "#d9b13b", "#d9772e", "#c0392b"];
/// How many levels there are.
pub const LEVELS: usize = 5;
/// Sizes of the picture, in pixels.
const CELL: (usize, usize) = (92, 26);
const LETTER: usize = 8;
const MARGIN: usize = 12;

/// One pair.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Cell {
    /// What stands in it: a few characters.
    pub text: String,
    /// How bad it is, below [`LEVELS`].
    pub level: usize,
}

/// Rows by columns, of which some pairs may be unknown.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HeatMap {
    /// What the numbers are.
    pub title: String,
    /// What stands above each column.
    pub columns: Vec<String>,
    /// What stands before each row, and its cells.
    pub rows: Vec<(String, Vec<Option<Cell>>)>,
}

impl HeatMap {
    fn first_width(&self) -> usize {
        self.rows.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0)
    }

    /// Width and height of its picture.
    fn size(&self) -> (usize, usize) {
        (self.left() + MARGIN + self.columns.len() * self.column(), 70 + self.rows.len() * CELL.1)
    }

    fn left(&self) -> usize {
        2 * MARGIN + LETTER * self.first_width()
    }

    fn column(&self) -> usize {
        let names = self.columns.iter().map(|name| name.chars().count() * LETTER + MARGIN);
        names.max().unwrap_or(0).max(CELL.0)
    }

    /// As a picture.
    #[must_use]
    pub fn svg(&self) -> String {
        svg(core::slice::from_ref(self))
    }

    /// Draws it so far below the upper edge.
    fn draw(&self, svg: &mut String, top: usize) {
        let (left, column) = (self.left(), self.column());
        let mut write = |x: usize, y: usize, text: &str, style: &str| {
            let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
            let _ = writeln!(svg, "<text x=\"{x}\" y=\"{}\" {style}>{text}</text>", top + y);
        };
        write(MARGIN, 20, &self.title, "fill=\"#222222\" font-weight=\"bold\"");
        for (number, name) in self.columns.iter().enumerate() {
            write(left + number * column + column / 2, 44, name, "fill=\"#222222\" text-anchor=\"middle\"");
        }
        for (row, (name, _)) in self.rows.iter().enumerate() {
            write(MARGIN, 54 + row * CELL.1 + 18, name, "fill=\"#222222\"");
        }
        for (row, (_, cells)) in self.rows.iter().enumerate() {
            for (number, cell) in cells.iter().enumerate() {
                let (x, y) = (left + number * column, top + 54 + row * CELL.1);
                let fill = cell.as_ref().map_or("#dddddd", |cell| FILLS[cell.level.min(LEVELS - 1)]);
                let text = cell.as_ref().map_or("", |cell| &cell.text);
                let _ = writeln!(
                    svg,
                    "<rect x=\"{x}\" y=\"{y}\" width=\"{}\" height=\"{}\" fill=\"{fill}\"/>\n\
                     <text x=\"{}\" y=\"{}\" fill=\"#ffffff\" text-anchor=\"middle\">{text}</text>",
                    column - 2,
                    CELL.1 - 2,
                    x + column / 2,
                    y + 17
                );
            }
        }
    }
}

/// Heat maps as one picture, one below the other.
#[must_use]
pub fn svg(maps: &[HeatMap]) -> String {
    let width = maps.iter().map(|map| map.size().0).max().unwrap_or(0);
    let height: usize = maps.iter().map(|map| map.size().1).sum();
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" \
         font-family=\"DejaVu Sans Mono,Menlo,Consolas,monospace\" font-size=\"13\">\n\
         <rect width=\"{width}\" height=\"{height}\" fill=\"#ffffff\"/>\n"
    );
    let mut top = 0;
    for map in maps {
        map.draw(&mut svg, top);
        top += map.size().1;
    }
    svg.push_str("</svg>\n");
    svg
}

impl fmt::Display for HeatMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let first = self.first_width();
        let widths: Vec<usize> = self.columns.iter().map(|name| name.chars().count().max(8)).collect();
        writeln!(f, "{}", self.title)?;
        write!(f, "{:first$}", "")?;
        for (name, width) in self.columns.iter().zip(&widths) {
            write!(f, "  {name:>width$}")?;
        }
        writeln!(f)?;
        for (name, cells) in &self.rows {
            write!(f, "{name:<first$}")?;
            for (cell, width) in cells.iter().zip(&widths) {
                let text = cell.as_ref().map_or_else(String::new, |cell| {
                    format!("{} {}", SHADES[cell.level.min(LEVELS - 1)], cell.text)
                });
                write!(f, "  {text:>width$}")?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map() -> HeatMap {
        let cell = |text: &str, level| Some(Cell { text: text.to_owned(), level });
        HeatMap {
            title: "slowness".to_owned(),
            columns: vec!["ordinary".to_owned(), "to <b>".to_owned()],
            rows: vec![
                ("CPU 0".to_owned(), vec![cell("1.00", 0), cell("9.31", 4)]),
                ("CPU 11".to_owned(), vec![cell("1.30", 2), None]),
            ],
        }
    }

    #[test]
    fn it_is_drawn_in_text() {
        let expected =
            "slowness\n        ordinary    to <b>\nCPU 0     · 1.00    █ 9.31\nCPU 11    ▒ 1.30          \n";
        assert_eq!(map().to_string(), expected);
    }

    #[test]
    fn it_is_drawn_as_a_picture() {
        let svg = map().svg();
        assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
        for part in ["CPU 11", "to &lt;b&gt;", ">9.31<", FILLS[4], "#dddddd"] {
            assert!(svg.contains(part), "{part}: {svg}");
        }
        assert_eq!(svg.matches("<rect ").count(), 1 + 4);
        assert_eq!((svg.matches('<').count(), svg.contains("<b>")), (svg.matches('>').count(), false));
        let both = super::svg(&[map(), map()]);
        assert!(both.contains("height=\"244\"") && both.contains("y=\"142\""), "{both}");
    }
}
