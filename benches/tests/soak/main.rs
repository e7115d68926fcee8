//! A soak (testing.md 16): random operations of every kind over a memif, on connections that come
//! and go, and at the end nothing of them is left: no packet buffer, no place in a queue, no object
//! of a device, no descriptor.

mod link;
#[path = "../support/nic.rs"]
mod nic;
#[path = "../../tools/tests/support/mod.rs"]
#[expect(dead_code, reason = "what other tests need of it")]
mod support;

use link::{Hosts, Link, Random};
use nic::{HELD, Nic};
use std::time::Instant;
use support::Place;

/// Connections at a time.
const LINKS: usize = 6;
/// Operations between two looks at what is held.
const LOOK: u64 = 4096;

fn soak(name: &str, operations: u64) {
    let place = Place::new(&format!("soak-{name}"));
    // DPDK keeps some descriptors of its own from the first port on.
    Nic::open(&format!("memif:{},role=server,ip=10.77.0.1", place.path("first").display())).close();
    let descriptors = open_descriptors();
    let socket = place.path("memif").display().to_string();
    let nics = [("server", 1), ("client", 2)]
        .map(|(role, host)| Nic::open(&format!("memif:{socket},role={role},ip=10.77.0.{host}")));
    while !nics.iter().all(|nic| nic.device.link_up()) {
        nics.iter().for_each(|nic| _ = nic.device.progress());
    }
    let before = nics.each_ref().map(|nic| nic.device.usage());
    let start = Instant::now();
    let mut random = Random::new(0x50AC);
    let mut hosts = Hosts::new(nics.each_ref().map(|nic| nic.device.clone()));
    let mut links: Vec<Link> = (0..LINKS).map(|number| Link::new(&hosts, &mut random, number)).collect();
    let (mut done, mut replaced, mut looked) = (0, 0, 0);
    while done < operations {
        let number = random.index(LINKS);
        match random.below(4000) {
            0 => links[number].spoil(),
            1 => hosts.datagrams(&mut random),
            2 => {
                // In the middle of its work.
                links[number] = Link::new(&hosts, &mut random, number);
                replaced += 1;
            }
            _ => links[number].post(&mut hosts, &mut random),
        }
        for (number, link) in links.iter_mut().enumerate() {
            done += link.poll(&mut hosts);
            if link.is_dead() {
                done += link.finish(&mut hosts);
                *link = Link::new(&hosts, &mut random, number);
                replaced += 1;
            }
        }
        if done > looked + LOOK {
            looked = done;
            for nic in &nics {
                assert!(nic.held() <= HELD + 64, "{} packet buffers are held", nic.held());
            }
        }
    }
    for link in &mut links {
        done += link.finish(&mut hosts);
    }
    drop(links);
    hosts.finish();
    drop(hosts);
    for (nic, before) in nics.iter().zip(before) {
        // Recoveries whose queue pairs were dropped end with the next turns.
        nics.iter().for_each(|nic| _ = nic.device.progress());
        assert_eq!(nic.device.usage(), before, "objects of a device are left");
        assert!(nic.held() <= HELD, "{} packet buffers are held", nic.held());
    }
    nics.into_iter().for_each(Nic::close);
    assert_eq!(open_descriptors(), descriptors, "descriptors are left");
    println!("{done} operations on {} connections in {:?}", LINKS + replaced, start.elapsed());
}

fn open_descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").expect("Linux").count()
}

#[test]
fn nothing_is_left_of_random_operations() {
    soak("short", 40_000);
}

#[test]
#[ignore = "a million operations: a minute"]
fn nothing_is_left_of_a_million_random_operations() {
    soak("long", 1_000_000);
}
