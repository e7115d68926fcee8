//! Where a queue pair's receives come from: a queue of its own, or one that it shares with others.

use crate::event::AsyncEvent;
use crate::memory::ProtectionDomainId;
use crate::qp::Units;
use crate::queue::{Freed, Numbered, RecvQueueReader, RecvWqe, SharedRecvReader, SrqCaps};
use crate::tuning::SRQ_SHARE;

/// The receives of a queue pair.
pub(crate) enum Receives {
    /// Its own queue.
    Own(RecvQueueReader),
    /// What it took of a shared queue.
    Shared(Taken),
}

/// A receive that [`Receives::find`] found: its position in an own queue, its entry in a shared
/// one.
#[derive(Clone, Copy)]
pub(crate) struct Found(u32);

/// Why there is no receive for a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NoReceive {
    /// None is posted.
    NotPosted,
    /// A message whose turn has not come would leave too few of a shared queue to others
    /// ([`SRQ_SHARE`]).
    OverShare,
}

impl Receives {
    /// The receive that is `ahead` behind the next to complete, whose position is `head` if the
    /// queue is an own one. Of a shared queue, one is taken for every SSN up to that of the packet,
    /// or none (protocol.md 2.5).
    ///
    /// # Errors
    /// [`NoReceive`]; nothing was taken then.
    #[inline]
    pub fn find(&mut self, units: &mut Units, head: u32, ahead: u32) -> Result<Found, NoReceive> {
        match self {
            Self::Own(queue) => {
                let posted = queue.tail().wrapping_sub(head);
                if ahead < posted { Ok(Found(head.wrapping_add(ahead))) } else { Err(NoReceive::NotPosted) }
            }
            Self::Shared(taken) => taken.find(units, ahead),
        }
    }

    /// The request, and the protection domain of its memory: `own`, or that of the shared queue.
    #[inline]
    pub fn wqe<'a>(
        &'a self,
        units: &'a Units,
        found: Found,
        own: ProtectionDomainId,
    ) -> Option<(RecvWqe<'a>, ProtectionDomainId)> {
        match self {
            Self::Own(queue) => Some((queue.wqe(found.0), own)),
            Self::Shared(taken) => {
                let srq = units.srqs.get(taken.srq)?;
                Some((srq.queue.wqe(found.0), srq.pd))
            }
        }
    }

    /// Whether they are taken from a shared queue.
    pub const fn are_shared(&self) -> bool {
        matches!(self, Self::Shared(_))
    }

    /// Starts to fetch the state of an own queue, and `count` receives from `head` on. A shared one
    /// is everybody's, and at hand.
    #[inline]
    pub fn prefetch(&self, head: u32, count: u32) {
        if let Self::Own(queue) = self {
            queue.prefetch(head, count);
        }
    }

    /// The next receive, if it is there; of a shared queue, if it was taken. `own` as for
    /// [`Receives::wqe`].
    #[inline]
    pub fn next<'a>(
        &'a self,
        units: &'a Units,
        head: u32,
        own: ProtectionDomainId,
    ) -> Option<(RecvWqe<'a>, ProtectionDomainId)> {
        let number = match self {
            Self::Own(_) => head,
            Self::Shared(taken) => taken.first,
        };
        self.has_next(head).then(|| self.wqe(units, Found(number), own)).flatten()
    }

    /// Whether the next receive is there; of a shared queue, whether it was taken.
    #[inline]
    pub fn has_next(&self, head: u32) -> bool {
        match self {
            Self::Own(queue) => queue.tail() != head,
            Self::Shared(taken) => taken.count > 0,
        }
    }

    /// Receives that are posted and not completed, behind `head`; `None` of a shared queue, where
    /// all are everybody's.
    pub fn posted(&self, head: u32) -> Option<u32> {
        match self {
            Self::Own(queue) => Some(queue.tail().wrapping_sub(head)),
            Self::Shared(_) => None,
        }
    }

    /// Gives the next receive, which must be there, back to the application and moves `head` behind
    /// it. Returns its number.
    #[inline]
    pub fn finish_next(&mut self, units: &mut Units, head: &mut u32) -> u64 {
        match self {
            Self::Own(queue) => {
                let wr_id = queue.wqe(*head).wr_id;
                *head = head.wrapping_add(1);
                queue.release(*head);
                wr_id
            }
            Self::Shared(taken) => taken.finish_next(units),
        }
    }

    /// What was taken of a shared queue, for a message that does not complete, is everybody's
    /// again.
    #[inline]
    pub fn put_back(&mut self, units: &mut Units) {
        if let Self::Shared(taken) = self
            && taken.count > 0
        {
            taken.put_back(units);
        }
    }

    /// Empties an own queue without completions; returns the new head. What was taken of a shared
    /// queue stays.
    pub fn discard_own(&self) -> u32 {
        let Self::Own(queue) = self else { return 0 };
        let head = queue.tail();
        queue.release(head);
        head
    }

    /// Position of the next receive of an own queue, if none is in use.
    pub fn own_head(&self) -> u32 {
        if let Self::Own(queue) = self { queue.head() } else { 0 }
    }

    /// The shared queue that it takes receives from.
    pub const fn srq(&self) -> Option<u32> {
        if let Self::Shared(taken) = self { Some(taken.srq) } else { None }
    }

    /// Bytes of an own queue.
    pub fn bytes(&self) -> usize {
        if let Self::Own(queue) = self { queue.bytes() } else { 0 }
    }
}

/// Receives that messages of one packet use, one after the other.
pub(crate) trait ReceiveRun {
    /// A message that does not come whole is the next one's to come again: nobody else's can come
    /// into its receive.
    const KEEPS_ITS_PLACE: bool;

    /// Whose memory they may name.
    fn pd(&self) -> ProtectionDomainId;

    /// The next one, if it is posted.
    fn next(&self) -> Option<RecvWqe<'_>>;

    /// It is used: on to the one behind it.
    fn pass(&mut self);

    /// Gives those that were used back to the application.
    fn release(self) -> Freed;
}

/// Those of an own queue.
pub(crate) struct OwnRun<'a> {
    pd: ProtectionDomainId,
    queue: &'a RecvQueueReader,
    head: u32,
    tail: u32,
}

impl<'a> OwnRun<'a> {
    /// From `head` on, to what is posted now.
    #[inline(always)]
    pub fn new(queue: &'a RecvQueueReader, head: u32, pd: ProtectionDomainId) -> Self {
        Self { pd, queue, head, tail: queue.tail() }
    }
}

impl ReceiveRun for OwnRun<'_> {
    const KEEPS_ITS_PLACE: bool = true;

    #[inline(always)]
    fn pd(&self) -> ProtectionDomainId {
        self.pd
    }

    #[inline(always)]
    fn next(&self) -> Option<RecvWqe<'_>> {
        (self.head != self.tail).then(|| self.queue.wqe(self.head))
    }

    #[inline(always)]
    fn pass(&mut self) {
        self.head = self.head.wrapping_add(1);
    }

    #[inline(always)]
    fn release(self) -> Freed {
        self.queue.release(self.head)
    }
}

/// Those of a shared queue. Each is taken when its message is there.
pub(crate) struct SharedRun<'a> {
    srq: &'a mut Srq,
    /// The limit event is due.
    is_below_limit: &'a mut bool,
}

impl ReceiveRun for SharedRun<'_> {
    const KEEPS_ITS_PLACE: bool = false;

    #[inline(always)]
    fn pd(&self) -> ProtectionDomainId {
        self.srq.pd
    }

    #[inline(always)]
    fn next(&self) -> Option<RecvWqe<'_>> {
        self.srq.queue.first()
    }

    #[inline(always)]
    fn pass(&mut self) {
        if let Some(number) = self.srq.queue.take() {
            self.srq.queue.set_free(number);
        }
    }

    #[inline(always)]
    fn release(self) -> Freed {
        // Who sees the completions may post.
        *self.is_below_limit = self.srq.is_below_limit();
        self.srq.queue.release()
    }
}

/// What a queue pair took of a shared queue: a list through the queue's links, in SSN order.
///
/// At most one packet's message is in progress while nothing is missing, so the list is short; in
/// Recovery packets mostly come in rising order, so a search goes on from where the last one ended.
pub(crate) struct Taken {
    srq: u32,
    count: u32,
    first: u32,
    last: u32,
    /// The last entry that was looked for, and how far behind `first` it is.
    seen: u32,
    seen_ahead: u32,
}

impl Taken {
    /// Nothing of the shared queue `srq` yet.
    pub const fn new(srq: u32) -> Self {
        Self { srq, count: 0, first: 0, last: 0, seen: 0, seen_ahead: 0 }
    }

    fn find(&mut self, units: &mut Units, ahead: u32) -> Result<Found, NoReceive> {
        let srq = units.srqs.get_mut(self.srq).ok_or(NoReceive::NotPosted)?;
        if ahead >= self.count {
            let missing = ahead - self.count + 1;
            let left = srq.available().checked_sub(missing).ok_or(NoReceive::NotPosted)?;
            if ahead > left.saturating_mul(SRQ_SHARE) {
                return Err(NoReceive::OverShare);
            }
            for _ in 0..missing {
                let number = srq.take().ok_or(NoReceive::NotPosted)?;
                self.push(&mut srq.links, number);
            }
            if srq.is_below_limit() {
                units.events.push(self.limit_event());
            }
        }
        Ok(Found(self.search(&srq.links, ahead)))
    }

    /// The receives of whole messages that come one after the other, from the next one on; `None`
    /// if some were taken before, or returned. Says in the end whether the limit event is due.
    #[inline]
    pub fn run<'a>(&self, srqs: &'a mut Srqs, is_below_limit: &'a mut bool) -> Option<SharedRun<'a>> {
        let srq = srqs.get_mut(self.srq).filter(|srq| self.count == 0 && srq.returned_count == 0)?;
        Some(SharedRun { srq, is_below_limit })
    }

    /// Its limit event.
    pub const fn limit_event(&self) -> AsyncEvent {
        AsyncEvent::SrqLimit { srq: self.srq }
    }

    fn push(&mut self, links: &mut [u32], number: u32) {
        if self.count == 0 {
            (self.first, self.seen, self.seen_ahead) = (number, number, 0);
        } else {
            links[self.last as usize] = number;
        }
        self.last = number;
        self.count += 1;
    }

    fn search(&mut self, links: &[u32], ahead: u32) -> u32 {
        if ahead < self.seen_ahead {
            (self.seen, self.seen_ahead) = (self.first, 0);
        }
        while self.seen_ahead < ahead {
            self.seen = links[self.seen as usize];
            self.seen_ahead += 1;
        }
        self.seen
    }

    fn finish_next(&mut self, units: &mut Units) -> u64 {
        let number = self.first;
        let Some(srq) = units.srqs.get_mut(self.srq) else { return 0 };
        self.count -= 1;
        if self.count > 0 {
            self.first = srq.links[number as usize];
            if self.seen_ahead == 0 {
                self.seen = self.first;
            } else {
                self.seen_ahead -= 1;
            }
        }
        let wr_id = srq.queue.wqe(number).wr_id;
        srq.queue.give_back(number);
        wr_id
    }

    #[cold]
    fn put_back(&mut self, units: &mut Units) {
        let Some(srq) = units.srqs.get_mut(self.srq) else { return };
        srq.links[self.last as usize] = srq.returned;
        srq.returned = self.first;
        srq.returned_count += self.count;
        self.count = 0;
    }
}

/// A shared receive queue, as the engine keeps it.
pub(crate) struct Srq {
    pub queue: SharedRecvReader,
    pub pd: ProtectionDomainId,
    pub caps: SrqCaps,
    /// The limit event is due when fewer receives than this are left; 0 when it was sent or never
    /// asked for.
    pub limit: u32,
    /// For each entry that a queue pair has taken, the one that it took next; of those that were
    /// returned, the next one.
    links: Box<[u32]>,
    /// The first of the entries that were taken and not used, if there are any: they are taken
    /// before all others.
    returned: u32,
    returned_count: u32,
}

impl Srq {
    pub fn new(queue: SharedRecvReader, pd: ProtectionDomainId, caps: SrqCaps) -> Self {
        let links = vec![0; caps.max_wr as usize].into();
        Self { queue, pd, caps, limit: 0, links, returned: 0, returned_count: 0 }
    }

    /// Receives that nobody has taken.
    #[inline]
    pub fn available(&self) -> u32 {
        self.queue.available() + self.returned_count
    }

    /// Takes the oldest of them; returns the number of its entry.
    #[inline]
    fn take(&mut self) -> Option<u32> {
        if self.returned_count == 0 {
            return self.queue.take();
        }
        let number = self.returned;
        self.returned = self.links[number as usize];
        self.returned_count -= 1;
        Some(number)
    }

    /// True once, when the number of receives has fallen below the limit.
    pub fn is_below_limit(&mut self) -> bool {
        let below = self.available() < self.limit;
        if below {
            self.limit = 0;
        }
        below
    }
}

/// The shared receive queues of an engine.
pub(crate) type Srqs = Numbered<Srq>;
