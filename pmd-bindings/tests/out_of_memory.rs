//! A pool larger than the memory of EAL. In a process of its own: on the way to the refusal DPDK
//! takes all there is, and a pool that another test makes at that moment would be refused, too.

use pmd_bindings::{Eal, EalConfig, Mempool};

#[test]
fn a_pool_that_does_not_fit_is_refused_and_gives_back_what_it_took() {
    let eal = Eal::start(&EalConfig::default()).expect("EAL");
    for _ in 0..3 {
        let large = Mempool::new(eal, 1 << 20, 60_000).expect_err("more than there is");
        assert!(large.to_string().contains("give it more by memory="), "{large}");
        Mempool::new(eal, 4096, 2048).expect("a pool that fits");
    }
}
