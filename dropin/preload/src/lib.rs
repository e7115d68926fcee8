//! What `srnic run` has the loader take before the C library (docs/unmodified.md, docs/adr/0058):
//! programs look for devices below `/sys/class/infiniband` and `/dev/infiniband`, where there is
//! nothing without a kernel's driver. Calls for such a path are answered by the drop-in
//! `libibverbs.so.1`, which is loaded for the first of them; all others go on to the C library.
//!
//! | calls | where |
//! |---|---|
//! | which paths, and who answers | `ours` |
//! | the function that the program would have reached | `next` |
//! | `open`, `fopen` and their kind | `open` |
//! | `read`, `write`, .. of the connection manager's descriptors | `channel` |
//! | `stat`, `access` and their kind | `status` |
//! | `readlink`, `realpath` | `links` |
//! | `opendir`, `readdir`, .. | `directory` |
//! | `getifaddrs` | `interfaces` |
//! | what librdmacm's preload for programs of sockets does not do, or not well | `sockets` |
//!
//! A program that makes system calls by itself is not seen, nor is what the C library opens
//! for itself.

#[macro_use]
mod next;

mod channel;
mod directory;
mod interfaces;
mod links;
mod numbers;
mod open;
mod ours;
mod sockets;
mod status;
