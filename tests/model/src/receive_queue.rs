//! Receive WQEs: a queue of the queue pair's own, or a share of the host's (protocol.md 2.5,
//! "SRQ").

use wire::serial::Ssn;

use crate::defects::Defect;

/// Which SSNs have a WQE.
#[derive(Clone, Debug)]
pub enum ReceiveQueue {
    /// The application posts WQEs for this queue pair; they belong to SSNs in order.
    Own {
        /// The first SSN without a WQE.
        producer: Ssn,
    },
    /// WQEs are taken from the shared queue when a packet needs them.
    Shared {
        /// The first SSN that never had a WQE.
        assigned: Ssn,
        /// SSNs with a WQE, of messages not completed.
        held: Vec<Ssn>,
    },
}

impl ReceiveQueue {
    /// An empty queue whose first message is `first`.
    #[must_use]
    pub fn new(first: Ssn, shared: bool) -> Self {
        if shared {
            Self::Shared { assigned: first, held: Vec::new() }
        } else {
            Self::Own { producer: first }
        }
    }

    /// Posts `n` WQEs to a queue of its own.
    pub fn post(&mut self, n: u32) {
        if let Self::Own { producer } = self {
            *producer = producer.add(n);
        }
    }

    /// True if `ssn` has a WQE, or can have one: WQEs are assigned strictly in SSN order, so a
    /// packet takes one for each message before it that has none. Else later messages would starve
    /// the one whose packet was lost.
    #[must_use]
    pub fn serves(&self, ssn: Ssn, free: u32, defect: Option<Defect>) -> bool {
        match self {
            Self::Own { producer } => ssn.is_before(*producer),
            Self::Shared { held, .. } if held.contains(&ssn) => true,
            Self::Shared { .. } if defect == Some(Defect::SrqOutOfOrder) => free > 0,
            Self::Shared { assigned, .. } => ssn.steps_from(*assigned) < free,
        }
    }

    /// Gives `ssn` its WQE.
    pub fn take(&mut self, ssn: Ssn, free: &mut u32, defect: Option<Defect>) {
        let Self::Shared { assigned, held } = self else { return };
        if held.contains(&ssn) {
            return;
        }
        if defect == Some(Defect::SrqOutOfOrder) {
            held.push(ssn);
            *free -= 1;
            return;
        }
        while !ssn.is_before(*assigned) {
            held.push(*assigned);
            *assigned = assigned.next();
            *free -= 1;
        }
    }

    /// The message completed, and the application posts its WQE again.
    pub fn complete(&mut self, ssn: Ssn, free: &mut u32) {
        if let Self::Shared { held, .. } = self
            && let Some(index) = held.iter().position(|other| *other == ssn)
        {
            held.swap_remove(index);
            *free += 1;
        }
    }

    /// ERR or RESET: the application posts all WQEs again that belong to messages never completed.
    pub fn abandon(&mut self, free: &mut u32) {
        if let Self::Shared { held, .. } = self {
            *free += u32::try_from(held.len()).expect("a window");
            held.clear();
        }
    }
}
