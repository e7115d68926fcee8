//! What is shown, of devices that were never there.

mod fixture;
mod parts;
mod pictures;
mod terminal;

pub use fixture::history;
