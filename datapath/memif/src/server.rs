//! The handshake of a server: it is told where everything is, and looks whether it can be.

use crate::buffers::Buffers;
use crate::endpoint::Shape;
use crate::error::Refusal;
use crate::interrupt::Interrupt;
use crate::link::{Connection, Link};
use crate::message::{AddRing, Hello, Init, MODE_ETHERNET, Message, Text, VERSION};
use crate::name;
use crate::queue::{Receiver, Sender};
use crate::region::Region;
use crate::ring::{Ring, SIZE_LOG2_MAX};
use crate::socket;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// It wants more queues, or fewer.
const OTHER_QUEUES: Refusal = Refusal::Mismatch(name::OTHER_QUEUES);

/// Regions of a client, at most.
const REGIONS_MAX: usize = 16;
/// Regions are whole pages.
const PAGE: usize = 4096;

#[derive(Debug)]
pub(crate) struct Server {
    socket: OwnedFd,
    /// It said which interface it wants, and may have it.
    admitted: bool,
    regions: Vec<Arc<Region>>,
    queues: Vec<Queue>,
}

/// A ring, and what wakes whoever takes packets from it.
type Wired = (Ring, Option<Interrupt>);

/// The rings of a queue that it has named so far.
#[derive(Debug, Default)]
struct Queue {
    from_client: Option<Wired>,
    to_client: Option<Wired>,
}

impl Server {
    pub(crate) fn new(socket: OwnedFd, shape: &Shape) -> Result<Self, Refusal> {
        #[expect(clippy::cast_possible_truncation, reason = "a constant, 15, and at most 7")]
        let hello = Hello {
            name: Text::new(&(shape.told().prefix() + "srnic")),
            min_version: VERSION,
            max_version: VERSION,
            max_region: REGIONS_MAX as u16 - 1,
            max_to_client: shape.queues as u16 - 1,
            max_to_server: shape.queues as u16 - 1,
            max_ring_size_log2: SIZE_LOG2_MAX,
        };
        socket::send(&socket, &Message::Hello(hello), None)?;
        let queues = (0..shape.queues).map(|_| Queue::default()).collect();
        Ok(Self { socket, admitted: false, regions: Vec::new(), queues })
    }

    /// Goes on as far as the client has spoken. Who is turned away hears why.
    pub(crate) fn step(mut self, shape: &Shape) -> Result<Result<Connection, Self>, Refusal> {
        loop {
            let heard = match socket::receive(&self.socket)? {
                None => return Ok(Err(self)),
                Some((Message::Connect(name), _)) => {
                    self.may_connect(shape, name.bytes()).map(|()| Message::Connected(Text::new("srnic")))
                }
                Some((message, descriptor)) => self.hear(shape, message, descriptor).map(|()| Message::Ack),
            };
            let answer = heard.inspect_err(|refusal| socket::turn_away(&self.socket, refusal))?;
            socket::send(&self.socket, &answer, None)?;
            if matches!(answer, Message::Connected(_)) {
                return self.connection(shape).map(Ok);
            }
        }
    }

    fn hear(&mut self, shape: &Shape, message: Message, descriptor: Option<OwnedFd>) -> Result<(), Refusal> {
        match (message, descriptor) {
            (Message::Init(init), _) if !self.admitted => self.admit(shape, &init),
            (Message::AddRegion { index, size }, Some(memory)) if self.admitted => {
                if usize::from(index) != self.regions.len() || self.regions.len() == REGIONS_MAX {
                    return Err(Refusal::Protocol("a region out of turn, or too many"));
                }
                self.regions.push(Arc::new(Region::map(memory, size)?));
                Ok(())
            }
            (Message::AddRing(ring), descriptor) if self.admitted => self.add_ring(&ring, descriptor),
            (Message::Disconnect(reason), _) => {
                Err(Refusal::Disconnected(String::from_utf8_lossy(reason.bytes()).into_owned()))
            }
            _ => Err(Refusal::Protocol("a message out of turn")),
        }
    }

    fn admit(&mut self, shape: &Shape, init: &Init) -> Result<(), Refusal> {
        if init.version != VERSION || init.mode != MODE_ETHERNET {
            return Err(Refusal::Mismatch("the client does not speak version 2.0 with Ethernet frames"));
        }
        if init.secret != Text::new(shape.secret.as_deref().unwrap_or_default()) {
            return Err(Refusal::Mismatch("the client does not know the secret"));
        }
        self.admitted = true;
        Ok(())
    }

    fn add_ring(&mut self, ring: &AddRing, descriptor: Option<OwnedFd>) -> Result<(), Refusal> {
        let region = self.regions.get(usize::from(ring.region));
        let region = region.ok_or(Refusal::Protocol("a ring in a region that was not added"))?;
        let mapped = Ring::new(region, ring.offset, ring.size_log2)?;
        let queue = self.queues.get_mut(usize::from(ring.index)).ok_or(OTHER_QUEUES)?;
        let interrupt = descriptor.map(Interrupt::of_descriptor).transpose()?;
        let place = if ring.to_server { &mut queue.from_client } else { &mut queue.to_client };
        let is_new = place.replace((mapped, interrupt)).is_none();
        if is_new { Ok(()) } else { Err(Refusal::Protocol("a ring that was added before")) }
    }

    fn may_connect(&self, shape: &Shape, name: &[u8]) -> Result<(), Refusal> {
        for (index, queue) in self.queues.iter().enumerate() {
            match (&queue.from_client, &queue.to_client) {
                (Some((from_client, _)), Some((to_client, _))) => {
                    if !(from_client.is_begun() && to_client.is_begun()) {
                        return Err(Refusal::Protocol("a ring does not begin as it must"));
                    }
                }
                (None, None) if index > 0 => return Err(OTHER_QUEUES),
                _ => return Err(Refusal::Protocol("it connects without a ring each way")),
            }
        }
        if self.offered() > self.needed() {
            return Err(Refusal::Protocol("its memory is longer than its rings need"));
        }
        // Queues among them, as DPDK's driver makes fewer rings than it has queues if it must.
        shape.told().differs_from_client(name).map_or(Ok(()), |difference| Err(difference.into()))
    }

    /// Bytes of the client's memory.
    fn offered(&self) -> usize {
        self.regions.iter().map(|region| region.len()).sum()
    }

    /// Bytes that its rings and their buffers take, if those are as long as can be and nothing but
    /// what fills a page lies between.
    fn needed(&self) -> usize {
        let of_ring = |wired: &Option<Wired>| wired.as_ref().map_or(0, |(ring, _)| ring.needed());
        let of_queue = |queue: &Queue| of_ring(&queue.from_client) + of_ring(&queue.to_client);
        self.regions.len() * PAGE + self.queues.iter().map(of_queue).sum::<usize>()
    }

    fn connection(self, shape: &Shape) -> Result<Connection, Refusal> {
        let regions: Box<[Arc<Region>]> = self.regions.into();
        let link = |queue: Queue| {
            let (Some((from_client, interrupt)), Some((to_client, wake))) =
                (queue.from_client, queue.to_client)
            else {
                return Err(Refusal::Protocol("it connects without a ring each way"));
            };
            from_client.mask_interrupt();
            let tx = Sender::new(to_client, Buffers::Peers(regions.clone()), shape.max_frame, wake);
            let rx = Receiver::new(from_client, Buffers::Peers(regions.clone()), shape.max_frame, interrupt);
            Ok(Link { tx, rx })
        };
        let links = self.queues.into_iter().map(link).collect::<Result<Vec<_>, _>>()?;
        Ok(Connection::new(links, self.socket))
    }
}
