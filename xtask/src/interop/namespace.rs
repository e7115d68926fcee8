//! A network namespace with a tap: the host's end of the guest's only cable.

use std::io::Read as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::error::{Error, Result};
use crate::interrupt;
use crate::netns::Netns;
use crate::repo;

/// The tap's name in the namespace.
pub const TAP: &str = "tap0";
/// The kernel's address on the tap, for side channels. Our engine has another.
pub const HOST_IP: &str = "10.9.0.1";
/// The guest's address, of its kernel and of its soft-RoCE.
pub const GUEST_IP: &str = "10.9.0.2";
/// Our engine's.
pub const ENGINE_IP: &str = "10.9.0.3";
/// The guest's IPv6 address, whose GID follows that of the IPv4 one.
pub const GUEST_IP6: &str = "fd00:9::2";
/// Our engine's, in cases over IPv6: an engine has one address.
pub const ENGINE_IP6: &str = "fd00:9::3";
/// The guest's Ethernet address.
pub const GUEST_MAC: &str = "52:54:00:09:00:02";
/// The tap's.
pub const HOST_MAC: &str = "52:54:00:09:00:01";
/// Room for a path MTU of 4096 with all headers.
pub const MTU: u16 = 4400;

/// Longest time that one of our processes may take.
const LIMIT: Duration = Duration::from_secs(180);
const INTERVAL: Duration = Duration::from_millis(10);

/// The namespace; it goes away with this.
pub struct Namespace(Netns);

impl Namespace {
    /// Makes it. Neighbors are told of each other: an ARP that is slow or lost would be a failure
    /// of the side channel.
    pub fn new() -> Result<Self> {
        let namespace = Netns::new()?;
        for line in [
            format!("ip tuntap add dev {TAP} mode tap"),
            format!("ip link set {TAP} address {HOST_MAC} mtu {MTU} up"),
            format!("ip addr add {HOST_IP}/24 dev {TAP}"),
            format!("ip neigh replace {GUEST_IP} lladdr {GUEST_MAC} dev {TAP} nud permanent"),
        ] {
            namespace.run(&line)?;
        }
        Ok(Self(namespace))
    }

    /// A command that runs here.
    pub fn command(&self, program: &Path) -> Command {
        self.0.command(program)
    }
}

/// A process of ours; it ends with this.
pub struct Running {
    child: Child,
    shown: String,
}

/// Starts a command whose output is wanted.
pub fn spawn(command: &mut Command) -> Result<Running> {
    let shown = repo::shown(command);
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let child = child.map_err(|e| Error(format!("cannot start `{shown}`: {e}")))?;
    Ok(Running { child, shown })
}

impl Running {
    /// Waits until it says `text` on standard error.
    pub fn wait_for(&mut self, text: &str) -> Result<()> {
        let Some(stderr) = &mut self.child.stderr else { return Ok(()) };
        // Byte by byte: what comes behind is for `end`.
        let mut said = Vec::new();
        while !said.ends_with(text.as_bytes()) {
            let mut byte = [0];
            match stderr.read(&mut byte) {
                Ok(1..) => said.push(byte[0]),
                _ => {
                    let said = String::from_utf8_lossy(&said);
                    return Err(Error(format!("`{}` ended before it said `{text}`:\n{said}", self.shown)));
                }
            }
        }
        Ok(())
    }

    /// Waits for its successful end; returns what it said last.
    pub fn end(mut self) -> Result<String> {
        let deadline = Instant::now() + LIMIT;
        let status = loop {
            interrupt::check()?;
            match self
                .child
                .try_wait()
                .map_err(|e| Error(format!("cannot wait for `{}`: {e}", self.shown)))?
            {
                Some(status) => break Some(status),
                None if Instant::now() > deadline => break None,
                None => sleep(INTERVAL),
            }
        };
        // What it says fits its pipes: the tools are terse.
        let read = |stream: Option<&mut dyn std::io::Read>| {
            let mut text = String::new();
            stream.map(|stream| stream.read_to_string(&mut text));
            text
        };
        if status.is_none() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
        let out = read(self.child.stdout.as_mut().map(|stream| stream as &mut dyn std::io::Read));
        let err = read(self.child.stderr.as_mut().map(|stream| stream as &mut dyn std::io::Read));
        if status.is_some_and(|status| status.success()) {
            return Ok(out.lines().last().unwrap_or_default().to_owned());
        }
        let how = status.map_or_else(|| "comes to no end".to_owned(), |status| format!("failed: {status}"));
        Err(Error(format!("`{}` {how}\n{out}{err}", self.shown)))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Both do nothing to a process that has been waited for.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
