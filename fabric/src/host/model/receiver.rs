//! The receiving side of a flow in a reference model.

use super::header::{Header, Kind, MAP_WORDS, Map};
use super::{Control, ModelConfig, Recovery};
use crate::clock::Ps;

/// What has come of a flow.
#[derive(Clone, Copy, Debug)]
pub struct Receiver {
    /// The host that sends it.
    pub from: u32,
    /// The first packet that is missing, and what has come behind it.
    expected: u32,
    map: Map,
    /// Packets with marks.
    marks: u32,
    /// Packets since the last acknowledgement.
    unacknowledged: u32,
    /// An acknowledgement is due, whatever has come since the last.
    due: bool,
    /// Packets are thrown away, and the sender is to know.
    out_of_sequence: bool,
    /// The sender was told so, and the missing packet has not come since.
    told: bool,
    notified_at: Option<Ps>,
    /// Notifications that are due.
    notifications: u32,
}

impl Receiver {
    /// Of a flow from host `from`.
    #[must_use]
    pub const fn new(from: u32) -> Self {
        Self {
            from,
            expected: 0,
            map: Map([0; MAP_WORDS]),
            marks: 0,
            unacknowledged: 0,
            due: false,
            out_of_sequence: false,
            told: false,
            notified_at: None,
            notifications: 0,
        }
    }

    /// A packet of data.
    pub fn receive(&mut self, config: &ModelConfig, now: Ps, header: &Header, marked: bool) {
        self.unacknowledged += 1;
        self.note_mark(config, now, marked);
        match (config.recovery, header.number.checked_sub(self.expected)) {
            // It came before: the acknowledgement was lost.
            (_, None) => self.due = true,
            (_, Some(0)) => self.accept(),
            (Recovery::SelectiveRepeat, Some(ahead)) => {
                self.map.set(ahead - 1);
                self.due = true;
            }
            (Recovery::GoBackN, Some(_)) => {
                self.out_of_sequence |= !self.told;
                self.told = true;
            }
        }
        self.due |= header.number + 1 == header.count || self.unacknowledged >= config.packets_per_ack;
    }

    /// The packet that was expected has come.
    fn accept(&mut self) {
        // Map is of what is behind the missing one: the next place is the new missing one's.
        let run = 1 + (0..).find(|place| !self.map.has(*place)).unwrap_or(0);
        self.map.advance(run);
        self.expected += run;
        self.told = false;
    }

    fn note_mark(&mut self, config: &ModelConfig, now: Ps, marked: bool) {
        if !marked {
            return;
        }
        self.marks += 1;
        let rested = self.notified_at.is_none_or(|at| now.since(at) >= config.notify_gap);
        if matches!(config.control, Control::PacedDcqcn) && rested {
            self.notified_at = Some(now);
            self.notifications += 1;
        }
    }

    /// What the sender must be told now, most urgent first.
    pub fn answer(&mut self, host: u32, flow: u32) -> Option<Header> {
        let kind = if self.notifications > 0 {
            self.notifications -= 1;
            Kind::Congestion
        } else if core::mem::take(&mut self.out_of_sequence) {
            Kind::OutOfSequence
        } else if core::mem::take(&mut self.due) {
            self.unacknowledged = 0;
            Kind::Acknowledgement
        } else {
            return None;
        };
        Some(Header { kind, from: host, flow, number: self.expected, count: self.marks, map: self.map.0 })
    }
}
