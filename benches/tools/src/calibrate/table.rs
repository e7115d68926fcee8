//! From what was measured to costs, and to a simulated host.

use super::lane::What;
use core::fmt;
use serde_json::{Value, json};

/// Packets of a WRITE of 64 KiB, and its KiB.
const LARGE: (f64, f64) = (16.0, 64.0);
/// KiB of a packet of 4 KiB.
const PACKET: f64 = 4.0;

/// What was measured, in nanoseconds of both ends together.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Times {
    small: f64,
    packet: f64,
    large: f64,
    read: f64,
    atomic: f64,
    turn: f64,
    create: f64,
    register: f64,
}

impl Times {
    /// Of the time of each.
    pub fn new(of: impl Fn(What) -> f64) -> Self {
        Self {
            small: of(What::Small),
            packet: of(What::Packet),
            large: of(What::Large),
            read: of(What::Read),
            atomic: of(What::Atomic),
            turn: of(What::Turn),
            create: of(What::Create),
            register: of(What::Register),
        }
    }
}

/// A line of the file: key, value, and what it is.
type Line = (&'static str, u32, &'static str);

/// Costs of operations, and a host.
#[derive(Clone, PartialEq, Debug)]
pub struct Table {
    costs: [Line; 5],
    host: [Line; 5],
    times: Times,
}

impl Table {
    /// A WRITE takes `a + b * packets + c * KiB`: three WRITEs tell a, b and c. What a READ or an
    /// atomic takes beyond its request is part of its `a`.
    #[must_use]
    pub fn of(times: &Times) -> Self {
        let kibibyte = ((times.packet - times.small) / PACKET).max(0.0);
        let (packets, kibibytes) = LARGE;
        let packet = (times.large - times.small - kibibytes * kibibyte) / (packets - 1.0);
        // A packet of a small message is not cheaper than nothing, nor dearer than all of it.
        let packet = packet.clamp(0.0, times.small);
        let part = |ns: f64| whole(100.0 * ns / times.small.max(1.0));
        // Each end sees a frame, and half of what both take.
        let frame = times.small / 2.0;
        let control = (times.create / 4.0).max(times.register / 2.0);
        Self {
            costs: [
                ("write", part(times.small - packet), "a WRITE, a SEND, and all that is none of those below"),
                ("read", part(times.read - packet), "a READ"),
                ("atomic", part(times.atomic - packet), "an atomic"),
                ("packet", part(packet), "each packet"),
                ("kibibyte", part(kibibyte), "each 1024 bytes"),
            ],
            host: [
                ("turn_ns", whole(times.turn).max(1), "a turn of the engine without work"),
                ("frame_ns", whole(frame), "a frame of a small message, sent or received"),
                ("byte_ps", whole(kibibyte / 2.0 * 1000.0 / 1024.0), "a byte"),
                ("atomic_ns", whole(times.atomic - times.read), "an atomic, beyond a READ of 8 bytes"),
                ("control_ns", whole(control), "a call that makes or destroys something"),
            ],
            times: *times,
        }
    }

    /// As one document.
    #[must_use]
    pub fn json(&self) -> Value {
        let object = |lines: &[Line]| {
            lines
                .iter()
                .map(|(key, value, _)| ((*key).to_owned(), (*value).into()))
                .collect::<serde_json::Map<_, _>>()
        };
        let Times { small, packet, large, read, atomic, turn, create, register } = self.times;
        json!({
            "costs": object(&self.costs),
            "host": object(&self.host),
            "measured_ns": {
                "write_8": small, "write_4k": packet, "write_64k": large, "read_8": read, "atomic": atomic,
                "turn": turn, "create": create, "register": register,
            },
        })
    }

    /// For people who have the file.
    #[must_use]
    pub fn words(&self) -> String {
        let Times { small, packet, large, read, atomic, .. } = self.times;
        format!(
            "both ends together: a WRITE of 8 bytes {small:.0} ns, of 4 KiB {packet:.0}, of 64 KiB {large:.0}; \
             a READ of 8 bytes {read:.0}, an atomic {atomic:.0}\n"
        )
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "it saturates, at 0 for what is less"
)]
fn whole(number: f64) -> u32 {
    number.round() as u32
}

/// The file.
impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "# What operations take on this machine, as `srnic calibrate` measured it.\n")?;
        writeln!(f, "# Hundredths of a WRITE of one small packet, for the caps of tenants.\n[costs]")?;
        self.costs.iter().try_for_each(|(key, value, what)| writeln!(f, "{key} = {value} # {what}"))?;
        writeln!(f, "\n# A host of `srnic isolate`, in nanoseconds; a byte in picoseconds.\n[host]")?;
        self.host.iter().try_for_each(|(key, value, what)| writeln!(f, "{key} = {value} # {what}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times() -> Times {
        // a = 20, b = 80, c = 30.
        Times {
            small: 100.0,
            packet: 220.0,
            large: 20.0 + 16.0 * 80.0 + 64.0 * 30.0,
            read: 190.0,
            atomic: 230.0,
            turn: 15.4,
            create: 6_000.0,
            register: 2_000.0,
        }
    }

    #[test]
    fn three_writes_tell_what_an_operation_a_packet_and_a_kibibyte_take() {
        let table = Table::of(&times());
        let values = |lines: &[Line]| lines.iter().map(|(key, value, _)| (*key, *value)).collect::<Vec<_>>();
        let costs = [("write", 20), ("read", 110), ("atomic", 150), ("packet", 80), ("kibibyte", 30)];
        assert_eq!(values(&table.costs), costs);
        let host =
            [("turn_ns", 15), ("frame_ns", 50), ("byte_ps", 15), ("atomic_ns", 40), ("control_ns", 1500)];
        assert_eq!(values(&table.host), host);
        assert_eq!(table.json()["measured_ns"]["write_64k"], json!(3220.0));
    }

    /// A machine on which nothing is as it should be has a table all the same.
    #[test]
    fn nonsense_makes_no_negative_cost() {
        let odd = Times { packet: 50.0, large: 10.0, read: 20.0, atomic: 0.0, ..times() };
        let table = Table::of(&odd);
        assert!(table.costs.iter().chain(&table.host).all(|(_, value, _)| *value < 10_000), "{table}");
    }
}
