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

/// A peer that asks twice for a READ may ask for a new one before the old one was sent again: it
/// has the old one.
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

/// A resource is kept until others take its place, however many SENDs and WRITEs go by. When the
/// PSNs have come round, a newer one has the same PSN, and its duplicate must be answered with its
/// own result.
#[test]
fn the_newest_of_two_with_the_same_psn_is_found() {
    let psn = Psn::new(100);
    let mut resources = Resources::new(2);
    resources.push(Resource::new(psn, 1, Source::Saved(1)));
    send_one(&mut resources);
    // 2^24 packets of WRITEs later.
    assert!(resources.admit());
    resources.push(Resource::new(psn, 1, Source::Saved(2)));
    send_one(&mut resources);
    assert_eq!(resources.find(psn).map(|found| found.source), Some(Source::Saved(2)));
}

#[test]
fn the_newest_are_kept_where_fewer_are_allowed() {
    let mut resources = Resources::new(3);
    for number in 0..5 {
        resources.push(Resource::new(Psn::new(number), 1, Source::Saved(number.into())));
        send_one(&mut resources);
    }
    let kept = |resources: &Resources| {
        (0..9).filter(|&psn| resources.find(Psn::new(psn)).is_some()).collect::<Vec<_>>()
    };
    assert_eq!(kept(&resources), [2, 3, 4]);
    resources.resize(2);
    assert_eq!(kept(&resources), [3, 4]);
    resources.resize(4);
    for number in 5..8 {
        assert!(resources.admit());
        resources.push(Resource::new(Psn::new(number), 1, Source::Saved(number.into())));
        send_one(&mut resources);
    }
    assert_eq!(kept(&resources), [4, 5, 6, 7]);
    resources.resize(0);
    assert!(!resources.admit() && kept(&resources).is_empty());
}
