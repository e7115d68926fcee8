//! Waiting for completions without a core: the device's thread runs the engine, the program sleeps.

use srnic_tools::error::{Error, Result};
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::thread::sleep;
use std::time::{Duration, Instant};
use verbs_api::{Completion, CompletionChannel, CompletionQueue, Device, Driver, WcStatus};

/// How long anything may take here.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A completion queue that is waited for.
pub struct Waiter {
    channel: CompletionChannel,
    cq: CompletionQueue,
}

impl Waiter {
    /// A queue of `entries` entries.
    ///
    /// # Errors
    /// [`Error::Verbs`]; a device that nobody else drives could wait for ever.
    pub fn new(device: &Device, entries: u32) -> Result<Self> {
        if device.driver() == Driver::Inline {
            let reason = "who blocks needs an engine with a thread; add driver=thread to the device";
            return Err(Error::Options(reason.to_owned()));
        }
        let channel = device.create_channel()?;
        let cq = device.create_cq_on(&channel, entries)?;
        Ok(Self { channel, cq })
    }

    /// The queue.
    #[must_use]
    pub const fn cq(&self) -> &CompletionQueue {
        &self.cq
    }

    /// The next completion, whatever its status; `None` if none comes within `limit`.
    ///
    /// # Errors
    /// [`Error::Verbs`].
    pub fn next_within(&mut self, limit: Duration) -> Result<Option<Completion>> {
        let end = Instant::now() + limit;
        loop {
            if let Some(completion) = self.cq.poll() {
                return Ok(Some(completion));
            }
            // What comes between the look and the arming makes no event: look again, then wait.
            self.cq.arm(false)?;
            if let Some(completion) = self.cq.poll() {
                return Ok(Some(completion));
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(None);
            }
            self.channel.wait(left)?;
        }
    }

    /// The next completion, which must be a success and come within [`PATIENCE`].
    ///
    /// # Errors
    /// [`Error::Completion`], [`Error::Late`], [`Error::Verbs`].
    pub fn next(&mut self, what: &'static str) -> Result<Completion> {
        let completion = self.next_within(PATIENCE)?;
        let completion = completion.ok_or(Error::Late("no completion came", PATIENCE.as_secs()))?;
        match completion.status {
            WcStatus::Success => Ok(completion),
            status => Err(Error::Completion { what, status }),
        }
    }
}

/// Connects by TCP as soon as somebody listens.
///
/// # Errors
/// [`Error::Channel`], also if nobody does within [`PATIENCE`].
pub fn dial(address: SocketAddr) -> Result<TcpStream> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match TcpStream::connect(address) {
            Ok(stream) => return Ok(stream),
            Err(_) if Instant::now() < deadline => sleep(Duration::from_millis(5)),
            Err(source) => return Err(Error::Channel { address, doing: "connect", source }),
        }
    }
}

/// Says one line.
///
/// # Errors
/// The operating system's.
pub fn say(mut stream: &TcpStream, line: &str) -> io::Result<()> {
    stream.write_all(format!("{line}\n").as_bytes())
}

/// Hears one line; the peer says nothing more before it is answered.
///
/// # Errors
/// The operating system's, also if the peer left or says nothing within [`PATIENCE`].
pub fn hear(stream: &TcpStream) -> io::Result<String> {
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line)?;
    match line.strip_suffix('\n') {
        Some(line) => Ok(line.to_owned()),
        None => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}
