//! What an engine draws from which of its seeds.

use crate::common::memory_port::MemoryPort;
use datapath::engine::{Engine, EngineConfig};
use datapath::memory::{Access, HeapBacking, MemoryTable, ProtectionDomainId};
use datapath::seed::Seed;
use std::sync::Arc;

const SMALL: usize = 64;

#[test]
fn keys_come_from_the_seed_of_keys_alone() {
    let (seed, key_seed) = (Seed::from(7), Seed::from(8));
    let first_of_table = |seed| {
        let mut table = MemoryTable::new(SMALL, seed);
        let registered =
            table.register(ProtectionDomainId(1), Arc::new(HeapBacking::new(8)), 0, Access::LOCAL_WRITE);
        registered.expect("room").0
    };
    let config = EngineConfig { seed, key_seed, max_mrs: SMALL, ..EngineConfig::default() };
    let mut engine = Engine::new(MemoryPort::new(1, 8, 4_400), config).expect("an engine");
    let pd = engine.core_mut().allocate_pd();
    let key = engine
        .core_mut()
        .memory_mut()
        .register(pd, Arc::new(HeapBacking::new(8)), 0, Access::LOCAL_WRITE)
        .expect("room")
        .0;
    assert_eq!(key, first_of_table(key_seed));
    assert_ne!(key, first_of_table(seed), "the seed of QPNs and PSNs, which peers see, makes keys");
}
