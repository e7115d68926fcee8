//! The address at which a device shows its counters.

use core::fmt;
use core::str::FromStr;
use memif::socket::{SocketFile, listen_at};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The address at which a device shows its counters: a UNIX socket, `/run/srnic.stat`, or a TCP
/// address, `127.0.0.1:9464`.
///
/// ```
/// use verbs_api::{Device, StatAddress};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let path = std::env::temp_dir().join("srnic-doc.stat");
/// let device = Device::open(&format!("sim:stat,stat={}", path.display()))?;
/// let text = StatAddress::Unix(path).read()?;
/// assert!(text.contains("srnic_rx_read_requests_total 0"));
/// # drop(device);
/// # Ok(()) }
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum StatAddress {
    /// A socket in the file system, which the device removes when it closes.
    Unix(PathBuf),
    /// A TCP address. Whoever reaches it reads the counters.
    Tcp(SocketAddr),
}

impl FromStr for StatAddress {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.starts_with(['/', '.']) {
            return Ok(Self::Unix(text.into()));
        }
        text.parse()
            .map(Self::Tcp)
            .map_err(|_| "a path that begins with / or ., or an address as in 127.0.0.1:9464")
    }
}

impl fmt::Display for StatAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => path.display().fmt(f),
            Self::Tcp(address) => address.fmt(f),
        }
    }
}

impl StatAddress {
    /// Reads what the device there tells now, as Prometheus would.
    ///
    /// # Errors
    /// The operating system's; [`io::ErrorKind::InvalidData`] if somebody else listens there.
    pub fn read(&self) -> io::Result<String> {
        let mut stream = match self {
            Self::Unix(path) => Stream::Unix(UnixStream::connect(path)?),
            Self::Tcp(address) => Stream::Tcp(TcpStream::connect(address)?),
        };
        stream.set_patience(Duration::from_secs(5))?;
        stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: srnic\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        match answer.split_once("\r\n\r\n") {
            Some((head, body)) if head.starts_with("HTTP/1.1 200 ") => Ok(body.to_owned()),
            _ => Err(io::Error::new(io::ErrorKind::InvalidData, "this is no device of srnic's")),
        }
    }
}

/// The listening socket for visitors. None of its methods waits.
pub struct StatListener {
    /// Goes first: as long as the socket listens, no other has its name.
    _file: Option<SocketFile>,
    socket: Socket,
}

enum Socket {
    Unix(UnixListener),
    Tcp(TcpListener),
}

impl StatListener {
    /// A socket that nobody listens at any more is replaced.
    pub fn bind(address: &StatAddress) -> io::Result<Self> {
        match address {
            StatAddress::Tcp(address) => {
                let socket = TcpListener::bind(address)?;
                socket.set_nonblocking(true)?;
                Ok(Self { socket: Socket::Tcp(socket), _file: None })
            }
            StatAddress::Unix(path) => {
                let bind = |path: &Path| UnixListener::bind(path).map_err(|error| error.to_string());
                let (file, socket) = listen_at(path, bind).map_err(io::Error::other)?;
                socket.set_nonblocking(true)?;
                Ok(Self { socket: Socket::Unix(socket), _file: Some(file) })
            }
        }
    }

    /// The next visitor, if there is one.
    pub fn accept(&self) -> io::Result<Stream> {
        let stream = match &self.socket {
            Socket::Unix(listener) => Stream::Unix(listener.accept()?.0),
            Socket::Tcp(listener) => Stream::Tcp(listener.accept()?.0),
        };
        match &stream {
            Stream::Unix(stream) => stream.set_nonblocking(true)?,
            Stream::Tcp(stream) => stream.set_nonblocking(true)?,
        }
        Ok(stream)
    }
}

impl AsFd for StatListener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.socket {
            Socket::Unix(listener) => listener.as_fd(),
            Socket::Tcp(listener) => listener.as_fd(),
        }
    }
}

/// A visitor.
pub enum Stream {
    Unix(UnixStream),
    Tcp(TcpStream),
}

impl Stream {
    /// How long each reading and writing may take.
    fn set_patience(&self, limit: Duration) -> io::Result<()> {
        let limit = Some(limit);
        match self {
            Self::Unix(stream) => {
                stream.set_read_timeout(limit).and_then(|()| stream.set_write_timeout(limit))
            }
            Self::Tcp(stream) => {
                stream.set_read_timeout(limit).and_then(|()| stream.set_write_timeout(limit))
            }
        }
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Unix(stream) => stream.as_fd(),
            Self::Tcp(stream) => stream.as_fd(),
        }
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Unix(stream) => stream.read(buffer),
            Self::Tcp(stream) => stream.read(buffer),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Unix(stream) => stream.write(bytes),
            Self::Tcp(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
