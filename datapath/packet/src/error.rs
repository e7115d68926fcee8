//! Errors, and the reasons why no frames pass.

use std::io;

/// Why an interface cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is no such interface, or it cannot be used.
    #[error("interface {name}: {problem}")]
    Interface {
        /// Its name.
        name: String,
        /// What is wrong with it, and what to do.
        problem: String,
    },
    /// This user may not open packet sockets.
    #[error(
        "this user may not use an interface's frames: run as root, or give the program the capability \
         (setcap cap_net_raw+ep PROGRAM; in a container --cap-add=NET_RAW)"
    )]
    Permission,
    /// The kernel refuses a part of the socket.
    #[error("interface {name}: the kernel refuses {what} of a packet socket: {source}")]
    Refused {
        /// The interface.
        name: String,
        /// What was asked for.
        what: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
}

impl Error {
    pub(crate) fn interface(name: &str, problem: impl Into<String>) -> Self {
        Self::Interface { name: name.to_owned(), problem: problem.into() }
    }
}

/// Why frames cannot pass an interface. Each says what to do.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NoLink {
    /// It is gone. One of that name that is made later is another interface.
    #[error("interface {name} is gone: close the device, and open it again once there is one of this name")]
    Gone {
        /// Its name.
        name: String,
    },
    /// It is down.
    #[error("interface {name} is down: `ip link set {name} up`")]
    Down {
        /// Its name.
        name: String,
    },
    /// It has no carrier.
    #[error("interface {name} has no carrier: is its cable plugged in, or the peer of its veth up?")]
    NoCarrier {
        /// Its name.
        name: String,
    },
}
