//! The view in a terminal, from its first look to its end.

use super::draw::{self, Theme};
use super::history::History;
use super::snapshot::Snapshot;
use super::source::Look;
use super::view::View;
use crate::error::{Error, Result};
use crate::interrupt;
use crate::screen::Screen;
use ratatui::crossterm::event::{Event, KeyEventKind};

/// Shows the looks that `next` has, until a key or a signal ends it. `next` never waits; it has
/// `None` if there is no look now.
///
/// # Errors
/// [`Error::Terminal`], and those of `next`.
pub fn run(addresses: Vec<String>, mut next: impl FnMut() -> Result<Option<Look>>) -> Result<()> {
    let mut history = History::new(addresses);
    let (mut view, theme) = (View::default(), Theme::of_environment());
    let mut screen = Screen::open()?;
    let mut changed = true;
    while interrupt::check().is_ok() {
        while let Some(look) = next()? {
            note(&mut history, look);
            changed = true;
        }
        if changed {
            let drawn = screen.0.draw(|frame| draw::draw(frame, &history, &view, theme));
            drawn.map(drop).map_err(Error::Terminal)?;
        }
        match Screen::input()? {
            Some(Event::Key(key)) if key.kind == KeyEventKind::Press => {
                if !view.press(key, &history) {
                    break;
                }
                changed = true;
            }
            // A new size, for example.
            event => changed = event.is_some(),
        }
    }
    Ok(())
}

/// Takes a look over into the history.
pub fn note(history: &mut History, look: Look) {
    let seen = look.answer.map(|text| Snapshot::parse(&text)).map_err(|error| error.to_string());
    history.note(look.device, look.time, seen);
}
