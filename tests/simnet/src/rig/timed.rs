//! An engine that remembers when it is due.
//!
//! The rig asks each engine after each event, and most events concern one of many.

use crate::port::SimPort;
use core::cell::Cell;
use core::ops::{Deref, DerefMut};
use datapath::engine::{AsyncEvent, Engine};
use datapath::time::Time;

/// The engine. Whoever may change it makes it forget.
pub(super) struct Timed {
    engine: Engine<SimPort>,
    /// When it is due if it has nothing to do now, once it was asked.
    later: Cell<Option<Option<Time>>>,
}

impl Timed {
    pub(super) const fn new(engine: Engine<SimPort>) -> Self {
        Self { engine, later: Cell::new(None) }
    }

    /// [`Engine::next_deadline`].
    pub(super) fn next_deadline(&self) -> Option<Time> {
        if self.engine.has_work() {
            return self.engine.next_deadline();
        }
        if let Some(later) = self.later.get() {
            return later;
        }
        let later = self.engine.next_deadline();
        self.later.set(Some(later));
        later
    }

    /// The next asynchronous event; taking it changes nothing that is due.
    pub(super) fn poll_event(&mut self) -> Option<AsyncEvent> {
        self.engine.core_mut().poll_event()
    }
}

impl Deref for Timed {
    type Target = Engine<SimPort>;

    fn deref(&self) -> &Engine<SimPort> {
        &self.engine
    }
}

impl DerefMut for Timed {
    fn deref_mut(&mut self) -> &mut Engine<SimPort> {
        self.later.set(None);
        &mut self.engine
    }
}
