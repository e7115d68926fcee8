//! The character device `/dev/infiniband/rdma_cm`, without a kernel: the stock librdmacm writes its
//! commands to it (docs/adr/0057). The preload of `srnic run` brings those here.
//!
//! | what | where |
//! |---|---|
//! | what the preload calls | `calls` |
//! | a command's bytes, and the program's memory | `command`, `user` |
//! | the open descriptors, their events, and all identifiers | `channel`, `table` |
//! | an identifier: its addresses, its connection | `id`, `inbox`, `ports`, `places` |
//! | commands | `bind`, `query`, `connect`, `attributes`, `events`, `groups`, `options` |
//! | what two ends have agreed on, for their queue pairs | `agreements` |

mod agreements;
mod attributes;
mod bind;
mod calls;
mod channel;
mod command;
mod connect;
mod events;
mod groups;
mod id;
mod inbox;
mod options;
mod places;
mod ports;
mod query;
mod sockaddr;
mod table;
#[cfg(test)]
mod tests;
mod user;

pub use agreements::with as agreed_with;
pub use table::{leave, open};
