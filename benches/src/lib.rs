//! What the examples share: a network of several hosts on one machine, and waiting that blocks.

pub mod blocking;
pub mod lan;
