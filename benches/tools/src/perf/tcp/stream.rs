//! The connection that is measured.

use crate::channel::Channel;
use crate::dial;
use crate::error::{Error, Result};
use crate::interrupt;
use crate::perf::cli::TcpArgs;
use crate::pump::{Nothing, wait_for};
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::time::Duration;

/// How long a blocking call may take before Ctrl-C is looked for.
const BLOCKED: Duration = Duration::from_millis(200);
/// Calls for nothing, of a spinning socket, between two looks for Ctrl-C.
const INTERVAL: u32 = 1 << 14;

/// A TCP connection, between the addresses of the side channel.
pub struct Stream {
    stream: TcpStream,
    /// Calls for nothing between two looks for Ctrl-C.
    interval: u32,
    idle: u32,
}

fn fails(doing: &'static str) -> impl FnOnce(io::Error) -> Error {
    move |source| Error::Tcp { doing, source }
}

impl Stream {
    /// The server says where it listens, and the client connects.
    pub fn open(args: &TcpArgs, channel: &mut Channel) -> Result<Self> {
        let [ours, theirs] = channel.ends();
        let stream = if args.basics.is_client() {
            let port: u16 = channel.hear(&Nothing, "data")?;
            dial::tcp(&Nothing, (theirs, port).into(), "the peer did not listen")?
        } else {
            let listener = TcpListener::bind((ours, 0)).map_err(fails("listen"))?;
            listener.set_nonblocking(true).map_err(fails("listen"))?;
            channel.say("data", listener.local_addr().map_err(fails("listen"))?.port())?;
            wait_for(&Nothing, "the peer did not connect", || match listener.accept() {
                Ok((stream, _)) => Ok(Some(stream)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
                Err(error) => Err(fails("accept")(error)),
            })?
        };
        stream.set_nodelay(true).map_err(fails("set it up"))?;
        stream.set_nonblocking(args.spin).map_err(fails("set it up"))?;
        if !args.spin {
            stream.set_read_timeout(Some(BLOCKED)).map_err(fails("set it up"))?;
            stream.set_write_timeout(Some(BLOCKED)).map_err(fails("set it up"))?;
        }
        Ok(Self { stream, interval: if args.spin { INTERVAL } else { 1 }, idle: 0 })
    }

    /// Writes a message.
    pub fn write_all(&mut self, message: &[u8]) -> Result<()> {
        // Who never waits must look for Ctrl-C as well.
        interrupt::check()?;
        let mut rest = message;
        while !rest.is_empty() {
            match self.stream.write(rest) {
                Ok(count) => rest = &rest[count..],
                Err(error) => self.again(error, "write")?,
            }
        }
        Ok(())
    }

    /// Reads a message; false if the peer ended instead.
    pub fn read_all(&mut self, message: &mut [u8]) -> Result<bool> {
        interrupt::check()?;
        let mut done = 0;
        while done < message.len() {
            match self.stream.read(&mut message[done..]) {
                Ok(0) if done == 0 => return Ok(false),
                Ok(0) => return Err(Error::PeerLeft),
                Ok(count) => done += count,
                Err(error) => self.again(error, "read")?,
            }
        }
        Ok(true)
    }

    /// Says that nothing more comes.
    pub fn end(&self) -> Result<()> {
        self.stream.shutdown(Shutdown::Write).map_err(fails("end"))
    }

    /// Whether to try again.
    fn again(&mut self, error: io::Error, doing: &'static str) -> Result<()> {
        match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut => {
                self.idle = self.idle.wrapping_add(1);
                if self.idle.is_multiple_of(self.interval) { interrupt::check() } else { Ok(()) }
            }
            ErrorKind::Interrupted => interrupt::check(),
            ErrorKind::BrokenPipe | ErrorKind::ConnectionReset => Err(Error::PeerLeft),
            _ => Err(Error::Tcp { doing, source: error }),
        }
    }
}
