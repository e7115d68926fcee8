//! Two ports that are wired to each other inside this process and driven by one thread, for the
//! tests of either end.

use super::{Port, PortStats};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// No step takes longer, however busy the machine.
const LIMIT: Duration = Duration::from_secs(60);

/// A directory of its own, gone when dropped.
pub struct Scratch(PathBuf);

impl Scratch {
    pub fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("srnic-port-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let dir = std::env::temp_dir().join(name);
        fs::create_dir(&dir).expect("a fresh directory");
        Self(dir)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Both ends.
pub struct Pair<S, C> {
    pub server: S,
    pub client: C,
    _dir: Scratch,
}

impl<S: Port, C: Port> Pair<S, C> {
    /// Both open a socket in the directory that they are given, and find each other.
    pub fn connected(server: impl FnOnce(&Path) -> S, client: impl FnOnce(&Path) -> C) -> Self {
        let dir = Scratch::new();
        let mut pair = Self { server: server(dir.path()), client: client(dir.path()), _dir: dir };
        pair.connect();
        pair
    }

    pub fn connect(&mut self) {
        connect(&mut self.server, &mut self.client);
    }

    /// Frames of each of these lengths, one by one, pass both ways unharmed.
    pub fn pass_both_ways(&mut self, lengths: impl IntoIterator<Item = usize>) {
        for len in lengths {
            pass(&mut self.client, &mut self.server, len);
            pass(&mut self.server, &mut self.client, len);
        }
    }
}

/// What holds at either end of any pair whose buffers begin on a cache line.
impl<S: Port, C: Port> Pair<S, C> {
    /// Frames of every length pass and are counted.
    pub fn passes_every_length(&mut self) {
        let max = self.server.caps().max_frame;
        assert_eq!(max, 4608);
        let lengths = (14..=max).step_by(13).chain([max]);
        self.pass_both_ways(lengths.clone());
        let (frames, bytes) = (lengths.clone().count() as u64, lengths.sum::<usize>() as u64);
        let expected = PortStats {
            rx_frames: frames,
            rx_bytes: bytes,
            tx_frames: frames,
            tx_bytes: bytes,
            ..PortStats::default()
        };
        assert_eq!((self.server.stats(), self.client.stats()), (expected, expected));
    }

    /// Slots begin on a line and are as long as a frame may be.
    pub fn lends_whole_slots(&mut self) {
        for _ in 0..100 {
            fill_a_slot(&mut self.client, &mut self.server);
            fill_a_slot(&mut self.server, &mut self.client);
        }
    }

    /// What is cancelled is not sent.
    pub fn forgets_what_is_cancelled(&mut self) {
        let Self { server, client, .. } = self;
        assert!(queue(client, 100));
        client.tx_slot().expect("a slot").fill(1);
        client.tx_cancel();
        client.tx_cancel();
        // A slot lent again takes the place of the one before.
        client.tx_slot().expect("a slot").fill(2);
        assert!(queue(client, 200));
        let mut lengths = Vec::new();
        within("both frames", || {
            client.tx_flush();
            lengths.extend(receive(server).iter().map(Vec::len));
            lengths.len() >= 2
        });
        assert_eq!(lengths, [100, 200]);
        assert_eq!(client.stats().tx_frames, 2);
    }
}

fn fill_a_slot(from: &mut impl Port, to: &mut impl Port) {
    let max = from.caps().max_frame;
    let slot = from.tx_slot().expect("a slot");
    assert_eq!((slot.as_ptr().addr() % 64, slot.len()), (0, max));
    slot.fill(0xa5);
    from.tx_commit(max);
    let frames = deliver(from, to);
    assert!(frames[0].len() == max && frames[0].iter().all(|&byte| byte == 0xa5));
}

fn pass(from: &mut impl Port, to: &mut impl Port, len: usize) {
    // A client of the driver's lays out the server's buffers in its first receive burst.
    within("slot", || queue(from, len) || to.rx_burst() > 0);
    arrives(&deliver(from, to), len);
}

fn arrives(frames: &[Vec<u8>], len: usize) {
    assert_eq!(frames.iter().map(Vec::len).collect::<Vec<_>>(), [len]);
    assert_intact(&frames[0]);
}

/// Ports look after their links from within their receive bursts.
pub fn connect(server: &mut impl Port, client: &mut impl Port) {
    within("link", || {
        client.rx_burst();
        server.rx_burst();
        std::thread::yield_now();
        client.link_up() && server.link_up()
    });
}

pub fn within(what: &str, mut step: impl FnMut() -> bool) {
    let start = Instant::now();
    while !step() {
        assert!(start.elapsed() < LIMIT, "no {what} within {LIMIT:?}");
    }
}

/// Byte `offset` of a frame of `len` bytes.
fn byte(len: usize, offset: usize) -> u8 {
    (len * 31 + offset * 7 + offset / 251).to_le_bytes()[0]
}

/// Commits a frame of so many bytes, if there is a slot.
pub fn queue(port: &mut impl Port, len: usize) -> bool {
    let Some(slot) = port.tx_slot() else { return false };
    for (offset, to) in slot[..len].iter_mut().enumerate() {
        *to = byte(len, offset);
    }
    port.tx_commit(len);
    true
}

/// One burst.
pub fn receive(port: &mut impl Port) -> Vec<Vec<u8>> {
    let count = port.rx_burst();
    let frames = (0..count).map(|index| port.rx_frame(index).bytes().to_vec()).collect();
    port.rx_release();
    frames
}

/// Flushes until something arrives. A single flush may send nothing: a memif server must wait for
/// buffers that its client lays out in its first receive burst, and nothing moves while the driver
/// is at work on a link, be it that of another test.
pub fn deliver(from: &mut impl Port, to: &mut impl Port) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    within("frame", || {
        from.tx_flush();
        frames = receive(to);
        !frames.is_empty()
    });
    frames
}

/// It is a frame of [`queue`]'s.
pub fn assert_intact(frame: &[u8]) {
    let wrong = (0..frame.len()).find(|&offset| frame[offset] != byte(frame.len(), offset));
    assert_eq!(wrong, None, "first wrong byte of {}", frame.len());
}
