//! Packets to a peer that is far away.

use super::*;

const LONGEST: u16 = 4608;

fn both() -> [Endpoint; 2] {
    let path = fresh_path();
    let ends = [Role::Server, Role::Client].map(|role| {
        let config = Config { max_frame: LONGEST, ring_size_log2: 4, ..config(path.clone(), role) };
        Endpoint::open(&config).expect("an end")
    });
    let [mut server, mut client] = ends;
    let start = Instant::now();
    while server.link().is_none() || client.link().is_none() {
        server.tend(Instant::now());
        client.tend(Instant::now());
        assert!(start.elapsed() < Duration::from_secs(60), "no link");
    }
    [server, client]
}

/// Lends a buffer, fills `len` bytes of it by `seed`, and commits them. Returns whether it was
/// staged.
fn send(from: &mut Endpoint, seed: u8, len: usize) -> bool {
    let tx = &mut from.link().expect("a link").tx;
    let lent = tx.lend().expect("a free buffer").as_ptr();
    // One that is not committed is lent again.
    let buffer = tx.lend().expect("a free buffer");
    assert_eq!((buffer.as_ptr(), buffer.len()), (lent, usize::from(LONGEST)));
    bytes(seed, len).zip(buffer).for_each(|(byte, at)| *at = byte);
    let is_staged = tx.is_staging();
    tx.commit(len);
    is_staged
}

fn bytes(seed: u8, len: usize) -> impl Iterator<Item = u8> {
    (0..251_u8).cycle().map(move |value| value.wrapping_mul(2 * (seed % 127) + 1)).take(len)
}

#[test]
fn packets_of_all_lengths_arrive_while_the_peer_is_now_far_now_near() {
    let lens = [60, 1023, 1024, 1040, 4158, 4160, 64, 4608, 2000, 100];
    for [from, to] in [[0, 1], [1, 0]] {
        let mut ends = both();
        let (mut sent, mut len_before) = (0, 0);
        for round in 0..300 {
            let is_far = round % 7 > 2;
            ends[from].link().expect("a link").tx.move_peer(is_far);
            let batch: Vec<usize> = (sent..=sent + round % 9).collect();
            sent += batch.len();
            for number in &batch {
                let len = lens[number % lens.len()];
                let is_staged = send(&mut ends[from], number.to_le_bytes()[0], len);
                // It is expected to be as long as the one before.
                assert_eq!(is_staged, is_far && len_before >= 1024);
                len_before = len;
            }
            assert_eq!(usize::from(ends[from].link().expect("a link").tx.flush()), batch.len());
            let link = ends[to].link().expect("a link");
            assert_eq!(link.rx.burst(), (batch.len(), 0));
            for (index, number) in batch.iter().enumerate() {
                let expected = bytes(number.to_le_bytes()[0], lens[number % lens.len()]);
                assert!(link.rx.packet(index).iter().copied().eq(expected), "packet {number}");
            }
            link.rx.release();
        }
    }
}
