use std::os::fd::FromRawFd;

use super::*;
use std::path::PathBuf;

use memif::Told;

use crate::unix::{Message, receive, send};

const LIMIT: Duration = Duration::from_secs(60);
const HELLO: u16 = 2;
const INIT: u16 = 3;
const ADD_RING: u16 = 5;
const CONNECT: u16 = 6;
const CONNECTED: u16 = 7;
const TERMS: Terms = Terms { interface: 0x0102_0304, told: Told { max_frame: 4608, queues: 1 } };

/// A directory, a door in it, and the driver's side of it played by the test.
struct Setting {
    door: Option<Door>,
    driver: Listener,
    directory: PathBuf,
}

impl Setting {
    fn new(name: &str) -> Self {
        Self::with(name, TERMS)
    }

    fn with(name: &str, terms: Terms) -> Self {
        let directory = std::env::temp_dir().join(format!("pmd-door-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&directory).expect("a directory");
        let hidden = HiddenPath::new().expect("a hidden path");
        let private = hidden.directory().to_owned();
        let driver = Listener::bind(hidden.socket()).expect("a fresh path");
        assert!(private.join("memif").exists());
        let hidden = hidden.hide().expect("somebody listens there");
        assert!(!private.exists() && !hidden.path().exists(), "the name is gone");
        let listener = Listener::bind(&directory.join("s")).expect("a fresh path");
        let door = Some(Door::install(listener, Arc::new(hidden), terms).expect("a thread"));
        Self { door, driver, directory }
    }

    fn open(&self) {
        self.door.as_ref().expect("installed").set_open(true);
    }

    fn client(&self) -> OwnedFd {
        memif::socket::connect(&self.directory.join("s")).expect("the door listens")
    }

    /// The driver's side of the next client.
    fn accept(&self) -> OwnedFd {
        eventually(|| self.driver.accept().ok())
    }
}

impl Drop for Setting {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

fn eventually<T>(mut step: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(result) = step() {
            return result;
        }
        assert!(start.elapsed() < LIMIT, "not within {LIMIT:?}");
        thread::yield_now();
    }
}

fn message(kind: u16, descriptor: Option<OwnedFd>) -> Message {
    let mut bytes = [0xa5; 128];
    bytes[..2].copy_from_slice(&kind.to_ne_bytes());
    Message::new(&bytes, descriptor)
}

fn hear(socket: &OwnedFd) -> Message {
    eventually(|| receive(socket).expect("the other end is open"))
}

fn expect_closed(socket: &OwnedFd) {
    eventually(|| receive(socket).err());
}

#[test]
fn messages_and_descriptors_pass_both_ways() {
    let mut setting = Setting::new("pass");
    setting.open();
    let client = setting.client();
    let driver = setting.accept();
    let carried = unix::eventfd().expect("a descriptor");
    for (from, to) in [(&driver, &client), (&client, &driver)] {
        send(from, &message(HELLO, None)).expect("open");
        assert_eq!(hear(to).kind(), Some(HELLO));
        send(from, &message(CONNECTED, Some(carried.try_clone().expect("a copy")))).expect("open");
        let heard = hear(to);
        assert_eq!(heard.kind(), Some(CONNECTED));
        unix::raise(heard.descriptor().expect("it was carried over"));
        let [readable] = unix::poll([carried.as_raw_fd()], Some(Duration::ZERO));
        assert!(readable, "the descriptor is another");
        unix::lower(&carried);
    }
    setting.door = None;
    expect_closed(&client);
    expect_closed(&driver);
    assert!(!setting.directory.join("s").exists());
}

#[test]
fn the_door_says_which_interface_a_client_wants() {
    let setting = Setting::new("interface");
    setting.open();
    let client = setting.client();
    let driver = setting.accept();
    send(&client, &message(INIT, None)).expect("open");
    let mut expected = [0xa5; 128];
    expected[..2].copy_from_slice(&INIT.to_ne_bytes());
    expected[4..8].copy_from_slice(&TERMS.interface.to_ne_bytes());
    assert_eq!(hear(&driver).bytes(), expected);
    send(&client, &Message::new(&INIT.to_ne_bytes(), None)).expect("open");
    assert_eq!(hear(&driver).bytes(), INIT.to_ne_bytes(), "too short to name one");
}

#[test]
fn a_client_whose_frames_have_another_length_is_turned_away() {
    let setting = Setting::new("terms");
    setting.open();
    for (name, welcome) in [
        ("net_memif_f4608_7", true),
        ("memif0/0 of somebody else", true),
        ("net_memif_f1518_7", false),
        ("net_memif_f4608_q2_7", false),
    ] {
        let client = setting.client();
        let driver = setting.accept();
        send(&driver, &message(HELLO, None)).expect("open");
        hear(&client);
        send(&client, &connect(name)).expect("open");
        if welcome {
            assert_eq!(hear(&driver).kind(), Some(CONNECT), "{name}");
            drop(client);
        }
        expect_closed(&driver);
    }
    assert_eq!(setting.door.as_ref().expect("installed").refused(), 2);
}

/// The driver would take a queue that has no ring for one that has the first.
#[test]
fn a_client_with_fewer_queues_is_turned_away() {
    let setting = Setting::with("queues", Terms { told: Told { max_frame: 4608, queues: 2 }, ..TERMS });
    setting.open();
    for (name, rings, welcome) in [
        ("net_memif_f4608_q2_7", 4, true),
        ("memif0/0 of somebody else", 4, true),
        ("memif0/0 of somebody else", 3, false),
        ("net_memif_f4608_7", 4, false),
        ("net_memif_f4608_q3_7", 4, false),
    ] {
        let client = setting.client();
        let driver = setting.accept();
        send(&driver, &message(HELLO, None)).expect("open");
        hear(&client);
        for _ in 0..rings {
            send(&client, &add_ring(1)).expect("open");
            assert_eq!(hear(&driver).kind(), Some(ADD_RING));
        }
        send(&client, &connect(name)).expect("open");
        if welcome {
            assert_eq!(hear(&driver).kind(), Some(CONNECT), "{name} {rings}");
            drop(client);
        }
        expect_closed(&driver);
    }
    assert_eq!(setting.door.as_ref().expect("installed").refused(), 3);
}

/// So does the driver, by then, but nobody would know why.
#[test]
fn a_client_with_more_queues_is_turned_away() {
    let setting = Setting::new("rings");
    setting.open();
    let client = setting.client();
    let driver = setting.accept();
    send(&driver, &message(HELLO, None)).expect("open");
    hear(&client);
    send(&client, &add_ring(0)).expect("open");
    assert_eq!(hear(&driver).kind(), Some(ADD_RING));
    send(&client, &add_ring(1)).expect("open");
    expect_closed(&driver);
    assert_eq!(setting.door.as_ref().expect("installed").refused(), 1);
}

fn add_ring(index: u16) -> Message {
    let fields = [ADD_RING, 1, index, 0].map(u16::to_ne_bytes);
    Message::new(fields.as_flattened(), None)
}

fn connect(name: &str) -> Message {
    let mut bytes = [0; 128];
    bytes[..2].copy_from_slice(&CONNECT.to_ne_bytes());
    bytes[2..2 + name.len()].copy_from_slice(name.as_bytes());
    Message::new(&bytes, None)
}

#[test]
fn clients_wait_until_the_door_opens_and_enter_one_by_one() {
    let setting = Setting::new("wait");
    let (first, second) = (setting.client(), setting.client());
    thread::sleep(Duration::from_millis(20));
    assert!(setting.driver.accept().is_err(), "the door is closed");
    setting.open();
    let driver = setting.accept();
    send(&driver, &message(CONNECTED, None)).expect("open");
    hear(&first);
    thread::sleep(Duration::from_millis(20));
    assert!(setting.driver.accept().is_err(), "the second waits");
    drop(first);
    expect_closed(&driver);
    send(&setting.accept(), &message(HELLO, None)).expect("open");
    hear(&second);
}

#[test]
fn a_client_that_is_gone_before_the_greeting_is_gone_for_the_driver_after_it() {
    let setting = Setting::new("gone");
    setting.open();
    // The driver has not accepted when this client goes.
    let client = setting.client();
    let driver = setting.accept();
    send(&client, &message(HELLO, None)).expect("open");
    hear(&driver);
    drop(client);
    thread::sleep(Duration::from_millis(20));
    send(&driver, &message(HELLO, None)).expect("the door holds the driver's end open");
    expect_closed(&driver);
}

#[test]
fn the_door_waits_for_the_greeting_when_it_goes() {
    let mut setting = Setting::new("farewell");
    setting.open();
    let _client = setting.client();
    let driver = setting.accept();
    let door = setting.door.take();
    let leaving = thread::spawn(move || drop(door));
    thread::sleep(Duration::from_millis(20));
    send(&driver, &message(HELLO, None)).expect("the door holds the driver's end open");
    leaving.join().expect("it leaves");
    expect_closed(&driver);
}

#[test]
fn a_silent_client_does_not_block_the_door() {
    let setting = Setting::new("silent");
    setting.open();
    let silent = setting.client();
    let driver = setting.accept();
    send(&driver, &message(HELLO, None)).expect("open");
    let next = setting.client();
    // Two seconds later:
    expect_closed(&driver);
    let driver = setting.accept();
    send(&driver, &message(HELLO, None)).expect("open");
    assert_eq!(hear(&next).kind(), Some(HELLO));
    drop(silent);
}

#[test]
fn what_is_no_message_of_memifs_ends_the_connection() {
    let setting = Setting::new("oversize");
    setting.open();
    let client = setting.client();
    let driver = setting.accept();
    send(&driver, &message(HELLO, None)).expect("open");
    // SAFETY: a live socket and 1,000 readable bytes.
    unsafe { libc::send(client.as_raw_fd(), [0_u8; 1000].as_ptr().cast(), 1000, 0) };
    expect_closed(&driver);
}

#[test]
fn another_servers_socket_is_not_removed() {
    let mut setting = Setting::new("identity");
    let path = setting.directory.join("s");
    std::fs::remove_file(&path).expect("the door's");
    let _other = Listener::bind(&path).expect("a fresh path");
    setting.door = None;
    assert!(path.exists());
}

#[test]
fn a_descriptor_that_is_not_passed_on_is_closed() {
    let mut ends = [0; 2];
    // SAFETY: room for two descriptors, which are new and ours.
    let (reader, writer) = unsafe {
        assert_eq!(libc::pipe2(ends.as_mut_ptr(), libc::O_NONBLOCK | libc::O_CLOEXEC), 0);
        (OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1]))
    };
    let setting = Setting::new("closed");
    setting.open();
    let client = setting.client();
    let driver = setting.accept();
    send(&driver, &message(HELLO, None)).expect("open");
    send(&client, &message(HELLO, Some(writer))).expect("open");
    drop(hear(&driver));
    // End of file: no copy of the writing end is left.
    eventually(|| {
        let mut byte = 0_u8;
        // SAFETY: one writable byte.
        (unsafe { libc::read(reader.as_raw_fd(), (&raw mut byte).cast(), 1) } == 0).then_some(())
    });
}
