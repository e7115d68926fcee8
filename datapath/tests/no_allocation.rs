//! Once made, the fault port, the pcap tap, the steering port and the neighbor module allocate
//! nothing.

#[path = "common/counting.rs"]
mod counting;

use counting::{Counting, allocations};
use datapath::neighbor::{Neighbor, NeighborConfig};
use datapath::port::fault::Fault;
use datapath::port::pcap_tap::PcapTap;
use datapath::port::steer::{SteerConfig, Steered};
use datapath::port::{Port, PortCaps, PortStats, RX_BURST, RxFrame};
use datapath::time::Time;
use std::net::{IpAddr, Ipv4Addr};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const MAX_FRAME: usize = 1518;

/// Receives full bursts of one frame for ever; swallows what is sent.
struct Endless {
    frame: [u8; 256],
    slot: [u8; MAX_FRAME],
    stats: PortStats,
}

impl Port for Endless {
    fn caps(&self) -> PortCaps {
        PortCaps { mac: [2, 0, 0, 0, 0, 1], max_frame: MAX_FRAME }
    }

    fn link_up(&self) -> bool {
        true
    }

    fn rx_burst(&mut self) -> usize {
        RX_BURST
    }

    fn rx_frame(&self, _index: usize) -> RxFrame<'_> {
        RxFrame::new(&self.frame)
    }

    fn rx_release(&mut self) {}

    fn tx_slot(&mut self) -> Option<&mut [u8]> {
        Some(&mut self.slot)
    }

    fn tx_commit(&mut self, _len: usize) {
        self.stats.tx_frames += 1;
    }

    fn tx_cancel(&mut self) {}

    fn tx_flush(&mut self) {}

    fn stats(&self) -> PortStats {
        self.stats
    }
}

#[test]
fn the_counter_counts() {
    assert_eq!(allocations(|| drop(std::hint::black_box(vec![0u8; 100]))), 1);
}

#[test]
fn faults_and_tap_allocate_nothing_after_the_start() {
    let endless = Endless { frame: [7; 256], slot: [0; MAX_FRAME], stats: PortStats::default() };
    let config = "loss=5%,burst=1%,dup=20%,reorder=20%,corrupt=5%,ecn=100%,delay=3us,queue=256,seed=1";
    let mut port = PcapTap::new(Fault::new(endless, &config.parse().unwrap()), std::io::sink());
    let mut received = 0;
    let count = allocations(|| {
        for turn in 0..2_000 {
            port.set_now(Time(turn * 1_000));
            received += port.rx_burst();
            port.rx_release();
            for _ in 0..RX_BURST {
                assert!(port.tx_slot().is_some());
                port.tx_commit(64);
            }
            port.tx_flush();
        }
    });
    assert_eq!(count, 0);
    let stats = port.inner().fault_stats();
    assert!(received > 10_000 && port.stats().tx_frames > 10_000);
    assert!(stats.rx.queue_full > 0 && stats.tx.reordered > 0 && stats.tx.duplicated > 0, "{stats:?}");
}

#[test]
fn steering_allocates_nothing_after_the_start() {
    let ip = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
    let frame: [u8; 256] = to_queue_pair(0x80_0005, ip).try_into().unwrap();
    let endless = || Endless { frame, slot: [0; MAX_FRAME], stats: PortStats::default() };
    let config = SteerConfig { ip, vlan: None, udp_port: 4791 };
    let mut ports = Steered::over(vec![endless(), endless()], &config).unwrap();
    let mut received = [0; 2];
    let count = allocations(|| {
        // The owner of the queue pair takes its own bursts in turn with those from its full inbox.
        for (turn, engine) in (0..2_000).zip([0, 0, 1, 1].into_iter().cycle()) {
            let port = &mut ports[engine].1;
            port.set_now(Time(turn));
            received[engine] += port.rx_burst();
            port.rx_release();
        }
    });
    assert_eq!(count, 0);
    let stats = ports[0].1.stats();
    assert!(received[0] == 0 && received[1] == 1_000 * RX_BURST, "{received:?}");
    assert!(stats.rx_steered > 5_000 && stats.rx_missed > 5_000, "{stats:?}");
}

/// A WRITE of 256 bytes in all.
fn to_queue_pair(dest_qp: u32, ip: IpAddr) -> Vec<u8> {
    let flow = wire::Flow {
        src_mac: [2, 0, 0, 0, 0, 2],
        dst_mac: [2, 0, 0, 0, 0, 1],
        vlan: None,
        src: IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2)),
        dst: ip,
        src_port: 0xC000,
        dst_port: 4791,
        dscp: 0,
        ecn: wire::Ecn::Ect0,
        ttl: 64,
    };
    let template = wire::Template::new(&flow).unwrap();
    let mut repr = wire::Repr::new(wire::WireMode::Srnic, wire::Opcode::RcWriteOnly).unwrap();
    repr.bth.dest_qp = dest_qp;
    let mut frame = vec![0; 256];
    let transport = frame.len() - template.len();
    template.emit(&mut frame, transport);
    repr.emit(&mut frame[template.len()..]);
    frame
}

#[test]
fn the_neighbor_module_allocates_nothing_after_the_start() {
    let ip = |host| IpAddr::V4(Ipv4Addr::new(10, 0, 0, host));
    let config = NeighborConfig {
        mac: [2, 0, 0, 0, 0, 1],
        ip: ip(1),
        vlan: None,
        capacity: 8,
        nonce: [0; 6],
        defends: true,
    };
    let mut neighbor = Neighbor::new(&config);
    let mut request = [0; 60];
    request[..42].copy_from_slice(&[
        0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 2, 0, 0, 0, 0, 2, 8, 6, 0, 1, 8, 0, 6, 4, 0, 1, 2, 0, 0, 0, 0, 2,
        10, 0, 0, 2, 0, 0, 0, 0, 0, 0, 10, 0, 0, 1,
    ]);
    let mut slot = [0; MAX_FRAME];
    let count = allocations(|| {
        for turn in 0..1_000 {
            let now = Time(turn * 500_000_000);
            for host in 2..20 {
                neighbor.resolve(now, ip(host));
                neighbor.handle_frame(now, &request);
            }
            while neighbor.poll_transmit(now, &mut slot).is_some() {}
        }
    });
    assert_eq!(count, 0);
    let stats = neighbor.stats();
    assert!(stats.replies_tx > 0 && stats.requests_tx > 0 && stats.table_full > 0 && stats.unreachable > 0);
    assert!(stats.reply_queue_full > 0);
}
