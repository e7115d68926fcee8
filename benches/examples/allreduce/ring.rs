//! The ring: each rank writes to the next one's memory, and is written to by the one before.
//!
//! The vector is cut into one chunk for each rank. In the first N-1 steps sums travel: in step s a
//! rank writes chunk `rank - s` into the next one's staging memory, who adds its own. Then each
//! rank holds one chunk that is complete, and in N-1 more steps those travel, straight to their
//! place. A WRITE's immediate tells the step.
//!
//! Nothing is overwritten that is still needed: staging is used once a round, and a rank begins a
//! round only after it has every complete chunk, each of which holds what its neighbour had read
//! from its staging before.

use srnic_benches::blocking::{Waiter, dial, hear, say};
use srnic_tools::error::{Error, Result};
use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use verbs_api::{
    Access, Device, Endpoint, MemoryRegion, QueuePair, RecvRequest, RemoteRegion, SendData, SendRequest,
    WcOpcode,
};

/// Bytes of an element.
const FLOAT: usize = size_of::<f32>();
/// A try lasts 4.096 us x 2^18, about a second: more ranks than processors take their time.
const TIMEOUT: u8 = 18;

/// This rank's place in the ring.
pub struct Ring {
    rank: usize,
    ranks: usize,
    elements: usize,
    /// Bytes of a chunk; the last may have elements of nobody's in it.
    chunk: usize,
    vector: MemoryRegion,
    staging: MemoryRegion,
    to_next: QueuePair,
    from_previous: QueuePair,
    waiter: Waiter,
    next_vector: RemoteRegion,
    next_staging: RemoteRegion,
    /// WRITEs posted and not completed.
    posted: usize,
    /// Steps that the rank before has written and that were not expected yet: it may be a round
    /// ahead.
    early: VecDeque<u32>,
    next: TcpStream,
    previous: TcpStream,
}

impl Ring {
    /// Joins the ring: listens for the rank before, at 127.0.0.RANK+1, and connects to the next.
    pub fn join(device: &Device, rank: usize, ranks: usize, elements: usize, port: u16) -> Result<Self> {
        let chunk = elements.div_ceil(ranks) * FLOAT;
        let steps = ranks - 1;
        let pd = device.alloc_pd();
        let waiter = Waiter::new(device, 256)?;
        let access = Access::LOCAL_WRITE | Access::REMOTE_WRITE;
        let (vector, staging) = (pd.register(chunk * ranks, access)?, pd.register(chunk * steps, access)?);
        let prepare = || pd.queue_pair(waiter.cq(), waiter.cq()).timeout(TIMEOUT).build();
        let (to_next, mut from_previous) = (prepare()?, prepare()?);
        for _ in 0..2 * steps {
            from_previous.post_recv(&RecvRequest { wr_id: 0, scatter: &[] })?;
        }
        let host = |rank: usize| u8::try_from(rank + 1).unwrap_or(u8::MAX);
        let address = |rank| SocketAddr::from((Ipv4Addr::new(127, 0, 0, host(rank)), port));
        let (here, there) = (address(rank), address((rank + 1) % ranks));
        let fails = |address, doing| move |source| Error::Channel { address, doing, source };
        let listener = TcpListener::bind(here).map_err(fails(here, "listen"))?;
        let next = dial(there)?;
        say(&next, &to_next.endpoint().to_string()).map_err(fails(there, "write"))?;
        let (previous, _) = listener.accept().map_err(fails(here, "accept"))?;
        let heard = hear(&previous).map_err(fails(here, "read"))?;
        let ours = format!("{} {} {}", from_previous.endpoint(), vector.remote(), staging.remote());
        let from_previous = from_previous.connect(&parse(&heard)?)?;
        say(&previous, &ours).map_err(fails(here, "write"))?;
        let heard = hear(&next).map_err(fails(there, "read"))?;
        let [endpoint, next_vector, next_staging] = heard.split(' ').collect::<Vec<_>>()[..] else {
            return Err(Error::Unexpected { said: heard, expected: "an endpoint and two regions" });
        };
        let to_next = to_next.connect(&parse::<Endpoint>(endpoint)?)?;
        let (next_vector, next_staging) = (parse(next_vector)?, parse(next_staging)?);
        Ok(Self {
            rank,
            ranks,
            elements,
            chunk,
            vector,
            staging,
            to_next,
            from_previous,
            waiter,
            next_vector,
            next_staging,
            posted: 0,
            early: VecDeque::new(),
            next,
            previous,
        })
    }

    /// The sum of the vectors of all ranks.
    pub fn all_reduce(&mut self, mine: &[f32]) -> Result<Vec<f32>> {
        let bytes: Vec<u8> = mine.iter().flat_map(|value| value.to_ne_bytes()).collect();
        self.vector.write(0, &bytes)?;
        let steps = self.ranks - 1;
        for step in 0..steps {
            let target = self.next_staging.at((step * self.chunk) as u64);
            self.write(self.behind(step), target, step)?;
            self.expect(step)?;
            self.add(step)?;
        }
        for step in 0..steps {
            let chunk = self.behind(step + self.ranks - 1);
            self.write(chunk, self.next_vector.at((chunk * self.chunk) as u64), steps + step)?;
            self.expect(steps + step)?;
        }
        // What is sent again is read again: the vector stays until the next rank has it all.
        while self.posted > 0 {
            self.complete()?;
        }
        let mut bytes = vec![0; self.elements * FLOAT];
        self.vector.read(0, &mut bytes)?;
        Ok(floats(&bytes).collect())
    }

    /// Ends when the neighbours end, too: until then they may need an acknowledgement.
    pub fn part(&self) -> Result<()> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let fails = |source| Error::Channel { address, doing: "part", source };
        say(&self.next, "done").and_then(|()| say(&self.previous, "done")).map_err(fails)?;
        hear(&self.next).and_then(|_| hear(&self.previous)).map_err(fails)?;
        Ok(())
    }

    /// The ranks in the order in which they add to element `i`.
    pub fn in_order_of_the_ring(&self, i: usize) -> impl Iterator<Item = u8> {
        let (first, ranks) = (i * FLOAT / self.chunk, self.ranks);
        (0..ranks).filter_map(move |step| u8::try_from((first + step) % ranks).ok())
    }

    /// The chunk `steps` behind our own.
    const fn behind(&self, steps: usize) -> usize {
        (self.rank + 2 * self.ranks - steps) % self.ranks
    }

    fn write(&mut self, chunk: usize, to: verbs_api::RemoteAddr, step: usize) -> Result<()> {
        let source = [self.vector.slice(chunk * self.chunk..(chunk + 1) * self.chunk)?];
        let imm = u32::try_from(step).unwrap_or(u32::MAX);
        let request = SendRequest::write(SendData::Gather(&source), to).with_imm(imm).signaled();
        self.to_next.post_send(&request)?;
        self.posted += 1;
        Ok(())
    }

    /// Waits until the rank before has written what belongs to `step`.
    fn expect(&mut self, step: usize) -> Result<()> {
        let imm = loop {
            match self.early.pop_front() {
                Some(imm) => break imm,
                None => self.complete()?,
            }
        };
        if imm as usize == step {
            return Ok(());
        }
        Err(Error::Unexpected { said: format!("step {imm}"), expected: "the next step" })
    }

    /// Takes the next completion: of a WRITE of ours, or with the step of the neighbour's.
    fn complete(&mut self) -> Result<()> {
        let completion = self.waiter.next("a WRITE")?;
        if completion.opcode == WcOpcode::RecvRdmaWithImm {
            self.from_previous.post_recv(&RecvRequest { wr_id: 0, scatter: &[] })?;
            self.early.push_back(completion.imm);
        } else {
            self.posted -= 1;
        }
        Ok(())
    }

    /// Adds what came in `step` to our own chunk.
    fn add(&self, step: usize) -> Result<()> {
        let (mut came, mut own) = (vec![0; self.chunk], vec![0; self.chunk]);
        let place = self.behind(step + 1) * self.chunk;
        self.staging.read(step * self.chunk, &mut came)?;
        self.vector.read(place, &mut own)?;
        let sums: Vec<u8> =
            floats(&came).zip(floats(&own)).flat_map(|(came, own)| (came + own).to_ne_bytes()).collect();
        Ok(self.vector.write(place, &sums)?)
    }
}

fn floats(bytes: &[u8]) -> impl Iterator<Item = f32> {
    let (chunks, _) = bytes.as_chunks::<FLOAT>();
    chunks.iter().map(|bytes| f32::from_ne_bytes(*bytes))
}

fn parse<T: std::str::FromStr>(text: &str) -> Result<T> {
    let unexpected = |_| Error::Unexpected { said: text.to_owned(), expected: "an endpoint or a region" };
    text.parse().map_err(unexpected)
}
