use super::*;
use crate::port::Interrupt;
use crate::port::test_pair::{self, Scratch, assert_intact, connect, deliver, queue, receive, within};
use ::memif::message::{Init, MODE_ETHERNET, Message, Text, VERSION};
use ::memif::socket;
use std::path::Path;
use std::time::Duration;

const MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
const RING_SIZE_LOG2: u8 = 4;
const RING: usize = 1 << RING_SIZE_LOG2;

type Pair = test_pair::Pair<MemifPort, MemifPort>;

impl Pair {
    fn lending() -> Self {
        Self::connected(|dir| open(dir, Role::Server), |dir| open(dir, Role::Client))
    }
}

fn config(dir: &Path, role: Role) -> Config {
    Config {
        path: dir.join("s"),
        role,
        max_frame: 4608,
        ring_size_log2: RING_SIZE_LOG2,
        secret: Some("psst".into()),
    }
}

fn open(dir: &Path, role: Role) -> MemifPort {
    MemifPort::open(&config(dir, role), MAC).expect("a port")
}

#[test]
fn a_port_may_move_to_another_thread() {
    fn is_send<T: Send>() {}
    is_send::<MemifPort>();
}

#[test]
fn frames_pass_as_over_any_port() {
    Pair::lending().passes_every_length();
    Pair::lending().lends_whole_slots();
    Pair::lending().forgets_what_is_cancelled();
}

fn what_is_flushed_waits_until_the_peer_gives_it_back(from: &mut MemifPort, to: &mut MemifPort) {
    assert_eq!(from.tx_waiting(), Some(0));
    for count in 1..=3 {
        assert!(queue(from, 100));
        assert_eq!(from.tx_waiting(), Some(count), "before the flush");
    }
    from.tx_flush();
    assert_eq!(from.tx_waiting(), Some(3), "nobody has taken it");
    assert_eq!(from.tx_ahead(), Some(3), "what is sent now waits for that");
    assert_eq!(to.rx_burst(), 3);
    assert_eq!(from.tx_waiting(), Some(3), "it is being read");
    to.rx_release();
    assert_eq!(from.tx_waiting(), Some(0));
}

#[test]
fn what_is_flushed_waits_for_the_peer_either_way() {
    let Pair { server, client, .. } = &mut Pair::lending();
    for _ in 0..2 * RING {
        what_is_flushed_waits_until_the_peer_gives_it_back(server, client);
        what_is_flushed_waits_until_the_peer_gives_it_back(client, server);
    }
}

#[test]
fn nothing_waits_without_a_link() {
    let mut pair = Pair::lending();
    assert!(queue(&mut pair.server, 100));
    pair.server.tx_flush();
    let Pair { mut server, client, .. } = pair;
    drop(client);
    within("end of the link", || {
        receive(&mut server);
        !server.link_up()
    });
    assert_eq!(server.tx_waiting(), Some(0));
}

fn rests_until_frames_come(from: &mut MemifPort, to: &mut MemifPort, us: &mut u64) {
    let mut look_in_vain = |to: &mut MemifPort, after_us: u64| {
        *us += after_us;
        to.set_now(Time(*us * 1000));
        assert_eq!(to.rx_burst(), 0);
        to.rest()
    };
    let first = look_in_vain(to, 1);
    assert!(first.interrupt.is_some() && first.unwatched_ns.is_none(), "{first:?}");
    for after_us in [40, 49] {
        let rest = look_in_vain(to, after_us);
        assert_eq!(rest.unwatched_ns, None, "what was sent meanwhile may not be visible yet");
    }
    let rest = look_in_vain(to, 1);
    assert_eq!(rest.unwatched_ns, Some(LINK_CHECK_NS));
    assert!(queue(from, 100));
    from.tx_flush();
    // Longer than the test may take, unless the interrupt ends it.
    let interrupt = rest.interrupt.expect("both ends have them");
    Interrupt::wait_any(&[&interrupt], Duration::from_secs(3600));
    assert_eq!(receive(to).len(), 1);
}

/// Without interrupts a thread looks each millisecond; with them it may sleep for long, but not
/// before it has looked again.
#[test]
fn who_rests_is_woken_by_frames_once_it_has_looked_again() {
    let Pair { server, client, .. } = &mut Pair::lending();
    let mut us = 1_000_000;
    for _ in 0..2 {
        rests_until_frames_come(server, client, &mut us);
        rests_until_frames_come(client, server, &mut us);
    }
}

#[test]
fn a_port_without_a_peer_is_looked_at_as_often_as_it_looks_for_one() {
    let dir = Scratch::new();
    let mut server = open(dir.path(), Role::Server);
    receive(&mut server);
    let rest = server.rest();
    assert!(rest.interrupt.is_none());
    assert_eq!(rest.unwatched_ns, Some(SEEK_NS));
}

/// The counts of a ring are of 16 bits.
#[test]
fn counts_go_round() {
    let mut pair = Pair::lending();
    let (mut sent, mut received) = (0, 0);
    while received < 70_000 {
        while sent < 70_000 && queue(&mut pair.server, 14 + sent % 100) {
            sent += 1;
        }
        pair.server.tx_flush();
        for frame in receive(&mut pair.client) {
            assert_eq!(frame.len(), 14 + received % 100, "order");
            assert_intact(&frame);
            received += 1;
        }
    }
    assert_eq!(pair.client.stats().rx_frames, 70_000);
}

#[test]
fn a_full_ring_lends_nothing_until_something_is_taken() {
    let mut pair = Pair::lending();
    for forth in [true, false] {
        let (from, to) = match forth {
            true => (&mut pair.client, &mut pair.server),
            false => (&mut pair.server, &mut pair.client),
        };
        for index in 0..RING {
            assert!(queue(from, 64 + index));
        }
        from.tx_flush();
        assert!(!queue(from, 64));
        assert_eq!(to.rx_burst(), RING);
        assert!(!queue(from, 64), "what is lent to the engine is not free");
        assert_eq!(to.rx_frame(RING - 1).len(), 64 + RING - 1);
        to.rx_release();
        assert!(queue(from, 77));
        let frames = deliver(from, to);
        assert_eq!(frames.iter().map(Vec::len).collect::<Vec<_>>(), [77]);
    }
}

#[test]
fn a_port_without_link_drops_and_counts() {
    let dir = Scratch::new();
    let mut server = open(dir.path(), Role::Server);
    assert!(!server.link_up());
    for _ in 0..100 {
        assert!(queue(&mut server, 500), "a wire without carrier takes all");
    }
    server.tx_flush();
    assert_eq!(server.stats(), PortStats { tx_dropped: 100, ..PortStats::default() });
    assert_eq!(server.rx_burst(), 0);
}

/// Whichever goes away and comes back, and nothing of the past arrives.
#[test]
fn ends_find_each_other_again() {
    let dir = Scratch::new();
    let mut ends = [None, None];
    for round in 0..6 {
        let [server, client] = &mut ends;
        let server = server.get_or_insert_with(|| open(dir.path(), Role::Server));
        let client = client.get_or_insert_with(|| open(dir.path(), Role::Client));
        connect(server, client);
        assert!(queue(server, 77) && queue(client, 78));
        assert_eq!(deliver(server, client)[0].len(), 77);
        assert_eq!(deliver(client, server)[0].len(), 78);
        // Not taken before its receiver goes.
        assert!(queue(server, 99) && queue(client, 99));
        let goes = round % 2;
        ends[goes] = None;
        let stays = ends[1 - goes].as_mut().expect("it stays");
        within("link down", || {
            stays.rx_burst();
            stays.rx_release();
            !stays.link_up()
        });
    }
    assert!(!dir.path().join("s").exists() || ends[0].is_some(), "a server takes its socket with it");
}

/// On a wire, too, what was sent arrives, whoever leaves then: more than a burst of it.
#[test]
fn what_a_peer_sent_before_it_left_arrives() {
    const SENT: usize = RX_BURST + 10;
    for leaves in [Role::Server, Role::Client] {
        let long =
            |dir: &Path, role| MemifPort::open(&Config { ring_size_log2: 8, ..config(dir, role) }, MAC);
        let stays = if leaves == Role::Server { Role::Client } else { Role::Server };
        let dir = Scratch::new();
        let [mut from, mut to] = [leaves, stays].map(|role| long(dir.path(), role).expect("a port"));
        connect(&mut from, &mut to);
        for _ in 0..SENT {
            assert!(queue(&mut from, 100));
        }
        from.tx_flush();
        drop(from);
        let (mut now, mut received) = (Time(1), 0);
        while to.link_up() {
            now = now.after(2 * LINK_CHECK_NS);
            to.set_now(now);
            received += receive(&mut to).len();
            assert!(now < Time(1_000_000_000_000), "the link ends when nothing waits");
        }
        assert_eq!(received, SENT, "{leaves:?} left");
    }
}

/// An engine that sleeps for a millisecond between its bursts does not look a few thousand times.
#[test]
fn who_sleeps_between_bursts_misses_its_peer_soon() {
    let mut pair = Pair::lending();
    pair.client.set_now(Time(1));
    pair.client.rx_burst();
    pair.client.rx_release();
    drop(pair.server);
    let mut bursts = 0;
    while pair.client.link_up() {
        bursts += 1;
        assert!(bursts <= 100, "a tenth of a second");
        pair.client.set_now(Time(1_000_000 * bursts));
        pair.client.rx_burst();
        pair.client.rx_release();
    }
}

#[test]
fn who_is_alone_looks_for_its_peer_now_and_then_and_answers_one_that_is_there_at_once() {
    let dir = Scratch::new();
    let mut server = open(dir.path(), Role::Server);
    let mut tended_at = |now| {
        server.set_now(Time(now));
        server.rx_burst();
    };
    tended_at(SEEK_NS);
    let peer = socket::connect(&dir.path().join("s")).expect("it listens");
    let heard = || socket::receive(&peer).expect("a server").map(|(message, _)| message);
    for step in 1..100 {
        tended_at(SEEK_NS + step);
        assert_eq!(heard(), None, "each look is a system call");
    }
    tended_at(2 * SEEK_NS);
    assert!(matches!(heard(), Some(Message::Hello(_))));
    let (secret, name) = (Text::new("psst"), Text::new("peer"));
    let init = Message::Init(Init { version: VERSION, id: 0, mode: MODE_ETHERNET, secret, name });
    socket::send(&peer, &init, None).expect("a server");
    tended_at(2 * SEEK_NS + 1);
    assert_eq!(heard(), Some(Message::Ack));
}

/// Queue `i` of one end reaches queue `i` of the other, also when the peer was another one
/// meanwhile.
#[test]
fn queues_of_one_end_are_ports_of_their_own() {
    let dir = Scratch::new();
    let open = |role| {
        MemifPort::open_queues(&config(dir.path(), role), [2, 0, 0, 0, 0, 1], 3).expect("ports of one end")
    };
    let mut server = open(Role::Server);
    for _ in 0..2 {
        let mut client = open(Role::Client);
        for (server, client) in server.iter_mut().zip(&mut client) {
            connect(server, client);
        }
        for (number, (server, client)) in server.iter_mut().zip(&mut client).enumerate() {
            assert!(queue(server, 70 + number) && queue(client, 80 + number));
            assert_eq!(deliver(server, client)[0].len(), 70 + number);
            assert_eq!(deliver(client, server)[0].len(), 80 + number);
        }
        drop(client);
        for server in &mut server {
            within("link down", || {
                server.rx_burst();
                server.rx_release();
                !server.link_up()
            });
        }
    }
}

#[test]
fn a_secret_keeps_strangers_out() {
    let dir = Scratch::new();
    let mut server = open(dir.path(), Role::Server);
    let stranger = Config { secret: Some("pst".into()), ..config(dir.path(), Role::Client) };
    let mut stranger = MemifPort::open(&stranger, [2, 0, 0, 0, 0, 2]).expect("a port");
    within("refusal", || {
        stranger.rx_burst();
        server.rx_burst();
        matches!(stranger.link_down(), Some(LinkDown::TurnedAway(_)))
    });
    let heard = stranger.link_down().expect("refused").to_string();
    assert!(heard.ends_with(" was turned away: the client does not know the secret"), "{heard}");
    assert!(!server.link_up() && !stranger.link_up());
    drop(stranger);
    connect(&mut server, &mut open(dir.path(), Role::Client));
}

#[test]
fn both_ends_need_the_same_longest_frame() {
    let dir = Scratch::new();
    let mut server = open(dir.path(), Role::Server);
    let other = Config { max_frame: 1500, ..config(dir.path(), Role::Client) };
    let mut client = MemifPort::open(&other, [2, 0, 0, 0, 0, 2]).expect("a port");
    within("refusal", || {
        client.rx_burst();
        server.rx_burst();
        matches!(server.link_down(), Some(LinkDown::TurnedAway(_)))
    });
    let words = "the server has mtu=4590, the client mtu=1482: both ends need the same";
    for said in [server.link_down(), client.link_down()] {
        let said = said.expect("refused").to_string();
        assert!(said.ends_with(words), "{said}");
    }
}

#[test]
fn a_socket_that_is_taken_is_an_error() {
    let dir = Scratch::new();
    let _server = open(dir.path(), Role::Server);
    let error = MemifPort::open(&config(dir.path(), Role::Server), [0; 6]).expect_err("taken").to_string();
    assert!(error.ends_with("another server is listening on it; use another path"), "{error}");
}

#[test]
#[should_panic(expected = "no slot is lent")]
fn a_commit_without_a_slot_panics() {
    let mut pair = Pair::lending();
    pair.client.tx_commit(10);
}

#[test]
#[should_panic(expected = "a frame of 4609 bytes on a port for 4608")]
fn a_commit_beyond_the_slot_panics() {
    let mut pair = Pair::lending();
    pair.client.tx_slot().expect("a slot");
    pair.client.tx_commit(4609);
}
