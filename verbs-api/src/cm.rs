//! Connections by address and port, as rdma_cm makes them.

mod connecting;
mod connections;
mod connector;
mod error;
mod gsi;
mod link;
mod listener;
mod service;

pub use connecting::Connecting;
pub use connections::Connections;
pub use connector::Connector;
pub use error::{ConnectionError, Obstacle};
pub(crate) use link::Link;
#[cfg(feature = "async")]
pub(crate) use link::LinkEnd;
pub use listener::{ConnectionRequest, Listener};
pub(crate) use service::Service;
pub use service::{ConnectionSink, ConnectionStats};
