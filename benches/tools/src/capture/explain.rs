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
mod records;
mod report;
mod rules;
mod stream;
mod text;

pub use connection::{Connection, Stream};
pub use flow::FlowKey;
pub use judge::{Event, What};
pub use report::{Counts, Report};
pub use rules::{Rule, Violation};
pub use stream::Traffic;

use super::Frame;
use super::sift::{Sifted, sift};
use flow::{Flows, Record};

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
