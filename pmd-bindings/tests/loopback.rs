//! Pools, bursts and ports over DPDK's null and ring devices, in one process.

use pmd_bindings::{Burst, Device, Eal, EalConfig, EthPort, HEADROOM, Memory, Mempool, PortError};

fn eal() -> &'static Eal {
    Eal::start(&EalConfig::default()).expect("EAL")
}

fn pool() -> Mempool {
    Mempool::new(eal(), 1024, 2048).expect("a pool")
}

fn started(device: Device, pool: &Mempool) -> EthPort {
    let mut port = EthPort::attach(eal(), device, pool).expect("a port");
    port.start().expect("starts");
    port
}

/// A device whose frames come back to itself.
fn ring() -> Device {
    Device::virtual_device("net_ring", "")
}

#[test]
fn eal_starts_once() {
    let first = eal();
    let other = EalConfig { memory_mb: Some(64), ..EalConfig::default() };
    let again = Eal::start(&other).expect("it runs");
    assert!(std::ptr::eq(first, again));
    assert_eq!(again.config(), &EalConfig::default(), "the first configuration counts");
    assert!(first.version().starts_with("DPDK 2"), "{}", first.version());
    let with_nics =
        Eal::start(&EalConfig { pci: true, ..EalConfig::default() }).expect_err("started without");
    assert!(with_nics.to_string().contains("without the PCI bus: open the device that needs it first"));
    let memory = if first.hugepages() { Memory::Normal } else { Memory::Huge };
    let elsewhere =
        Eal::start(&EalConfig { memory, ..EalConfig::default() }).expect_err("started with the other");
    assert!(elsewhere.to_string().contains("pages: open the device that needs it first"), "{elsewhere}");
}

#[test]
fn a_pool_counts_what_is_out() {
    let pool = pool();
    assert_eq!((pool.available(), pool.in_use()), (1024, 0));
    let mut burst = Burst::<32>::new(&pool);
    assert!(burst.fill() && burst.is_full());
    assert_eq!((pool.available(), pool.in_use()), (1024 - 32, 32));
    let mbuf = burst.pop().expect("full");
    assert_eq!((burst.len(), pool.in_use()), (31, 32));
    assert!(burst.push(mbuf).is_ok());
    let mut other = Burst::<1>::new(&pool);
    assert!(other.fill());
    let mbuf = other.pop().expect("full");
    let mbuf = burst.push(mbuf).expect_err("no room");
    assert!(other.push(mbuf).is_ok());
    drop(burst);
    assert_eq!(pool.in_use(), 1);
    drop(other);
    assert_eq!(pool.in_use(), 0);
}

#[test]
fn bursts_take_as_many_as_they_are_asked_for_and_can_hold() {
    let pool = pool();
    let mut port = started(Device::virtual_device("net_null", "size=100"), &pool);
    let mut burst = Burst::<4>::new(&pool);
    for (most, taken) in [(0, 0), (3, 3), (4, 4), (5, 4), (usize::MAX, 4)] {
        assert_eq!((port.rx_burst_of(most, &mut burst), burst.len()), (taken, taken));
    }
    drop(port);
    let mut filled = Burst::<4>::new(&pool);
    for (wanted, held) in [(0, 0), (2, 2), (1, 2), (3, 3), (9, 4)] {
        assert!(filled.fill_to(wanted));
        assert_eq!(filled.len(), held);
    }
    drop((burst, filled));
    assert_eq!(pool.in_use(), 0);
}

#[test]
fn an_empty_pool_gives_nothing() {
    let pool = pool();
    let mut all: Vec<Burst<32>> = (0..32).map(|_| Burst::new(&pool)).collect();
    assert!(all.iter_mut().all(Burst::fill));
    let mut more = Burst::<32>::new(&pool);
    assert!(!more.fill());
    assert!(more.is_empty());
    all.pop();
    assert!(more.fill());
    drop((all, more));
    assert_eq!(pool.in_use(), 0);
}

#[test]
fn a_buffer_that_outlives_its_pool_stays_usable() {
    let pool = pool();
    let mut burst = Burst::<1>::new(&pool);
    assert!(burst.fill());
    let mut mbuf = burst.pop().expect("full");
    drop((burst, pool));
    mbuf.writable(0).fill(7);
    mbuf.set_len(2000);
    assert!(mbuf.frame().iter().all(|&byte| byte == 7));
}

#[test]
fn a_buffer_is_placed_and_measured() {
    let pool = pool();
    let mut burst = Burst::<1>::new(&pool);
    assert!(burst.fill());
    let mbuf = &mut burst[0];
    assert_eq!((mbuf.capacity(), mbuf.segments(), mbuf.frame().len()), (2048 + HEADROOM, 1, 0));
    for align_at in 0..130 {
        let room = mbuf.writable(align_at);
        assert_eq!((room.as_ptr() as usize + align_at) % 64, 0);
        assert!(room.len() >= 2048);
        let len = room.len();
        room.fill(1);
        mbuf.set_len(len);
        assert_eq!(mbuf.frame().len(), len);
    }
}

#[test]
#[should_panic(expected = "in a buffer of")]
fn a_frame_longer_than_its_buffer_panics() {
    let pool = pool();
    let mut burst = Burst::<1>::new(&pool);
    assert!(burst.fill());
    burst[0].set_len(2048 + usize::from(HEADROOM));
}

#[test]
fn rejected_buffers_go_back_and_the_others_keep_their_order() {
    let pool = pool();
    let mut burst = Burst::<32>::new(&pool);
    assert!(burst.fill());
    for (index, mbuf) in burst.iter_mut().enumerate() {
        mbuf.set_len(100 + index);
    }
    assert_eq!(burst.retain(|mbuf| mbuf.frame().len() % 3 != 0), 10);
    assert_eq!(pool.in_use(), 22);
    let lengths: Vec<_> = burst.iter().map(|mbuf| mbuf.frame().len()).collect();
    assert_eq!(lengths, (100..132).filter(|len| len % 3 != 0).collect::<Vec<_>>());
}

#[test]
fn frames_go_round_a_ring_until_it_is_full() {
    let pool = Mempool::new(eal(), 4096, 2048).expect("a pool");
    let mut port = started(ring(), &pool);
    assert!(port.link_up());
    let mut burst = Burst::<64>::new(&pool);
    let mut sent = 0;
    loop {
        if burst.is_empty() {
            assert!(burst.fill());
            for (index, mbuf) in burst.iter_mut().enumerate() {
                let len = 64 + sent + index;
                mbuf.writable(0)[..len].fill(len.to_le_bytes()[0]);
                mbuf.set_len(len);
            }
        }
        match port.tx_burst(&mut burst) {
            0 => break,
            taken => sent += taken,
        }
    }
    // DPDK's ring of 1024 holds one less. The rest is still ours, in order.
    assert_eq!(sent, 1023);
    assert_eq!(burst[0].frame().len(), 64 + 1023);
    let mut received = Burst::<32>::new(&pool);
    let mut back = 0;
    while port.rx_burst(&mut received) > 0 {
        for mbuf in received.iter() {
            let len = 64 + back;
            assert_eq!(mbuf.frame().len(), len);
            assert!(mbuf.frame().iter().all(|&byte| byte == len.to_le_bytes()[0]));
            back += 1;
        }
    }
    assert_eq!(back, 1023);
    let stats = port.stats().expect("counters");
    assert_eq!((stats.tx_frames, stats.rx_frames), (1023, 1023));
    drop((burst, received));
    assert_eq!(pool.in_use(), 0);
}

#[test]
fn a_stopped_port_moves_nothing() {
    let pool = pool();
    let mut port = started(Device::virtual_device("net_null", "size=100"), &pool);
    let mut burst = Burst::<32>::new(&pool);
    assert_eq!(port.rx_burst(&mut burst), 32);
    for _ in 0..2 {
        port.stop().expect("stops, and once more does nothing");
        assert!(!port.is_started() && !port.link_up());
    }
    let mut to_send = Burst::<32>::new(&pool);
    assert!(to_send.fill());
    assert_eq!(port.tx_burst(&mut to_send), 0);
    assert_eq!(to_send.len(), 32);
    assert_eq!(port.rx_burst(&mut burst), 0);
    assert!(burst.is_empty(), "the last burst was given back");
    for _ in 0..2 {
        port.start().expect("starts, and once more does nothing");
    }
    assert_eq!(port.rx_burst(&mut burst), 32);
    assert_eq!(port.tx_burst(&mut to_send), 32);
}

#[test]
fn ports_have_addresses_and_names_of_their_own() {
    let pool = pool();
    let ports: Vec<_> = (0..2).map(|_| started(Device::virtual_device("net_null", ""), &pool)).collect();
    assert_ne!(ports[0].name(), ports[1].name());
    assert_ne!(ports[0].mac().expect("an address"), ports[1].mac().expect("an address"));
}

#[test]
fn a_driver_says_what_it_can_do() {
    let port = started(Device::virtual_device("net_null", ""), &pool());
    let can = port.capabilities().expect("it says so");
    assert_eq!(can.driver, "net_null");
    assert!(can.max_rx_frame >= 1518 && can.mtu.contains(&1500), "{can:?}");
}

#[test]
fn errors_say_what_to_do() {
    let pool = pool();
    let refused = |device| match EthPort::attach(eal(), device, &pool) {
        Err(error) => error.to_string(),
        Ok(port) => panic!("{} exists", port.name()),
    };
    let unknown = refused(Device::virtual_device("net_missing", ""));
    assert!(unknown.contains("no driver net_missing: install its plugin"), "{unknown}");
    assert!(unknown.contains("apt-get install librte-net-missing2"), "{unknown}");
    let misread = refused(Device::virtual_device("net_null", "size=100,colour=red"));
    assert!(misread.contains("colour=red"), "{misread}");
    let elsewhere = refused(Device::virtual_device("net_ring", "nodeaction=other:0:CREATE"));
    assert!(elsewhere.contains("other:0:CREATE"), "{elsewhere}");
    let nul = refused(Device::virtual_device("net_null", "a\0b"));
    assert!(nul.contains("NUL"), "{nul}");
    let small = Mempool::new(eal(), 100, 2048).expect_err("too small for its caches");
    assert!(matches!(small, PortError::OutOfRange { value: 100, min: 512, .. }), "{small}");
}
