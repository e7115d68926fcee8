//! The terminal, as views have it.

use crate::error::{Error, Result};
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use ratatui::widgets::Paragraph;
use std::time::Duration;

/// How long a key, a look or a signal waits at most until it is seen.
const TICK: Duration = Duration::from_millis(50);

/// A terminal that is as it was before when this is dropped, or when there is a panic.
pub struct Screen(pub DefaultTerminal);

impl Screen {
    /// Takes the terminal.
    ///
    /// # Errors
    /// [`Error::Terminal`].
    pub fn open() -> Result<Self> {
        // It sets a panic hook that restores the terminal before anything is said.
        ratatui::try_init().map(Self).map_err(Error::Terminal)
    }

    /// Shows a text, and nothing else.
    ///
    /// # Errors
    /// [`Error::Terminal`].
    pub fn show(&mut self, text: &str) -> Result<()> {
        let drawn = self.0.draw(|frame| frame.render_widget(Paragraph::new(text), frame.area()));
        drawn.map(drop).map_err(Error::Terminal)
    }

    /// What the terminal has, within a tick.
    ///
    /// # Errors
    /// [`Error::Terminal`].
    pub fn input() -> Result<Option<Event>> {
        match event::poll(TICK) {
            Ok(true) => event::read().map(Some).map_err(Error::Terminal),
            Ok(false) => Ok(None),
            // A signal.
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => Ok(None),
            Err(error) => Err(Error::Terminal(error)),
        }
    }

    /// Whether somebody wants to leave a view that knows no other key.
    ///
    /// # Errors
    /// [`Error::Terminal`].
    pub fn is_left() -> Result<bool> {
        let Some(Event::Key(key)) = Self::input()? else { return Ok(false) };
        let interrupts = key.modifiers.contains(KeyModifiers::CONTROL) && key.code == KeyCode::Char('c');
        let quits = interrupts || matches!(key.code, KeyCode::Char('q') | KeyCode::Esc);
        Ok(quits && key.kind == KeyEventKind::Press)
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
