//! One end of a pair, or a queue of one end, as its user holds it.

use crate::client::memory_len;
use crate::control::Control;
#[cfg(test)]
use crate::error::Refusal;
use crate::error::{Error, NoLink};
use crate::link::Link;
use crate::message::SECRET_LEN;
use crate::name::Told;
use crate::queue::BURST;
use crate::region::LEN_MAX;
use crate::ring::SIZE_LOG2_MAX;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Instant;

/// Most queues each way of one end.
pub const QUEUES_MAX: u8 = 8;

/// Looks after a connection that is over while something that the peer sent before waits to be
/// read. With a burst at each look the longest ring is read by then, and a peer that goes on
/// writing is left.
const LAST_LOOKS: u16 = 1024;
const _: () = assert!(LAST_LOOKS as usize * BURST > 1 << SIZE_LOG2_MAX);

/// The two ends of a pair.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// Makes the socket, and waits.
    Server,
    /// Connects, and makes the memory.
    Client,
}

/// The configuration of an end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Config {
    /// The socket, at most 107 bytes.
    pub path: PathBuf,
    /// The end that is opened.
    pub role: Role,
    /// Longest frame, in bytes: the same at both ends.
    pub max_frame: u16,
    /// Binary logarithm of the slots of each ring, 1 to 14. The client's counts.
    pub ring_size_log2: u8,
    /// The secret that a client must send to be accepted; at most 23 bytes.
    pub secret: Option<String>,
}

/// What both handshakes must know.
#[derive(Clone, Debug)]
pub(crate) struct Shape {
    /// Rings each way.
    pub queues: usize,
    pub max_frame: usize,
    pub ring_size_log2: u8,
    pub secret: Option<String>,
}

impl Shape {
    pub(crate) const fn ring_size(&self) -> usize {
        1 << self.ring_size_log2
    }

    /// Bytes of a buffer: whole cache lines.
    pub(crate) const fn stride(&self) -> usize {
        self.max_frame.next_multiple_of(64)
    }

    /// What our name tells, and a peer's must tell.
    pub(crate) fn told(&self) -> Told {
        let queues = u8::try_from(self.queues).unwrap_or(QUEUES_MAX);
        Told { max_frame: u16::try_from(self.max_frame).unwrap_or(u16::MAX), queues }
    }
}

/// One end of a pair, or one of its queues. Each of several queues that are opened together may
/// belong to another thread.
#[derive(Debug)]
pub struct Endpoint {
    /// In use by whoever looks after the connection, now and then.
    control: Arc<Mutex<Control>>,
    queue: usize,
    /// Which of the end's connections `link` is of.
    life: u64,
    link: Option<Link>,
    /// Looks that are left once its connection is over.
    last_looks: u16,
    meeting: bool,
}

impl Endpoint {
    /// Opens an end with a queue each way. There is no link before [`Endpoint::tend`] made one.
    ///
    /// # Errors
    /// [`Error`]: a server's socket cannot be made, the path is too long for one, or a value is out
    /// of range.
    pub fn open(config: &Config) -> Result<Self, Error> {
        Ok(Self::of(&Control::open(config, shape(config, 1)?)?, 0))
    }

    /// Opens an end with 1 to [`QUEUES_MAX`] queues each way; its peer must have as many. All of
    /// them have links as soon as one has tended the connection; it ends when all are dropped.
    ///
    /// # Errors
    /// As [`Endpoint::open`].
    pub fn open_queues(config: &Config, queues: u8) -> Result<Vec<Self>, Error> {
        let control = Control::open(config, shape(config, queues)?)?;
        Ok((0..queues.into()).map(|queue| Self::of(&control, queue)).collect())
    }

    fn of(control: &Arc<Mutex<Control>>, queue: usize) -> Self {
        Self { control: Arc::clone(control), queue, life: 0, link: None, last_looks: 0, meeting: false }
    }

    /// The queue's part of the connection, while there is one.
    #[inline]
    pub const fn link(&mut self) -> Option<&mut Link> {
        self.link.as_mut()
    }

    /// The link by shared reference, if there is one.
    #[inline]
    #[must_use]
    pub const fn linked(&self) -> Option<&Link> {
        self.link.as_ref()
    }

    #[cfg(test)]
    pub(crate) fn into_link(mut self) -> Option<Link> {
        self.link.take()
    }

    /// Why there is no link; `None` while this queue has one.
    #[must_use]
    pub fn no_link(&self) -> Option<NoLink> {
        self.link.is_none().then(|| self.lock().no_link())
    }

    /// Why the last connection ended, or did not come about.
    #[cfg(test)]
    pub(crate) fn refused(&self) -> Option<Arc<Refusal>> {
        self.lock().refused()
    }

    /// Returns `true` if a peer was there when the connection was looked after last, and the
    /// handshake was not over.
    #[inline]
    #[must_use]
    pub const fn is_meeting(&self) -> bool {
        self.meeting
    }

    /// Looks after the connection: whether the peer is there, what it says, and whether to look for
    /// it again. To be called now and then, and often while [`Endpoint::is_meeting`]. Never waits:
    /// while the thread of another queue does it, nothing happens. The link to a peer that has left
    /// stays until all is read that the peer sent before.
    #[cold]
    pub fn tend(&mut self, now: Instant) {
        let mut control = match self.control.try_lock() {
            Ok(control) => control,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return,
        };
        if let Some(refusal) = self.link.as_mut().and_then(Link::take_broken)
            && control.current() == Some(self.life)
        {
            control.end(refusal, now);
        }
        control.tend(now);
        self.meeting = control.is_meeting();
        let current = control.current();
        if let Some(link) = &self.link {
            if current != Some(self.life) {
                self.last_looks = self.last_looks.saturating_sub(1);
                // Its user sees that it went before there is another one.
                if self.last_looks == 0 || link.rx.waiting() == 0 {
                    self.link = None;
                }
            }
        } else if let Some(life) = current
            && let Some(link) = control.take(self.queue)
        {
            self.life = life;
            self.link = Some(link);
            self.last_looks = LAST_LOOKS;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Control> {
        self.control.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Checks what can be out of range.
fn shape(config: &Config, queues: u8) -> Result<Shape, Error> {
    let within = |what, given: u64, min, max| {
        let fits = (min..=max).contains(&given);
        if fits { Ok(()) } else { Err(Error::OutOfRange { what, given, min, max }) }
    };
    within("the longest frame", config.max_frame.into(), 64, u16::MAX.into())?;
    within("ring_size_log2", config.ring_size_log2.into(), 1, SIZE_LOG2_MAX.into())?;
    within("the number of queues", queues.into(), 1, QUEUES_MAX.into())?;
    let secret = config.secret.as_ref().map_or(0, String::len);
    within("the length of the secret", secret as u64, 0, SECRET_LEN as u64 - 1)?;
    let shape = Shape {
        queues: queues.into(),
        max_frame: config.max_frame.into(),
        ring_size_log2: config.ring_size_log2,
        secret: config.secret.clone(),
    };
    if config.role == Role::Client {
        within("the length of all buffers and rings", memory_len(&shape) as u64, 1, LEN_MAX)?;
    }
    Ok(shape)
}
