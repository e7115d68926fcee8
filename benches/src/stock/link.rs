//! Our queue pair and its memory: what is sent in the first half, what arrives in the second.

use super::cli::Args;
use super::messages::Keys;
use crate::error::{Error, Result};
use crate::interrupt;
use std::time::{Duration, Instant};
use verbs_api::{
    Access, Completion, CompletionQueue, CongestionAlgorithm, Device, Endpoint, MemoryRegion,
    PreparedQueuePair, QueueCaps, QueuePair, RecvRequest, RemoteAddr, Sge, WcStatus, WireMode,
};

/// Receives that are outstanding at most.
const RECEIVES: u32 = 512;
/// READs and atomics under way, either way: what rxe takes.
const RD_ATOMIC: u8 = 16;
/// The halves begin at multiples of this, so that words are aligned.
const ALIGN: usize = 64;
/// perftest walks through so many bytes of its peer's memory with messages that are shorter.
pub const CYCLE: usize = 4096;
/// Longest time without a completion.
const PATIENCE: Duration = Duration::from_secs(60);

/// Our end before the peer's is known.
pub struct Half {
    prepared: PreparedQueuePair,
    cq: CompletionQueue,
    memory: MemoryRegion,
    size: usize,
}

/// Our end, connected.
pub struct Link {
    pub qp: QueuePair,
    pub memory: MemoryRegion,
    /// Where the peer's memory is.
    pub remote: RemoteAddr,
    cq: CompletionQueue,
    size: usize,
    /// When something completed last.
    progress_at: Instant,
}

impl Half {
    /// A queue pair in wire mode Plain.
    pub fn new(device: &Device, args: &Args) -> Result<Self> {
        let size = args.size();
        let pd = device.alloc_pd();
        let cq = device.create_cq(args.tx_depth + RECEIVES)?;
        let access = Access::LOCAL_WRITE | Access::REMOTE_WRITE | Access::REMOTE_READ | Access::REMOTE_ATOMIC;
        let memory = pd.register(size.next_multiple_of(ALIGN) + size.max(CYCLE), access)?;
        let caps = QueueCaps { max_send_wr: args.tx_depth, max_recv_wr: RECEIVES, ..QueueCaps::default() };
        let builder = pd.queue_pair(&cq, &cq).caps(caps).path_mtu(args.mtu).access(access);
        let builder = builder.wire_mode(WireMode::Plain).congestion(CongestionAlgorithm::Fixed);
        let builder = builder.max_rd_atomic(RD_ATOMIC).max_dest_rd_atomic(RD_ATOMIC).timeout(args.qp_timeout);
        Ok(Self { prepared: builder.build()?, cq, memory, size })
    }

    /// What the peer must know of us.
    pub fn keys(&self) -> Keys {
        let target = self.memory.addr() + self.size.next_multiple_of(ALIGN) as u64;
        Keys::of(&self.prepared.endpoint(), self.memory.rkey(), target)
    }

    /// Connects, with receives posted ahead.
    pub fn connect(self, args: &Args, keys: &Keys, receives: u32) -> Result<Link> {
        let Self { mut prepared, cq, memory, size } = self;
        let target = target_of(&memory, size)?;
        for _ in 0..receives.min(RECEIVES) {
            prepared.post_recv(&RecvRequest { wr_id: 0, scatter: &[target] })?;
        }
        let remote: Endpoint = keys.endpoint(args.mtu);
        let qp = prepared.connect(&remote)?;
        let remote = RemoteAddr { addr: keys.vaddr, rkey: keys.rkey };
        Ok(Link { qp, memory, remote, cq, size, progress_at: Instant::now() })
    }
}

fn target_of(memory: &MemoryRegion, size: usize) -> Result<Sge> {
    let start = size.next_multiple_of(ALIGN);
    Ok(memory.slice(start..start + size)?)
}

impl Link {
    /// What we send.
    pub fn source(&self) -> Result<Sge> {
        Ok(self.memory.slice(..self.size)?)
    }

    /// Where what the peer sends arrives.
    pub fn target(&self) -> Result<Sge> {
        target_of(&self.memory, self.size)
    }

    /// Offset of the target in the memory.
    pub const fn target_at(&self) -> usize {
        self.size.next_multiple_of(ALIGN)
    }

    /// Bytes of a message.
    pub const fn size(&self) -> usize {
        self.size
    }

    /// One more receive.
    pub fn post_receive(&mut self) -> Result<()> {
        let target = self.target()?;
        Ok(self.qp.post_recv(&RecvRequest { wr_id: 0, scatter: &[target] })?)
    }

    /// Runs the engine a little. A completion, if there is one; it must be a success.
    pub fn poll(&mut self) -> Result<Option<Completion>> {
        let Some(done) = self.cq.poll() else {
            interrupt::check()?;
            if self.progress_at.elapsed() > PATIENCE {
                return Err(Error::Late("nothing completed any more", PATIENCE.as_secs()));
            }
            std::thread::yield_now();
            return Ok(None);
        };
        self.progress_at = Instant::now();
        if done.status == WcStatus::Success {
            return Ok(Some(done));
        }
        Err(Error::Completion { what: "a work request", status: done.status })
    }
}
