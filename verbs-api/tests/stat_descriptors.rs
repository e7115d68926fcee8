//! What looks into a device when the program has no descriptor left. The limit is the process's, so
//! this test is alone in its own.

use rustix::net::{AddressFamily, SocketAddrUnix, SocketType, connect, socket};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::time::{ClockId, clock_gettime};
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::Duration;
use verbs_api::Device;

/// What all threads of this process have computed.
fn computed() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::try_from(time).expect("not negative")
}

/// Opens files until there is no descriptor left.
fn every_descriptor() -> Vec<OwnedFd> {
    let limit = Rlimit { current: Some(64), maximum: getrlimit(Resource::Nofile).maximum };
    setrlimit(Resource::Nofile, limit).expect("lowered");
    std::iter::from_fn(|| File::open("/dev/null").ok().map(OwnedFd::from)).collect()
}

#[test]
fn a_visitor_that_no_descriptor_is_left_for_waits_and_costs_nothing() {
    let path = std::env::temp_dir().join(format!("srnic-descriptors-{}.stat", std::process::id()));
    let device = Device::open(&format!("sim:stat-none-left,stat={}", path.display())).expect("a device");
    let visitor = socket(AddressFamily::UNIX, SocketType::STREAM, None).expect("a socket");
    let held = every_descriptor();
    assert!(!held.is_empty());
    connect(&visitor, &SocketAddrUnix::new(&path).expect("short")).expect("it listens");
    let before = computed();
    thread::sleep(Duration::from_millis(500));
    let spent = computed() - before;
    assert!(spent < Duration::from_millis(100), "waiting cost {spent:?} of 500 ms");

    drop(held);
    let mut visitor = UnixStream::from(visitor);
    visitor.set_read_timeout(Some(Duration::from_secs(30))).expect("set");
    visitor.write_all(b"GET / HTTP/1.1\r\n\r\n").expect("written");
    let mut said = String::new();
    visitor.read_to_string(&mut said).expect("an answer, once there are descriptors");
    assert!(said.starts_with("HTTP/1.1 200 OK"), "{said}");
    drop(device);
}
