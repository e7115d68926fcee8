//! The counters of a manager.

/// Counters since creation. What is dropped is counted under exactly one of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Stats {
    /// MADs taken in.
    pub received: u64,
    /// MADs to be sent, copies included.
    pub sent: u64,
    /// Messages sent again because no answer came.
    pub retransmitted: u64,
    /// Requests handed to a listener.
    pub requests: u64,
    /// Connections that were established.
    pub established: u64,
    /// REJ sent.
    pub rejected: u64,
    /// Given up because no answer came.
    pub timed_out: u64,
    /// Messages that had been taken before; they were answered again where that helps.
    pub duplicates: u64,
    /// Dropped: no MAD of a connection manager, or one that makes no sense.
    pub malformed: u64,
    /// Dropped: a MAD about a connection that is not there, or that is another host's.
    pub strangers: u64,
    /// Dropped: a MAD that does not fit the state of its connection.
    pub unexpected: u64,
    /// Dropped: a REQ, because its listener's backlog is full. The peer repeats it.
    pub backlog_full: u64,
    /// Dropped: a REQ, because there are [`connections_max`](crate::Config::connections_max)
    /// connections.
    pub table_full: u64,
    /// Dropped: a MAD to be sent, because [`output_max`](crate::Config::output_max) of them waited.
    pub output_full: u64,
    /// Requests that nobody accepted while the peer still wanted it.
    pub expired: u64,
    /// Connections that ended because their peer uses its queue pair for another.
    pub stale: u64,
}
