//! A disk in another host's memory, with the request flow of sK-RDMA (Azure's storage, NSDI '23):
//! the client binds a window to its buffer and SENDs a request with the key; the server WRITEs to
//! the buffer or READs from it, and answers by a SEND that ends the window.
//!
//! The client's memory is open to the server for one request and one buffer alone, nothing is
//! registered on the way, and no byte is copied by the client's processor.

mod client;
mod server;
mod wire;

pub use client::{Client, Workload};
pub use server::serve;
pub use wire::{Op, Outcome};

/// Requests that a client may have under way.
pub const DEPTH: usize = 32;
/// Bytes of a request's data at most.
pub const IO_MAX: usize = 1 << 20;
