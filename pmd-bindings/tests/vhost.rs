//! What a vhost-user pair leaves behind. In a process of its own: it counts descriptors.

use std::path::Path;
use std::time::{Duration, Instant};

use memif::socket::{Presence, presence};
use pmd_bindings::{Eal, EalConfig, VhostConfig};

/// Far longer than it takes, on a busy machine too.
const LIMIT: Duration = Duration::from_secs(60);

fn open_descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").expect("Linux").count()
}

/// A socket that DPDK has closed goes on taking connections until its thread has returned from
/// `poll(2)`. The front end's driver would begin a handshake, which fails, and leave its
/// descriptors open.
fn wait_until_nobody_listens(socket: &Path) {
    let start = Instant::now();
    while matches!(presence(socket), Presence::Server) {
        assert!(start.elapsed() < LIMIT, "somebody listens for longer than {LIMIT:?}");
        std::thread::yield_now();
    }
}

#[test]
fn pairs_that_come_and_go_leave_no_descriptor() {
    let eal = Eal::start(&EalConfig::default()).expect("EAL");
    // As long as a socket's path can be: more than DPDK's arguments have room for.
    let directory = std::env::temp_dir().join(format!("pmd-vhost-{}-{}", std::process::id(), "x".repeat(70)));
    std::fs::create_dir(&directory).expect("a directory");
    let name = "v".repeat(106 - directory.as_os_str().len());
    let socket_path = directory.join(name);
    let config = VhostConfig { socket_path, mac: [2, 0, 0, 0, 0, 1], max_frame: 4608 };
    let meet = || {
        wait_until_nobody_listens(&config.socket_path);
        let mut front = config.open_front_end(eal).expect("a front end");
        let back = config.open_back_end(eal).expect("a back end");
        let (start, mut reconnect) = (Instant::now(), front.reconnect.expect("it connects"));
        while !(reconnect.tend(&mut front.eth, Instant::now()).expect("it stops") && back.eth.link_up()) {
            assert!(start.elapsed() < LIMIT, "no link within {LIMIT:?}");
            std::thread::yield_now();
        }
        let can = front.eth.capabilities().expect("it is attached");
        assert!(can.driver.contains("virtio"), "{can:?}");
    };
    // The first sets up what stays, such as the thread of DPDK's vhost library.
    meet();
    let before = open_descriptors();
    (0..5).for_each(|_| meet());
    // Attempts where nobody listens.
    wait_until_nobody_listens(&config.socket_path);
    let mut alone = config.open_front_end(eal).expect("a front end");
    for _ in 0..100 {
        let refused = alone.eth.start().expect_err("nobody listens").to_string();
        assert!(refused.contains("nobody listens there; start the vhost: end"), "{refused}");
    }
    drop(alone);
    assert_eq!(open_descriptors(), before);
    std::fs::remove_dir_all(&directory).expect("it is ours");
}
