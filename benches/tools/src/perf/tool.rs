//! What all tools do around their traffic: meet the peer, show results as they come, end in order.

use crate::affinity::stay_on;
use crate::channel::Channel;
use crate::error::{Error, Result};
use crate::host::resolve;
use crate::interrupt;
use crate::output;
use crate::perf::cli::{Basics, Defaults};
use crate::program;
use crate::pump::{Drive, PEER_WAIT};
use clap::{Command, CommandFactory};
use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;
use verbs_api::Role;

/// A tool, what it does unless told otherwise, and how its side channel begins.
#[derive(Clone, Copy, Debug)]
pub struct Tool {
    /// Its name in the JSON file.
    pub name: &'static str,
    /// One sentence about it.
    pub about: &'static str,
    /// Name and version of what it says on the side channel.
    pub version: &'static str,
    /// What its `--help` shows as defaults.
    pub defaults: Defaults,
}

impl Tool {
    /// Its command line.
    #[must_use]
    pub fn command<T: CommandFactory>(&self) -> Command {
        self.defaults.command::<T>().about(self.about)
    }
}

/// How long the peer may take to hear why we failed.
const FAREWELL: Duration = Duration::from_secs(1);

/// Runs a tool's `body` with what `open` opened and its peer, whom it meets by TCP.
pub fn main<D: Drive>(
    tool: Tool,
    basics: &Basics,
    open: impl FnOnce(Role) -> Result<D>,
    body: impl FnOnce(&mut D, &mut Channel) -> Result<()>,
) -> ExitCode {
    main_by(basics, open, |device, server| by_tcp(tool, basics, device, server), body)
}

/// Runs a tool with a peer whom it meets by `channel`, which is given the server's address if there
/// is one. Tells the peer and the user if it fails.
pub fn main_by<D: Drive>(
    basics: &Basics,
    open: impl FnOnce(Role) -> Result<D>,
    channel: impl FnOnce(&D, Option<SocketAddr>) -> Result<Channel>,
    body: impl FnOnce(&mut D, &mut Channel) -> Result<()>,
) -> ExitCode {
    interrupt::tool_main(|| {
        // What can go wrong without the peer goes wrong first.
        output::check_file(basics.json.as_deref())?;
        let server = basics.host.as_deref().map(|host| resolve(host, basics.port)).transpose()?;
        // First of all: memory and threads come from where we are.
        basics.cpu.map_or(Ok(()), stay_on)?;
        let mut device = open(if server.is_some() { Role::Client } else { Role::Server })?;
        let mut channel = channel(&device, server)?;
        let result = body(&mut device, &mut channel);
        if let Err(error) = &result {
            channel.say_failed(error);
        }
        channel.finish(if result.is_ok() { PEER_WAIT } else { FAREWELL });
        result
    })
}

/// The side channel of most: a TCP connection of the kernel's.
pub fn by_tcp(
    tool: Tool,
    basics: &Basics,
    device: &impl Drive,
    server: Option<SocketAddr>,
) -> Result<Channel> {
    if let Some(server) = server {
        return Channel::connect(device, tool.version, server);
    }
    let address = SocketAddr::from((basics.bind, basics.port));
    Channel::accept(device, tool.version, address, None, || {
        let reach = if address.ip().is_loopback() {
            "; use --bind ADDRESS to accept clients of other hosts"
        } else {
            ""
        };
        program::say(format_args!("waiting for a client on {address}{reach}"));
    })
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
