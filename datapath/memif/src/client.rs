//! The handshake of a client: it makes the memory, and says where everything is in it.

use crate::buffers::{Buffers, Own};
use crate::endpoint::Shape;
use crate::error::Refusal;
use crate::interrupt::Interrupt;
use crate::link::{Connection, Link};
use crate::message::{AddRing, Hello, Init, MODE_ETHERNET, Message, Text, VERSION};
use crate::name::Told;
use crate::queue::{Receiver, Sender};
use crate::region::Region;
use crate::ring::{self, Desc, Ring};
use crate::socket;
use std::io::ErrorKind;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

/// What the server is asked for, one after the other: it acknowledges each, but for the last.
#[derive(Clone, Copy, Debug)]
enum Stage {
    Greeting,
    Interface,
    Memory,
    /// The ring of this number: first that to the server of a queue, then that to the client.
    Ring(usize),
    Connected,
}

#[derive(Debug)]
pub(crate) struct Client {
    socket: OwnedFd,
    stage: Stage,
    memory: Memory,
    /// That of each ring, by its number.
    interrupts: Vec<Interrupt>,
}

impl Client {
    pub(crate) fn new(socket: OwnedFd, shape: &Shape) -> Result<Self, Refusal> {
        let interrupts = (0..2 * shape.queues).map(|_| Interrupt::new()).collect::<Result<_, _>>()?;
        Ok(Self { socket, stage: Stage::Greeting, memory: Memory::new(shape)?, interrupts })
    }

    /// Goes on as far as the server has answered. It hears why it is left.
    pub(crate) fn step(mut self, shape: &Shape) -> Result<Result<Connection, Self>, Refusal> {
        while let Some((message, _)) = socket::receive(&self.socket)? {
            let next = self.hear(shape, message);
            match next.inspect_err(|refusal| socket::turn_away(&self.socket, refusal))? {
                Some(stage) => self.ask(stage, shape)?,
                None => return self.connection(shape).map(Ok),
            }
        }
        Ok(Err(self))
    }

    /// What to ask for next; `None` if the connection stands.
    fn hear(&self, shape: &Shape, message: Message) -> Result<Option<Stage>, Refusal> {
        Ok(Some(match (self.stage, message) {
            (_, Message::Disconnect(reason)) => {
                let reason = String::from_utf8_lossy(reason.bytes()).into_owned();
                return Err(Refusal::Disconnected(reason));
            }
            (Stage::Greeting, Message::Hello(hello)) => {
                fits(&hello, shape.told(), shape.ring_size_log2)?;
                Stage::Interface
            }
            (Stage::Interface, Message::Ack) => Stage::Memory,
            (Stage::Memory, Message::Ack) => Stage::Ring(0),
            (Stage::Ring(number), Message::Ack) if number + 1 < self.interrupts.len() => {
                Stage::Ring(number + 1)
            }
            (Stage::Ring(_), Message::Ack) => Stage::Connected,
            (Stage::Connected, Message::Connected(_)) => return Ok(None),
            _ => return Err(Refusal::Protocol("an answer that was not asked for")),
        }))
    }

    #[cfg(test)]
    pub(crate) fn region(&self) -> Arc<Region> {
        Arc::clone(&self.memory.region)
    }

    fn ask(&mut self, stage: Stage, shape: &Shape) -> Result<(), Refusal> {
        let (message, descriptor) = match stage {
            // The server speaks first.
            Stage::Greeting => return Ok(()),
            Stage::Interface => {
                let init = Init {
                    version: VERSION,
                    id: 0,
                    mode: MODE_ETHERNET,
                    secret: Text::new(shape.secret.as_deref().unwrap_or_default()),
                    name: Text::new("srnic"),
                };
                (Message::Init(init), None)
            }
            Stage::Memory => {
                let Memory { region, file, .. } = &self.memory;
                (Message::AddRegion { index: 0, size: region.len() as u64 }, Some(file.as_fd()))
            }
            Stage::Ring(number) => {
                let (queue, offset) = (number / 2, self.memory.ring_offset(number)?);
                let ring = AddRing {
                    to_server: number % 2 == 0,
                    index: u16::try_from(queue).map_err(|_| Refusal::Protocol("too many queues"))?,
                    region: 0,
                    offset,
                    size_log2: shape.ring_size_log2,
                    private_header: 0,
                };
                (Message::AddRing(ring), self.interrupts.get(number).map(AsFd::as_fd))
            }
            Stage::Connected => {
                let name = shape.told().prefix() + "srnic";
                (Message::Connect(Text::new(&name)), None)
            }
        };
        self.stage = stage;
        match socket::send(&self.socket, &message, descriptor) {
            // What it said before it hung up is read next.
            Err(Refusal::Io(error)) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
            sent => sent,
        }
    }

    fn connection(self, shape: &Shape) -> Result<Connection, Refusal> {
        let mut links = Vec::with_capacity(shape.queues);
        let mut interrupts = self.interrupts.into_iter();
        for queue in 0..shape.queues {
            let (to_server, to_client) = (2 * queue, 2 * queue + 1);
            let memory = &self.memory;
            let tx = Sender::new(
                memory.ring(to_server, shape)?,
                memory.buffers(to_server, shape)?,
                shape.max_frame,
                interrupts.next(),
            );
            let rx = Receiver::new(
                memory.ring(to_client, shape)?,
                memory.buffers(to_client, shape)?,
                shape.max_frame,
                interrupts.next(),
            );
            rx.hand_over_all();
            links.push(Link { tx, rx });
        }
        Ok(Connection::new(links, self.socket))
    }
}

/// Whether a client with these properties can have a link to the server that greets so.
pub(crate) fn fits(hello: &Hello, ours: Told, ring_size_log2: u8) -> Result<(), Refusal> {
    if !(hello.min_version..=hello.max_version).contains(&VERSION) {
        return Err(Refusal::Mismatch("the server does not speak version 2.0"));
    }
    if let Some(difference) = ours.differs_from_server(hello.name.bytes()) {
        return Err(difference.into());
    }
    if hello.max_ring_size_log2 < ring_size_log2 {
        return Err(Refusal::Mismatch("the server's rings are shorter than the client's; use smaller ones"));
    }
    let last_ring = hello.max_to_client.min(hello.max_to_server);
    if u32::from(last_ring) + 1 < u32::from(ours.queues) {
        return Err(Refusal::Mismatch("the server has fewer queues: both ends need as many engines="));
    }
    Ok(())
}

/// Bytes of a client's memory.
pub(crate) fn memory_len(shape: &Shape) -> usize {
    first_of_buffers(shape) + 2 * shape.queues * shape.ring_size() * shape.stride()
}

fn first_of_buffers(shape: &Shape) -> usize {
    (2 * shape.queues * from_ring_to_ring(shape)).next_multiple_of(PAGE)
}

fn from_ring_to_ring(shape: &Shape) -> usize {
    ring::ring_len(shape.ring_size_log2).next_multiple_of(64)
}

/// The one region of a client: all rings, then the buffers of the first, then those of the second,
/// and so on.
#[derive(Debug)]
struct Memory {
    region: Arc<Region>,
    /// What the server is to map; not needed any more when it has.
    file: OwnedFd,
    /// From one ring to the next, in bytes.
    ring_len: usize,
    /// Where the buffers begin, in bytes.
    buffers: usize,
}

/// What buffers begin on: a page.
const PAGE: usize = 4096;

impl Memory {
    fn new(shape: &Shape) -> Result<Self, Refusal> {
        let (region, file) = Region::create(memory_len(shape))?;
        let (region, ring_len, buffers) =
            (Arc::new(region), from_ring_to_ring(shape), first_of_buffers(shape));
        let memory = Self { region, file, ring_len, buffers };
        for number in 0..2 * shape.queues {
            memory.fill(number, shape)?;
        }
        Ok(memory)
    }

    /// Every slot has a buffer of its own, for ever.
    fn fill(&self, number: usize, shape: &Shape) -> Result<(), Refusal> {
        let (ring, first) = (self.ring(number, shape)?, self.first_buffer(number, shape));
        for slot in 0..ring.size() {
            let offset = u32::try_from(first + usize::from(slot) * shape.stride());
            let offset = offset.map_err(|_| Refusal::Protocol("its memory would be too long"))?;
            let length = u32::try_from(shape.stride()).unwrap_or(u32::MAX);
            ring.set(slot, Desc { more: false, region: 0, length, offset });
        }
        ring.begin();
        Ok(())
    }

    fn ring_offset(&self, number: usize) -> Result<u32, Refusal> {
        u32::try_from(number * self.ring_len).map_err(|_| Refusal::Protocol("a ring is too long"))
    }

    fn ring(&self, number: usize, shape: &Shape) -> Result<Ring, Refusal> {
        Ring::new(&self.region, self.ring_offset(number)?, shape.ring_size_log2)
    }

    fn first_buffer(&self, number: usize, shape: &Shape) -> usize {
        self.buffers + number * shape.ring_size() * shape.stride()
    }

    fn buffers(&self, number: usize, shape: &Shape) -> Result<Buffers, Refusal> {
        let slots = 1 << shape.ring_size_log2;
        let own = Own::new(&self.region, self.first_buffer(number, shape), shape.stride(), slots);
        own.map(Buffers::Own).ok_or(Refusal::Protocol("its memory is too short for its buffers"))
    }
}
