//! What all tools do around their traffic: meet the peer, show results as they come, end in order.

use crate::channel::Channel;
use crate::error::{Error, Result};
use crate::interrupt;
use crate::perf::cli::Basics;
use crate::pump::Drive;
use rustix::thread::{CpuSet, sched_setaffinity};
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::process::ExitCode;
use verbs_api::Role;

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

/// Runs a tool's `body` with what `open` opened and its peer; tells the peer if it fails, and a person as well.
pub fn main<D: Drive>(
    tool: Tool,
    basics: &Basics,
    open: impl FnOnce(Role) -> Result<D>,
    body: impl FnOnce(&mut D, &mut Channel) -> Result<()>,
) -> ExitCode {
    match interrupt::catch().and_then(|()| run(tool, basics, open, body)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{}: {error}", tool.name);
            error.exit_code()
        }
    }
}

fn run<D: Drive>(
    tool: Tool,
    basics: &Basics,
    open: impl FnOnce(Role) -> Result<D>,
    body: impl FnOnce(&mut D, &mut Channel) -> Result<()>,
) -> Result<()> {
    let address = basics.host.as_deref().map(|host| resolve(host, basics.port)).transpose()?;
    // First of all: memory and threads come from where we are.
    basics.cpu.map_or(Ok(()), stay_on)?;
    let role = if address.is_some() { Role::Client } else { Role::Server };
    let mut device = open(role)?;
    let mut channel = match address {
        Some(address) => Channel::connect(&device, tool.version, address)?,
        None => {
            let address = SocketAddr::from((basics.bind, basics.port));
            eprintln!("{}: waiting for a client on {address}", tool.name);
            Channel::accept(&device, tool.version, address, None)?
        }
    };
    let result = body(&mut device, &mut channel);
    if let Err(error) = &result {
        channel.say_failed(error);
    }
    result
}

fn stay_on(cpu: usize) -> Result<()> {
    let refused = || Error::Options(format!("--cpu {cpu}: this process may not run there"));
    if cpu >= CpuSet::MAX_CPU {
        return Err(refused());
    }
    let mut set = CpuSet::new();
    set.set(cpu);
    sched_setaffinity(None, &set).map_err(|_| refused())
}

/// The address of a server.
pub(crate) fn resolve(host: &str, port: u16) -> Result<SocketAddr> {
    let fails = |source| Error::Host { host: host.to_owned(), source };
    // A server listens on an IPv4 address unless told otherwise.
    let found = || (host, port).to_socket_addrs().map_err(fails);
    let found = found()?.find(SocketAddr::is_ipv4).or(found()?.next());
    found.ok_or_else(|| fails(std::io::Error::other("it has no address")))
}

/// Waits until the peer is as far as we are: `key` and a number that both must say alike.
pub fn meet(engine: &impl Drive, channel: &mut Channel, key: &'static str, number: usize) -> Result<()> {
    channel.say(key, number)?;
    let said: usize = channel.hear(engine, key)?;
    if said == number {
        return Ok(());
    }
    Err(Error::Unexpected { said: format!("{key} {said}"), expected: key })
}
