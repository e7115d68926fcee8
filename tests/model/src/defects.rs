//! Mutants: rules of protocol.md 2.4 broken one at a time, at run time. Each must make some
//! schedule fail.

/// One broken rule.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Defect {
    /// An Advance of an older generation is obeyed.
    LateAdvanceAccepted,
    /// The retransmission timer resends the lowest packet that is not SACKed instead of `una`.
    RtoSkipsSackedUna,
    /// A packet at epsn that cannot be placed is only raised in state `InOrder`.
    ErrorDroppedInRecovery,
    /// One metadata record in eight vanishes.
    RecordLost,
    /// A request for a slot whose old responses are not yet acknowledged is refused.
    RslotReuseRefused,
    /// The error NAK is not repeated.
    ErrorNakOnce,
    /// An out-of-order packet is placed and SACKed although the ring has no room for its metadata.
    SackWithoutRecord,
    /// Retransmissions wait until `snd_nxt - una` is below the congestion window.
    ResendGatedByWindow,
    /// Timer-driven packets wait for the pipe gate.
    ProbeGatedByPipe,
    /// Timers stop while every outstanding packet is SACKed.
    TimersStoppedBySack,
    /// Recovery ends only if the Advance reaches exactly `right + 1`.
    ExitOnlyPastRight,
    /// Recovery does not end at `right + 1`.
    ExitNotPastRight,
    /// Recovery already ends one packet below the run.
    ExitBelowLeft,
    /// A new Recovery keeps the old generation.
    GenNotRaised,
    /// RESET sets the generation back to zero.
    GenResetWithQp,
    /// A full command queue drops the newest Advance.
    NewestAdvanceDropped,
    /// Small writes that arrive out of order are written at once.
    ParkedWrittenAtOnce,
    /// Acknowledgements and NACKs outside the window are obeyed.
    StaleNackObeyed,
    /// "Resend everything" is obeyed each time it is heard.
    ResendAllRepeated,
    /// READ and ATOMIC run when they arrive.
    ReadAtArrival,
    /// A duplicate response is not acknowledged again.
    DuplicateResponseIgnored,
    /// The requester never asks for missing responses.
    NoResponseTimer,
    /// Packets dropped without SACK are never reported.
    DroppedNeverReported,
    /// They are reported when a Recovery ends, but neither during one nor when there was none.
    DroppedReportedOnExitOnly,
    /// A packet takes a shared receive WQE for its own message only, not for those before it.
    SrqOutOfOrder,
    /// A request that comes again finds its own RSLOT taken.
    RslotNotIdempotent,
    /// Fewer completion slots than the window has packets.
    TooFewSlots,
    /// A new life starts with the PSNs of the one before.
    PsnsReused,
    /// Keys are not checked again at emission.
    KeyNotCheckedAtEmission,
    /// An error at emission is reported at epsn instead of at the message's PSN.
    EmissionErrorAtEpsn,
    /// Retransmissions leave no mark, so each further SACK resends them.
    NoMarks,
    /// Duplicates are placed again.
    DuplicatePlaced,
    /// A completion slot is emitted without looking at its last PSN.
    EmittedEarly,
    /// RNR NAKs that arrive during the wait are counted.
    RnrCountedDuringWait,
    /// The reordering threshold stays zero. No schedule fails for it: it costs retransmissions
    /// only.
    ThresholdFixed,
}

impl Defect {
    /// The mutants that break a promise, not only a budget over many schedules.
    pub const ALL: [Self; 34] = [
        Self::LateAdvanceAccepted,
        Self::RtoSkipsSackedUna,
        Self::ErrorDroppedInRecovery,
        Self::RecordLost,
        Self::RslotReuseRefused,
        Self::ErrorNakOnce,
        Self::SackWithoutRecord,
        Self::ResendGatedByWindow,
        Self::ProbeGatedByPipe,
        Self::TimersStoppedBySack,
        Self::ExitOnlyPastRight,
        Self::ExitNotPastRight,
        Self::ExitBelowLeft,
        Self::GenNotRaised,
        Self::GenResetWithQp,
        Self::NewestAdvanceDropped,
        Self::ParkedWrittenAtOnce,
        Self::StaleNackObeyed,
        Self::ResendAllRepeated,
        Self::ReadAtArrival,
        Self::DuplicateResponseIgnored,
        Self::NoResponseTimer,
        Self::DroppedNeverReported,
        Self::DroppedReportedOnExitOnly,
        Self::SrqOutOfOrder,
        Self::RslotNotIdempotent,
        Self::TooFewSlots,
        Self::PsnsReused,
        Self::KeyNotCheckedAtEmission,
        Self::EmissionErrorAtEpsn,
        Self::NoMarks,
        Self::DuplicatePlaced,
        Self::EmittedEarly,
        Self::RnrCountedDuringWait,
    ];
}
