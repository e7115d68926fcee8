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
    /// The answer of [`Engine::next_deadline`] while there is no work; `None`: it was not asked
    /// since the last change.
    later: Cell<Option<Option<Time>>>,
    /// Answers from memory.
    remembered: Cell<u32>,
}

impl Timed {
    pub(super) const fn new(engine: Engine<SimPort>) -> Self {
        Self { engine, later: Cell::new(None), remembered: Cell::new(0) }
    }

    /// Each so many times the engine is asked nevertheless: nobody else can change when it is due.
    fn check(&self, later: Option<Time>) {
        const ONE_IN: u32 = 64;
        self.remembered.set(self.remembered.get().wrapping_add(1));
        if self.remembered.get().is_multiple_of(ONE_IN) {
            assert_eq!(later, self.engine.next_deadline(), "it was changed behind our back");
        }
    }

    /// [`Engine::next_deadline`].
    pub(super) fn next_deadline(&self) -> Option<Time> {
        if self.engine.has_work() {
            return self.engine.next_deadline();
        }
        if let Some(later) = self.later.get() {
            self.check(later);
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
