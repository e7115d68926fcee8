//! The connection manager: it agrees with another host's on a reliable connection between two queue
//! pairs, by IP address and port, as Linux's rdma_cm does (protocol.md 1.12), and on the dialect
//! that the two speak (2.3).
//!
//! Sans I/O: [`Manager`] takes MADs and the time, and gives MADs, events and the time when it wants
//! to be called again. It knows no queue pair: its caller creates and changes them, by what
//! [`Agreed`] says.
//!
//! ```text
//! active               on the wire            passive
//! connect  ──────────────── REQ ────────────▶ Event::Requested
//!                                             agree, queue pair to RTS, accept (or close: REJ)
//! Event::Replied ◀───────── REP ─────────────
//! queue pair to RTS
//! established ───────────── RTU ────────────▶ Event::Established
//! close    ──────────────── DREQ ───────────▶ Event::Disconnected
//! Event::Disconnected ◀──── DREP ────────────
//!          ──────────────── DREP ───────────▶ owes nothing any more
//! ```
//!
//! A service of datagrams is looked up by its port: [`Manager::look_up`] sends a SIDR_REQ, which is
//! an [`Event::Asked`] at the other end, and [`Manager::serve`] the SIDR_REP, which is an
//! [`Event::Found`].
//!
//! REQ, REP, DREQ and SIDR_REQ are sent again until they are answered; everything may be lost,
//! doubled, late or forged. What a peer can make this hold is bounded by [`Config`], and [`Stats`]
//! counts what is not taken. Who leaves stays as long as it [`owes`](Manager::owes) an answer
//! (1.14).
#![forbid(unsafe_code)]

mod config;
mod connection;
mod dialect;
mod event;
mod lookup;
mod manager;
mod random;
mod stats;
mod terms;

pub use config::Config;
pub use dialect::{Dialect, Options, VENDOR_ID};
pub use event::{Event, Failure, Host, Request, Transmit};
pub use lookup::{Question, Service};
pub use manager::{CmError, CommId, Manager};
pub use stats::Stats;
pub use terms::{Agreed, Disagreement, Terms};
