//! What devices tell ([`StatAddress`](verbs_api::StatAddress)), for people and for programs.
//!
//! A `source` has looks at devices, living or recorded; `history` keeps them as a `snapshot` each;
//! `view` knows what a person wants to see of it, and `draw` draws that. `text` and `json` are for
//! who has no terminal.

mod draw;
pub(crate) mod dropped;
mod history;
mod json;
mod live;
mod number;
#[cfg(test)]
mod picture;
mod record;
mod snapshot;
mod source;
#[cfg(test)]
mod tests;
mod text;
pub mod tool;
mod view;

pub(crate) use snapshot::metrics;
pub(crate) use source::{Look, Source, watch};
pub(crate) use tool::seconds;
