//! Says what a tool waits for: a person whose other end is missing must learn it.

use std::time::{Duration, Instant};

/// After so long it is said.
const AFTER: Duration = Duration::from_secs(2);
/// Between two looks whether the reason is another one by now.
const AGAIN: Duration = Duration::from_millis(250);

/// What was said of one wait. It is said on standard error after two seconds, once, and again when
/// the reason changes.
#[derive(Debug)]
pub struct Notice {
    due: Instant,
    said: Option<String>,
}

impl Default for Notice {
    fn default() -> Self {
        Self { due: Instant::now() + AFTER, said: None }
    }
}

impl Notice {
    /// Of a wait that begins now.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns `true` if something was said.
    #[must_use]
    pub const fn was_said(&self) -> bool {
        self.said.is_some()
    }

    /// It still waits: `what` did not happen, and `obstacle` says what is in the way, if it is
    /// known.
    pub fn look(&mut self, what: &str, obstacle: impl FnOnce() -> Option<String>) {
        if let Some(text) = self.news(Instant::now(), what, obstacle) {
            eprintln!("{text}");
        }
    }

    fn news(
        &mut self,
        now: Instant,
        what: &str,
        obstacle: impl FnOnce() -> Option<String>,
    ) -> Option<String> {
        if now < self.due {
            return None;
        }
        self.due = now + AGAIN;
        let text = match obstacle() {
            Some(why) => format!("waiting: {what} yet; {why}"),
            None => format!("waiting: {what} yet"),
        };
        if self.said.as_ref() == Some(&text) {
            return None;
        }
        self.said = Some(text.clone());
        Some(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_said_after_two_seconds_once_and_again_when_the_reason_changes() {
        let mut notice = Notice::new();
        let start = notice.due - AFTER;
        let mut at = |millis: u64, why: Option<&str>| {
            notice.news(start + Duration::from_millis(millis), "no peer came", || why.map(str::to_owned))
        };
        assert_eq!(at(1999, Some("one")), None);
        assert_eq!(at(2000, Some("one")).as_deref(), Some("waiting: no peer came yet; one"));
        assert_eq!(at(2100, Some("two")), None, "it is looked at now and then");
        assert_eq!(at(9000, Some("one")), None);
        assert_eq!(at(9250, Some("two")).as_deref(), Some("waiting: no peer came yet; two"));
        assert_eq!(at(9500, None).as_deref(), Some("waiting: no peer came yet"));
        assert_eq!(at(9750, None), None);
    }
}
