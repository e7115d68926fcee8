//! Byte streams with the habits of sockets, on RDMA (docs/streams.md).

pub mod protocol;
