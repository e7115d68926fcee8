//! Connections by address and port, as rdma_cm makes them.

mod connecting;
mod connector;
mod error;
mod gsi;
mod link;
mod listener;
mod service;

pub use connecting::Connecting;
pub use connector::Connector;
pub use error::{ConnectionError, Obstacle};
pub(crate) use link::Link;
#[cfg(feature = "async")]
pub(crate) use link::LinkEnd;
pub use listener::{ConnectionRequest, Listener};
pub use service::ConnectionStats;
pub(crate) use service::Service;
