//! What the stock tools tell each other of their ends: text of a fixed length, each in its own
//! form.

use std::net::{IpAddr, Ipv6Addr};
use verbs_api::{Endpoint, Pmtu, WireMode};

/// Packets in flight: as many as rxe itself allows, whose receiver may be slow.
const WINDOW: u16 = 128;

/// One end of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Keys {
    /// READs and atomics that it takes at once.
    pub out_reads: u8,
    /// Queue pair and first PSN.
    pub qpn: u32,
    pub psn: u32,
    /// Its memory.
    pub rkey: u32,
    pub vaddr: u64,
    /// Its GID, which holds its IP address.
    pub gid: Ipv6Addr,
}

impl Keys {
    /// The peer's end, to connect to.
    pub fn endpoint(&self, path_mtu: Pmtu) -> Endpoint {
        Endpoint {
            ip: IpAddr::V6(self.gid).to_canonical(),
            mac: None,
            qpn: self.qpn,
            psn: self.psn,
            path_mtu,
            window: WINDOW,
            mtu: None,
            rd_atomic: self.out_reads,
            wire_mode: WireMode::Plain,
            strict_placement: false,
            unreliable: false,
        }
    }

    /// As perftest says it: LID, reads, QPN, PSN, rkey, address, 16 bytes of GID, SRQ number; 108
    /// bytes with the NUL.
    pub fn to_perftest(self) -> Vec<u8> {
        let Self { out_reads, qpn, psn, rkey, vaddr, gid } = self;
        let gid: String = gid.octets().iter().map(|byte| format!("{byte:02x}:")).collect();
        let text = format!(
            "{:04x}:{out_reads:04x}:{qpn:06x}:{psn:06x}:{rkey:08x}:{vaddr:016x}:{gid}{:08x}:\0",
            0, 0
        );
        text.into_bytes()
    }

    /// What [`Keys::to_perftest`] made.
    pub fn from_perftest(bytes: &[u8]) -> Option<Self> {
        let fields = hex_fields(bytes)?;
        let number = |index: usize| fields.get(index).and_then(|&number| u32::try_from(number).ok());
        let mut gid = [0; 16];
        for (byte, field) in gid.iter_mut().zip(fields.get(6..22)?) {
            *byte = u8::try_from(*field).ok()?;
        }
        Some(Self {
            out_reads: u8::try_from(*fields.get(1)?).ok()?,
            qpn: number(2)?,
            psn: number(3)?,
            rkey: number(4)?,
            vaddr: *fields.get(5)?,
            gid: Ipv6Addr::from(gid),
        })
    }

    /// As ibv_rc_pingpong says it: LID, QPN, PSN, GID; 52 bytes, the last no text.
    pub fn to_pingpong(self) -> Vec<u8> {
        let Self { qpn, psn, gid, .. } = self;
        format!("{:04x}:{qpn:06x}:{psn:06x}:{:032x}\0", 0, u128::from(gid)).into_bytes()
    }

    /// What [`Keys::to_pingpong`] made.
    pub fn from_pingpong(bytes: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(bytes).ok()?.trim_end_matches('\0');
        let mut fields = text.split(':').skip(1);
        let mut number = || u32::from_str_radix(fields.next()?, 16).ok();
        let (qpn, psn) = (number()?, number()?);
        let gid = u128::from_str_radix(text.rsplit(':').next()?, 16).ok()?;
        Some(Self { out_reads: 1, qpn, psn, rkey: 0, vaddr: 0, gid: gid.into() })
    }
}

/// Numbers between colons.
fn hex_fields(bytes: &[u8]) -> Option<Vec<u64>> {
    let text = std::str::from_utf8(bytes).ok()?.trim_end_matches('\0').trim_end_matches(':');
    text.split(':').map(|field| u64::from_str_radix(field, 16).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEYS: Keys = Keys {
        out_reads: 16,
        qpn: 0x11,
        psn: 0xAB_CDEF,
        rkey: 0x1234,
        vaddr: 0x7F00_1122_3344,
        gid: Ipv6Addr::new(0, 0, 0, 0, 0, 0xFFFF, 0x0A09, 0x0002),
    };

    #[test]
    fn perftest_reads_it_back() {
        let text = KEYS.to_perftest();
        let expected = "0000:0010:000011:abcdef:00001234:00007f0011223344:\
                        00:00:00:00:00:00:00:00:00:00:ff:ff:0a:09:00:02:00000000:\0";
        assert_eq!(text, expected.as_bytes());
        assert_eq!(text.len(), 108);
        assert_eq!(Keys::from_perftest(&text), Some(KEYS));
        assert_eq!(KEYS.endpoint(Pmtu::B1024).ip.to_string(), "10.9.0.2");
        assert_eq!(Keys::from_perftest(&text[..60]), None);
    }

    #[test]
    fn pingpong_reads_it_back() {
        let text = KEYS.to_pingpong();
        assert_eq!(text, b"0000:000011:abcdef:00000000000000000000ffff0a090002\0");
        assert_eq!(text.len(), 52);
        let read = Keys::from_pingpong(&text).expect("it reads");
        assert_eq!((read.qpn, read.psn, read.gid), (KEYS.qpn, KEYS.psn, KEYS.gid));
        assert_eq!(Keys::from_pingpong(b"no such thing"), None);
    }
}
