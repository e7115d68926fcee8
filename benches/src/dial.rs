//! Connecting to a listener of another process, which may be started a little later.

use crate::error::{Error, Result};
use crate::pump::wait_for;
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use verbs_api::{
    ConnectionError, Connector, Device, Error as VerbsError, PreparedQueuePair, QueuePair, RejReason,
};

/// How soon a server is tried again that is not there yet.
const AGAIN: Duration = Duration::from_millis(10);

/// Connects to `server` as soon as somebody listens there, for `patience`; each try takes what `prepare` makes, and the last
/// one's is returned.
///
/// # Errors
/// [`Error::Verbs`]: why the last try failed. Those of `prepare`, and [`Error::Interrupted`].
pub fn dial<T>(
    device: &Device,
    server: SocketAddr,
    patience: Duration,
    mut prepare: impl FnMut() -> Result<(PreparedQueuePair, T)>,
) -> Result<(QueuePair, T)> {
    let since = Instant::now();
    loop {
        let (prepared, rest) = prepare()?;
        let mut connecting = Connector::new().connect(prepared, server)?;
        match wait_for(device, "the server does not answer", || Ok(connecting.poll()?)) {
            Err(Error::Verbs(error)) if may_come(&error) && since.elapsed() < patience => {
                let tried = Instant::now();
                wait_for(device, "time stands still", || Ok((tried.elapsed() > AGAIN).then_some(())))?;
            }
            connected => return connected.map(|pair| (pair, rest)),
        }
    }
}

/// Whether it is as if the server had not been started yet.
fn may_come(error: &VerbsError) -> bool {
    matches!(
        error,
        VerbsError::Connection(
            ConnectionError::Unreachable(_)
                | ConnectionError::TimedOut
                | ConnectionError::Rejected { reason: RejReason::INVALID_SERVICE_ID, .. }
        )
    )
}
