//! One language for workloads, and what can be done with them.
//!
//! A [`Scenario`](scenario::Scenario) says who sends what to whom, over which links. It is TOML, as
//! a file or in one line. [`play`](play::play()) runs it in virtual time, with the engine that runs
//! on the wire; [`judge`](judge::judge()) says whether what came of it is as it should be; and
//! [`search`] looks for scenarios of which it is not.
//!
//! ```
//! use srnic_workload::{play::play, scenario::Scenario};
//!
//! let text = "[[workload]]\nop = 'write'\nsizes = 4096\nqps = 2";
//! let outcome = play(&Scenario::parse(text)?)?;
//! assert!(outcome.entries[0].bytes > 0 && outcome.entries[0].errors == 0);
//! # Ok::<(), srnic_workload::scenario::ScenarioError>(())
//! ```

pub mod isolate;
pub mod judge;
#[cfg(feature = "planted")]
pub mod planted;
pub mod play;
pub mod scenario;
pub mod search;
