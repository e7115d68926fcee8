//! A connection that stands.

use crate::error::Refusal;
use crate::message::Message;
use crate::queue::{Receiver, Sender};
use crate::socket;
use std::os::fd::OwnedFd;

/// A connection to a peer: a queue of packets each way.
#[derive(Debug)]
pub struct Link {
    /// To the peer.
    pub tx: Sender,
    /// From the peer.
    pub rx: Receiver,
    socket: OwnedFd,
}

impl Link {
    pub(crate) const fn new(tx: Sender, rx: Receiver, socket: OwnedFd) -> Self {
        Self { tx, rx, socket }
    }

    /// Whether the peer is still there and keeps to the protocol.
    pub(crate) fn check(&mut self) -> Result<(), Refusal> {
        for broken in [self.tx.take_broken(), self.rx.take_broken()] {
            broken.map_or(Ok(()), Err)?;
        }
        match socket::receive(&self.socket)? {
            None => Ok(()),
            Some((Message::Disconnect(reason), _)) => {
                Err(Refusal::Disconnected(String::from_utf8_lossy(reason.bytes()).into_owned()))
            }
            Some(_) => Err(Refusal::Protocol("it speaks after the handshake")),
        }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        // A peer that does not read learns it from the socket's end.
        let _ = socket::send(&self.socket, &Message::disconnect("closed"), None);
    }
}
