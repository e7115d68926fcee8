//! A side channel without TCP: the connection manager makes it, and the connections of the traffic
//! behind it.

use super::Channel;
use super::stream::{self, End, Stream};
use crate::dial::dial;
use crate::error::{Error, Result};
use crate::link::wait_for_link;
use crate::pump::{PEER_WAIT, wait_for, wait_until};
use std::net::SocketAddr;
use std::rc::Rc;
use verbs_api::{Connector, Device, DeviceSpec, Listener, PreparedQueuePair, QueuePair};

/// Where queue pairs are connected.
pub(super) enum Meeting {
    /// Here.
    Listener(Listener),
    /// There.
    Server(SocketAddr),
}

impl Channel {
    /// Waits for the peer, however long it takes, at a port of the device's connection manager, and
    /// exchanges versions; `listening` is told the address.
    ///
    /// # Errors
    /// [`Error::Verbs`], and those of [`Channel::accept`].
    pub fn accept_by_cm(
        device: &Device,
        version: &'static str,
        port: u16,
        listening: impl FnOnce(SocketAddr),
    ) -> Result<Self> {
        let (prepared, queue) = stream::prepare(device)?;
        let listener = Listener::bind(device, port)?;
        let address = listener.local_addr();
        listening(address);
        let request = wait_until(device, "no peer came", None, || Ok(listener.poll()))?;
        let peer = request.peer().ip();
        let mut connecting = request.accept(prepared)?;
        let pair = wait_for(device, "the peer went away again", || Ok(connecting.poll()?))?;
        let stream = Stream::new(device, pair, queue, End::Passive);
        Self::by_cm(device, version, stream, Meeting::Listener(listener), [address, (peer, 0).into()])
    }

    /// Connects to the peer as soon as it listens, and exchanges versions; `spec` names the device.
    ///
    /// # Errors
    /// As [`Channel::accept_by_cm`]; [`Error::Options`] if no device can have the address.
    pub fn connect_by_cm(
        device: &Device,
        spec: &DeviceSpec,
        version: &'static str,
        server: SocketAddr,
    ) -> Result<Self> {
        if server.ip().is_loopback() {
            let ip = server.ip();
            let text = format!("with --rdma_cm the server's address is that of its device; {ip} is none");
            return Err(Error::Options(text));
        }
        Self::check_distinct(device, server.ip())?;
        wait_for_link(device, spec, || Ok(()))?;
        let (pair, queue) = dial(device, Connector::new(), server, PEER_WAIT, || stream::prepare(device))?;
        let stream = Stream::new(device, pair, queue, End::Active);
        let ours = SocketAddr::new(device.ip(), 0);
        Self::by_cm(device, version, stream, Meeting::Server(server), [ours, server])
    }

    fn by_cm(
        device: &Device,
        version: &'static str,
        stream: Stream,
        meeting: Meeting,
        [ours, theirs]: [SocketAddr; 2],
    ) -> Result<Self> {
        let address = if let Meeting::Server(server) = &meeting { *server } else { ours };
        let channel = Self {
            carrier: Box::new(stream),
            meeting: Some(Rc::new(meeting)),
            ends: [ours.ip(), theirs.ip()],
            address,
            inbox: Vec::new(),
            early: None,
        };
        channel.greet(device, version)
    }
}

impl Meeting {
    /// Connects a queue pair, with an eye on what the peer says meanwhile.
    pub fn join(&self, channel: &mut Channel, device: &Device, pair: PreparedQueuePair) -> Result<QueuePair> {
        let mut connecting = match self {
            Self::Server(server) => Connector::new().connect(pair, *server)?,
            Self::Listener(listener) => {
                let request = wait_for(device, "the peer did not connect", || {
                    channel.check()?;
                    Ok(listener.poll())
                })?;
                request.accept(pair)?
            }
        };
        wait_for(device, "the peer did not connect", || {
            channel.check()?;
            Ok(connecting.poll()?)
        })
    }
}
