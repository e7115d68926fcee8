//! A client: GETs are RDMA READs of a bucket, PUTs are SENDs that the server answers. It has lanes,
//! one operation on each.

use crate::protocol::{ANSWER, LANES, PUT_HEAD, TIMEOUT, Welcome, pair, read_pair};
use crate::slot::{BUCKET, Found, VALUE_MAX, bucket_of, find};
use srnic_benches::blocking::{Waiter, dial, hear, say};
use srnic_tools::error::{Error, Result};
use std::net::{SocketAddr, TcpStream};
use verbs_api::{
    Access, Device, MemoryRegion, QueuePair, RecvRequest, RemoteRegion, SendData, SendRequest, WcOpcode,
};

/// Bytes of a lane's memory: a bucket, an answer, a PUT.
const LANE: usize = BUCKET + ANSWER + PUT_HEAD + VALUE_MAX;

/// How an operation ended.
pub enum Done {
    /// A GET.
    Got(Found),
    /// A PUT; `None` if there was no room.
    Put(Option<u64>),
}

/// A connection to the store.
pub struct Client {
    waiter: Waiter,
    pair: QueuePair,
    memory: MemoryRegion,
    table: RemoteRegion,
    buckets: u64,
    /// The key of each lane's GET.
    keys: [u64; LANES],
    /// The server learns by its end that we are gone.
    _line: TcpStream,
}

impl Client {
    /// Connects to the server.
    pub fn connect(device: &Device, address: SocketAddr) -> Result<Self> {
        let pd = device.alloc_pd();
        let waiter = Waiter::new(device, 256)?;
        let memory = pd.register(LANE * LANES, Access::LOCAL_WRITE)?;
        let mut prepared = pd.queue_pair(waiter.cq(), waiter.cq()).timeout(TIMEOUT).build()?;
        for lane in 0..LANES {
            let scatter = [memory.slice(answer(lane))?];
            prepared.post_recv(&RecvRequest { wr_id: lane as u64, scatter: &scatter })?;
        }
        let line = dial(address)?;
        let fails = |source| Error::Channel { address, doing: "introduce ourselves", source };
        say(&line, &prepared.endpoint().to_string()).map_err(fails)?;
        let welcome: Welcome = hear(&line).map_err(fails)?.parse()?;
        let pair = prepared.connect(&welcome.endpoint)?;
        let buckets = welcome.table.len / BUCKET as u64;
        Ok(Self { waiter, pair, memory, table: welcome.table, buckets, keys: [0; LANES], _line: line })
    }

    /// Begins a GET.
    pub fn get(&mut self, lane: usize, key: u64) -> Result<()> {
        self.keys[lane] = key;
        let from = self.table.at(bucket_of(key, self.buckets) * BUCKET as u64);
        let into = [self.memory.slice(lane * LANE..lane * LANE + BUCKET)?];
        Ok(self.pair.post_send(&SendRequest::read(&into, from).id(lane as u64).signaled())?)
    }

    /// Begins a PUT.
    pub fn put(&mut self, lane: usize, key: u64, value: &[u8]) -> Result<()> {
        let start = answer(lane).end;
        self.memory.write(start, &pair(lane as u64, key))?;
        self.memory.write(start + PUT_HEAD, value)?;
        let source = [self.memory.slice(start..start + PUT_HEAD + value.len())?];
        let send = SendRequest::send(SendData::Gather(&source)).id(lane as u64).signaled();
        Ok(self.pair.post_send(&send)?)
    }

    /// Waits for the next operation that ends, and says on which lane. A GET that met a PUT is
    /// tried again here; those are counted in `torn`.
    pub fn next(&mut self, torn: &mut u64) -> Result<(usize, Done)> {
        loop {
            let completion = self.waiter.next("an operation")?;
            let lane = usize::try_from(completion.wr_id).unwrap_or(0).min(LANES - 1);
            match completion.opcode {
                WcOpcode::RdmaRead => match self.found(lane)? {
                    Found::Torn => {
                        *torn += 1;
                        self.get(lane, self.keys[lane])?;
                    }
                    found => return Ok((lane, Done::Got(found))),
                },
                WcOpcode::Recv => return self.answered(lane),
                // The PUT has arrived; its answer says the rest.
                _ => {}
            }
        }
    }

    fn found(&self, lane: usize) -> Result<Found> {
        let mut bucket = [0; BUCKET];
        self.memory.read(lane * LANE, &mut bucket)?;
        Ok(find(&bucket, self.keys[lane]))
    }

    /// The answer in receive `index`, which may be that to any lane's PUT.
    fn answered(&mut self, index: usize) -> Result<(usize, Done)> {
        let mut bytes = [0; ANSWER];
        self.memory.read(answer(index).start, &mut bytes)?;
        let scatter = [self.memory.slice(answer(index))?];
        self.pair.post_recv(&RecvRequest { wr_id: index as u64, scatter: &scatter })?;
        let (number, version) = read_pair(&bytes).unwrap_or((0, 0));
        let lane = usize::try_from(number).unwrap_or(LANES).min(LANES - 1);
        Ok((lane, Done::Put((version > 0).then_some(version))))
    }
}

/// Where answers come.
const fn answer(index: usize) -> std::ops::Range<usize> {
    let start = index * LANE + BUCKET;
    start..start + ANSWER
}
