//! Why a stream ends before its time.

/// A rule of docs/streams.md that a message of the peer breaks. The stream is closed for it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Violation {
    /// A message shorter than a header.
    #[error("a message is shorter than its header")]
    Short,
    /// Another version of the format.
    #[error("a message has another version of the format")]
    Version,
    /// A kind that there is not.
    #[error("a message is of an unknown kind")]
    Kind,
    /// A flag that there is not.
    #[error("a message has unknown flags")]
    Flags,
    /// A length that is not that of the message, or that its kind does not have.
    #[error("the length of a message is not what its kind has")]
    Length,
    /// A position that is not the next one.
    #[error("the position of a message is not that of the next byte")]
    Position,
    /// Bytes that were taken before they were sent, or given back.
    #[error("a message acknowledges bytes that were not sent")]
    Taken,
    /// Credit that was taken back, or more than a queue pair has receives.
    #[error("the credit of a message is out of bounds")]
    Credit,
    /// More messages than there was credit for.
    #[error("there are more messages than credit")]
    Overrun,
    /// Bytes that are not those that their CRC32C was computed of.
    #[error("the bytes of a message do not have its checksum")]
    Checksum,
    /// Bytes behind the end of the stream.
    #[error("bytes follow the end of the stream")]
    AfterFin,
    /// A kind that this end does not take, which it said when the connection was made.
    #[error("a message is of a kind that this end has not announced")]
    Unannounced,
    /// Memory that no end grants or offers: none, too much, or too many pieces.
    #[error("a message names memory that no end has")]
    Descriptor,
    /// A message was written, and not to the memory that was granted next.
    #[error("a message was written that is not in the memory granted next")]
    Grant,
    /// Memory that was offered and cannot be read.
    #[error("what was offered cannot be read")]
    Offer,
}

impl Violation {
    /// All of them, in the order of their counters.
    pub const ALL: [Self; 15] = [
        Self::Short,
        Self::Version,
        Self::Kind,
        Self::Flags,
        Self::Length,
        Self::Position,
        Self::Taken,
        Self::Credit,
        Self::Overrun,
        Self::Checksum,
        Self::AfterFin,
        Self::Unannounced,
        Self::Descriptor,
        Self::Grant,
        Self::Offer,
    ];

    /// Its name in metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Short => "short",
            Self::Version => "version",
            Self::Kind => "kind",
            Self::Flags => "flags",
            Self::Length => "length",
            Self::Position => "position",
            Self::Taken => "taken",
            Self::Credit => "credit",
            Self::Overrun => "overrun",
            Self::Checksum => "checksum",
            Self::AfterFin => "after_fin",
            Self::Unannounced => "unannounced",
            Self::Descriptor => "descriptor",
            Self::Grant => "grant",
            Self::Offer => "offer",
        }
    }
}

/// The reason that a Reset gives.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Reason {
    /// The stream was dropped: its program reads no more.
    Dropped,
    /// The program reset the stream.
    Aborted,
    /// A message broke a rule.
    Violation,
    /// A code that this version does not know.
    Other(u32),
}

impl Reason {
    /// The number that stands for it in the header.
    #[must_use]
    pub const fn code(self) -> u32 {
        match self {
            Self::Dropped => 1,
            Self::Aborted => 2,
            Self::Violation => 3,
            Self::Other(code) => code,
        }
    }

    /// The reason that a number stands for.
    #[must_use]
    pub const fn from_code(code: u32) -> Self {
        match code {
            1 => Self::Dropped,
            2 => Self::Aborted,
            3 => Self::Violation,
            code => Self::Other(code),
        }
    }
}
