//! Times of what every packet costs: its headers, and one pass over its payload, in the cache.

mod quick;

use criterion::{Criterion, Throughput, criterion_main};
use icrc::Kernel;
use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr};
use std::ptr::NonNull;
use wire::{Bth, Datagram, Ecn, Flow, Opcode, Packet, Template, WireMode, bth};

const L3: usize = 14;
/// IPv4, UDP, BTH, RETH and META.
const HEADERS: usize = 60;
const ICRC: usize = 4;
const SIZES: [usize; 3] = [64, 1024, 4096];

fn template() -> Template {
    let ip = |host| IpAddr::V4(Ipv4Addr::new(10, 0, 0, host));
    let flow = Flow {
        src_mac: [2; 6],
        dst_mac: [4; 6],
        vlan: None,
        src: ip(1),
        dst: ip(2),
        src_port: 50_000,
        dst_port: 4791,
        dscp: 0,
        ecn: Ecn::Ect0,
        ttl: 64,
    };
    Template::new(&flow).expect("one family, a DSCP of six bits")
}

/// A WRITE of one packet, sealed.
fn frame(payload: usize) -> Vec<u8> {
    let mut frame = vec![0; L3 + HEADERS + payload + ICRC];
    let template = template();
    template.emit(&mut frame, HEADERS - (template.len() - L3) + payload + ICRC);
    bth::emit(&mut frame[template.len()..], &Bth::new(WireMode::Srnic, Opcode::RcWriteOnly));
    wire::icrc::seal(&mut frame[L3..]);
    frame
}

fn icrc(criterion: &mut Criterion) {
    for size in SIZES {
        let mut group = criterion.benchmark_group(format!("icrc/{size}"));
        group.throughput(Throughput::Bytes(size as u64));
        let mut frame = frame(size);
        let source = vec![7u8; size];
        for kernel in Kernel::supported() {
            group.bench_function(format!("verify/{kernel:?}"), |bencher| {
                bencher.iter(|| kernel.verify(black_box(&frame[L3..])));
            });
            group.bench_function(format!("copy and seal/{kernel:?}"), |bencher| {
                let payload = NonNull::from(&source[..]).cast();
                bencher.iter(|| {
                    let frame = black_box(&mut frame[L3..]);
                    // SAFETY: the source is `size` bytes of another allocation.
                    unsafe { kernel.copy_and_seal(frame, HEADERS, payload, size) }
                });
            });
        }
        let mut target = vec![0u8; size];
        group.bench_function("copy alone", |bencher| {
            bencher.iter(|| black_box(&mut target[..]).copy_from_slice(black_box(&source)));
        });
    }
}

fn codec(criterion: &mut Criterion) {
    let mut frame = frame(64);
    criterion.bench_function("codec/parse", |bencher| {
        bencher.iter(|| {
            let frame = black_box(&frame[..]);
            let datagram = Datagram::parse(frame, 4791).expect("a RoCE datagram");
            Packet::parse(&frame[datagram.transport]).expect("a WRITE").psn()
        });
    });
    let template = template();
    let header = Bth::new(WireMode::Srnic, Opcode::RcWriteOnly);
    criterion.bench_function("codec/emit", |bencher| {
        bencher.iter(|| {
            let frame = black_box(&mut frame[..]);
            template.emit(frame, 86);
            bth::emit(&mut frame[template.len()..], black_box(&header));
        });
    });
}

/// All of them.
fn benches() {
    let mut criterion = quick::criterion();
    icrc(&mut criterion);
    codec(&mut criterion);
    criterion.final_summary();
}

criterion_main!(benches);
