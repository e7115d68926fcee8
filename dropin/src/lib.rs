//! `libibverbs.so.1` over srnic: programs that are written and compiled for rdma-core's library run
//! on a [`verbs_api::Device`] instead of a kernel's (docs/unmodified.md, docs/adr/0054).
//!
//! | what the program sees | where |
//! |---|---|
//! | structures and numbers | `abi` |
//! | every exported name, and its version | `libibverbs.map` beside this crate's manifest |
//! | what C hands over, made safe | `argument`, `object`, `export` |
//! | devices, by SRNIC_DEVICE; opening them | `config`, `device`, `opened`, `context`, `query` |
//! | what is below /sys and /dev | `paths`, and the library in `preload/` |
//! | memory, completion queues, queue pairs | `memory`, `window`, `channel`, `cq`, `cq_ex`, `qp`, `post`, .. |
//! | the connection manager's device | `ucma`, `from_kernel` |
//! | the dialect that two programs agree on | `ece` |
//! | names that do nothing here | `absent`, `private` |

#[macro_use]
mod export;

mod abi;
mod absent;
mod acks;
mod address;
mod argument;
mod channel;
mod config;
mod context;
mod cq;
mod cq_ex;
mod device;
mod ece;
mod errno;
mod events;
mod from_kernel;
mod memory;
mod object;
mod opened;
mod paths;
mod post;
mod private;
mod qp;
mod qp_attr;
mod qp_ex;
mod query;
mod rate;
mod request;
mod srq;
#[cfg(test)]
mod tests;
mod text;
mod ucma;
mod window;
