//! The verbs by the categories of google/rdma-unit-test, over every kind of link that takes two
//! engines and nothing else: a segment inside the process and a memif, with the inline driver,
//! with threads, and with threads that stand in for who does not poll. Each test names the rule of
//! docs/protocol.md that it shows.

#[macro_use]
mod lan;
mod batch;
mod bounds;
mod completion;
mod datagram;
mod device;
mod events;
mod memory;
mod net;
mod reliable;
mod shared_receive;
mod states;
mod threads;
mod unreliable;
mod walk;
mod window;

#[path = "../support/host.rs"]
mod host;
#[path = "../support/join.rs"]
mod join;
