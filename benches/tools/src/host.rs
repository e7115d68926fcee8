//! Hosts by name or address, and ports.

use crate::error::{Error, Result};
use core::fmt;
use core::str::FromStr;
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs as _};

/// The address of a host, by its name or in figures.
///
/// # Errors
/// [`Error::Host`].
pub fn resolve(host: &str, port: u16) -> Result<SocketAddr> {
    // A server listens on an IPv4 address unless told otherwise.
    resolve_as(host, port, SocketAddr::is_ipv4)
}

/// One that is `preferred`, if the host has such an address.
fn resolve_as(host: &str, port: u16, preferred: impl Fn(&SocketAddr) -> bool) -> Result<SocketAddr> {
    let fails = |source| Error::Host { host: host.to_owned(), source };
    let found: Vec<SocketAddr> = (host, port).to_socket_addrs().map_err(fails)?.collect();
    let best = found.iter().find(|address| preferred(address)).or(found.first());
    best.copied().ok_or_else(|| fails(io::Error::other("it has no address")))
}

/// A host and a port of it, as a person gives them: `127.0.0.1:6379`, `[::1]:6379`, `web:80`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HostPort {
    host: String,
    port: u16,
}

/// Why a text is no [`HostPort`].
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum NoHostPort {
    /// There is nothing before the port.
    #[error("it names no host; give HOST:PORT, as in 127.0.0.1:6379")]
    Host,
    /// There is no port.
    #[error("it has no port; give HOST:PORT, as in 127.0.0.1:6379")]
    Port,
    /// The port is none.
    #[error("`{0}` is no port; ports are 0 to 65535, as in 127.0.0.1:6379")]
    PortRange(String),
    /// Without brackets nobody knows where the address ends.
    #[error("brackets go around an IPv6 address, and around nothing else, as in [::1]:6379")]
    Brackets,
}

impl HostPort {
    /// Its address now.
    ///
    /// # Errors
    /// [`Error::Host`].
    pub fn resolve(&self) -> Result<SocketAddr> {
        resolve(&self.host, self.port)
    }

    /// Its address now, for who has the address `own`: one of the same family, if it has such.
    ///
    /// # Errors
    /// [`Error::Host`].
    pub fn resolve_for(&self, own: IpAddr) -> Result<SocketAddr> {
        resolve_as(&self.host, self.port, |address| address.is_ipv4() == own.is_ipv4())
    }
}

impl FromStr for HostPort {
    type Err = NoHostPort;

    fn from_str(text: &str) -> std::result::Result<Self, NoHostPort> {
        if text.ends_with(']') {
            return Err(NoHostPort::Port);
        }
        let (host, port) = text.rsplit_once(':').ok_or(NoHostPort::Port)?;
        let in_brackets = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        if in_brackets.is_some() != host.contains(':') {
            return Err(NoHostPort::Brackets);
        }
        let host = in_brackets.unwrap_or(host);
        if host.is_empty() {
            return Err(NoHostPort::Host);
        }
        let port = port.parse().map_err(|_| NoHostPort::PortRange(port.to_owned()))?;
        Ok(Self { host: host.to_owned(), port })
    }
}

impl fmt::Display for HostPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, port } = self;
        if host.contains(':') { write!(f, "[{host}]:{port}") } else { write!(f, "{host}:{port}") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_a_name_or_an_address() {
        for (text, address) in [
            ("127.0.0.1:6379", Some("127.0.0.1:6379")),
            ("[::1]:80", Some("[::1]:80")),
            ("localhost:0", Some("127.0.0.1:0")),
            ("no..such..host:80", None),
        ] {
            let host: HostPort = text.parse().expect(text);
            assert_eq!(host.to_string(), text);
            let address = address.map(|address| address.parse().expect("an address"));
            assert_eq!(host.resolve().ok(), address);
            for own in [IpAddr::from([127, 0, 0, 1]), IpAddr::from([0_u16; 8])] {
                assert_eq!(host.resolve_for(own).is_ok(), address.is_some(), "{text}");
            }
        }
    }

    #[test]
    fn what_is_no_host_and_port_says_what_to_give() {
        for (text, error) in [
            ("6379", NoHostPort::Port),
            ("127.0.0.1", NoHostPort::Port),
            ("", NoHostPort::Port),
            (":6379", NoHostPort::Host),
            ("[]:6379", NoHostPort::Brackets),
            ("[::1]", NoHostPort::Port),
            ("[localhost]:80", NoHostPort::Brackets),
            ("::1", NoHostPort::Brackets),
            ("fe80::1:80", NoHostPort::Brackets),
            ("127.0.0.1:", NoHostPort::PortRange(String::new())),
            ("127.0.0.1:65536", NoHostPort::PortRange("65536".to_owned())),
            ("127.0.0.1:http", NoHostPort::PortRange("http".to_owned())),
        ] {
            assert_eq!(text.parse::<HostPort>(), Err(error), "{text}");
        }
    }
}
