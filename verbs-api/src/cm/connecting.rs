//! A connection that is being made.

use super::connector::GRACE;
use super::error::{ConnectionError, Obstacle};
use super::link::Link;
use super::service::{Awaited, Phase, State};
use crate::error::Error;
use crate::queue_pair::{PreparedQueuePair, QueuePair};
#[cfg(feature = "async")]
use crate::wakers::Place;
use core::time::Duration;
#[cfg(feature = "async")]
use core::{
    pin::Pin,
    task::{Context, Poll},
};
use rdma_cm::{Agreed, Failure};
use std::time::Instant;

/// A connection that is being made, from [`Connector::connect`](super::Connector::connect) or
/// [`ConnectionRequest::accept`](super::ConnectionRequest::accept). [`wait`](Self::wait) for it, or
/// [`poll`](Self::poll) it. Dropping it takes it back. A peer that is not there is given up after
/// 2.6 s, one that does not answer after 12 s, and one without a listener after 1 s, unless
/// [`wait`](Self::wait) or [`Connector::patience`](super::Connector::patience) gives it more.
///
/// With the feature `async` it is a future as well, on a device with a thread of its own.
#[must_use = "dropping it takes the connection back"]
pub struct Connecting {
    // Goes first: what happens to the connection concerns no queue pair of a number that another
    // may have by then.
    link: Option<Link>,
    end: End,
    #[cfg(feature = "async")]
    place: Place,
}

enum End {
    /// The queue pair becomes ready when the peer has answered, which is asked for so long if the
    /// program has said how long.
    Active(PreparedQueuePair, Option<Duration>),
    /// This end is ready, and the peer may not be yet.
    Passive(QueuePair),
    /// The queue pair was given to the program, or the connection has failed.
    Taken,
}

/// What has happened to the connection since the last call.
enum Step {
    Reply(Agreed, Vec<u8>),
    Established,
    Failed(Failure),
    Over,
}

impl Connecting {
    pub(super) const fn active(pair: PreparedQueuePair, link: Link, patience: Option<Duration>) -> Self {
        Self::new(End::Active(pair, patience), link)
    }

    pub(super) const fn passive(pair: QueuePair, link: Link) -> Self {
        Self::new(End::Passive(pair), link)
    }

    const fn new(end: End, link: Link) -> Self {
        Self {
            link: Some(link),
            end,
            #[cfg(feature = "async")]
            place: Place::new(),
        }
    }

    /// The connected queue pair, once it is there; never waits. Runs a turn of the engine.
    ///
    /// # Errors
    /// [`Error::Connection`] says why there is none, as [`ConnectionError::Late`] if that is this
    /// host's link or address; [`Error::Connect`] what the engine refuses. What this returned once
    /// it does not return again: then, too, [`Error::Connection`].
    pub fn poll(&mut self) -> Result<Option<QueuePair>, Error> {
        let Some(link) = &self.link else { return Err(ConnectionError::Withdrawn.into()) };
        link.device.check_process()?;
        link.device.progress();
        match link.service.look(|state| step(state, link)) {
            None => Ok(None),
            Some(step) => self.advance(step).map(Some),
        }
    }

    /// Waits for the connected queue pair, `limit` at most. A peer that is not there yet is asked
    /// for as long: it may be started later, or be up and not listen yet. A program that rejects
    /// the connection ends the wait.
    ///
    /// # Errors
    /// As [`poll`](Self::poll). If there was none in time, [`ConnectionError::Late`] with the
    /// likely reason, [`ConnectionError::Rejected`] if nobody listens to the port, and
    /// [`ConnectionError::Deadline`] of who accepts; the peer is told.
    pub fn wait(mut self, limit: Duration) -> Result<QueuePair, Error> {
        let Some(link) = &self.link else { return Err(ConnectionError::Withdrawn.into()) };
        link.device.check_process()?;
        link.persist(limit);
        if let End::Active(_, patience) = &mut self.end {
            *patience = Some(patience.map_or(limit, |patience| patience.max(limit)));
        }
        let end = Instant::now().checked_add(limit);
        let step = link
            .service
            .wait(&link.device, end, Awaited::Connection(link.id), |state| step(state, link))
            .or_else(|| link.service.look(|state| last_step(state, link)));
        match step {
            Some(step) => self.advance(step),
            None => Err(self.late(link, limit).into()),
        }
    }

    fn late(&self, link: &Link, limit: Duration) -> ConnectionError {
        match self.end {
            End::Active(..) => {
                let why = link.service.obstacle(&link.device, link.peer.ip());
                ConnectionError::Late { limit, why }
            }
            _ => ConnectionError::late(limit, &link.device),
        }
    }

    fn advance(&mut self, step: Step) -> Result<QueuePair, Error> {
        let Some(mut link) = self.link.take() else { return Err(ConnectionError::Withdrawn.into()) };
        let end = core::mem::replace(&mut self.end, End::Taken);
        match (step, end) {
            (Step::Reply(agreed, private_data), End::Active(pair, _)) => {
                link.private_data = private_data;
                let pair = pair.connect_as(&agreed, link.peer.ip())?;
                // The peer may have ended it by now: the queue pair is in ERR then, as it would be
                // a moment later.
                let _ = link.service.call(&link.device, |state, _| state.manager.established(link.id));
                // What this has posted leaves at once, if nobody else drives the engine.
                link.device.progress();
                Ok(pair.linked(link))
            }
            (Step::Established | Step::Over, End::Passive(pair)) => Ok(pair.linked(link)),
            (Step::Failed(failure), End::Active(_, patience)) => Err(failed(failure, &link, patience).into()),
            (Step::Failed(failure), _) => Err(ConnectionError::of(failure, link.peer.ip()).into()),
            _ => Err(ConnectionError::Withdrawn.into()),
        }
    }
}

/// Why the peer did not grant a connection. If nothing was heard of it, the reason may be this
/// host's.
fn failed(failure: Failure, link: &Link, patience: Option<Duration>) -> ConnectionError {
    if matches!(failure, Failure::Unreachable | Failure::TimedOut) {
        let why = link.service.obstacle(&link.device, link.peer.ip());
        if patience.is_some() || matches!(why, Obstacle::Link(_) | Obstacle::Address(_)) {
            return ConnectionError::Late { limit: patience.unwrap_or(GRACE), why };
        }
    }
    ConnectionError::of(failure, link.peer.ip())
}

/// The next step of the program, if anything has happened.
fn step(state: &mut State, link: &Link) -> Option<Step> {
    let phase = state.phase(link.id)?;
    match phase {
        Phase::Begun => None,
        Phase::Replied(agreed, private_data) => {
            let step = Step::Reply(*agreed, core::mem::take(private_data));
            *phase = Phase::Established;
            Some(step)
        }
        Phase::Established => Some(Step::Established),
        Phase::Failed(failure) => Some(Step::Failed(failure.clone())),
        Phase::Disconnected => Some(Step::Over),
    }
}

/// The last step, when the program waits no longer: what has happened since it last looked, or the
/// refusal after which the peer was asked again. One look has both, as the manager's own limit ends
/// at about the same time.
fn last_step(state: &mut State, link: &Link) -> Option<Step> {
    step(state, link).or_else(|| state.manager.refusal(link.id).cloned().map(Step::Failed))
}

#[cfg(feature = "async")]
impl Future for Connecting {
    /// The result of [`Connecting::poll`].
    type Output = Result<QueuePair, Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { link, place, .. } = &mut *self;
        let Some(link) = link else {
            return Poll::Ready(Err(ConnectionError::Withdrawn.into()));
        };
        if let Err(error) = link.device.needs_thread() {
            return Poll::Ready(Err(error));
        }
        // The waker before goes without the lock.
        let (step, _before) = link.service.look(|state| match step(state, link) {
            None => (None, state.wake_for(link.id, place, context.waker())),
            step => (step, None),
        });
        step.map_or(Poll::Pending, |step| Poll::Ready(self.advance(step)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cm::Connector;
    use crate::device::Device;

    /// A program that waits no longer hears of the refusal, a moment before the manager's own limit
    /// and after it.
    #[test]
    fn a_refusal_is_said_on_both_sides_of_the_limit() {
        let [here, there] = [(); 2].map(|()| Device::open("sim:refusals").expect("a device"));
        // The connection manager of a host that listens answers for its other ports.
        let _listener = crate::cm::Listener::bind(&there, 7471).expect("a listener");
        let cq = here.create_cq(1).expect("a completion queue");
        let pair = here.alloc_pd().queue_pair(&cq, &cq).build().expect("a queue pair");
        let patience = Duration::from_secs(1);
        let to = (there.ip(), 7472).into();
        let connecting = Connector::new().patience(patience).connect(pair, to).expect("begun");
        let link = connecting.link.as_ref().expect("it was not taken");
        let is_refused = |step| matches!(step, Some(Step::Failed(Failure::Rejected { .. })));
        let heard = || link.service.look(|state| state.manager.refusal(link.id).is_some());
        let deadline = Instant::now() + Duration::from_secs(60);
        while !heard() {
            here.progress();
            there.progress();
            assert!(Instant::now() < deadline, "nobody refuses");
        }
        assert!(link.service.look(|state| step(state, link)).is_none(), "it is asked again");
        assert!(is_refused(link.service.look(|state| last_step(state, link))), "before the limit");
        while heard() {
            here.progress();
            assert!(Instant::now() < deadline, "its patience does not end");
        }
        assert!(is_refused(link.service.look(|state| last_step(state, link))), "after the limit");
    }
}
