//! A connection that stands.

use crate::error::Refusal;
use crate::message::Message;
use crate::queue::{Receiver, Sender};
use crate::socket;
use std::os::fd::OwnedFd;

/// One user's part of a connection: a queue of packets in each direction.
#[derive(Debug)]
pub struct Link {
    /// The queue of packets to the peer.
    pub tx: Sender,
    /// The queue of packets from the peer.
    pub rx: Receiver,
}

impl Link {
    /// What the peer did to its queues that none may do.
    pub(crate) fn take_broken(&mut self) -> Option<Refusal> {
        self.tx.take_broken().or_else(|| self.rx.take_broken())
    }
}

/// All of a connection.
#[derive(Debug)]
pub(crate) struct Connection {
    /// Until their users take them.
    links: Vec<Option<Link>>,
    socket: OwnedFd,
}

impl Connection {
    pub(crate) fn new(links: impl IntoIterator<Item = Link>, socket: OwnedFd) -> Self {
        Self { links: links.into_iter().map(Some).collect(), socket }
    }

    pub(crate) fn take(&mut self, queue: usize) -> Option<Link> {
        self.links.get_mut(queue)?.take()
    }

    /// Says why it is over.
    pub(crate) fn turn_away(&self, why: &Refusal) {
        socket::turn_away(&self.socket, why);
    }

    /// Whether the peer is still there and keeps to the protocol.
    pub(crate) fn check(&self) -> Result<(), Refusal> {
        match socket::receive(&self.socket)? {
            None => Ok(()),
            Some((Message::Disconnect(reason), _)) => {
                Err(Refusal::Disconnected(String::from_utf8_lossy(reason.bytes()).into_owned()))
            }
            Some(_) => Err(Refusal::Protocol("it speaks after the handshake")),
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // A peer that does not read learns it from the socket's end.
        let _ = socket::send(&self.socket, &Message::disconnect("closed"), None);
    }
}
