use std::os::unix::net::UnixListener;
use std::{env, fs};

use super::*;

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
    match config.device(&config.socket_path).and_then(|_| socket_path::remove_stale(&config.socket_path)) {
        Err(error) => error.to_string(),
        Ok(()) => panic!("no error"),
    }
}

#[test]
fn arguments_name_every_choice() {
    let dir = Dir::new("arguments");
    let socket = dir.0.join("s");
    let mut config = MemifConfig::new(&socket, MemifRole::Client);
    config.mac = Some([2, 0, 0, 0, 0, 0xfe]);
    config.secret = Some("open sesame".into());
    let device = config.device(&socket).expect("all is well");
    let expected = format!(
        "role=client,socket={},socket-abstract=no,bsize=4608,rsize=10,mac=02:00:00:00:00:fe,secret=open sesame",
        socket.display()
    );
    assert_eq!(device, Device::virtual_device("net_memif", &expected));
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
    good.device(&good.socket_path).expect("the good one is good");
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
