use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::fd::{BorrowedFd, FromRawFd};
use std::path::PathBuf;
use std::time::Instant;

use memif::message::{AddRing, Hello, Init, MODE_ETHERNET, Message, SECRET_LEN, Text, VERSION};
use memif::socket::{receive, send};
use memif::{Told, ring_len};

use super::*;

const LIMIT: Duration = Duration::from_secs(60);
const TERMS: Terms = Terms { interface: 0x0102_0304, told: Told { max_frame: 4608, queues: 1 } };
/// Binary logarithm of the slots of a ring.
const SLOTS_LOG2: u8 = 4;
/// Bytes of a region: room for eight rings.
const REGION_LEN: u64 = 8 * ring_len(SLOTS_LOG2) as u64;
/// A name that tells nothing.
const STRANGERS: &str = "memif0/0 of somebody else";

/// A directory, a proxy in it, and the driver's side of it played by the test.
struct Setting {
    proxy: Option<HandshakeProxy>,
    driver: Listener,
    directory: PathBuf,
}

impl Setting {
    fn new(name: &str) -> Self {
        Self::with(name, TERMS)
    }

    fn with(name: &str, terms: Terms) -> Self {
        let directory = std::env::temp_dir().join(format!("pmd-proxy-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&directory).expect("a directory");
        let hidden = PrivateSocketPath::new().expect("a hidden path");
        let private = hidden.directory().to_owned();
        let driver = Listener::bind(hidden.socket()).expect("a fresh path");
        assert!(private.join("memif").exists());
        let hidden = hidden.hide().expect("somebody listens there");
        assert!(!private.exists() && !hidden.path().exists(), "the name is gone");
        let listener = Listener::bind(&directory.join("s")).expect("a fresh path");
        let proxy = Some(HandshakeProxy::install(listener, Arc::new(hidden), terms).expect("a thread"));
        Self { proxy, driver, directory }
    }

    fn open(&self) {
        self.proxy().open();
    }

    fn proxy(&self) -> &HandshakeProxy {
        self.proxy.as_ref().expect("installed")
    }

    fn client(&self) -> OwnedFd {
        memif::socket::connect(&self.directory.join("s")).expect("the proxy listens")
    }

    /// The driver's side of the next client.
    fn accept(&self) -> OwnedFd {
        eventually(|| self.driver.accept().ok())
    }

    /// A client that was let in, and the driver's side of it.
    fn admitted(&self) -> (OwnedFd, OwnedFd) {
        let (client, driver) = (self.client(), self.accept());
        say(&driver, &hello());
        assert!(matches!(hear(&client), Message::Hello(_)));
        say(&client, &init());
        hear(&driver);
        say(&driver, &Message::Ack);
        assert_eq!(hear(&client), Message::Ack);
        (client, driver)
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

fn hello() -> Message {
    Message::Hello(Hello {
        name: Text::new("driver"),
        min_version: VERSION,
        max_version: VERSION,
        max_region: 63,
        max_to_client: 255,
        max_to_server: 255,
        max_ring_size_log2: 14,
    })
}

/// What a client hears of it: what the server's name tells.
fn greeting() -> Message {
    let Message::Hello(hello) = hello() else { unreachable!() };
    Message::Hello(Hello { name: Text::new("net_memif_f4608_srnic"), ..hello })
}

fn breach(what: &'static str) -> Message {
    Message::disconnect(&Refusal::Protocol(what).to_string())
}

fn init() -> Message {
    let secret: Text<SECRET_LEN> = Text::new("psst");
    Message::Init(Init { version: VERSION, id: 7, mode: MODE_ETHERNET, secret, name: Text::new("client") })
}

fn connected() -> Message {
    Message::Connected(Text::new("driver"))
}

fn connect(name: &str) -> Message {
    Message::Connect(Text::new(name))
}

fn ring(number: u16) -> AddRing {
    AddRing {
        to_server: number.is_multiple_of(2),
        index: number / 2,
        region: 0,
        offset: u32::from(number) * u32::try_from(ring_len(SLOTS_LOG2)).expect("short"),
        size_log2: SLOTS_LOG2,
        private_header: 0,
    }
}

fn memory(len: u64) -> File {
    // SAFETY: a name that is terminated; the descriptor is new and ours.
    let file = unsafe { File::from_raw_fd(libc::memfd_create(c"region".as_ptr(), libc::MFD_CLOEXEC)) };
    file.set_len(len).expect("room");
    file
}

fn say(socket: &OwnedFd, message: &Message) {
    send(socket, message, None).expect("the other end is open");
}

fn hand(socket: &OwnedFd, message: &Message, descriptor: BorrowedFd<'_>) {
    send(socket, message, Some(descriptor)).expect("the other end is open");
}

/// Tells of a region and so many rings, which are acknowledged.
fn offer(client: &OwnedFd, rings: u16) {
    let (memory, wake) = (memory(REGION_LEN), unix::eventfd().expect("a descriptor"));
    hand(client, &Message::AddRegion { index: 0, size: REGION_LEN }, memory.as_fd());
    assert_eq!(hear(client), Message::Ack);
    for number in 0..rings {
        hand(client, &Message::AddRing(ring(number)), wake.as_fd());
        assert_eq!(hear(client), Message::Ack);
    }
}

fn hear(socket: &OwnedFd) -> Message {
    take(socket).0
}

fn take(socket: &OwnedFd) -> (Message, Option<OwnedFd>) {
    eventually(|| receive(socket).expect("the other end is open"))
}

fn expect_closed(socket: &OwnedFd) {
    eventually(|| receive(socket).err());
}

fn expect_silence(socket: &OwnedFd) {
    thread::sleep(Duration::from_millis(20));
    assert!(receive(socket).expect("the other end is open").is_none());
}

/// Returns `true` if both descriptors are of one eventfd.
fn is_same(one: &OwnedFd, other: &OwnedFd) -> bool {
    unix::raise(one);
    let [readable] = unix::poll([Some(other.as_fd())], Some(Duration::ZERO));
    unix::lower(one);
    readable
}

#[test]
fn the_driver_is_told_of_a_clients_memory_when_all_of_it_is_there() {
    let mut setting = Setting::new("offer");
    setting.open();
    let (client, driver) = setting.admitted();
    let (memory, wakes) = (memory(REGION_LEN), [(); 2].map(|()| unix::eventfd().expect("a descriptor")));
    let region = Message::AddRegion { index: 0, size: REGION_LEN };
    hand(&client, &region, memory.as_fd());
    assert_eq!(hear(&client), Message::Ack);
    for (number, wake) in (0..).zip(&wakes) {
        hand(&client, &Message::AddRing(ring(number)), wake.as_fd());
        assert_eq!(hear(&client), Message::Ack);
    }
    expect_silence(&driver);
    say(&client, &connect(STRANGERS));
    let (heard, file) = take(&driver);
    assert_eq!(heard, region);
    let length = File::from(file.expect("it was carried over")).metadata().expect("a file").len();
    assert_eq!(length, REGION_LEN);
    for (number, wake) in (0..).zip(&wakes) {
        let (heard, theirs) = take(&driver);
        assert_eq!(heard, Message::AddRing(ring(number)));
        assert!(is_same(wake, &theirs.expect("it was carried over")));
    }
    assert_eq!(hear(&driver), connect(STRANGERS));
    for _ in 0..3 {
        say(&driver, &Message::Ack);
    }
    say(&driver, &connected());
    assert_eq!(hear(&client), connected(), "the acknowledgements were ours");
    setting.proxy = None;
    expect_closed(&client);
    expect_closed(&driver);
    assert!(!setting.directory.join("s").exists());
}

/// It does not close what it has not mapped.
#[test]
fn a_driver_that_was_told_of_memory_is_heard_whatever_becomes_of_the_client() {
    let setting = Setting::new("heard");
    setting.open();
    let (client, driver) = setting.admitted();
    offer(&client, 2);
    say(&client, &connect(STRANGERS));
    for _ in 0..4 {
        hear(&driver);
    }
    drop(client);
    for _ in 0..3 {
        expect_silence(&driver);
        say(&driver, &Message::Ack);
    }
    say(&driver, &connected());
    expect_closed(&driver);
}

#[test]
fn a_client_that_says_all_at_once_is_understood() {
    let setting = Setting::new("once");
    setting.open();
    let client = setting.client();
    say(&client, &init());
    let driver = setting.accept();
    assert!(matches!(hear(&driver), Message::Init(_)));
    offer(&client, 2);
    say(&client, &connect(STRANGERS));
    expect_silence(&driver);
    say(&driver, &hello());
    assert_eq!(hear(&client), greeting());
    expect_silence(&driver);
    say(&driver, &Message::Ack);
    assert!(matches!(hear(&driver), Message::AddRegion { .. }));
}

/// As many as fit are all told at once.
#[test]
fn sixty_four_regions_and_sixteen_rings_are_told_at_once() {
    let terms = Terms { told: Told { max_frame: 4608, queues: 8 }, ..TERMS };
    let setting = Setting::with("many", terms);
    setting.open();
    let client = setting.client();
    let driver = setting.accept();
    let Message::Hello(offered) = hello() else { panic!("it is one") };
    say(&driver, &Message::Hello(Hello { max_region: 255, ..offered }));
    let Message::Hello(heard) = hear(&client) else { panic!("a greeting") };
    assert_eq!(heard.max_region, 63, "fewer regions than the driver would take");
    say(&client, &init());
    hear(&driver);
    say(&driver, &Message::Ack);
    hear(&client);
    let (memory, wake) = (memory(1 << 16), unix::eventfd().expect("a descriptor"));
    for index in 0..64 {
        hand(&client, &Message::AddRegion { index, size: 1 << 16 }, memory.as_fd());
        assert_eq!(hear(&client), Message::Ack);
    }
    for number in 0..16 {
        hand(&client, &Message::AddRing(ring(number)), wake.as_fd());
        assert_eq!(hear(&client), Message::Ack);
    }
    say(&client, &connect(STRANGERS));
    // The driver is busy elsewhere meanwhile.
    thread::sleep(Duration::from_millis(20));
    let heard: Vec<_> = (0..81).map(|_| hear(&driver)).collect();
    assert_eq!(heard.last(), Some(&connect(STRANGERS)));
    say(&driver, &connected());
    assert_eq!(hear(&client), connected());
    hand(&client, &Message::AddRegion { index: 64, size: 1 << 16 }, memory.as_fd());
    assert_eq!(hear(&client), breach("a region out of turn, or too many"));
}

#[test]
fn the_proxy_says_which_interface_a_client_wants() {
    let setting = Setting::new("interface");
    setting.open();
    let client = setting.client();
    let driver = setting.accept();
    say(&client, &init());
    let Message::Init(asked) = init() else { panic!("it is one") };
    assert_eq!(hear(&driver), Message::Init(Init { id: TERMS.interface, ..asked }));
}

#[test]
fn a_client_whose_frames_have_another_length_is_turned_away() {
    let setting = Setting::new("terms");
    setting.open();
    for (name, welcome) in [
        ("net_memif_f4608_7", true),
        (STRANGERS, true),
        ("net_memif_f1518_7", false),
        ("net_memif_f4608_q2_7", false),
    ] {
        expect_welcome(&setting, 2, name, welcome);
    }
    assert_eq!(setting.proxy().refused(), 2);
}

/// The driver would take a queue that has no ring for one that has the first.
#[test]
fn a_client_with_fewer_queues_is_turned_away() {
    let setting = Setting::with("queues", Terms { told: Told { max_frame: 4608, queues: 2 }, ..TERMS });
    setting.open();
    for (name, rings, welcome) in [
        ("net_memif_f4608_q2_7", 4, true),
        (STRANGERS, 4, true),
        (STRANGERS, 3, false),
        (STRANGERS, 0, false),
        ("net_memif_f4608_7", 4, false),
        ("net_memif_f4608_q3_7", 4, false),
    ] {
        expect_welcome(&setting, rings, name, welcome);
    }
    assert_eq!(setting.proxy().refused(), 4);
}

fn expect_welcome(setting: &Setting, rings: u16, name: &str, welcome: bool) {
    let (client, driver) = setting.admitted();
    offer(&client, rings);
    say(&client, &connect(name));
    if welcome {
        assert!(matches!(hear(&driver), Message::AddRegion { .. }), "{name}");
        say(&driver, &connected());
        drop(client);
        eventually(|| receive(&driver).is_err().then_some(()));
    } else {
        expect_closed(&client);
        expect_closed(&driver);
    }
}

/// A message, and a descriptor that comes with it.
type Said = (Message, Option<OwnedFd>);

/// The driver believes what it is told.
#[test]
fn a_client_that_breaks_the_rules_is_turned_away() {
    let setting = Setting::new("rules");
    setting.open();
    let region =
        |index, size, file: File| -> Said { (Message::AddRegion { index, size }, Some(file.into())) };
    let wake = || unix::eventfd().expect("a descriptor");
    let bad_ring = |ring| -> Said { (Message::AddRing(ring), Some(wake())) };
    let read_only = || {
        let memory = memory(REGION_LEN);
        File::open(format!("/proc/self/fd/{}", memory.as_raw_fd())).expect("a file")
    };
    let breaches: Vec<(&str, Said)> = vec![
        ("a region without memory", (Message::AddRegion { index: 1, size: 64 }, None)),
        ("one out of turn", region(2, REGION_LEN, memory(REGION_LEN))),
        ("one that is shorter than it says", region(1, REGION_LEN, memory(REGION_LEN - 1))),
        ("one of nothing", region(1, 0, memory(REGION_LEN))),
        ("one that is no memory", (Message::AddRegion { index: 1, size: 8 }, Some(wake()))),
        ("one that cannot be written to", region(1, REGION_LEN, read_only())),
        ("a ring without an eventfd", (Message::AddRing(ring(0)), None)),
        ("one of a queue that is not there", bad_ring(ring(2))),
        ("one in a region that is not there", bad_ring(AddRing { region: 1, ..ring(0) })),
        ("one that ends outside", bad_ring(AddRing { offset: ring(7).offset + 1, ..ring(0) })),
        ("the end without rings", (connect(STRANGERS), None)),
        ("what a server says", (connected(), None)),
        ("an interface when it has one", (init(), None)),
    ];
    let count = breaches.len() as u64;
    for (what, (message, descriptor)) in breaches {
        let (client, driver) = setting.admitted();
        offer(&client, 0);
        send(&client, &message, descriptor.as_ref().map(AsFd::as_fd)).expect("open");
        eventually(|| receive(&client).is_err().then_some(()));
        assert!(eventually(|| receive(&driver).transpose()).is_err(), "the driver heard of {what}");
    }
    let (client, driver) = setting.admitted();
    offer(&client, 2);
    hand(&client, &Message::AddRing(ring(1)), wake().as_fd());
    let reason = breach("a ring out of turn, or outside its region");
    assert_eq!(hear(&client), reason, "a ring again");
    expect_closed(&driver);
    let (client, driver) = setting.admitted();
    let long = AddRing { size_log2: 15, ..ring(0) };
    let memory = memory(1 << 20);
    hand(&client, &Message::AddRegion { index: 0, size: 1 << 20 }, memory.as_fd());
    assert_eq!(hear(&client), Message::Ack);
    hand(&client, &Message::AddRing(long), wake().as_fd());
    assert_eq!(hear(&client), reason, "longer than any ring");
    expect_closed(&driver);
    let (client, driver) = setting.admitted();
    offer(&client, 2);
    say(&client, &connect(STRANGERS));
    say(&client, &connect(STRANGERS));
    expect_closed(&client);
    drop(driver);
    eventually(|| (setting.proxy().refused() == count + 3).then_some(()));
}

#[test]
fn a_third_process_hears_that_the_pair_is_one_and_the_proxy_says_what_became_of_clients() {
    let setting = Setting::new("third");
    setting.open();
    let at = setting.directory.join("s");
    let said = || setting.proxy().no_link().to_string();
    assert!(said().starts_with(&format!("no client has come to {}: ", at.display())), "{}", said());
    let (client, driver) = setting.admitted();
    say(&client, &connect("net_memif_f1518_7"));
    let why = "the server has mtu=4590, the client mtu=1500: both ends need the same";
    assert_eq!(hear(&client), Message::disconnect(why));
    expect_closed(&driver);
    assert_eq!(said(), format!("the last attempt at {} was turned away: {why}", at.display()));
    let (client, driver) = setting.admitted();
    offer(&client, 2);
    say(&client, &connect(STRANGERS));
    say(&driver, &connected());
    assert_eq!(hear(&client), connected());
    assert!(said().starts_with("no client has come"), "what is over is not told any more");
    let third = setting.client();
    assert_eq!(hear(&third), Message::disconnect(&Refusal::Taken.to_string()));
    assert_eq!(setting.proxy().refused(), 1);
    drop(client);
    expect_closed(&driver);
    let left =
        format!("the peer at {} left (the peer closed the connection), and no other has come", at.display());
    eventually(|| (said() == left).then_some(()));
}

#[test]
fn clients_wait_until_the_proxy_opens_and_enter_one_by_one() {
    let setting = Setting::new("wait");
    let (first, second) = (setting.client(), setting.client());
    thread::sleep(Duration::from_millis(20));
    assert!(setting.driver.accept().is_err(), "the proxy is closed");
    setting.open();
    let driver = setting.accept();
    say(&driver, &hello());
    hear(&first);
    thread::sleep(Duration::from_millis(20));
    assert!(setting.driver.accept().is_err(), "the second waits");
    drop(first);
    expect_closed(&driver);
    say(&setting.accept(), &hello());
    hear(&second);
}

#[test]
fn a_client_that_is_gone_before_the_greeting_is_gone_for_the_driver_after_it() {
    let setting = Setting::new("gone");
    setting.open();
    // The driver has not accepted when this client goes.
    let client = setting.client();
    let driver = setting.accept();
    say(&client, &init());
    hear(&driver);
    drop(client);
    thread::sleep(Duration::from_millis(20));
    say(&driver, &hello());
    expect_closed(&driver);
}

#[test]
fn the_proxy_waits_for_the_greeting_when_it_goes() {
    let mut setting = Setting::new("farewell");
    setting.open();
    let _client = setting.client();
    let driver = setting.accept();
    let proxy = setting.proxy.take();
    let leaving = thread::spawn(move || drop(proxy));
    thread::sleep(Duration::from_millis(20));
    say(&driver, &hello());
    leaving.join().expect("it leaves");
    expect_closed(&driver);
}

#[test]
fn a_silent_client_does_not_block_the_proxy() {
    let setting = Setting::new("silent");
    setting.open();
    let silent = setting.client();
    let driver = setting.accept();
    say(&driver, &hello());
    let next = setting.client();
    // Two seconds later:
    expect_closed(&driver);
    let driver = setting.accept();
    say(&driver, &hello());
    assert_eq!(hear(&next), greeting());
    drop(silent);
}

#[test]
fn what_is_no_message_of_memifs_ends_the_connection() {
    let setting = Setting::new("oversize");
    setting.open();
    let client = setting.client();
    let driver = setting.accept();
    say(&driver, &hello());
    // SAFETY: a live socket and 1,000 readable bytes.
    unsafe { libc::send(client.as_raw_fd(), [0_u8; 1000].as_ptr().cast(), 1000, 0) };
    expect_closed(&driver);
}

#[test]
fn another_servers_socket_is_not_removed() {
    let mut setting = Setting::new("identity");
    let path = setting.directory.join("s");
    std::fs::remove_file(&path).expect("the proxy's");
    let _other = Listener::bind(&path).expect("a fresh path");
    setting.proxy = None;
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
    let (client, driver) = (setting.client(), setting.accept());
    hand(&client, &init(), writer.as_fd());
    drop(writer);
    assert!(take(&driver).1.is_none());
    // End of file: no copy of the writing end is left.
    eventually(|| {
        let mut byte = 0_u8;
        // SAFETY: one writable byte.
        (unsafe { libc::read(reader.as_raw_fd(), (&raw mut byte).cast(), 1) } == 0).then_some(())
    });
}

/// Its port stops next, which would leave open what the driver has been told of and has not mapped.
#[test]
fn a_proxy_is_closed_when_the_driver_has_answered() {
    let setting = Setting::new("close");
    setting.open();
    let (client, driver) = setting.admitted();
    offer(&client, 2);
    say(&client, &connect(STRANGERS));
    while hear(&driver) != connect(STRANGERS) {}
    thread::scope(|scope| {
        let closing = scope.spawn(|| setting.proxy().close());
        expect_closed(&client);
        expect_silence(&driver);
        assert!(!closing.is_finished());
        say(&driver, &connected());
    });
    expect_closed(&driver);
    setting.open();
    setting.admitted();
}
