//! Why there is no link is told by either driver of a memif, at both ends, and by vhost-user.

use super::*;
use crate::port::LinkDown;
use dpdk_sys::VhostConfig;

/// Whose driver an end has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Driver,
    Lending,
}

const EITHER: [Kind; 2] = [Kind::Driver, Kind::Lending];

fn end(dir: &Path, kind: Kind, is_server: bool, max_frame: u16, queues: u8) -> Box<dyn Port> {
    if kind == Kind::Lending {
        let role = if is_server { memif::Role::Server } else { memif::Role::Client };
        let config = memif::Config { max_frame, ..lending_config(dir, role) };
        let mac = [2, 0, 0, 0, 0, 8 + u8::from(is_server)];
        return Box::new(MemifPort::open_queues(&config, mac, queues).expect("ports").remove(0));
    }
    let role = if is_server { MemifRole::Server } else { MemifRole::Client };
    let config = MemifConfig { max_frame, queues, ..MemifConfig::new(dir.join("s"), role) };
    let eal = Eal::start(&EalConfig::default()).expect("EAL");
    Box::new(DpdkPort::over(config.open(eal).expect("a port")))
}

fn text(port: &dyn Port) -> String {
    port.link_down().map(|why| why.to_string()).unwrap_or_default()
}

/// Drives all of them until each says what it must; one that has a link says nothing.
fn until_said<const N: usize>(mut ports: [&mut dyn Port; N], words: [&str; N]) {
    let start = Instant::now();
    loop {
        for port in &mut ports {
            port.rx_burst();
            port.rx_release();
        }
        let said = ports.iter().map(|port| text(*port)).collect::<Vec<_>>();
        let is = |(said, words): (&String, &str)| said.contains(words) && said.is_empty() == words.is_empty();
        if said.iter().zip(words).all(is) {
            return;
        }
        assert!(start.elapsed() < Duration::from_secs(60), "{said:?} where {words:?} was expected");
        std::thread::yield_now();
    }
}

#[test]
fn ends_that_differ_say_so_whatever_their_drivers() {
    for server_kind in EITHER {
        for client_kind in EITHER {
            for (max_frame, queues, words) in [
                (1518, 1, "the server has mtu=4590, the client mtu=1500: both ends need the same"),
                (4608, 2, "both ends need as many"),
            ] {
                let dir = Scratch::new();
                let mut server = end(dir.path(), server_kind, true, 4608, 1);
                let mut client = end(dir.path(), client_kind, false, max_frame, queues);
                until_said([&mut *server, &mut *client], [words, words]);
                for port in [&server, &client] {
                    assert!(
                        matches!(port.link_down(), Some(LinkDown::TurnedAway(_))),
                        "{:?}",
                        port.link_down()
                    );
                }
                // The next one is welcome, and nothing is said any more.
                drop(client);
                let mut client = end(dir.path(), client_kind, false, 4608, 1);
                until_said([&mut *server, &mut *client], ["", ""]);
            }
        }
    }
}

#[test]
fn who_waits_alone_says_where_and_as_which_end() {
    for kind in EITHER {
        let dir = Scratch::new();
        let at = dir.path().join("s").display().to_string();
        let mut client = end(dir.path(), kind, false, 4608, 1);
        // Of the driver a process may have one client at a socket.
        let mut second = end(dir.path(), Kind::Lending, false, 4608, 1);
        let words = format!("nobody listens at {at}: this end is the client");
        until_said([&mut *client, &mut *second], [&words, &words]);
        assert!(matches!(client.link_down(), Some(LinkDown::NoPeer(_))));
        drop((client, second));
        let mut server = end(dir.path(), kind, true, 4608, 1);
        let words = format!("no client has come to {at}: this end is the server");
        until_said([&mut *server], [&words]);
        assert!(matches!(server.link_down(), Some(LinkDown::NoPeer(_))));
        let mut client = end(dir.path(), kind, false, 4608, 1);
        until_said([&mut *server, &mut *client], ["", ""]);
        drop(client);
        until_said([&mut *server], [" left ("]);
    }
}

#[test]
fn a_third_process_says_that_the_pair_is_one() {
    for server_kind in EITHER {
        for third_kind in EITHER {
            let dir = Scratch::new();
            let mut server = end(dir.path(), server_kind, true, 4608, 1);
            let mut client = end(dir.path(), Kind::Lending, false, 4608, 1);
            until_said([&mut *server, &mut *client], ["", ""]);
            let mut third = end(dir.path(), third_kind, false, 4608, 1);
            until_said(
                [&mut *server, &mut *client, &mut *third],
                [
                    "",
                    "",
                    "the server has a peer already: a memif joins two processes; srnic switch takes one each",
                ],
            );
        }
    }
}

#[test]
fn a_further_queue_says_who_knows() {
    let dir = Scratch::new();
    let config = MemifConfig { queues: 2, ..MemifConfig::new(dir.path().join("s"), MemifRole::Server) };
    let eal = Eal::start(&EalConfig::default()).expect("EAL");
    let (_first, others) = DpdkPort::with_queues(config.open(eal).expect("a port"));
    assert!(text(&others[0]).contains("the device's first engine looks after it"));
}

#[test]
fn either_end_of_vhost_user_says_whom_it_waits_for() {
    let dir = Scratch::new();
    let config = |host| VhostConfig {
        socket_path: dir.path().join("s"),
        mac: [2, 0, 0, 0, 0, host],
        max_frame: MEMIF_MAX_FRAME,
    };
    let eal = Eal::start(&EalConfig::default()).expect("EAL");
    let at = dir.path().join("s").display().to_string();
    let mut front = DpdkPort::over(config(2).open_front_end(eal).expect("a port"));
    until_said([&mut front], [&format!("nobody listens at {at}: start the vhost: end")]);
    let mut back = DpdkPort::over(config(1).open_back_end(eal).expect("a port"));
    until_said([&mut back], [&format!("no front end has come to {at}")]);
    until_said([&mut front, &mut back], ["", ""]);
}

/// A device of a kind that knows nothing of peers.
#[test]
fn a_driver_that_sees_no_link_is_named() {
    let eal = Eal::start(&EalConfig::default()).expect("EAL");
    let port = DpdkPort::open(eal, Device::virtual_device("net_null", ""), 1518).expect("a port");
    assert_eq!(port.link_down(), None);
    let stopped = dpdk_sys::NoLink::NoCable { device: "net_null".into() };
    assert_eq!(
        LinkDown::from(stopped),
        LinkDown::NoCarrier("net_null has no link: is its cable plugged in, and the other end up?".into())
    );
}
