//! A visitor: a client that asks for the counters and is answered as fast as it reads.

use super::address::Stream;
use super::facts::Facts;
use rustix::event::PollFlags;
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

/// How long a visitor may take to ask.
const ASKING_MAX: Duration = Duration::from_secs(1);
/// How long it may take to hear the answer.
const HEARING_MAX: Duration = Duration::from_secs(5);
/// Longest request that is read.
const REQUEST_MAX: usize = 8192;

/// The media type of the OpenMetrics text format.
const METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// A visitor.
pub(super) struct Visitor {
    stream: Stream,
    /// When the visitor is disconnected.
    due: Instant,
    stage: Stage,
}

enum Stage {
    /// The visitor is asking; these bytes have come so far.
    Asking(Vec<u8>),
    /// The visitor reads an answer, of which `sent` bytes are sent.
    Hearing { answer: Vec<u8>, sent: usize },
}

impl Visitor {
    pub fn new(stream: Stream, now: Instant) -> Self {
        Self { stream, due: now + ASKING_MAX, stage: Stage::Asking(Vec::new()) }
    }

    pub const fn due(&self) -> Instant {
        self.due
    }

    /// The readiness of its stream that this visitor waits for.
    pub const fn waits_for(&self) -> PollFlags {
        match self.stage {
            Stage::Asking(_) => PollFlags::IN,
            Stage::Hearing { .. } => PollFlags::OUT,
        }
    }

    /// Reads and writes as much as can be without waiting. False when the visit is over.
    pub fn go_on(&mut self, facts: &Facts, now: Instant) -> bool {
        // One that goes away, or says nothing, is no loss.
        now < self.due && self.exchange(facts, now).unwrap_or_else(|error| is_passing(&error))
    }

    fn exchange(&mut self, facts: &Facts, now: Instant) -> io::Result<bool> {
        if let Stage::Asking(request) = &mut self.stage {
            while !request.windows(4).any(|end| end == b"\r\n\r\n") {
                let mut block = [0; 1024];
                let count = self.stream.read(&mut block)?;
                request.extend_from_slice(&block[..count]);
                if count == 0 || request.len() > REQUEST_MAX {
                    return Ok(false);
                }
            }
            self.stage = Stage::Hearing { answer: answer(request, facts), sent: 0 };
            self.due = now + HEARING_MAX;
        }
        let Stage::Hearing { answer, sent } = &mut self.stage else { return Ok(true) };
        while *sent < answer.len() {
            match self.stream.write(&answer[*sent..])? {
                0 => return Ok(false),
                count => *sent += count,
            }
        }
        Ok(false)
    }
}

impl AsFd for Visitor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

/// The stream is to be asked again later.
fn is_passing(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

fn answer(request: &[u8], facts: &Facts) -> Vec<u8> {
    let (status, content, body) = match request.starts_with(b"GET ") {
        true => ("200 OK", METRICS, facts.text()),
        false => ("405 Method Not Allowed", "text/plain", "only GET\n".to_owned()),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {content}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    [head, body].concat().into_bytes()
}
