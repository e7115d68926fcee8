//! How much memory an engine takes, for the budget of architecture.md.

use crate::engine::Core;
use crate::qp::Qpc;

/// Memory of an engine in bytes: what it was made with, and what its queue pairs added. Registered
/// memory, completion queues and the port's buffers are not in it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct EngineMemory {
    /// Queue pairs that exist.
    pub queue_pairs: usize,
    /// Queue-pair contexts, for as many queue pairs as the engine has room for.
    pub hot: usize,
    /// Schedule queue, timers and the list of owed acknowledgements, likewise.
    pub tables: usize,
    /// State of existing queue pairs for what is not the fast path. Places for others are reserved,
    /// and not in it.
    pub cold: usize,
    /// Send and receive rings of existing queue pairs.
    pub rings: usize,
    /// The pool of recovery contexts that are free.
    pub recovery_contexts: usize,
}

impl EngineMemory {
    /// All of it.
    #[must_use]
    pub const fn total(&self) -> usize {
        self.hot + self.tables + self.cold + self.rings + self.recovery_contexts
    }

    /// What the fast path touches of one queue pair: at most 256 bytes.
    #[must_use]
    pub const fn hot_per_qp(&self) -> usize {
        size_of::<Qpc>()
    }
}

impl Core {
    /// Memory of the engine. Walks over all queue pairs.
    #[must_use]
    pub fn memory_used(&self) -> EngineMemory {
        let units = &self.units;
        let lists = units.ack_list.capacity() * size_of::<u32>();
        let mut memory = EngineMemory {
            hot: self.qps.capacity() * size_of::<Qpc>(),
            tables: units.mux.bytes() + units.timer_bytes() + units.last_words.bytes() + lists,
            recovery_contexts: units.contexts.iter().map(|context| context.bytes()).sum(),
            ..EngineMemory::default()
        };
        for (_, cold) in self.qps.slots().filter_map(|slot| self.qps.peek(slot)) {
            memory.queue_pairs += 1;
            memory.cold += cold.bytes();
            memory.rings += cold.send_queue.bytes() + cold.receives.bytes();
        }
        memory
    }
}
