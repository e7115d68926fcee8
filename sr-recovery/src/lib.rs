//! The slow path: selective-repeat bitmaps and recovery decisions (protocol.md 2.4).
//!
//! The fast path of a stream keeps two numbers, `epsn` or `una`. As soon as packets are missing it
//! writes a [`Record`] of what it saw; [`SlowPath`] keeps the bitmaps and answers with
//! [`Command`]s: a new `epsn` for the receiver, lost packets for the sender. Both directions are
//! plain messages, first in first out per QP, tagged with the generation of the recovery they
//! belong to, so the two sides may live in one thread or in two.
//!
//! [`SlowPath`] has no I/O, no clock, no thread; [`thread`] puts rings around it, so that it can
//! run in one. After [`SlowPath::new`] nothing is allocated. Senders that find all scoreboards
//! taken recover without one, and resend some packets that have arrived; [`SlowPathStats`] counts
//! those.
//!
//! ```
//! use sr_recovery::{Command, Record, SlowPath, SlowPathConfig, StreamId};
//! use wire::Psn;
//!
//! let mut slow_path = SlowPath::new(SlowPathConfig { max_streams: 2, window_max: 512, contexts: 1 });
//! let stream = StreamId { qp: 0, response: false };
//! let psn = Psn::new;
//! // 11 and 12 arrive before 10: a record for the run's first packet, one for the hole.
//! slow_path.handle(&Record::RxRun { stream, generation: 1, first: psn(11), last: psn(12), epsn: psn(10) });
//! assert_eq!(slow_path.poll(), None);
//! slow_path.handle(&Record::RxRun { stream, generation: 1, first: psn(10), last: psn(10), epsn: psn(10) });
//! assert_eq!(slow_path.poll(), Some(Command::Advance { stream, generation: 1, epsn: psn(13), bitmap: 0 }));
//! ```
#![forbid(unsafe_code)]

mod bell;
pub mod bitmap;
mod contexts;
mod marks;
mod message;
mod outbox;
mod requester;
mod responder;
mod ring;
mod slow_path;
mod sync;
pub mod thread;
mod untracked;
mod words;

pub use message::{Command, Generation, Record, StreamId};
pub use slow_path::{SlowPath, SlowPathConfig, SlowPathStats};
