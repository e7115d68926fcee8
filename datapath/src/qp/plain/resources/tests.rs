use super::*;

const SOURCE: Source = Source::Memory { va: 0x1000, rkey: 7, len: 3000 };

/// Two resources, both requests of three packets executed.
fn full() -> Resources {
    let mut resources = Resources::new(2);
    for number in 0..2 {
        assert!(resources.admit());
        resources.push(Resource::new(Psn::new(100 + 3 * number), 3, SOURCE));
    }
    resources
}

/// Sends the packets of the reply whose turn it is; returns their PSNs.
fn send_one(resources: &mut Resources) -> Vec<u32> {
    let resource = resources.next_pending().expect("something to send");
    let sent = core::iter::from_fn(|| {
        let psn = resource.reply.next;
        resource.reply.is_pending().then(|| {
            resource.reply.next = psn.next();
            psn.get()
        })
    });
    let sent = sent.collect();
    resource.answered |= resource.reply.end == resource.end;
    resources.finish_one();
    sent
}

#[test]
fn replies_go_oldest_first() {
    let mut resources = full();
    assert!(!resources.admit(), "the oldest is not answered");
    assert_eq!(send_one(&mut resources), [100, 101, 102]);
    assert!(resources.admit());
    resources.push(Resource::new(Psn::new(106), 1, SOURCE));
    assert_eq!(send_one(&mut resources), [103, 104, 105]);
    assert_eq!(send_one(&mut resources), [106]);
    assert!(!resources.is_pending());
    assert!(resources.find(Psn::new(101)).is_none(), "its place was taken");
    assert!(resources.find(Psn::new(105)).is_some() && resources.find(Psn::new(107)).is_none());
}

/// A peer that asks twice for a READ may ask for a new one before the old one was sent again: it has the old one.
#[test]
fn what_is_answered_again_holds_no_place() {
    let mut resources = full();
    send_one(&mut resources);
    send_one(&mut resources);
    let from = Psn::new(101);
    assert!(resources.replay(Reply { from, next: from, end: Psn::new(103), source: SOURCE }));
    assert!(resources.is_pending() && resources.admit());
    resources.push(Resource::new(Psn::new(106), 2, SOURCE));
    assert_eq!(send_one(&mut resources), [106, 107]);
    assert!(!resources.is_pending());
}

#[test]
fn a_part_is_answered_again_from_where_it_is_asked_for() {
    let mut resources = full();
    send_one(&mut resources);
    let from = Psn::new(101);
    assert!(resources.replay(Reply { from, next: from, end: Psn::new(103), source: SOURCE }));
    assert_eq!(send_one(&mut resources), [101, 102], "before what is newer");
    assert_eq!(send_one(&mut resources), [103, 104, 105]);
    let gone = Psn::new(90);
    assert!(!resources.replay(Reply { from: gone, next: gone, end: gone.next(), source: SOURCE }));
}
