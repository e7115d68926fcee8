//! Colours, or none of them.

use crate::stat::view::rank;
use ratatui::style::{Color, Modifier, Style};

/// How things look.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Theme {
    /// With the terminal's own sixteen colours.
    Colours,
    /// Bold, faint and reversed only.
    Plain,
}

impl Theme {
    /// The one that `NO_COLOR` (<https://no-color.org>) asks for.
    pub fn of_environment() -> Self {
        let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        if plain { Self::Plain } else { Self::Colours }
    }

    fn colour(self, colour: Color) -> Style {
        match self {
            Self::Colours => Style::new().fg(colour),
            Self::Plain => Style::new(),
        }
    }

    /// Headings.
    pub fn heading(self) -> Style {
        self.colour(Color::Cyan).add_modifier(Modifier::BOLD)
    }

    /// What is there, but is not what one looks for.
    pub const fn faint(self) -> Style {
        Style::new().add_modifier(Modifier::DIM)
    }

    /// The chosen row.
    pub const fn chosen(self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }

    /// What is as it is to be.
    pub fn good(self) -> Style {
        self.colour(Color::Green)
    }

    /// What somebody is to look at.
    pub fn bad(self) -> Style {
        self.colour(Color::Red).add_modifier(Modifier::BOLD)
    }

    /// Bars.
    pub fn bars(self) -> Style {
        self.colour(Color::Green)
    }

    /// What a queue pair waits for.
    pub fn limit(self, limit: &str) -> Style {
        match rank(limit) {
            0..=2 => self.bad(),
            3 => self.colour(Color::Yellow),
            4 => self.good(),
            _ => self.faint(),
        }
    }
}
