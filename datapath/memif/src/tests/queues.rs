//! Several queues over one connection, each with a user of its own.

use super::{config, fresh_path};
use crate::endpoint::{Endpoint, QUEUES_MAX, Role};
use crate::error::Error;
use std::path::Path;
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(60);

fn open(path: &Path, role: Role, queues: u8) -> Vec<Endpoint> {
    Endpoint::open_queues(&config(path.into(), role), queues).expect("an end")
}

fn until(what: &str, mut step: impl FnMut() -> bool) {
    let start = Instant::now();
    while !step() {
        assert!(start.elapsed() < LIMIT, "no {what} within {LIMIT:?}");
    }
}

fn tend(ends: &mut [Endpoint]) {
    for end in ends {
        end.tend(Instant::now());
    }
}

fn all_linked(ends: &[Endpoint]) -> bool {
    ends.iter().all(|end| end.linked().is_some())
}

fn send(end: &mut Endpoint, byte: u8) {
    let link = end.link().expect("a link");
    link.tx.lend().expect("a free buffer")[..60].fill(byte);
    link.tx.commit(60);
    assert_eq!(link.tx.flush(), 1);
}

/// What arrived, by its first byte.
fn receive(end: &mut Endpoint) -> Vec<u8> {
    let rx = &mut end.link().expect("a link").rx;
    let (count, dropped) = rx.burst();
    assert_eq!(dropped, 0);
    let bytes = (0..count).map(|index| rx.packet(index)[59]).collect();
    rx.release();
    bytes
}

/// Whichever end goes, the other reads what that has sent, finds the next one, and each queue has
/// only what was sent to it on this connection.
#[test]
fn each_queue_has_its_own_packets_on_each_connection() {
    let path = fresh_path();
    let mut ends = [open(&path, Role::Server, 3), open(&path, Role::Client, 3)];
    for round in 0..4 {
        until("links", || {
            ends.iter_mut().for_each(|end| tend(end));
            ends.iter().all(|end| all_linked(end))
        });
        for (from, to) in [(0, 1), (1, 0)] {
            for queue in 0..3 {
                for packet in 0..=queue {
                    send(&mut ends[from][usize::from(queue)], 16 * queue + packet);
                }
            }
            for queue in 0..3 {
                let expected: Vec<u8> = (0..=queue).map(|packet| 16 * queue + packet).collect();
                assert_eq!(receive(&mut ends[to][usize::from(queue)]), expected);
            }
        }
        // Not taken before its receiver goes.
        for end in ends.iter_mut().flatten() {
            send(end, 99);
        }
        let goes = round % 2;
        ends[goes].clear();
        let stays = &mut ends[1 - goes];
        tend(stays);
        for end in stays.iter_mut() {
            assert_eq!(receive(end), [99], "sent before it left");
        }
        // The first queue that looks finds out, and the last one as well.
        until("end of the connection", || {
            tend(&mut stays[..1]);
            stays[0].linked().is_none()
        });
        assert!(stays[2].linked().is_some(), "it has not looked");
        tend(&mut stays[1..]);
        assert!(stays.iter().all(|end| end.linked().is_none()));
        ends[goes] = open(&path, if goes == 0 { Role::Server } else { Role::Client }, 3);
    }
}

/// Who has left, and what it sent is never read, is not waited for.
#[test]
fn packets_that_nobody_reads_end_with_their_connection() {
    let path = fresh_path();
    let mut stays = open(&path, Role::Server, 1);
    let mut goes = open(&path, Role::Client, 1);
    until("links", || {
        tend(&mut stays);
        tend(&mut goes);
        all_linked(&stays) && all_linked(&goes)
    });
    send(&mut goes[0], 7);
    drop(goes);
    tend(&mut stays);
    assert!(all_linked(&stays), "it can still be read");
    until("end of the connection", || {
        tend(&mut stays);
        stays[0].linked().is_none()
    });
}

/// A queue whose user did not look while the peer went and came back gives its old link up, and
/// gets the new one.
#[test]
fn a_queue_that_slept_through_a_change_of_peers_wakes_up_on_the_new_connection() {
    let path = fresh_path();
    let mut server = open(&path, Role::Server, 2);
    for round in 0..2 {
        let mut client = open(&path, Role::Client, 2);
        until("links", || {
            tend(&mut client);
            tend(&mut server[..1]);
            all_linked(&client) && server[0].linked().is_some()
        });
        if round == 0 {
            tend(&mut server[1..]);
            assert!(all_linked(&server));
            drop(client);
            until("end of the connection", || {
                tend(&mut server[..1]);
                server[0].linked().is_none()
            });
            continue;
        }
        // Into memory that the peer has given up, and which is still ours.
        send(&mut server[1], 7);
        tend(&mut server[1..]);
        assert!(server[1].linked().is_none(), "it sees that the old one went");
        tend(&mut server[1..]);
        send(&mut server[1], 8);
        assert_eq!(receive(&mut client[1]), [8]);
    }
}

#[test]
fn the_connection_lasts_until_its_last_queue_is_dropped() {
    let path = fresh_path();
    let (mut server, mut client) = (open(&path, Role::Server, 2), open(&path, Role::Client, 2));
    until("links", || {
        tend(&mut server);
        tend(&mut client);
        all_linked(&server) && all_linked(&client)
    });
    drop(client.remove(0));
    tend(&mut server);
    assert!(all_linked(&server));
    send(&mut server[1], 5);
    assert_eq!(receive(&mut client[0]), [5]);
    drop(client);
    tend(&mut server);
    assert!(server.iter().all(|end| end.linked().is_none()));
}

#[test]
fn both_ends_need_as_many_queues() {
    for (ours, theirs) in [(2, 1), (1, 2), (2, 3), (3, 2)] {
        let path = fresh_path();
        let (mut server, mut client) = (open(&path, Role::Server, ours), open(&path, Role::Client, theirs));
        until("refusal", || {
            tend(&mut server);
            tend(&mut client);
            client[0].refused().is_some()
        });
        let said = client[0].refused().expect("refused").to_string();
        let words =
            format!("the server has engines={ours}, the client engines={theirs}: both ends need as many");
        assert_eq!(said, words);
        assert!(!all_linked(&server) && !all_linked(&client));
        // The next one is welcome.
        drop(client);
        let mut client = open(&path, Role::Client, ours);
        until("links", || {
            tend(&mut server);
            tend(&mut client);
            all_linked(&server) && all_linked(&client)
        });
    }
}

#[test]
fn a_number_of_queues_that_cannot_be_is_an_error() {
    for queues in [0, QUEUES_MAX + 1] {
        let error = Endpoint::open_queues(&config(fresh_path(), Role::Client), queues).expect_err("refused");
        assert!(matches!(error, Error::OutOfRange { what: "the number of queues", .. }), "{error}");
    }
}

/// Each queue has a thread of its own, and none waits for another.
/// What keeps a further queue from its link is not that nobody came.
#[test]
fn a_queue_that_is_not_driven_says_so() {
    let path = fresh_path();
    let [mut server, mut client] = [Role::Server, Role::Client].map(|role| open(&path, role, 2));
    until("links", || {
        server[0].tend(Instant::now());
        client[0].tend(Instant::now());
        server[0].linked().is_some() && client[0].linked().is_some()
    });
    let words = format!(
        "the pair at {} is linked, and this queue has not looked since: drive its device",
        path.display()
    );
    for ends in [&mut server, &mut client] {
        let said = |end: &Endpoint| end.no_link().map(|why| why.to_string());
        assert_eq!([said(&ends[0]), said(&ends[1])], [None, Some(words.clone())]);
        ends[1].tend(Instant::now());
        assert_eq!(said(&ends[1]), None);
    }
}

#[test]
fn threads_share_a_connection() {
    let path = fresh_path();
    let ends = [open(&path, Role::Server, 2), open(&path, Role::Client, 2)];
    std::thread::scope(|scope| {
        for mut end in ends.into_iter().flatten() {
            scope.spawn(move || {
                let (mut sent, mut received) = (0_u8, 0_u8);
                until("echo of what the peer sends", || {
                    if end.linked().is_none() {
                        end.tend(Instant::now());
                        std::thread::yield_now();
                        return false;
                    }
                    if sent < 200 && end.link().is_some_and(|link| link.tx.lend().is_some()) {
                        send(&mut end, sent);
                        sent += 1;
                    }
                    for byte in receive(&mut end) {
                        assert_eq!(byte, received, "order");
                        received += 1;
                    }
                    std::thread::yield_now();
                    sent == 200 && received == 200
                });
            });
        }
    });
}
