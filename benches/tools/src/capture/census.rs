//! What is in a capture: packets by opcode, and those that are not as they should be.

use super::Frame;
use super::sift::{Sifted, sift};
use std::collections::BTreeMap;
use std::fmt;
use wire::{Opcode, Packet, Repr, WireMode, bth};

/// Faults that are named one by one.
const NAMED_MAX: usize = 20;

/// Packets of one opcode and dialect.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Count {
    /// How many.
    pub packets: u64,
    /// Bytes of their payloads.
    pub payload: u64,
}

/// What was found in a capture. Displays as a table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Census {
    udp_port: u16,
    /// Frames of every kind.
    pub frames: u64,
    /// RoCEv2 packets that can be parsed, by dialect and opcode.
    pub opcodes: BTreeMap<(&'static str, u8), Count>,
    /// RoCEv2 packets whose ICRC is wrong.
    pub bad_icrc: u64,
    /// Frames that ought to be RoCEv2 and cannot be parsed.
    pub unparsed: u64,
    /// Packets that would look different if they were sent again: reserved bits or padding that are
    /// not zero.
    pub changed: u64,
    /// Frames of which a part was not captured.
    pub cut: u64,
    named: Vec<String>,
}

impl Census {
    /// Of nothing yet. RoCEv2 is what goes to `udp_port`.
    #[must_use]
    pub const fn new(udp_port: u16) -> Self {
        Self {
            udp_port,
            frames: 0,
            opcodes: BTreeMap::new(),
            bad_icrc: 0,
            unparsed: 0,
            changed: 0,
            cut: 0,
            named: Vec::new(),
        }
    }

    /// Counts one frame.
    pub fn add(&mut self, frame: Frame<'_>) {
        self.frames += 1;
        let sifted = sift(frame, self.udp_port);
        if matches!(sifted, Sifted::Unparsed { intact: false, .. } | Sifted::Packet { intact: false, .. }) {
            self.bad_icrc += 1;
            self.name(format_args!("the ICRC is wrong"));
        }
        let (transport, packet) = match sifted {
            Sifted::Other => return,
            Sifted::Cut => {
                self.cut += 1;
                return self.name(format_args!("{} of {} bytes were captured", frame.bytes.len(), frame.len));
            }
            Sifted::Unparsed { error, .. } => {
                self.unparsed += 1;
                return self.name(format_args!("{error}"));
            }
            Sifted::Packet { transport, packet, .. } => (transport, packet),
        };
        let count = self.opcodes.entry((dialect(packet.mode()), packet.opcode() as u8)).or_default();
        count.packets += 1;
        count.payload += packet.payload().len() as u64;
        if let Some(at) = first_change(&packet, transport) {
            self.changed += 1;
            self.name(format_args!("byte {at} behind the UDP header would be another if it were sent again"));
        }
    }

    /// RoCEv2 packets that can be parsed.
    #[must_use]
    pub fn packets(&self) -> u64 {
        self.opcodes.values().map(|count| count.packets).sum()
    }

    /// Returns `true` if every RoCEv2 packet is as it should be, and was seen whole.
    #[must_use]
    pub const fn is_clean(&self) -> bool {
        self.bad_icrc == 0 && self.unparsed == 0 && self.changed == 0 && self.cut == 0
    }

    fn name(&mut self, fault: fmt::Arguments<'_>) {
        if self.named.len() < NAMED_MAX {
            self.named.push(format!("frame {}: {fault}", self.frames));
        }
    }
}

const fn dialect(mode: WireMode) -> &'static str {
    match mode {
        WireMode::Plain => "plain",
        WireMode::Srnic => "srnic",
    }
}

/// The first byte that differs if the packet is emitted from what was read of it, its padding
/// zeroed.
fn first_change(packet: &Packet<'_>, transport: &[u8]) -> Option<usize> {
    let repr = Repr::parse(packet);
    let mut again = vec![0; repr.header_len()];
    repr.emit(&mut again);
    again.extend(packet.payload());
    again.resize(again.len() + usize::from(bth::pad_of(packet.payload().len())), 0);
    again.extend(packet.icrc().to_le_bytes());
    let common = again.iter().zip(transport).position(|(again, sent)| again != sent);
    common.or_else(|| (again.len() != transport.len()).then_some(again.len().min(transport.len())))
}

impl fmt::Display for Census {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} frames, {} RoCEv2 packets", self.frames, self.packets())?;
        if !self.opcodes.is_empty() {
            writeln!(
                f,
                "{:>6}  {:<24} {:<7} {:>9} {:>14}",
                "opcode", "name", "dialect", "packets", "payload bytes"
            )?;
        }
        for ((dialect, opcode), count) in &self.opcodes {
            let name = Opcode::from_u8(*opcode).map(|opcode| format!("{opcode:?}")).unwrap_or_default();
            writeln!(
                f,
                "  0x{opcode:02x}  {name:<24} {dialect:<7} {:>9} {:>14}",
                count.packets, count.payload
            )?;
        }
        for fault in &self.named {
            writeln!(f, "{fault}")?;
        }
        let counts = [
            (self.bad_icrc, "with a wrong ICRC"),
            (self.unparsed, "that cannot be parsed"),
            (self.changed, "that would not be sent again bit for bit"),
            (self.cut, "that were not captured whole; capture with a larger snapshot length"),
        ];
        for (count, what) in counts.into_iter().filter(|(count, _)| *count > 0) {
            writeln!(f, "{count} {what}")?;
        }
        Ok(())
    }
}
