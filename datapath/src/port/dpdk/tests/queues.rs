//! Several queues of one memif, each of them a port.

use super::*;
use std::sync::atomic::{AtomicBool, Ordering};

/// One end with so many queues; the first looks after the link.
fn open_queues(dir: &Path, role: MemifRole, queues: u8) -> (DpdkPort, Vec<DpdkPort<EthQueue>>) {
    let eal = Eal::start(&EalConfig::default()).expect("EAL");
    let config = MemifConfig { queues, ..MemifConfig::new(dir.join("s"), role) };
    DpdkPort::with_queues(config.open(eal).expect("a port"))
}

fn lending_queues(dir: &Path, role: memif::Role, queues: u8) -> Vec<MemifPort> {
    let (config, mac) = (lending_config(dir, role), [2, 0, 0, 0, 0, 9]);
    MemifPort::open_queues(&config, mac, queues).expect("ports")
}

/// Frames of a length of its own pass both ways.
fn passes(one: &mut impl Port, two: &mut impl Port, len: usize) {
    connect(one, two);
    within("slot", || queue(one, len) || two.rx_burst() > 0);
    assert_eq!(deliver(one, two).iter().map(Vec::len).collect::<Vec<_>>(), [len]);
    within("slot", || queue(two, len + 1) || one.rx_burst() > 0);
    assert_eq!(deliver(two, one).iter().map(Vec::len).collect::<Vec<_>>(), [len + 1]);
}

#[test]
fn a_queue_may_move_to_another_thread() {
    fn is_send<T: Send>() {}
    is_send::<DpdkPort<EthQueue>>();
}

/// Queue `i` of one end reaches queue `i` of the other, also when the peer was another one
/// meanwhile.
#[test]
fn queues_of_one_end_are_ports_of_their_own() {
    let dir = Scratch::new();
    let (mut server, mut others) = open_queues(dir.path(), MemifRole::Server, 3);
    assert_eq!(others.len(), 2);
    // Their bursts are sorted by engine, one to a turn.
    assert!(!server.short_bursts && others.iter().all(|queue| !queue.short_bursts));
    for _ in 0..2 {
        let (mut client, mut its_others) = open_queues(dir.path(), MemifRole::Client, 3);
        passes(&mut server, &mut client, 100);
        for (len, (one, two)) in [200, 300].into_iter().zip(others.iter_mut().zip(&mut its_others)) {
            passes(one, two, len);
        }
        // With the port its queues have no link, and what is sent is dropped and counted.
        drop(client);
        let orphan = &mut its_others[0];
        assert!(!orphan.link_up() && orphan.rx_burst() == 0);
        assert!(queue(orphan, 99));
        orphan.tx_flush();
        assert_eq!(orphan.stats().tx_dropped, 1);
        within("link down", || {
            server.rx_burst();
            server.rx_release();
            !server.link_up() && others.iter().all(|queue| !queue.link_up())
        });
    }
}

#[test]
fn either_end_may_lend_the_buffers_of_its_queues() {
    let dir = Scratch::new();
    let mut lending = lending_queues(dir.path(), memif::Role::Server, 2);
    let (mut port, mut others) = open_queues(dir.path(), MemifRole::Client, 2);
    passes(&mut lending[0], &mut port, 100);
    passes(&mut lending[1], &mut others[0], 200);
    let dir = Scratch::new();
    let (mut port, mut others) = open_queues(dir.path(), MemifRole::Server, 2);
    let mut lending = lending_queues(dir.path(), memif::Role::Client, 2);
    passes(&mut port, &mut lending[0], 100);
    passes(&mut others[0], &mut lending[1], 200);
}

/// The driver would take the first ring for that of a queue that has none.
#[test]
fn another_number_of_queues_finds_no_link() {
    for (ours, theirs) in [(1, 2), (2, 1)] {
        let dir = Scratch::new();
        let (mut server, _others) = open_queues(dir.path(), MemifRole::Server, ours);
        let (client, _its_others) = open_queues(dir.path(), MemifRole::Client, theirs);
        refuses(&mut server, client, |server, _| server.eth().refused_clients() > 0);
        let client = lending_queues(dir.path(), memif::Role::Client, theirs).remove(0);
        refuses(&mut server, client, |_, client| matches!(client.link_down(), Some(LinkDown::TurnedAway(_))));
        drop(server);
        let mut server = lending_queues(dir.path(), memif::Role::Server, ours).remove(0);
        let (client, _its_others) = open_queues(dir.path(), MemifRole::Client, theirs);
        refuses(&mut server, client, |server, _| matches!(server.link_down(), Some(LinkDown::TurnedAway(_))));
    }
}

fn refuses<S: Port, C: Port>(server: &mut S, mut client: C, refused: impl Fn(&S, &C) -> bool) {
    within("refusal", || {
        server.rx_burst();
        client.rx_burst();
        assert!(!server.link_up() && !client.link_up());
        refused(server, &client)
    });
}

/// A queue is polled all the while the port is stopped, started and looked after in another thread,
/// and its peer comes and goes.
#[test]
fn a_queue_is_polled_while_its_port_comes_and_goes() {
    let dir = Scratch::new();
    let (mut server, mut others) = open_queues(dir.path(), MemifRole::Server, 2);
    let end = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let end = &end;
        let poll = |mut queue_of: DpdkPort<EthQueue>| {
            scope.spawn(move || {
                let mut frames = 0;
                while !end.load(Ordering::Relaxed) {
                    frames += queue_of.rx_burst();
                    queue_of.rx_release();
                    queue(&mut queue_of, 500);
                    queue_of.tx_flush();
                    std::thread::yield_now();
                }
                frames
            })
        };
        let polling = poll(others.remove(0));
        for round in 0..10 {
            let (mut client, mut its_others) = open_queues(dir.path(), MemifRole::Client, 2);
            connect(&mut server, &mut client);
            let mut its_queue = its_others.remove(0);
            within("frames of the other thread", || {
                server.rx_burst();
                server.rx_release();
                client.rx_burst();
                client.rx_release();
                queue(&mut its_queue, 400);
                its_queue.tx_flush();
                receive(&mut its_queue).iter().any(|frame| frame.len() == 500)
            });
            if round % 2 == 0 {
                client.driver.eth.stop().expect("stops");
                connect(&mut server, &mut client);
            }
        }
        end.store(true, Ordering::Relaxed);
        assert!(polling.join().expect("no panic") > 0);
    });
}
