//! Endpoints: what two queue pairs must know of each other to connect, as text and as bytes.

#[cfg(test)]
mod tests;

use crate::spec::parse_mac;
use core::fmt;
use core::net::{IpAddr, Ipv6Addr};
use core::str::FromStr;
use datapath::engine::WINDOW_LIMIT;
use wire::{Pmtu, WireMode};

/// One end of a connection: give it to the peer over any channel, as text ([`fmt::Display`],
/// [`FromStr`]) or as [`Endpoint::to_bytes`].
///
/// `srnic1,ip=10.77.0.1,mac=02:00:00:00:00:01,qpn=0x1a2b3c,psn=0x00f00d,pmtu=4096,window=512`; the
/// 1 is the version of the wire format (protocol.md 2.2). `mac` may be missing, `mtu` is there only
/// if both ends must have the same, `rd` only if it is not 0, `mode=plain` only for standard
/// RoCEv2, `order=strict` only if it wants strict placement, and `type=uc` only for an unreliable
/// connection.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Endpoint {
    /// IP address of the device.
    pub ip: IpAddr,
    /// The Ethernet address, for a peer on the same link; `None`: the peer resolves it.
    pub mac: Option<[u8; 6]>,
    /// Number of the queue pair, 1..=0xFF_FFFE.
    pub qpn: u32,
    /// First PSN that it sends, 24 bits.
    pub psn: u32,
    /// Largest path MTU that it takes.
    pub path_mtu: Pmtu,
    /// Packets ahead of the first missing one that it takes.
    pub window: u16,
    /// Longest IP packet of the device, in bytes, if its port can be used only with a peer that has
    /// the same (memif).
    pub mtu: Option<u16>,
    /// READs and atomics that it takes at once.
    pub rd_atomic: u8,
    /// The dialect that it speaks; both ends must speak the same.
    pub wire_mode: WireMode,
    /// True if both ends are to place requests strictly in order.
    pub strict_placement: bool,
    /// True for an unreliable connection (UC). Both ends must be of the same kind.
    pub unreliable: bool,
}

/// Why an endpoint's text or bytes make no sense.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EndpointError {
    /// Another format or version.
    #[error("this is no endpoint of wire version 1; is the peer of another version?")]
    Version,
    /// Bytes that are too few or too many.
    #[error("an endpoint has {} bytes, not {given}", Endpoint::BYTES)]
    Length {
        /// How many bytes there were.
        given: usize,
    },
    /// A field that is missing, or whose value cannot be.
    #[error("the endpoint's `{field}` is missing or wrong")]
    Field {
        /// The field's name.
        field: &'static str,
    },
}

const TEXT_PREFIX: &str = "srnic1,";
const MAGIC: [u8; 4] = *b"SRN\x01";
/// Marks wire mode Plain in the byte of the path MTU, so that who does not know of it does not
/// connect.
const PLAIN: u8 = 0x80;
/// Marks a wish for strict placement there.
const STRICT: u8 = 0x40;
/// Marks an unreliable connection there.
const UNRELIABLE: u8 = 0x20;
pub(crate) const QPN_MAX: u32 = 0xFF_FFFE;
const PSN_MAX: u32 = 0xFF_FFFF;

impl Endpoint {
    /// Length of [`Endpoint::to_bytes`].
    pub const BYTES: usize = 40;

    /// This endpoint for a peer that is not on the same link: without the Ethernet address.
    #[must_use]
    pub const fn routed(self) -> Self {
        Self { mac: None, ..self }
    }

    /// Big-endian: magic and version 4, IP 16 (IPv4 mapped to IPv6), MAC 6 (zero: none), QPN 4, PSN
    /// 4, window 2, path MTU 1 ([`Pmtu::code`]; bit 7: wire mode Plain, bit 6: strict placement,
    /// bit 5: unreliable), READs and atomics 1, MTU 2 (zero: none). An older end refuses the code
    /// of 1408.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; Self::BYTES] {
        let ip = match self.ip {
            IpAddr::V4(v4) => v4.to_ipv6_mapped(),
            IpAddr::V6(v6) => v6,
        };
        let mut bytes = [0; Self::BYTES];
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[4..20].copy_from_slice(&ip.octets());
        bytes[20..26].copy_from_slice(&self.mac.unwrap_or_default());
        bytes[26..30].copy_from_slice(&self.qpn.to_be_bytes());
        bytes[30..34].copy_from_slice(&self.psn.to_be_bytes());
        bytes[34..36].copy_from_slice(&self.window.to_be_bytes());
        let plain = if self.wire_mode == WireMode::Plain { PLAIN } else { 0 };
        let strict = if self.strict_placement { STRICT } else { 0 };
        let unreliable = if self.unreliable { UNRELIABLE } else { 0 };
        bytes[36] = self.path_mtu.code() | plain | strict | unreliable;
        bytes[37] = self.rd_atomic;
        bytes[38..40].copy_from_slice(&self.mtu.unwrap_or_default().to_be_bytes());
        bytes
    }

    /// Reads the bytes that [`Endpoint::to_bytes`] made.
    ///
    /// # Errors
    /// [`EndpointError`].
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, EndpointError> {
        let bytes: &[u8; Self::BYTES] =
            bytes.try_into().map_err(|_| EndpointError::Length { given: bytes.len() })?;
        if bytes[..4] != MAGIC {
            return Err(EndpointError::Version);
        }
        let mac: [u8; 6] = field(bytes, 20);
        let mtu = u16::from_be_bytes(field(bytes, 38));
        let endpoint = Self {
            ip: Ipv6Addr::from(field::<16, _>(bytes, 4)).to_canonical(),
            mac: (mac != [0; 6]).then_some(mac),
            qpn: u32::from_be_bytes(field(bytes, 26)),
            psn: u32::from_be_bytes(field(bytes, 30)),
            window: u16::from_be_bytes(field(bytes, 34)),
            path_mtu: Pmtu::from_code(bytes[36] & !(PLAIN | STRICT | UNRELIABLE))
                .ok_or(EndpointError::Field { field: "pmtu" })?,
            mtu: (mtu != 0).then_some(mtu),
            rd_atomic: bytes[37],
            wire_mode: if bytes[36] & PLAIN != 0 { WireMode::Plain } else { WireMode::Srnic },
            strict_placement: bytes[36] & STRICT != 0,
            unreliable: bytes[36] & UNRELIABLE != 0,
        };
        endpoint.checked()
    }

    /// Fails on a number that no queue pair can have. The addresses are checked when connecting.
    fn checked(self) -> Result<Self, EndpointError> {
        let fields = [
            ("qpn", self.qpn, 1, QPN_MAX),
            ("psn", self.psn, 0, PSN_MAX),
            ("window", self.window.into(), 1, WINDOW_LIMIT.into()),
        ];
        match fields.into_iter().find(|(_, value, min, max)| !(min..=max).contains(&value)) {
            Some((field, ..)) => Err(EndpointError::Field { field }),
            None => Ok(self),
        }
    }
}

/// `N` bytes from `at` on.
pub(crate) fn field<const N: usize, const LEN: usize>(bytes: &[u8; LEN], at: usize) -> [u8; N] {
    core::array::from_fn(|index| bytes[at + index])
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{TEXT_PREFIX}ip={}", self.ip)?;
        if let Some([a, b, c, d, e, g]) = self.mac {
            write!(f, ",mac={a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")?;
        }
        let (qpn, psn, pmtu, window) = (self.qpn, self.psn, self.path_mtu.bytes(), self.window);
        write!(f, ",qpn={qpn:#08x},psn={psn:#08x},pmtu={pmtu},window={window}")?;
        if let Some(mtu) = self.mtu {
            write!(f, ",mtu={mtu}")?;
        }
        if self.rd_atomic != 0 {
            write!(f, ",rd={}", self.rd_atomic)?;
        }
        if self.wire_mode == WireMode::Plain {
            f.write_str(",mode=plain")?;
        }
        if self.strict_placement {
            f.write_str(",order=strict")?;
        }
        if self.unreliable { f.write_str(",type=uc") } else { Ok(()) }
    }
}

impl FromStr for Endpoint {
    type Err = EndpointError;

    /// Fields in any order; unknown ones are an error, because ignoring one would connect wrongly.
    fn from_str(text: &str) -> Result<Self, EndpointError> {
        let mut fields = text.trim().strip_prefix(TEXT_PREFIX).ok_or(EndpointError::Version)?.split(',');
        let (mut ip, mut mac, mut qpn, mut psn, mut pmtu, mut window) = (None, None, None, None, None, None);
        let (mut mtu, mut rd_atomic, mut wire_mode) = (None, None, None);
        let (mut strict, mut unreliable) = (None, None);
        fields.try_for_each(|field| {
            let (key, value) = field.split_once('=').ok_or(EndpointError::Version)?;
            let (known, taken) = match key {
                "ip" => ("ip", put(&mut ip, value.parse().ok())),
                "mac" => ("mac", put(&mut mac, parse_mac(value))),
                "qpn" => ("qpn", put(&mut qpn, parse_hex(value))),
                "psn" => ("psn", put(&mut psn, parse_hex(value))),
                "pmtu" => ("pmtu", put(&mut pmtu, value.parse().ok().and_then(Pmtu::from_bytes))),
                "window" => ("window", put(&mut window, value.parse().ok())),
                "mtu" => ("mtu", put(&mut mtu, value.parse().ok().filter(|mtu| *mtu != 0))),
                "rd" => ("rd", put(&mut rd_atomic, value.parse().ok())),
                "mode" => ("mode", put(&mut wire_mode, (value == "plain").then_some(WireMode::Plain))),
                "order" => ("order", put(&mut strict, (value == "strict").then_some(true))),
                "type" => ("type", put(&mut unreliable, (value == "uc").then_some(true))),
                _ => return Err(EndpointError::Version),
            };
            if taken { Ok(()) } else { Err(EndpointError::Field { field: known }) }
        })?;
        let missing = |field| EndpointError::Field { field };
        let endpoint = Self {
            ip: ip.ok_or_else(|| missing("ip"))?,
            mac,
            qpn: qpn.ok_or_else(|| missing("qpn"))?,
            psn: psn.ok_or_else(|| missing("psn"))?,
            path_mtu: pmtu.ok_or_else(|| missing("pmtu"))?,
            window: window.ok_or_else(|| missing("window"))?,
            mtu,
            rd_atomic: rd_atomic.unwrap_or(0),
            wire_mode: wire_mode.unwrap_or(WireMode::Srnic),
            strict_placement: strict.unwrap_or(false),
            unreliable: unreliable.unwrap_or(false),
        };
        endpoint.checked()
    }
}

/// Sets a field; false if there is no value, or it was set before.
fn put<T>(field: &mut Option<T>, value: Option<T>) -> bool {
    value.is_some_and(|value| field.replace(value).is_none())
}

fn parse_hex(value: &str) -> Option<u32> {
    u32::from_str_radix(value.strip_prefix("0x")?, 16).ok()
}
