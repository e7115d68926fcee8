//! The two ways to recover from loss.

/// How a queue pair, and each of its streams, recovers from loss.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum RecoveryPolicy {
    /// Resend what is lost, keep what came out of order (protocol.md 2.4). Needs
    /// [`WireMode::Srnic`](wire::WireMode::Srnic).
    #[default]
    SelectiveRepeat,
    /// Drop what comes out of order, resend everything from the first loss on.
    GoBackN,
}
