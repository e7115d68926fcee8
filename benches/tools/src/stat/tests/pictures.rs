//! Pictures of the view, in terminals of several sizes.

use super::history;
use crate::stat::draw::{Theme, draw};
use crate::stat::history::History;
use crate::stat::view::View;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::style::Color;

fn terminal(width: u16, height: u16, history: &History, view: &View, theme: Theme) -> Terminal<TestBackend> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("it is in memory");
    terminal.draw(|frame| draw(frame, history, view, theme)).expect("it is in memory");
    terminal
}

fn picture(width: u16, height: u16, history: &History, keys: &str) -> String {
    let view = pressed(history, keys);
    terminal(width, height, history, &view, Theme::Colours).backend().to_string()
}

/// A view after those keys; `\n` is enter.
fn pressed(history: &History, keys: &str) -> View {
    let mut view = View::default();
    for char in keys.chars() {
        let code = if char == '\n' { KeyCode::Enter } else { KeyCode::Char(char) };
        assert!(view.press(KeyEvent::new(code, KeyModifiers::NONE), history), "{keys:?} quits");
    }
    view
}

#[test]
fn a_device_fills_a_terminal_of_80_columns() {
    insta::assert_snapshot!(picture(80, 24, &history(1), ""));
}

#[test]
fn a_wide_terminal_has_all_columns() {
    insta::assert_snapshot!(picture(132, 20, &history(1), "jj"));
}

#[test]
fn a_narrow_terminal_keeps_what_is_needed_most() {
    insta::assert_snapshot!(picture(46, 14, &history(1), ""));
}

#[test]
fn many_devices_have_a_line_each() {
    insta::assert_snapshot!(picture(100, 20, &history(5), "s"));
}

#[test]
fn a_filter_leaves_what_matches() {
    insta::assert_snapshot!(picture(80, 16, &history(1), "/0.4\nr"));
}

#[test]
fn a_queue_pair_is_explained() {
    insta::assert_snapshot!(picture(80, 24, &history(1), "j\n"));
}

#[test]
fn tenants_have_a_page() {
    insta::assert_snapshot!(picture(90, 14, &history(1), "t"));
    let none = picture(90, 14, &History::new(["/new".to_owned()]), "t");
    assert!(none.contains("no tenants"), "{none}");
}

#[test]
fn the_keys_are_explained() {
    insta::assert_snapshot!(picture(80, 24, &history(1), "?"));
}

#[test]
fn a_device_that_has_gone_is_named_and_its_last_figures_stay() {
    let mut history = history(1);
    history.note(0, 60.0, Err("Connection refused (os error 111)".to_owned()));
    insta::assert_snapshot!(picture(100, 16, &history, ""));
}

/// Every size and page; what is drawn outside of the terminal would be a panic.
#[test]
fn no_terminal_is_too_small_or_too_large() {
    for history in [History::default(), History::new(["/new".to_owned()]), history(1), history(30)] {
        for (width, height) in [(0, 0), (1, 1), (24, 6), (25, 7), (80, 1), (8, 60), (300, 100)] {
            for keys in ["", "/no", "\n", "?", "t", "jjjjjjj"] {
                terminal(width, height, &history, &pressed(&history, keys), Theme::Plain);
            }
        }
    }
}

#[test]
fn without_colours_there_are_none() {
    let history = history(1);
    let coloured = |theme| {
        let pages = ["", "\n", "?", "t"].map(|keys| {
            let terminal = terminal(80, 24, &history, &pressed(&history, keys), theme);
            let cells = terminal.backend().buffer().content();
            cells.iter().filter(|cell| (cell.fg, cell.bg) != (Color::Reset, Color::Reset)).count()
        });
        pages.iter().sum::<usize>()
    };
    assert!(coloured(Theme::Colours) > 300);
    assert_eq!(coloured(Theme::Plain), 0);
}
