//! Our queue pair and its memory: what is sent in the first half, what arrives in the second.

use super::cli::Args;
use super::messages::Keys;
use super::pair::{Pair, Prepared, ahead_of_message};
use crate::channel::Channel;
use crate::error::{Error, Result};
use crate::interrupt;
use std::net::IpAddr;
use std::time::{Duration, Instant};
use verbs_api::{
    Access, Completion, CompletionQueue, Device, MemoryRegion, ProtectionDomain, QueueCaps, RecvRequest,
    RemoteAddr, Sge, WcStatus,
};

/// Receives that are outstanding at most.
const RECEIVES: u32 = 512;
/// READs and atomics under way, either way: what rxe takes.
pub const RD_ATOMIC: u8 = 16;
/// The halves begin at multiples of this, so that words are aligned.
const ALIGN: usize = 64;
/// perftest walks through so many bytes of its peer's memory with messages that are shorter.
pub const CYCLE: usize = 4096;
/// Longest time without a completion.
const PATIENCE: Duration = Duration::from_secs(60);

/// Where things are in the memory: what is sent from its start on, and behind it what arrives.
#[derive(Clone, Copy, Debug)]
struct Plan {
    /// Bytes of a message.
    size: usize,
    /// Bytes that a receive has before it.
    ahead: usize,
}

impl Plan {
    const fn new(args: &Args) -> Self {
        Self { size: args.size(), ahead: ahead_of_message(args.connection) }
    }

    const fn target_at(self) -> usize {
        (self.size + self.ahead).next_multiple_of(ALIGN)
    }

    fn bytes(self) -> usize {
        self.target_at() + self.size.max(CYCLE)
    }

    fn receive(self, memory: &MemoryRegion) -> Result<Sge> {
        let start = self.target_at();
        Ok(memory.slice(start - self.ahead..start + self.size)?)
    }
}

/// Our end before the peer's is known.
pub struct Half {
    pd: ProtectionDomain,
    prepared: Prepared,
    cq: CompletionQueue,
    memory: MemoryRegion,
    plan: Plan,
}

/// Our end, connected.
pub struct Link {
    pub pair: Pair,
    pub memory: MemoryRegion,
    /// Where the peer's memory is.
    pub remote: RemoteAddr,
    cq: CompletionQueue,
    plan: Plan,
    /// When something completed last.
    progress_at: Instant,
}

impl Half {
    /// A queue pair in standard RoCEv2.
    pub fn new(device: &Device, args: &Args) -> Result<Self> {
        let plan = Plan::new(args);
        let pd = device.alloc_pd();
        let cq = device.create_cq(args.tx_depth + RECEIVES)?;
        let access = Access::LOCAL_WRITE | Access::REMOTE_WRITE | Access::REMOTE_READ | Access::REMOTE_ATOMIC;
        let memory = pd.register(plan.bytes(), access)?;
        let caps = QueueCaps { max_send_wr: args.tx_depth, max_recv_wr: RECEIVES, ..QueueCaps::default() };
        let prepared = Prepared::new(&pd, &cq, caps, access, args)?;
        Ok(Self { pd, prepared, cq, memory, plan })
    }

    /// What the peer must know of us.
    pub fn keys(&self, device: &Device) -> Keys {
        let (qpn, psn) = self.prepared.numbers();
        let gid = match device.ip() {
            IpAddr::V4(v4) => v4.to_ipv6_mapped(),
            IpAddr::V6(v6) => v6,
        };
        let vaddr = self.memory.addr() + self.plan.target_at() as u64;
        Keys { out_reads: RD_ATOMIC, qpn, psn, rkey: self.memory.rkey(), vaddr, gid }
    }

    /// Connects, with receives posted ahead.
    pub fn connect(self, device: &Device, args: &Args, keys: &Keys, receives: u32) -> Result<Link> {
        let Self { pd, mut prepared, cq, memory, plan } = self;
        Channel::check_distinct(device, keys.endpoint(args.mtu).ip)?;
        let target = plan.receive(&memory)?;
        for _ in 0..receives.min(RECEIVES) {
            prepared.post_recv(&RecvRequest { wr_id: 0, scatter: &[target] })?;
        }
        let pair = prepared.connect(device, &pd, args, keys)?;
        let remote = RemoteAddr { addr: keys.vaddr, rkey: keys.rkey };
        Ok(Link { pair, memory, remote, cq, plan, progress_at: Instant::now() })
    }
}

impl Link {
    /// What we send.
    pub fn source(&self) -> Result<Sge> {
        Ok(self.memory.slice(..self.plan.size)?)
    }

    /// Where what the peer sends arrives.
    pub fn target(&self) -> Result<Sge> {
        let start = self.target_at();
        Ok(self.memory.slice(start..start + self.plan.size)?)
    }

    /// Offset of the target in the memory.
    pub const fn target_at(&self) -> usize {
        self.plan.target_at()
    }

    /// Bytes of a message.
    pub const fn size(&self) -> usize {
        self.plan.size
    }

    /// Bytes that a receive of a message says it has.
    pub const fn received_len(&self) -> usize {
        self.plan.ahead + self.plan.size
    }

    /// One more receive.
    pub fn post_receive(&mut self) -> Result<()> {
        let place = self.plan.receive(&self.memory)?;
        self.pair.post_recv(&RecvRequest { wr_id: 0, scatter: &[place] })
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

    /// Drives the engine for a peer whose requests complete nothing here, however long it takes.
    pub fn serve(&mut self) -> Result<()> {
        self.progress_at = Instant::now();
        self.poll().map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser as _;

    #[test]
    fn who_only_serves_is_patient_and_who_waits_for_completions_is_not() {
        let args = Args::parse_from(["srnic_perftest", "write-bw", "-d", "sim:serves"]);
        let [device, other] =
            ["sim:serves,driver=thread"; 2].map(|text| Device::open(text).expect("a device"));
        let keys = Half::new(&other, &args).expect("an end").keys(&other);
        let mut link = Half::new(&device, &args)
            .and_then(|half| half.connect(&device, &args, &keys, 0))
            .expect("connected");
        let long_ago = Instant::now().checked_sub(2 * PATIENCE).expect("the machine runs for longer");
        link.progress_at = long_ago;
        link.serve().expect("the client is busy");
        link.progress_at = long_ago;
        assert!(matches!(link.poll(), Err(Error::Late(..))));
    }
}
