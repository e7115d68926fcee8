//! Two processes: a test starts its own executable again as the peer.

use std::env;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use pmd_bindings::{Burst, Eal, EalConfig, EthPort, MemifConfig, MemifRole, Mempool, Reconnect};

/// No step of a test takes longer, however busy the machine.
pub const LIMIT: Duration = Duration::from_secs(60);
/// Where the peer finds its orders.
const ORDERS: &str = "PMD_TEST_PEER";
/// A user without privileges.
const NOBODY: u32 = 65534;

/// A directory of its own for each test, removed at the end.
pub struct TempDir(PathBuf);

impl TempDir {
    pub fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("pmd-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = env::temp_dir().join(name);
        fs::create_dir(&path).expect("a fresh directory");
        // For peers that run as another user.
        fs::set_permissions(&path, fs::Permissions::from_mode(0o777)).expect("ours");
        Self(path)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    pub fn socket(&self) -> PathBuf {
        self.0.join("memif.sock")
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Lets the tests of this process run one after the other: each keeps two cores busy, and some
/// count descriptors.
pub fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One end of a memif pair with its pool.
pub struct End {
    pub port: EthPort,
    pub pool: Mempool,
    reconnect: Option<Reconnect>,
}

impl End {
    pub fn open(socket: &Path, role: MemifRole) -> Self {
        Self::with(MemifConfig::new(socket, role))
    }

    pub fn with(config: MemifConfig) -> Self {
        let eal = Eal::start(&EalConfig::default()).expect("EAL");
        let role = config.role;
        let pool = Mempool::new(eal, 4096, config.max_frame).expect("a pool");
        let mut port = EthPort::memif(eal, &config, &pool).expect("memif");
        let reconnect = (role == MemifRole::Client).then(Reconnect::default);
        if reconnect.is_none() {
            port.start().expect("a server starts without a client");
        }
        Self { port, pool, reconnect }
    }

    /// One step towards a link; true when it is there.
    pub fn connect_step(&mut self) -> bool {
        let up = match &mut self.reconnect {
            Some(reconnect) => reconnect.tend(&mut self.port, Instant::now()).expect("stops"),
            None => self.port.link_up(),
        };
        if !up {
            std::thread::yield_now();
        }
        up
    }

    pub fn connect(&mut self) {
        within("a link", || self.connect_step());
    }

    pub fn burst(&self) -> Burst<32> {
        Burst::new(&self.pool)
    }
}

/// Repeats `step` until it returns true.
pub fn within(what: &str, mut step: impl FnMut() -> bool) {
    let start = Instant::now();
    while !step() {
        assert!(start.elapsed() < LIMIT, "no {what} within {LIMIT:?}");
    }
}

/// The other process.
pub struct Peer {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
}

impl Peer {
    /// Starts test `test` of this executable in another process, with `orders`.
    pub fn start(test: &str, orders: &str) -> Self {
        Self::spawn(Command::new(env::current_exe().expect("this test")), test, orders)
    }

    /// Starts a test of this executable in another process, as an ordinary user if this process is
    /// root's. The executable is copied to where that user can read it.
    pub fn start_unprivileged(test: &str, orders: &str, dir: &TempDir) -> Self {
        let copy = dir.path().join("peer");
        fs::copy(env::current_exe().expect("this test"), &copy).expect("room for a copy");
        let mut command = Command::new(copy);
        // SAFETY: asks for a number.
        if unsafe { libc::geteuid() } == 0 {
            command.uid(NOBODY).gid(NOBODY).current_dir(dir.path());
        }
        Self::spawn(command, test, orders)
    }

    fn spawn(mut command: Command, test: &str, orders: &str) -> Self {
        command.args(["--exact", test, "--nocapture", "--ignored", "--test-threads=1"]);
        command.env(ORDERS, orders).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("a second process");
        let stdin = child.stdin.take();
        let stdout = BufReader::new(child.stdout.take().expect("piped"));
        Self { child, stdin, stdout }
    }

    /// The rest of the next line that the peer says after `topic`.
    pub fn hear(&mut self, topic: &str) -> String {
        let mut line = String::new();
        loop {
            line.clear();
            let read = self.stdout.read_line(&mut line).expect("a pipe");
            assert!(read > 0, "the peer ended before it said {topic}");
            if let Some((_, rest)) = line.split_once(&format!("peer: {topic} ")) {
                return rest.trim().into();
            }
        }
    }

    /// SIGKILL: the peer cleans nothing up. Does not wait for its end, so that the caller goes on
    /// polling.
    pub fn kill(&mut self) {
        self.child.kill().expect("it runs");
    }

    /// Tells the peer to end.
    pub fn end(&mut self) {
        drop(self.stdin.take());
    }

    /// Tells the peer to end and expects that all went well there.
    pub fn finish(mut self) {
        self.end();
        let mut status = None;
        within("end of the peer", || {
            status = self.child.try_wait().expect("it is ours");
            std::thread::yield_now();
            status.is_some()
        });
        assert!(status.is_some_and(|status| status.success()), "the peer failed: {status:?}");
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// In the peer: its orders, word by word, or `None` in an ordinary test run.
pub fn orders() -> Option<Vec<String>> {
    Some(env::var(ORDERS).ok()?.split(' ').map(str::to_owned).collect())
}

/// In the peer: what [`Peer::hear`] waits for.
pub fn say(topic: &str, rest: impl std::fmt::Display) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "\npeer: {topic} {rest}").and_then(|()| out.flush()).expect("a pipe");
}

/// In the peer: becomes true when [`Peer::finish`] is called or the test's process is gone.
pub fn finish_flag() -> Arc<AtomicBool> {
    let flag = Arc::new(AtomicBool::new(false));
    let set = Arc::clone(&flag);
    std::thread::spawn(move || {
        let _ = std::io::stdin().read_line(&mut String::new());
        set.store(true, Ordering::Relaxed);
    });
    flag
}

pub fn role(word: &str) -> MemifRole {
    match word {
        "server" => MemifRole::Server,
        "client" => MemifRole::Client,
        other => panic!("no role {other}"),
    }
}

/// Connects to a memif server and is gone at once.
pub fn connect_and_close(socket: &Path) -> bool {
    let bytes = socket.as_os_str().as_encoded_bytes();
    // SAFETY: all-zero is a valid address, and the calls below take a socket of our own and an
    // address of its size.
    unsafe {
        let mut address: libc::sockaddr_un = std::mem::zeroed();
        address.sun_family = u16::try_from(libc::AF_UNIX).expect("1");
        for (to, from) in address.sun_path.iter_mut().zip(bytes) {
            *to = from.cast_signed();
        }
        let fd = libc::socket(libc::AF_UNIX, libc::SOCK_SEQPACKET | libc::SOCK_NONBLOCK, 0);
        let len = u32::try_from(size_of_val(&address)).expect("110");
        let connected = libc::connect(fd, (&raw const address).cast(), len) == 0;
        libc::close(fd);
        connected
    }
}

/// Byte `offset` of frame `index`.
pub fn byte(index: u64, offset: usize) -> u8 {
    let x = (index ^ 0x9e37_79b9_7f4a_7c15).wrapping_mul(0xbf58_476d_1ce4_e5b9).wrapping_add(offset as u64);
    let x = (x ^ (x >> 29)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (x >> 32).to_le_bytes()[0]
}

/// Length of frame `index`: every length from 14 to 4608 in an order that jumps about.
pub fn length(index: u64) -> usize {
    const SHORTEST: usize = 14;
    const LENGTHS: usize = 4608 - SHORTEST + 1;
    // 1009 and the number of lengths have no common factor.
    SHORTEST + usize::try_from(index).expect("64 bits") * 1009 % LENGTHS
}

/// Writes frame `index`: its number, then bytes that depend on number and place.
pub fn write_frame(index: u64, frame: &mut [u8]) {
    for (offset, to) in frame.iter_mut().enumerate() {
        *to = byte(index, offset);
    }
    frame[..8].copy_from_slice(&index.to_le_bytes());
}

/// Checks a frame made by [`write_frame`] and returns its number.
pub fn read_frame(frame: &[u8]) -> u64 {
    let index = u64::from_le_bytes(frame[..8].try_into().expect("eight bytes"));
    assert_eq!(frame.len(), length(index), "length of frame {index}");
    let wrong = (8..frame.len()).find(|&offset| frame[offset] != byte(index, offset));
    assert_eq!(wrong, None, "first wrong byte of frame {index}, {} bytes long", frame.len());
    index
}
