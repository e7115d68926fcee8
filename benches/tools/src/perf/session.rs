//! Two processes that found each other, with their queue pairs connected.

use crate::channel::Channel;
use crate::error::{Error, Result};
use crate::link::wait_for_link;
use crate::perf::cli::{Agreed, Common};
use crate::perf::options;
use crate::perf::report::Losses;
use crate::perf::tool::{self, Tool};
use crate::program;
use std::net::SocketAddr;
use std::process::ExitCode;
use verbs_api::{
    Access, AckTiming, CompletionQueue, Device, MemoryRegion, Pmtu, QueueCaps, QueuePair, QueuePairBuilder,
    RemoteRegion, Role, SharedReceiveQueue, SrqCaps, WireMode,
};

/// Most memory that one side registers for one direction, in bytes.
const MEMORY_MAX: usize = 4 << 30;

/// What a session needs.
pub struct Setup<'a> {
    pub common: &'a Common,
    /// What both sides must be told alike.
    pub agreed: &'a Agreed,
    pub mtu: Pmtu,
    pub qps: u32,
    pub caps: QueueCaps,
    /// READs and atomics under way at most, of each queue pair.
    pub rd_atomic: Option<u8>,
    /// All queue pairs take their receives from one shared queue, of `max_recv_wr` receives.
    pub use_srq: bool,
    /// Bytes of each side's source and target.
    pub memory: usize,
}

/// Everything that traffic needs.
pub struct Session<'a> {
    pub device: &'a Device,
    pub channel: &'a mut Channel,
    pub cq: CompletionQueue,
    pub queue_pairs: Vec<QueuePair>,
    /// Where receives are posted, if not to the queue pairs.
    pub srq: Option<SharedReceiveQueue>,
    /// What we send.
    pub source: MemoryRegion,
    /// Where the peer's messages go.
    pub target: MemoryRegion,
    /// The peer's target.
    pub remote: RemoteRegion,
    pub losses: Losses,
}

/// Runs an RDMA tool's `body` on a device with room for so many queue pairs, with its peer.
pub fn main(
    tool: Tool,
    common: &Common,
    qps: u32,
    body: impl FnOnce(&mut Device, &mut Channel) -> Result<()>,
) -> ExitCode {
    let open = |role| open(common, qps, role);
    let channel = |device: &Device, server: Option<SocketAddr>| match (common.rdma_cm, server) {
        (false, server) => tool::by_tcp(tool, &common.basics, device, server),
        (true, Some(server)) => Channel::connect_by_cm(device, &common.device.device, tool.version, server),
        (true, None) => Channel::accept_by_cm(device, tool.version, common.basics.port, |address| {
            program::say(format_args!("waiting for a client on {address}"));
        }),
    };
    tool::main_by(&common.basics, open, channel, body)
}

/// Opens the device that the command line names. The tools call it all the time, so
/// acknowledgements can wait for the next call.
fn open(common: &Common, qps: u32, role: Role) -> Result<Device> {
    // The connection manager's, and the one that carries the side channel.
    let more = if common.rdma_cm { 2 } else { 0 };
    let builder = Device::builder().max_qps(qps + more).acks(AckTiming::BehindPosts);
    Ok(builder.open_spec(&common.device.device.clone().or_role(role))?)
}

impl<'a> Session<'a> {
    /// Agrees with the peer and connects.
    pub fn connect(device: &'a Device, channel: &'a mut Channel, setup: &Setup<'_>) -> Result<Self> {
        options::agree(device, channel, setup.agreed).map_err(|error| derived_mtu(error, setup))?;
        if setup.memory > MEMORY_MAX {
            let text = format!("these messages need {} bytes of memory; at most {MEMORY_MAX}", setup.memory);
            return Err(Error::Options(text));
        }
        let pd = device.alloc_pd();
        // A failure completes every request that was posted, signaled or not.
        let recvs = setup.caps.max_recv_wr * if setup.use_srq { 1 } else { setup.qps };
        let cq = device.create_cq(setup.qps * setup.caps.max_send_wr + recvs)?;
        let srq_caps = SrqCaps { max_wr: setup.caps.max_recv_wr, max_sge: 1 };
        let srq = setup.use_srq.then(|| pd.create_srq(srq_caps)).transpose()?;
        let access = Access::LOCAL_WRITE | Access::REMOTE_WRITE | Access::REMOTE_READ | Access::REMOTE_ATOMIC;
        let (source, target) = (pd.register(setup.memory, access)?, pd.register(setup.memory, access)?);
        // Each message is in one piece.
        let caps = QueueCaps { max_send_sge: 1, max_recv_sge: 1, ..setup.caps };
        let mut queue_pairs = Vec::new();
        for _ in 0..setup.qps {
            let builder = pd.queue_pair(&cq, &cq).caps(caps).path_mtu(setup.mtu).access(access);
            let mut builder = attributes(builder, setup.common);
            if let Some(most) = setup.rd_atomic {
                builder = builder.max_rd_atomic(most).max_dest_rd_atomic(most);
            }
            let prepared = match &srq {
                Some(srq) => builder.srq(srq).build()?,
                None => builder.build()?,
            };
            queue_pairs.push(channel.join(device, prepared)?);
        }
        channel.say("region", target.remote())?;
        let remote = channel.hear(device, "region")?;
        wait_for_link(device, &setup.common.device.device, || channel.check())?;
        let losses = Losses::new(device);
        Ok(Self { device, channel, cq, queue_pairs, srq, source, target, remote, losses })
    }

    /// Waits until the peer is as far as we are: `key` and a number that both must say alike.
    pub fn meet(&mut self, key: &'static str, number: usize) -> Result<()> {
        tool::meet(self.device, self.channel, key, number)
    }
}

/// A path MTU that nobody gave follows from the device: another option is what both sides need.
fn derived_mtu(error: Error, setup: &Setup<'_>) -> Error {
    match error {
        Error::Mismatch { option, ours, theirs } if option == "--mtu" && setup.common.mtu.is_none() => {
            let theirs_bytes = theirs.parse().unwrap_or(u32::MAX);
            Error::PathMtu { ours, theirs, least: setup.mtu.bytes().min(theirs_bytes) }
        }
        error => error,
    }
}

/// What the command line says of each queue pair.
fn attributes(builder: QueuePairBuilder, common: &Common) -> QueuePairBuilder {
    let builder = if common.plain {
        builder.wire_mode(WireMode::Plain).congestion(common.cc.into())
    } else {
        builder.congestion(common.cc.into()).recovery(common.recovery.into())
    };
    let builder = builder.timeout(common.qp_timeout).retry_cnt(common.retry_cnt);
    match common.window {
        Some(window) => builder.window(window),
        None => builder,
    }
}
