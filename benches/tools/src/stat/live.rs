//! The view in a terminal, from its first look to its end.

use super::draw::{self, Theme};
use super::history::History;
use super::snapshot::Snapshot;
use super::source::Look;
use super::view::View;
use crate::error::{Error, Result};
use crate::interrupt;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use std::time::Duration;

/// How long a key, a look or a signal waits at most until it is seen.
const TICK: Duration = Duration::from_millis(50);

/// A terminal that is as it was before when this is dropped, or when there is a panic.
struct Screen(DefaultTerminal);

impl Screen {
    fn open() -> Result<Self> {
        // It sets a panic hook that restores the terminal before anything is said.
        ratatui::try_init().map(Self).map_err(Error::Terminal)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // The panic hook has done it, and to leave the alternate screen twice puts the cursor where
        // the panic is told.
        if !std::thread::panicking() {
            ratatui::restore();
        }
    }
}

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
        match input()? {
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

/// What the terminal has, within a tick.
fn input() -> Result<Option<Event>> {
    match event::poll(TICK) {
        Ok(true) => event::read().map(Some).map_err(Error::Terminal),
        Ok(false) => Ok(None),
        // A signal.
        Err(error) if error.kind() == std::io::ErrorKind::Interrupted => Ok(None),
        Err(error) => Err(Error::Terminal(error)),
    }
}

/// Takes a look over into the history.
pub fn note(history: &mut History, look: Look) {
    let seen = look.answer.map(|text| Snapshot::parse(&text)).map_err(|error| error.to_string());
    history.note(look.device, look.time, seen);
}
