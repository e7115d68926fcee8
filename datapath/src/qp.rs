//! Queue pairs: their states, their attributes.

pub mod attr;
pub mod state;
