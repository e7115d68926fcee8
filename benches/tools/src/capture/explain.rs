//! What happened to the connections of a capture: losses, resends, waits, and broken rules.
//!
//! A capture is what one end sent and received, as `pcap=` of a device records it. With the
//! captures of both ends each frame is looked for at both, so a loss is seen. With one, it follows
//! from what the peer said of it.

mod connection;
mod flow;
mod json;
mod judge;
mod matching;
mod pairing;
mod rules;
mod stream;
mod text;

pub use connection::{Connection, Stream};
pub use flow::FlowKey;
pub use judge::{Event, What};
pub use rules::{Rule, Violation};
pub use stream::Traffic;

use super::Frame;
use super::sift::{Sifted, sift};
use flow::{Flows, Record};
use serde_json::Value;
use std::fmt;

/// Takes frames in, and then explains them. It keeps some 300 bytes of each packet.
#[derive(Debug)]
pub struct Explain {
    udp_port: u16,
    files: Vec<Capture>,
}

/// One capture.
#[derive(Debug, Default)]
struct Capture {
    counts: Counts,
    flows: Flows,
}

/// Frames of all captures by what became of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// All.
    pub frames: u64,
    /// RoCEv2 packets with a wrong ICRC: receivers drop them.
    pub spoiled: u64,
    /// Frames that ought to be RoCEv2 and cannot be parsed.
    pub unparsed: u64,
    /// Frames that were not captured whole.
    pub cut: u64,
}

/// What is to be said. Displays as text.
#[derive(Clone, PartialEq, Debug)]
pub struct Report {
    /// The frames.
    pub counts: Counts,
    /// The connections, in the order in which they were seen.
    pub connections: Vec<Connection>,
}

impl Explain {
    /// Of nothing yet. RoCEv2 is what goes to `udp_port`.
    #[must_use]
    pub const fn new(udp_port: u16) -> Self {
        Self { udp_port, files: Vec::new() }
    }

    /// Begins the next capture; what is added from now on is in it.
    pub fn begin(&mut self) {
        self.files.push(Capture::default());
    }

    /// Takes a frame of the present capture.
    pub fn add(&mut self, frame: Frame<'_>) {
        if self.files.is_empty() {
            self.begin();
        }
        let Some(file) = self.files.last_mut() else { return };
        file.counts.frames += 1;
        match sift(frame, self.udp_port) {
            Sifted::Other => {}
            Sifted::Cut => file.counts.cut += 1,
            Sifted::Unparsed { .. } => file.counts.unparsed += 1,
            Sifted::Packet { intact: false, .. } => file.counts.spoiled += 1,
            Sifted::Packet { datagram, packet, .. } => {
                let (key, record) =
                    Record::of(file.counts.frames, frame.at_ns.unwrap_or(0), &datagram, &packet);
                file.flows.add(key, record);
            }
        }
    }

    /// Explains what was taken in.
    #[must_use]
    pub fn report(&self) -> Report {
        let mut counts = Counts::default();
        for file in &self.files {
            counts.frames += file.counts.frames;
            counts.spoiled += file.counts.spoiled;
            counts.unparsed += file.counts.unparsed;
            counts.cut += file.counts.cut;
        }
        let files: Vec<&Flows> = self.files.iter().map(|file| &file.flows).collect();
        let pairs = pairing::pairs(&files);
        Report { counts, connections: pairs.iter().map(|pair| connection::explain(&files, *pair)).collect() }
    }
}

impl Report {
    /// Rules that were broken, in all connections.
    pub fn violations(&self) -> impl Iterator<Item = &Violation> {
        self.connections.iter().flat_map(|connection| &connection.violations)
    }

    /// As a document, for programs.
    #[must_use]
    pub fn json(&self) -> Value {
        json::document(self)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        text::report(self, f)
    }
}
