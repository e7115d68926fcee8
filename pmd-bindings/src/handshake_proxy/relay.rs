//! One client's connection to the driver.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use memif::message::{Hello, Init, Message, Text};
use memif::{Refusal, Told, socket};

use super::offer::{Offer, REGIONS_MAX};

/// How long a client may take from connecting to the end of its handshake.
const HANDSHAKE: Duration = Duration::from_secs(2);

/// What a client meets here.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    /// Number of the driver's interface: one socket of the driver's serves them all, so the proxy
    /// says it in the client's place.
    pub interface: u32,
    /// What the server's own name tells. A client that says that its longest frame is another is
    /// turned away: the driver would spread a long frame over several of its buffers, and then
    /// corrupt later ones. So is one with another number of queues, or with fewer rings: the driver
    /// would take the first ring for that of a queue that has none.
    pub told: Told,
}

/// How far the driver has come.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Debug)]
enum Stage {
    /// It has not spoken yet.
    Ungreeted,
    /// It has said what it can do.
    Greeted,
    /// It lets the client in.
    Admitted,
    /// It was told of the client's memory, and has yet to say what it makes of it.
    Offered,
    /// It has what it needs.
    Connected,
}

/// A pair of sockets, and what has been said.
///
/// The client's regions and rings are acknowledged here, and told to the driver in one go
/// ([`Offer`]):
///
/// ```text
/// Ungreeted ── HELLO ──▶ Greeted ── ACK ──▶ Admitted ── the offer is whole ──▶ Offered ── CONNECTED ──▶ Connected
///     │ client gone         │ client gone      │ client gone                     │ client gone             │ client gone
///     ▼ or late             ▼ or late          ▼ or late                         ▼ or late                 ▼
/// Dismissed ── HELLO ──▶  over               over                     Dismissed ── CONNECTED ──▶         over
/// ```
/// Over is: both ends are closed. The driver closing its end ends each of them.
#[derive(Debug)]
pub(super) struct Relay {
    /// `None` once the client is gone or dismissed.
    client: Option<OwnedFd>,
    driver: OwnedFd,
    terms: Terms,
    offer: Offer,
    stage: Stage,
    driver_gone: bool,
    /// When the handshake must have ended.
    deadline: Instant,
}

impl Relay {
    pub(super) fn new(client: OwnedFd, driver: OwnedFd, terms: Terms) -> Self {
        Self {
            client: Some(client),
            driver,
            terms,
            offer: Offer::default(),
            stage: Stage::Ungreeted,
            driver_gone: false,
            deadline: Instant::now() + HANDSHAKE,
        }
    }

    /// The client's socket and the driver's; -1 for one that is gone.
    pub(super) fn descriptors(&self) -> (Option<BorrowedFd<'_>>, BorrowedFd<'_>) {
        (self.client.as_ref().map(AsFd::as_fd), self.driver.as_fd())
    }

    /// How long the client has for its handshake, if it has not done with it.
    pub(super) fn time_left(&self) -> Option<Duration> {
        let at_it = self.client.is_some() && self.stage != Stage::Connected;
        at_it.then(|| self.deadline.saturating_duration_since(Instant::now()))
    }

    /// Returns `true` if both ends can be closed.
    pub(super) fn is_over(&self) -> bool {
        let awaited = matches!(self.stage, Stage::Ungreeted | Stage::Offered);
        self.driver_gone || (self.client.is_none() && !awaited)
    }

    /// Returns `true` if the client has its link.
    pub(super) fn is_connected(&self) -> bool {
        self.stage == Stage::Connected
    }

    /// Lets the client go.
    pub(super) fn dismiss(&mut self) {
        self.client = None;
    }

    /// Passes on what the driver has said.
    pub(super) fn hear_driver(&mut self) {
        let message = match socket::receive(&self.driver) {
            Ok(Some((message, _))) => shown(message, self.terms.told),
            Ok(None) => return,
            Err(_) => {
                self.driver_gone = true;
                return;
            }
        };
        self.stage = match (self.stage, &message) {
            (_, Message::Connected(_)) => Stage::Connected,
            (Stage::Ungreeted, _) => Stage::Greeted,
            (Stage::Greeted, Message::Ack) => Stage::Admitted,
            // The client has heard that from us.
            (Stage::Offered, Message::Ack) => return,
            (stage, _) => stage,
        };
        self.tell_client(&message);
        self.submit();
    }

    /// Takes in or passes on what the client has said.
    ///
    /// # Errors
    /// The client has left, or does not keep to memif's rules or to our terms: it is dismissed.
    pub(super) fn hear_client(&mut self) -> Result<(), Refusal> {
        let heard = match self.client.as_ref().map(socket::receive) {
            None | Some(Ok(None)) => return Ok(()),
            Some(Ok(Some((message, descriptor)))) => self.take(message, descriptor),
            Some(Err(refusal)) => Err(refusal),
        };
        heard.inspect_err(|refusal| {
            if let (false, Some(client)) = (is_farewell(refusal), &self.client) {
                socket::turn_away(client, refusal);
            }
            self.dismiss();
        })
    }

    fn take(&mut self, message: Message, descriptor: Option<OwnedFd>) -> Result<(), Refusal> {
        match message {
            Message::Init(init) if self.stage < Stage::Admitted => {
                self.tell_driver(&Message::Init(Init { id: self.terms.interface, ..init }));
            }
            Message::AddRegion { index, size } => {
                self.offer.add_region(index, size, descriptor)?;
                self.tell_client(&Message::Ack);
            }
            Message::AddRing(ring) => {
                self.offer.add_ring(ring, descriptor, self.terms.told)?;
                self.tell_client(&Message::Ack);
            }
            Message::Connect(name) => {
                self.offer.end(name, self.terms.told)?;
                self.submit();
            }
            Message::Disconnect(reason) => {
                self.tell_driver(&message);
                return Err(Refusal::Disconnected(String::from_utf8_lossy(reason.bytes()).into_owned()));
            }
            _ => return Err(Refusal::Protocol("a message out of turn")),
        }
        Ok(())
    }

    /// Tells the driver of the client's memory, once it lets the client in and all is there.
    fn submit(&mut self) {
        if self.stage == Stage::Admitted && self.offer.is_whole() {
            self.stage = Stage::Offered;
            self.driver_gone |= self.offer.submit(&self.driver).is_err();
        }
    }

    fn tell_client(&mut self, message: &Message) {
        if self.client.as_ref().is_some_and(|client| socket::send(client, message, None).is_err()) {
            self.dismiss();
        }
    }

    /// A driver that does not listen any more says so by closing its end.
    fn tell_driver(&self, message: &Message) {
        let _ = socket::send(&self.driver, message, None);
    }
}

/// Returns `true` if the client itself has ended it.
const fn is_farewell(refusal: &Refusal) -> bool {
    matches!(refusal, Refusal::Disconnected(_) | Refusal::Closed | Refusal::Io(_))
}

/// What the client hears of a message of the driver's: fewer regions than that would take, and what
/// the server's name tells.
fn shown(message: Message, told: Told) -> Message {
    match message {
        Message::Hello(hello) => {
            let name = Text::new(&(told.prefix() + "srnic"));
            Message::Hello(Hello { name, max_region: hello.max_region.min(REGIONS_MAX - 1), ..hello })
        }
        other => other,
    }
}
