//! Asks a server whether a client would be let in.
//!
//! DPDK's driver, as a client, has no link and says nothing about why. This goes the first steps of
//! its handshake in its place.

use crate::client::fits;
use crate::control::no_server;
use crate::error::{NoLink, Refusal};
use crate::message::Message;
use crate::name::Told;
use crate::socket;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;

/// A question that is under way.
#[derive(Debug)]
pub struct Probe {
    socket: OwnedFd,
    path: PathBuf,
    told: Told,
}

impl Probe {
    /// Goes to the server at `path` as a client that has these properties. Never waits.
    ///
    /// # Errors
    /// [`NoLink::NoServer`] and what else keeps a client from connecting.
    pub fn begin(path: PathBuf, told: Told) -> Result<Self, NoLink> {
        match socket::connect(&path) {
            Ok(socket) => Ok(Self { socket, path, told }),
            Err(error) => Err(no_server(path, &Arc::new(error))),
        }
    }

    /// The server's answer so far: `None` if there is none yet, `Ok` if nothing is wrong so far.
    /// Never waits.
    ///
    /// # Errors
    /// [`NoLink::TurnedAway`]. The server is told why, too.
    pub fn answer(&self) -> Option<Result<(), NoLink>> {
        let heard = match socket::receive(&self.socket) {
            Ok(None) => return None,
            Ok(Some((Message::Hello(hello), _))) => {
                fits(&hello, self.told, 0).inspect_err(|refusal| socket::turn_away(&self.socket, refusal))
            }
            Ok(Some((Message::Disconnect(reason), _))) => {
                Err(Refusal::Disconnected(String::from_utf8_lossy(reason.bytes()).into_owned()))
            }
            Ok(Some(_)) => Err(Refusal::Protocol("an answer that was not asked for")),
            Err(refusal) => Err(refusal),
        };
        Some(heard.map_err(|why| NoLink::TurnedAway { path: self.path.clone(), why: Arc::new(why) }))
    }

    /// Why there is no link as long as the server says nothing.
    #[must_use]
    pub fn unanswered(&self) -> NoLink {
        NoLink::NoAnswer { path: self.path.clone() }
    }
}
