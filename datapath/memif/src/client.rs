//! The handshake of a client: it makes the memory, and says where everything is in it.

use crate::buffers::{Buffers, Own};
use crate::endpoint::Shape;
use crate::error::Refusal;
use crate::link::Link;
use crate::message::{AddRing, Init, MODE_ETHERNET, Message, Text, VERSION};
use crate::queue::{Receiver, Sender};
use crate::region::Region;
use crate::ring::{self, Desc, Ring};
use crate::socket;
use rustix::event::{EventfdFlags, eventfd};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

/// What the server is asked for, one after the other: it acknowledges each, but for the last.
#[derive(Clone, Copy, Debug)]
enum Stage {
    Greeting,
    Interface,
    Memory,
    RingToServer,
    RingToClient,
    Connected,
}

#[derive(Debug)]
pub(crate) struct Client {
    socket: OwnedFd,
    stage: Stage,
    memory: Memory,
    /// Nobody of ours sleeps, but every ring has one.
    wakes: [OwnedFd; 2],
}

impl Client {
    pub(crate) fn new(socket: OwnedFd, shape: &Shape) -> Result<Self, Refusal> {
        let wake = || eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
        let wakes = [wake()?, wake()?];
        Ok(Self { socket, stage: Stage::Greeting, memory: Memory::new(shape)?, wakes })
    }

    /// Goes on as far as the server has answered.
    pub(crate) fn step(mut self, shape: &Shape) -> Result<Result<Link, Self>, Refusal> {
        while let Some((message, _)) = socket::receive(&self.socket)? {
            match (self.stage, message) {
                (_, Message::Disconnect(reason)) => {
                    let reason = String::from_utf8_lossy(reason.bytes()).into_owned();
                    return Err(Refusal::Disconnected(reason));
                }
                (Stage::Greeting, Message::Hello(hello)) => {
                    if !(hello.min_version..=hello.max_version).contains(&VERSION) {
                        return Err(Refusal::Mismatch("it does not speak version 2.0"));
                    }
                    if hello.max_ring_size_log2 < shape.ring_size_log2 {
                        return Err(Refusal::Mismatch("its rings are shorter; use a smaller one"));
                    }
                    self.ask(Stage::Interface, shape)?;
                }
                (Stage::Interface, Message::Ack) => self.ask(Stage::Memory, shape)?,
                (Stage::Memory, Message::Ack) => self.ask(Stage::RingToServer, shape)?,
                (Stage::RingToServer, Message::Ack) => self.ask(Stage::RingToClient, shape)?,
                (Stage::RingToClient, Message::Ack) => self.ask(Stage::Connected, shape)?,
                (Stage::Connected, Message::Connected(_)) => return self.link(shape).map(Ok),
                _ => return Err(Refusal::Protocol("an answer that was not asked for")),
            }
        }
        Ok(Err(self))
    }

    #[cfg(test)]
    pub(crate) fn region(&self) -> Arc<Region> {
        Arc::clone(&self.memory.region)
    }

    fn ask(&mut self, stage: Stage, shape: &Shape) -> Result<(), Refusal> {
        let ring = |to_server: bool, offset: u32| {
            Message::AddRing(AddRing {
                to_server,
                index: 0,
                region: 0,
                offset,
                size_log2: shape.ring_size_log2,
                private_header: 0,
            })
        };
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
                let region = &self.memory.region;
                (Message::AddRegion { index: 0, size: region.len() as u64 }, Some(region.file()))
            }
            Stage::RingToServer => (ring(true, 0), Some(self.wakes[0].as_fd())),
            Stage::RingToClient => (ring(false, self.memory.second_ring), Some(self.wakes[1].as_fd())),
            Stage::Connected => (Message::Connect(Text::new(&shape.interface_name())), None),
        };
        socket::send(&self.socket, &message, descriptor)?;
        self.stage = stage;
        Ok(())
    }

    fn link(self, shape: &Shape) -> Result<Link, Refusal> {
        let [to_server, to_client] = self.memory.rings(shape)?;
        let [first, second] = [self.memory.buffers(0, shape)?, self.memory.buffers(1, shape)?];
        let [wake_server, _] = self.wakes;
        let tx = Sender::new(to_server, first, shape.max_frame, Some(wake_server));
        let rx = Receiver::new(to_client, second, shape.max_frame);
        rx.hand_over_all();
        Ok(Link::new(tx, rx, self.socket))
    }
}

/// The one region of a client: both rings, then the buffers of the first, then those of the second.
#[derive(Debug)]
struct Memory {
    region: Arc<Region>,
    /// Where the second ring is, in bytes.
    second_ring: u32,
    /// Where the buffers begin, in bytes.
    buffers: usize,
}

/// What buffers begin on: a page.
const PAGE: usize = 4096;

impl Memory {
    fn new(shape: &Shape) -> Result<Self, Refusal> {
        let ring = ring::len(shape.ring_size_log2).next_multiple_of(64);
        let buffers = (2 * ring).next_multiple_of(PAGE);
        let region = Region::create(buffers + 2 * shape.ring_size() * shape.stride())?;
        let second_ring = u32::try_from(ring).map_err(|_| Refusal::Protocol("a ring is too long"))?;
        let memory = Self { region: Arc::new(region), second_ring, buffers };
        for (direction, ring) in memory.rings(shape)?.iter().enumerate() {
            memory.fill(ring, direction, shape)?;
        }
        Ok(memory)
    }

    /// Every slot has a buffer of its own, for ever.
    fn fill(&self, ring: &Ring, direction: usize, shape: &Shape) -> Result<(), Refusal> {
        let first = self.first_buffer(direction, shape);
        for number in 0..ring.size() {
            let offset = u32::try_from(first + usize::from(number) * shape.stride());
            let offset = offset.map_err(|_| Refusal::Protocol("its memory would be too long"))?;
            let length = u32::try_from(shape.stride()).unwrap_or(u32::MAX);
            ring.set(number, Desc { more: false, region: 0, length, offset });
        }
        ring.begin();
        Ok(())
    }

    fn rings(&self, shape: &Shape) -> Result<[Ring; 2], Refusal> {
        let ring = |offset| Ring::new(&self.region, offset, shape.ring_size_log2);
        Ok([ring(0)?, ring(self.second_ring)?])
    }

    fn first_buffer(&self, direction: usize, shape: &Shape) -> usize {
        self.buffers + direction * shape.ring_size() * shape.stride()
    }

    fn buffers(&self, direction: usize, shape: &Shape) -> Result<Buffers, Refusal> {
        let slots = 1 << shape.ring_size_log2;
        let own = Own::new(&self.region, self.first_buffer(direction, shape), shape.stride(), slots);
        own.map(Buffers::Own).ok_or(Refusal::Protocol("its memory is too short for its buffers"))
    }
}
