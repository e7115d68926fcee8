//! Two processes that found each other, with their queue pairs connected.

use crate::channel::Channel;
use crate::error::{Error, Result};
use crate::interrupt;
use crate::perf::cli::Common;
use crate::perf::options;
use crate::pump::wait_for;
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::process::ExitCode;
use verbs_api::{
    Access, CompletionQueue, Device, Endpoint, MemoryRegion, Pmtu, QueueCaps, QueuePair, RemoteRegion, Role,
};

/// Most memory that one side registers for one direction, in bytes.
const MEMORY_MAX: usize = 4 << 30;

/// A tool, and how its side channel begins.
#[derive(Clone, Copy, Debug)]
pub struct Tool {
    /// Its name.
    pub name: &'static str,
    /// One sentence about it.
    pub about: &'static str,
    /// Name and version of what it says on the side channel.
    pub version: &'static str,
}

/// What a session needs.
pub struct Setup<'a> {
    pub common: &'a Common,
    /// What both sides must be told alike.
    pub agreed: &'a [(&'static str, String)],
    pub mtu: Pmtu,
    pub qps: u32,
    pub caps: QueueCaps,
    /// Bytes of each side's source and target.
    pub memory: usize,
}

/// Everything that traffic needs.
pub struct Session<'a> {
    pub device: &'a Device,
    pub channel: &'a mut Channel,
    pub cq: CompletionQueue,
    pub queue_pairs: Vec<QueuePair>,
    /// What we send.
    pub source: MemoryRegion,
    /// Where the peer's messages go.
    pub target: MemoryRegion,
    /// The peer's target.
    pub remote: RemoteRegion,
}

/// Runs a tool's `body` with its device and its peer; tells the peer if it fails, and a person as well.
pub fn main(tool: Tool, common: &Common, body: impl FnOnce(&Device, &mut Channel) -> Result<()>) -> ExitCode {
    match interrupt::catch().and_then(|()| meet(tool, common, body)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{}: {error}", tool.name);
            error.exit_code()
        }
    }
}

fn meet(tool: Tool, common: &Common, body: impl FnOnce(&Device, &mut Channel) -> Result<()>) -> Result<()> {
    let address = common.host.as_deref().map(|host| resolve(host, common.port)).transpose()?;
    let role = if address.is_some() { Role::Client } else { Role::Server };
    let device = Device::open_spec(&common.device.clone().or_role(role))?;
    let mut channel = match address {
        Some(address) => Channel::connect(&device, tool.version, address)?,
        None => {
            eprintln!("{}: waiting for a client on 127.0.0.1:{}", tool.name, common.port);
            Channel::accept(&device, tool.version, common.port, None)?
        }
    };
    let result = body(&device, &mut channel);
    if let Err(error) = &result {
        channel.say_failed(error);
    }
    result
}

fn resolve(host: &str, port: u16) -> Result<SocketAddr> {
    let fails = |source| Error::Host { host: host.to_owned(), source };
    // The server listens on an IPv4 address.
    let found = (host, port).to_socket_addrs().map_err(fails)?.find(SocketAddr::is_ipv4);
    found.ok_or_else(|| fails(std::io::Error::other("it has no IPv4 address")))
}

impl<'a> Session<'a> {
    /// Agrees with the peer and connects.
    pub fn connect(device: &'a Device, channel: &'a mut Channel, setup: &Setup<'_>) -> Result<Self> {
        options::agree(device, channel, setup.agreed)?;
        if setup.memory > MEMORY_MAX {
            let text = format!("these messages need {} bytes of memory; at most {MEMORY_MAX}", setup.memory);
            return Err(Error::Options(text));
        }
        let pd = device.alloc_pd();
        // A failure completes every request that was posted, signaled or not.
        let cq = device.create_cq(setup.qps * (setup.caps.max_send_wr + setup.caps.max_recv_wr))?;
        let access = Access::LOCAL_WRITE | Access::REMOTE_WRITE;
        let (source, target) = (pd.register(setup.memory, access)?, pd.register(setup.memory, access)?);
        let mut queue_pairs = Vec::new();
        for _ in 0..setup.qps {
            let builder = pd.queue_pair(&cq, &cq).caps(setup.caps).path_mtu(setup.mtu);
            let builder = builder.congestion(setup.common.cc.into()).timeout(setup.common.qp_timeout);
            let prepared = builder.build()?;
            channel.say("endpoint", prepared.endpoint())?;
            let remote: Endpoint = channel.hear(device, "endpoint")?;
            queue_pairs.push(prepared.connect(&remote)?);
        }
        channel.say("region", target.remote())?;
        let remote = channel.hear(device, "region")?;
        wait_for(device, "the link did not come up", || Ok(device.link_up().then_some(())))?;
        Ok(Self { device, channel, cq, queue_pairs, source, target, remote })
    }

    /// Waits until the peer is as far as we are: `key` and a number that both must say alike.
    pub fn meet(&mut self, key: &'static str, number: usize) -> Result<()> {
        self.channel.say(key, number)?;
        let said: usize = self.channel.hear(self.device, key)?;
        if said == number {
            return Ok(());
        }
        Err(Error::Unexpected { said: format!("{key} {said}"), expected: key })
    }
}
