//! Examples of what runs over srnic's streams, and of the request flow of sK-RDMA below them: each
//! a server, a client, and a load that measures.
#![forbid(unsafe_code)]

pub mod block;
pub mod grpc;
pub mod http;
pub mod load;

/// An error of an example, whatever it is.
pub type Error = Box<dyn std::error::Error + Send + Sync>;
