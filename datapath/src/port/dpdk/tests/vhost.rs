//! Both ends of a vhost-user pair inside this process.

use super::*;
use dpdk_sys::VhostConfig;

fn config(dir: &Path, host: u8) -> VhostConfig {
    VhostConfig { socket_path: dir.join("s"), mac: [2, 0, 0, 0, 0, host], max_frame: MEMIF_MAX_FRAME }
}

fn eal() -> &'static Eal {
    Eal::start(&EalConfig::default()).expect("EAL")
}

fn back_end(dir: &Path) -> DpdkPort {
    DpdkPort::over(config(dir, 1).open_back_end(eal()).expect("a port"))
}

fn front_end(dir: &Path) -> DpdkPort {
    DpdkPort::over(config(dir, 2).open_front_end(eal()).expect("a port"))
}

/// A frame each way; the first ones may go before the rings are ready at the other end.
fn exchange(one: &mut DpdkPort, other: &mut DpdkPort) {
    for len in [60, 1518, 4206] {
        for turn in 0..2 {
            let (from, to) = if turn == 0 { (&mut *one, &mut *other) } else { (&mut *other, &mut *one) };
            assert!(queue(from, len));
            let frames = deliver(from, to);
            assert_eq!(frames.iter().map(Vec::len).collect::<Vec<_>>(), [len]);
            assert_intact(&frames[0]);
        }
    }
}

#[test]
fn a_front_end_finds_its_back_end_whenever_there_is_one() {
    let dir = Scratch::new();
    let mut front = front_end(dir.path());
    assert_eq!(front.caps().mac, [2, 0, 0, 0, 0, 2]);
    assert!(!front.short_bursts);
    for _ in 0..3 {
        // Nobody listens: it tries, and fails, and tries again.
        let (start, mut idle) = (Instant::now(), 0);
        while start.elapsed() < Duration::from_millis(20) {
            idle += front.rx_burst();
        }
        assert_eq!(idle, 0);
        assert!(!front.link_up() && !front.eth().is_started());
        let mut back = back_end(dir.path());
        connect(&mut back, &mut front);
        exchange(&mut back, &mut front);
        drop(back);
        assert!(!dir.path().join("s").exists(), "the socket goes with its server");
        within("loss of the link", || {
            front.rx_burst();
            std::thread::yield_now();
            !front.eth().is_started()
        });
        assert_eq!(leaked(&front), 0);
    }
}

#[test]
fn a_back_end_takes_one_front_end_after_the_other() {
    let dir = Scratch::new();
    let mut back = back_end(dir.path());
    for _ in 0..3 {
        let mut front = front_end(dir.path());
        connect(&mut back, &mut front);
        exchange(&mut back, &mut front);
        drop(front);
        within("loss of the link", || {
            back.rx_burst();
            std::thread::yield_now();
            !back.link_up()
        });
    }
    assert_eq!(leaked(&back), 0);
    let other = config(dir.path(), 1).open_back_end(eal()).expect_err("the socket is taken");
    assert!(other.to_string().contains("another server is listening on it"), "{other}");
}
