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

/// Lends a buffer, fills `len` bytes of it by `seed`, and commits them.
fn send(from: &mut Endpoint, seed: u32, len: usize) {
    let link = from.link().expect("a link");
    let buffer = link.tx.lend().expect("a free buffer");
    assert_eq!(buffer.len(), usize::from(LONGEST));
    // Whatever was there before must not reach the peer.
    buffer.fill(0xaa);
    bytes(seed, len).zip(buffer).for_each(|(byte, at)| *at = byte);
    link.tx.commit(len);
}

fn bytes(seed: u32, len: usize) -> impl Iterator<Item = u8> {
    let [low, ..] = seed.to_le_bytes();
    (0..251_u8).cycle().map(move |value| value.wrapping_mul(low | 1)).take(len)
}

#[test]
fn packets_of_all_lengths_arrive_while_the_peer_is_now_far_now_near() {
    let lens = [60, 1023, 1024, 1040, 4158, 4160, 64, 4608, 2000, 100];
    for [from, to] in [[0, 1], [1, 0]] {
        let mut ends = both();
        let mut sent = 0;
        for round in 0..300_u32 {
            ends[from].link().expect("a link").tx.set_far(round % 7 > 2);
            let batch: Vec<(u32, usize)> =
                (sent..sent + 1 + round % 9).map(|seed| (seed, lens[seed as usize % lens.len()])).collect();
            sent += 1 + round % 9;
            batch.iter().for_each(|(seed, len)| send(&mut ends[from], *seed, *len));
            // A buffer that is lent and not committed is lent again.
            let link = ends[from].link().expect("a link");
            let _ = link.tx.lend();
            assert_eq!(usize::from(link.tx.flush()), batch.len());
            let link = ends[to].link().expect("a link");
            assert_eq!(link.rx.burst(), (batch.len(), 0));
            for (index, (seed, len)) in batch.iter().enumerate() {
                assert!(link.rx.packet(index).iter().copied().eq(bytes(*seed, *len)), "{seed}: {len} bytes");
            }
            link.rx.release();
        }
    }
}
