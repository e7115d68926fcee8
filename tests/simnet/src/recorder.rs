//! A flight recorder: the last frames and their fate, for the report of a run that got stuck.

use crate::frame::Describe;
use crate::network::LinkId;
use core::fmt;
use datapath::time::Time;
use std::collections::VecDeque;

/// Frames kept unless more are asked for.
const FRAMES: usize = 48;

struct Entry {
    at: Time,
    link: LinkId,
    fate: &'static str,
    frame: Vec<u8>,
}

/// The last frames that entered any link.
pub struct Recorder {
    entries: VecDeque<Entry>,
    frames_max: usize,
}

impl Default for Recorder {
    fn default() -> Self {
        Self { entries: VecDeque::new(), frames_max: FRAMES }
    }
}

impl Recorder {
    /// Keeps more or fewer frames from now on.
    pub fn keep(&mut self, frames_max: usize) {
        self.frames_max = frames_max.max(1);
        while self.entries.len() > self.frames_max {
            self.entries.pop_front();
        }
    }

    /// Notes a frame.
    pub fn note(&mut self, at: Time, link: LinkId, fate: &'static str, frame: &[u8]) {
        let mut kept = if self.entries.len() == self.frames_max {
            self.entries.pop_front().map(|entry| entry.frame).unwrap_or_default()
        } else {
            Vec::new()
        };
        kept.clear();
        kept.extend_from_slice(frame);
        self.entries.push_back(Entry { at, link, fate, frame: kept });
    }

    /// Says what became of the frame noted last.
    pub fn amend(&mut self, fate: &'static str) {
        if let Some(entry) = self.entries.back_mut() {
            entry.fate = fate;
        }
    }
}

impl fmt::Display for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Entry { at, link, fate, frame } in &self.entries {
            writeln!(f, "{:>12} ns {link:?} {fate:<9} {}", at.0, Describe(frame))?;
        }
        Ok(())
    }
}
