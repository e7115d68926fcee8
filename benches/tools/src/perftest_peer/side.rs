//! The side channel: bytes over TCP, with the engine running while they are waited for.

use super::cli::Args;
use crate::dial;
use crate::error::{Error, Result};
use crate::host::resolve;
use crate::program;
use crate::pump::{wait_for, wait_until};
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use verbs_api::Device;

/// A connected side channel. Where both ends say the same kind of thing, the client says it first.
pub struct Side {
    stream: TcpStream,
    address: SocketAddr,
    is_client: bool,
    trace: bool,
}

impl Side {
    /// Connects to the server as soon as it listens, or waits for a client.
    pub fn open(device: &Device, args: &Args) -> Result<Self> {
        let address = match &args.host {
            Some(host) => resolve(host, args.port)?,
            None => SocketAddr::from((args.bind, args.port)),
        };
        let is_client = args.host.is_some();
        let stream = if is_client {
            dial::tcp(device, address, "no server was there", "start the program there first")?
        } else {
            accept(device, address)?
        };
        let fails = |source| Error::Channel { address, doing: "set it up", source };
        stream.set_nonblocking(true).map_err(fails)?;
        stream.set_nodelay(true).map_err(fails)?;
        Ok(Self { stream, address, is_client, trace: args.trace })
    }

    /// Returns `true` if this end connected.
    pub const fn is_client(&self) -> bool {
        self.is_client
    }

    /// Says `bytes`. They are few: the socket takes them at once.
    pub fn say(&mut self, bytes: &[u8]) -> Result<()> {
        self.note("said", bytes);
        self.stream.write_all(bytes).map_err(|source| self.fails("write", source))
    }

    /// Hears as many bytes as `bytes` has.
    pub fn hear(&mut self, device: &Device, bytes: &mut [u8]) -> Result<()> {
        let mut have = 0;
        wait_for(device, "the peer did not say what it must", || {
            match self.try_read(&mut bytes[have..])? {
                Some(0) => Err(Error::PeerLeft),
                count => {
                    have += count.unwrap_or(0);
                    Ok((have == bytes.len()).then_some(()))
                }
            }
        })?;
        self.note("heard", bytes);
        Ok(())
    }

    /// Each end says as many bytes as the other; the client says its own first.
    pub fn exchange(&mut self, device: &Device, ours: &[u8]) -> Result<Vec<u8>> {
        let mut theirs = vec![0; ours.len()];
        if self.is_client {
            self.say(ours)?;
        }
        self.hear(device, &mut theirs)?;
        if !self.is_client {
            self.say(ours)?;
        }
        Ok(theirs)
    }

    /// What has come by now, if anything has; empty if the peer is gone.
    pub fn poll(&mut self) -> Result<Option<Vec<u8>>> {
        let mut bytes = vec![0; 4096];
        let count = self.try_read(&mut bytes)?;
        bytes.truncate(count.unwrap_or(0));
        if count.is_some() {
            self.note("heard", &bytes);
        }
        Ok(count.map(|_| bytes))
    }

    /// Nothing more is said here. Runs the engine until the peer says nothing more either.
    pub fn part(&mut self, device: &Device) -> Result<()> {
        // It fails if the peer is gone already, which is what is waited for.
        let _ = self.stream.shutdown(Shutdown::Write);
        wait_for(device, "the peer did not end", || Ok(self.poll()?.filter(Vec::is_empty).map(drop)))
    }

    fn try_read(&mut self, bytes: &mut [u8]) -> Result<Option<usize>> {
        match self.stream.read(bytes) {
            Ok(count) => Ok(Some(count)),
            Err(error) => match error.kind() {
                ErrorKind::WouldBlock | ErrorKind::Interrupted => Ok(None),
                ErrorKind::ConnectionReset => Ok(Some(0)),
                _ => Err(self.fails("read", error)),
            },
        }
    }

    const fn fails(&self, doing: &'static str, source: std::io::Error) -> Error {
        Error::Channel { address: self.address, doing, source }
    }

    fn note(&self, what: &str, bytes: &[u8]) {
        if self.trace {
            eprintln!("{what} {} bytes: {}", bytes.len(), bytes.escape_ascii());
        }
    }
}

/// Waits for a client as long as it takes, as perftest's servers do.
fn accept(device: &Device, address: SocketAddr) -> Result<TcpStream> {
    let fails = |doing| move |source| Error::Channel { address, doing, source };
    let listener = TcpListener::bind(address).map_err(fails("listen"))?;
    listener.set_nonblocking(true).map_err(fails("listen"))?;
    program::say(format_args!("waiting for a client on {address}"));
    wait_until(device, "no client came", None, || match listener.accept() {
        Ok((stream, _)) => Ok(Some(stream)),
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
        Err(error) => Err(fails("accept")(error)),
    })
}
