//! The drivers: who runs the engine's turns.

mod idle;
mod thread;

pub(crate) use idle::PollBackoff;
pub use idle::{Backoff, Idle};
pub(crate) use thread::EngineThread;

/// The driver of a device: who runs the engine's turns.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Driver {
    /// Whoever polls a completion queue or calls [`Device::progress`](crate::Device::progress).
    /// There is no thread, and nothing moves unless someone calls: right where one thread both
    /// computes and communicates, and where cores are few.
    #[default]
    Inline,
    /// A thread of the device's own; the application only touches rings. Right for passive sides,
    /// for programs that block, and where a core is to spare: the thread spins while there is
    /// traffic and for 50 us after it, then offers its core to others, and at last sleeps, 1 ms at
    /// most at a time. A post wakes it; a frame waits for the end of its sleep.
    Thread {
        /// The processor that the thread stays on; `None`: the system chooses.
        cpu: Option<usize>,
    },
}

impl Driver {
    /// A thread of the device's own, on any processor.
    pub const THREAD: Self = Self::Thread { cpu: None };
}

/// Who runs the slow path of a device: the bitmaps and decisions while packets are missing. While
/// none is missing, the slow path costs nothing either way.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum SlowPath {
    /// The engine, within its turns. Right where cores are few: a wake-up across cores takes longer
    /// than the decisions.
    #[default]
    Stepped,
    /// A thread of its own, which sleeps while nothing is missing. Right where a core is to spare
    /// and many connections lose packets at once.
    Thread,
}
