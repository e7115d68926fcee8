//! The drivers: who runs the engine's turns.

mod hybrid;
mod idle;
mod looks;
mod thread;

pub(crate) use hybrid::stand_by;
pub(crate) use idle::PollBackoff;
pub use idle::{Backoff, Idle};
pub(crate) use thread::{EngineThread, drive};

/// The driver of a device: who runs the engine's turns.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Driver {
    /// Whoever polls a completion queue or calls [`Device::progress`](crate::Device::progress).
    /// There is no thread, and nothing moves unless someone calls: right where one thread both
    /// computes and communicates, and where cores are few.
    #[default]
    Inline,
    /// Whoever polls, as with [`Driver::Inline`]; and a thread of the device's own while nobody
    /// does. The thread looks every 50 us whether somebody has polled, and less often while
    /// somebody does, 1 ms at most. If nobody has, it drives the engine, and sleeps when there is
    /// nothing to do, until somebody polls again. Beside a program that waits for messages by
    /// looking into its memory, and polls in between, it goes on waiting for frames and serves each
    /// at once where the port has interrupts, else within 50 us. Right for programs that sometimes
    /// poll and sometimes do other things, and for passive sides that may become active: peers are
    /// served in any case, and who polls pays for no other thread.
    Hybrid,
    /// A thread of the device's own; the application only touches rings. Right for passive sides,
    /// for programs that block, and where a core is to spare: the thread spins while there is
    /// traffic and for 50 us after it, then offers its core to others, and at last sleeps; where
    /// others want its core, it sleeps 2 us after it found nothing. A post
    /// wakes it, and over a memif or a packet socket by the native driver so does a frame; frames
    /// of other ports wait for the end of its sleep, 1 ms at most.
    Thread {
        /// The processor that the thread stays on; `None`: the system chooses.
        cpu: Option<usize>,
    },
}

impl Driver {
    /// A thread of the device's own, on any processor.
    pub const THREAD: Self = Self::Thread { cpu: None };

    /// Returns `true` if who polls drives the engine.
    pub(crate) const fn is_polled(self) -> bool {
        matches!(self, Self::Inline | Self::Hybrid)
    }
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
