//! Why a port has no link.

use std::path::PathBuf;

/// Why frames cannot pass a port. Each says what to do.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NoLink {
    /// One end of a memif pair.
    #[error(transparent)]
    Memif(#[from] memif::NoLink),
    /// The back end of vhost-user, without its front end.
    #[error("no front end has come to {path}: start a guest there, or the virtio: end")]
    NoFrontEnd {
        /// Where it listens.
        path: PathBuf,
    },
    /// The front end of vhost-user: nobody listens.
    #[error("nobody listens at {path}: start the vhost: end")]
    NoBackEnd {
        /// Where it looks.
        path: PathBuf,
    },
    /// The front end of vhost-user, whose back end is there.
    #[error("the vhost: end at {path} is there and not ready yet: does its program run?")]
    BackEndNotReady {
        /// Where it is.
        path: PathBuf,
    },
    /// An interface of the kernel's.
    #[error(transparent)]
    Interface(#[from] packet::NoLink),
    /// A device whose driver sees no link.
    #[error("{device} has no link: is its cable plugged in, and the other end up?")]
    NoCable {
        /// Its driver, or the address of a NIC.
        device: String,
    },
    /// A NIC that was taken out of the machine, or is about to be.
    #[error("NIC {address} was removed: close the device, and open it again once the NIC is back")]
    Removed {
        /// Its address on the PCI bus.
        address: String,
    },
    /// A further queue of a port, whose first queue looks after the link.
    #[error("the port has no link: the device's first engine looks after it, and says why")]
    FurtherQueue,
}
