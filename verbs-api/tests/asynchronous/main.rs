//! Completions as futures, with tokio over `sim:` devices; and what a cancelled one leaves.

mod connections;
mod device;
mod endings;
mod ends;
mod messages;
mod one_sided;
mod refusals;
mod service;
mod wakers;
