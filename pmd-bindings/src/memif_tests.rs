use std::os::unix::net::UnixListener;
use std::{env, fs};

use super::*;
use crate::device::LONGEST;

/// A directory that is removed at the end.
struct Dir(PathBuf);

impl Dir {
    fn new(name: &str) -> Self {
        let dir = env::temp_dir().join(format!("pmd-memif-{name}-{}", std::process::id()));
        fs::create_dir_all(&dir).expect("a directory");
        Self(dir)
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn problem(config: &MemifConfig) -> String {
    match config.wiring(&config.socket_path, "").and_then(|_| socket_path::remove_stale(&config.socket_path))
    {
        Err(error) => error.to_string(),
        Ok(()) => panic!("no error"),
    }
}

#[test]
fn arguments_name_every_choice_that_is_not_the_drivers_own() {
    let mut config = MemifConfig::new("/tmp/s", MemifRole::Client);
    assert_eq!(config.arguments("/tmp/s", ""), "socket=/tmp/s,socket-abstract=no,bsize=4608");
    config.role = MemifRole::Server;
    config.ring_size_log2 = 9;
    config.secret = Some("open sesame".into());
    assert_eq!(
        config.arguments("/tmp/s", ",id=7"),
        "socket=/tmp/s,socket-abstract=no,bsize=4608,role=server,rsize=9,secret=open sesame,id=7"
    );
}

/// DPDK 24.11 refuses more, and so does every later one.
#[test]
fn a_device_with_the_longest_path_fits() {
    let dir = Dir::new("longest");
    let deep = dir.0.join("x".repeat(106 - "/memif".len() - dir.0.as_os_str().len()));
    fs::create_dir(&deep).expect("a directory");
    let path = deep.join("memif");
    assert_eq!(path.as_os_str().len(), 107);
    let plain = MemifConfig::new(&path, MemifRole::Client);
    let secret = Some("x".repeat(SECRET_MAX));
    let shape = MemifConfig { max_frame: u16::MAX - crate::HEADROOM, queues: 8, ..plain.clone() };
    for config in [MemifConfig { secret, ..plain }, MemifConfig { ring_size_log2: 14, ..shape }] {
        let wiring = config.wiring(&path, "").expect("it fits");
        assert!(wiring.device.length(&format!("{}9999", wiring.prefix)) <= LONGEST, "{:?}", wiring.device);
        let by_descriptor = wiring.device.arguments().split(['=', ',']).nth(1).expect("socket=PATH");
        fs::write(&path, "this file").expect("written");
        assert_eq!(fs::read(by_descriptor).expect("a way to it"), b"this file");
    }
}

#[test]
fn a_file_name_that_cannot_fit_is_refused_with_the_longest_that_can() {
    let dir = Dir::new("long-name");
    let path = dir.0.join("x".repeat(70));
    let config = MemifConfig::new(&path, MemifRole::Client);
    let refused = config.wiring(&path, "").expect_err("too long").to_string();
    let (_, most) = refused.split_once("have room for ").expect("it says how long it may be");
    let most = most.split(';').next().and_then(|most| most.parse().ok()).expect("a number");
    let longest = dir.0.join("x".repeat(most));
    assert!(config.wiring(&longest, "").is_ok() && config.wiring(&longest.with_extension("x"), "").is_err());
}

#[test]
fn refuses_what_dpdk_would_misread() {
    let dir = Dir::new("refuses");
    let good = MemifConfig::new(dir.0.join("s"), MemifRole::Server);
    let with_path = |path: PathBuf| MemifConfig { socket_path: path, ..good.clone() };
    assert!(problem(&with_path(dir.0.join("a,role=client"))).contains("holds one of"));
    assert!(problem(&with_path(dir.0.join("x".repeat(108)))).contains("longer than 107"));
    assert!(problem(&with_path("relative".into())).contains("absolute"));
    assert!(problem(&with_path(dir.0.join("missing/s"))).contains("does not exist"));
    assert!(problem(&with_path(dir.0.clone())).contains("no socket is there"));
    assert!(problem(&MemifConfig { ring_size_log2: 15, ..good.clone() }).contains("1..=14"));
    assert!(problem(&MemifConfig { max_frame: 10, ..good.clone() }).contains("max_frame is 10"));
    assert!(problem(&MemifConfig { secret: Some("x".repeat(24)), ..good.clone() }).contains("1..=23"));
    assert!(problem(&MemifConfig { secret: Some("a,b".into()), ..good.clone() }).contains("secret holds"));
    good.wiring(&good.socket_path, "").expect("the good one is good");
}

#[test]
fn a_dead_servers_socket_goes_and_a_live_ones_stays() {
    let dir = Dir::new("stale");
    let socket = dir.0.join("s");
    let config = MemifConfig::new(&socket, MemifRole::Server);
    let live = UnixListener::bind(&socket).expect("a free path");
    assert!(problem(&config).contains("another server is listening"));
    assert!(socket.exists());
    // Its file stays, as that of a process that was killed.
    drop(live);
    socket_path::remove_stale(&config.socket_path).expect("a stale socket is no obstacle");
    assert!(!socket.exists());
}
