//! What was found of one thing, in words, with what to do about it.

use core::fmt;
use serde_json::{Value, json};

/// How bad it is. A later one is worse.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Level {
    /// As it should be.
    Good,
    /// Nothing tells.
    Unknown,
    /// It works, and slower or less evenly than it could.
    Warning,
    /// It does not work, or is far slower than it could be.
    Bad,
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Good => "good",
            Self::Unknown => "unknown",
            Self::Warning => "warning",
            Self::Bad => "bad",
        })
    }
}

/// What was found of one thing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    /// What it is about.
    pub name: String,
    /// How bad it is.
    pub level: Level,
    /// What was seen.
    pub words: String,
    /// What to do, if it is a warning or bad.
    pub remedy: Option<String>,
}

impl Finding {
    /// As it should be.
    pub fn good(name: impl Into<String>, words: impl Into<String>) -> Self {
        Self { name: name.into(), level: Level::Good, words: words.into(), remedy: None }
    }

    /// Nothing tells.
    pub fn unknown(name: impl Into<String>, words: impl Into<String>) -> Self {
        Self { level: Level::Unknown, ..Self::good(name, words) }
    }

    /// It could be better.
    pub fn warning(name: impl Into<String>, words: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { level: Level::Warning, remedy: Some(remedy.into()), ..Self::good(name, words) }
    }

    /// It must be better.
    pub fn bad(name: impl Into<String>, words: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { level: Level::Bad, ..Self::warning(name, words, remedy) }
    }

    fn json(&self) -> Value {
        json!({ "name": self.name, "verdict": self.level.to_string(), "words": self.words, "remedy": self.remedy })
    }
}

/// All that was found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Findings(pub Vec<Finding>);

impl Findings {
    /// The worst of all levels.
    #[must_use]
    pub fn verdict(&self) -> Level {
        self.0.iter().map(|finding| finding.level).max().unwrap_or(Level::Unknown)
    }

    /// A document with all of them below `rows`, and the worst level as `verdict`.
    #[must_use]
    pub fn json(&self, rows: &str) -> Value {
        let all: Vec<Value> = self.0.iter().map(Finding::json).collect();
        json!({ rows: all, "verdict": self.verdict().to_string() })
    }
}

impl fmt::Display for Findings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = self.0.iter().map(|finding| finding.name.chars().count()).max().unwrap_or_default();
        for Finding { name, level, words, remedy } in &self.0 {
            writeln!(f, "{level:<8} {name:<width$}  {words}")?;
            if let Some(remedy) = remedy {
                writeln!(f, "{:8} {:width$}  -> {remedy}", "", "")?;
            }
        }
        Ok(())
    }
}
