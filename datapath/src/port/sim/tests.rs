use super::*;

const MAX_FRAME: usize = 256;

fn segment() -> Arc<Segment> {
    Arc::new(Segment::new(MAX_FRAME))
}

/// A frame to `to` whose last byte is `mark`.
fn send(port: &mut SimPort, to: [u8; 6], mark: u8) {
    let slot = port.tx_slot().expect("a slot");
    slot[..6].copy_from_slice(&to);
    slot[6..60].fill(0);
    slot[59] = mark;
    port.tx_commit(60);
}

/// The marks of everything that waits.
fn receive(port: &mut SimPort) -> Vec<u8> {
    let mut marks = Vec::new();
    loop {
        let count = port.rx_burst();
        marks.extend((0..count).map(|index| port.rx_frame(index).bytes()[59]));
        port.rx_release();
        if count == 0 {
            return marks;
        }
    }
}

#[test]
fn frames_go_to_whom_they_name_in_order() {
    let segment = segment();
    let [mut a, mut b, mut c] = [(); 3].map(|()| segment.attach(None).expect("a port"));
    assert_eq!([a.host(), b.host(), c.host()], [1, 2, 3]);
    for mark in 0..100 {
        send(&mut a, [2, 0, 0, 0, 0, 2], mark);
    }
    assert_eq!(receive(&mut b), [], "nothing moves before the flush");
    a.tx_flush();
    assert_eq!(receive(&mut b), (0..100).collect::<Vec<_>>());
    assert_eq!(receive(&mut c), []);
    assert_eq!((a.stats().tx_frames, a.stats().tx_bytes), (100, 6000));
    assert_eq!((b.stats().rx_frames, b.stats().rx_bytes), (100, 6000));
}

#[test]
fn a_broadcast_reaches_all_but_its_sender() {
    let segment = segment();
    let [mut a, mut b, mut c] = [(); 3].map(|()| segment.attach(None).expect("a port"));
    send(&mut b, [0xFF; 6], 7);
    b.tx_flush();
    assert_eq!([receive(&mut a), receive(&mut b), receive(&mut c)], [vec![7], vec![], vec![7]]);
}

#[test]
fn what_nobody_takes_is_counted() {
    let segment = segment();
    let mut a = segment.attach(None).expect("a port");
    let mut b = segment.attach(None).expect("a port");
    send(&mut a, [2, 0, 0, 0, 0, 9], 0);
    a.tx_flush();
    assert_eq!((a.stats().tx_frames, a.stats().tx_dropped), (0, 1));
    let more = INBOX_FRAMES + 10;
    for _ in 0..more {
        send(&mut a, [2, 0, 0, 0, 0, 2], 1);
        a.tx_flush();
    }
    assert_eq!(receive(&mut b).len(), INBOX_FRAMES);
    assert_eq!(b.stats().rx_dropped, 10);
}

#[test]
fn a_full_batch_lends_no_slot_until_it_is_flushed() {
    let mut a = segment().attach(None).expect("a port");
    for _ in 0..TX_FRAMES {
        send(&mut a, [0xFF; 6], 0);
    }
    assert!(a.tx_slot().is_none());
    a.tx_flush();
    assert!(a.tx_slot().is_some());
}

#[test]
fn addresses_are_unique_and_free_again_when_a_port_goes() {
    let segment = segment();
    let a = segment.attach(None).expect("a port");
    let b = segment.attach(None).expect("a port");
    assert_eq!(segment.attach(Some([2, 0, 0, 0, 0, 1])).err(), Some(SimError::MacInUse([2, 0, 0, 0, 0, 1])));
    drop(a);
    let mut again = segment.attach(None).expect("a port");
    assert_eq!((again.host(), again.caps().mac), (1, [2, 0, 0, 0, 0, 1]));
    drop(b);
    send(&mut again, [2, 0, 0, 0, 0, 2], 0);
    again.tx_flush();
    assert_eq!(again.stats().tx_dropped, 1, "who left gets nothing");
    let rest: Vec<_> = (1..PORTS_MAX).map(|_| segment.attach(None).expect("a port")).collect();
    assert_eq!(segment.attach(None).err(), Some(SimError::Full));
    drop(rest);
}

#[test]
fn what_is_for_nobody_goes_to_a_promiscuous_port() {
    let segment = segment();
    let mut a = segment.attach(None).expect("a port");
    let mut switch = segment.attach_promiscuous(None).expect("a port");
    let mut c = segment.attach(None).expect("a port");
    send(&mut a, [2, 0, 0, 0, 0, 3], 1);
    send(&mut a, [2, 0, 0, 0, 0, 9], 2);
    send(&mut a, [2, 0, 0, 0, 0, 2], 3);
    a.tx_flush();
    assert_eq!(receive(&mut switch), [2, 3]);
    assert_eq!(receive(&mut c), [1]);
    // Its own frames do not come back to it.
    send(&mut switch, [2, 0, 0, 0, 0, 9], 4);
    switch.tx_flush();
    assert_eq!((receive(&mut switch).len(), switch.stats().tx_dropped), (0, 1));
}

#[test]
fn a_host_with_several_queues_has_a_port_for_each() {
    let segment = segment();
    let queues = |count| NonZeroU8::new(count).expect("not 0");
    let mut two = segment.attach_queues(None, queues(2)).expect("ports");
    let mut three = segment.attach_queues(None, queues(3)).expect("ports");
    let mut one = segment.attach(None).expect("a port");
    assert_eq!((two[0].host(), two[1].host(), three[2].host(), one.host()), (1, 1, 2, 3));
    for (queue, port) in (0..).zip(&mut three) {
        send(port, [2, 0, 0, 0, 0, 1], queue);
        send(port, [2, 0, 0, 0, 0, 3], queue);
        send(port, [0xFF; 6], 10 + queue);
        port.tx_flush();
    }
    assert_eq!([receive(&mut two[0]), receive(&mut two[1])], [vec![0, 10, 2, 12], vec![1, 11]]);
    assert_eq!(receive(&mut one), [0, 10, 1, 11, 2, 12]);
    assert!(three.iter_mut().all(|port| receive(port).is_empty()), "nobody hears itself");
    // A host stays until its last port is gone.
    two.remove(0);
    assert_eq!(segment.attach(None).map(|port| port.host()), Ok(4));
    drop(two);
    assert_eq!(segment.attach(None).map(|port| port.host()), Ok(1));
}
