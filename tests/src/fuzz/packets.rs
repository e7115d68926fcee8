//! Frames that nobody honest would send.

use super::scene::{QKEY, Scene, Target};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use datapath::qp::state::QpType;
use datapath::qpn::MULTICAST_QPN;
use simnet::{Forger, Rng};
use std::collections::BTreeMap;
use wire::encap::{ROCE_UDP_PORT, group_mac};
use wire::{
    AckFlags, Ackx, Aeth, AtomicEth, Datagram, Deth, Meta, Msn, Opcode, Psn, Rdw, Repr, Reth, Ssn, Ssnw,
    Syndrome, Transport, WireMode, icrc,
};

/// Where a frame came from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Made: every field near a good value or at an edge, and a right ICRC.
    Forged,
    /// Overheard, and sent again.
    Replayed,
    /// Overheard, with bits turned in the transport packet, and a right ICRC.
    Resealed,
    /// Overheard, with bits turned anywhere, or cut.
    Damaged,
    /// Random bytes behind the victim's Ethernet address.
    Noise,
}

/// Makes frames.
#[derive(Default)]
pub struct Source {
    /// Forged packets, by opcode.
    pub forged: BTreeMap<u8, u64>,
}

impl Source {
    pub fn next(&mut self, rng: &mut Rng, scene: &Scene) -> (Kind, Vec<u8>) {
        let kind = match rng.below(10) {
            0..=5 => Kind::Forged,
            6 => Kind::Replayed,
            7 => Kind::Resealed,
            8 => Kind::Damaged,
            _ => Kind::Noise,
        };
        let made = match kind {
            Kind::Forged => None,
            Kind::Replayed => overheard(rng, scene),
            Kind::Resealed => overheard(rng, scene).map(|frame| resealed(rng, frame)),
            Kind::Damaged => overheard(rng, scene).map(|frame| damaged(rng, frame)),
            Kind::Noise => Some(noise(rng, scene)),
        };
        match made {
            Some(frame) => (kind, frame),
            None => (Kind::Forged, self.forged(rng, scene)),
        }
    }

    fn forged(&mut self, rng: &mut Rng, scene: &Scene) -> Vec<u8> {
        let target = &scene.targets[rng.index(scene.targets.len())];
        let mut forger = Forger::new(&scene.rig, target.peer, target.own);
        if rng.hits(20_000) {
            forger.dest_qpn = [0, 1, 0xFF_FFFF, forger.dest_qpn ^ 1][rng.index(4)];
        }
        if rng.hits(20_000) {
            forger.pkey = [0, 1, 0x7FFF][rng.index(3)];
        }
        if rng.hits(20_000) {
            forger.flow.src = forger.flow.dst;
        }
        if target.qp_type == QpType::Ud && rng.hits(300_000) {
            to_group(rng, &mut forger, scene.group());
        }
        let last = scene.overheard.borrow().psns.get(&scene.rig.qpn(target.own)).copied();
        let psn = psn_near(rng, last.unwrap_or(Psn::new(scene.rig.qp_options(target.peer).sq_psn)));
        let mut repr = packet(rng, target, &forger, psn);
        *self.forged.entry(repr.bth.opcode as u8).or_default() += 1;
        let len = length(rng, repr.bth.opcode);
        fill(rng, scene, &mut repr, len, psn);
        forger.frame(&repr, &vec![0x5A; len])
    }
}

/// For all members of the victim's group, or nearly so.
fn to_group(rng: &mut Rng, forger: &mut Forger, group: IpAddr) {
    if rng.hits(900_000) {
        forger.flow.dst = if rng.hits(900_000) { group } else { beside(group) };
    }
    if rng.hits(900_000) {
        forger.flow.dst_mac = group_mac(group);
    }
    if rng.hits(900_000) {
        forger.dest_qpn = MULTICAST_QPN;
    }
}

/// A group of which nobody is a member.
fn beside(group: IpAddr) -> IpAddr {
    match group {
        IpAddr::V4(ip) => Ipv4Addr::from_bits(ip.to_bits() ^ 1).into(),
        IpAddr::V6(ip) => Ipv6Addr::from_bits(ip.to_bits() ^ 1).into(),
    }
}

/// A packet type, mostly of the target's own dialect and service.
fn packet(rng: &mut Rng, target: &Target, forger: &Forger, psn: Psn) -> Repr {
    let mode = if rng.hits(50_000) { WireMode::ALL[rng.index(2)] } else { target.mode };
    let service = match target.qp_type {
        QpType::Rc => Transport::Rc,
        QpType::Uc => Transport::Uc,
        QpType::Ud => Transport::Ud,
    };
    let any = rng.hits(50_000);
    // Notifications are of no service; they are for reliable connections in standard packets.
    let notified = service == Transport::Rc && mode == WireMode::Plain;
    let fits = |opcode: &&Opcode| {
        let served = opcode.transport() == service || (notified && **opcode == Opcode::Cnp);
        (any || served) && Repr::new(mode, **opcode).is_some()
    };
    let candidates: Vec<Opcode> = Opcode::ALL.iter().filter(fits).copied().collect();
    match candidates.get(rng.index(candidates.len())) {
        Some(opcode) => forger.repr(mode, *opcode, psn),
        // The SRNIC dialect has no such service.
        None => forger.repr(WireMode::Plain, Opcode::Cnp, psn),
    }
}

fn overheard(rng: &mut Rng, scene: &Scene) -> Option<Vec<u8>> {
    let overheard = scene.overheard.borrow();
    overheard.frames.get(rng.index(overheard.frames.len())).cloned()
}

fn flip(rng: &mut Rng, bytes: &mut [u8]) {
    for _ in 0..=rng.below(3) {
        let at = rng.index(bytes.len());
        if let Some(byte) = bytes.get_mut(at) {
            *byte ^= 1 << rng.below(8);
        }
    }
}

/// Headers are where it hurts: most bits turn there.
fn resealed(rng: &mut Rng, mut frame: Vec<u8>) -> Vec<u8> {
    let Ok(datagram) = Datagram::parse(&frame, ROCE_UDP_PORT) else { return frame };
    let (start, end) = (datagram.transport.start, datagram.transport.end.saturating_sub(4));
    let end = if rng.hits(800_000) { end.min(start + 48) } else { end };
    flip(rng, &mut frame[start..end]);
    icrc::seal(&mut frame[datagram.l3_offset..datagram.transport.end]);
    frame
}

fn damaged(rng: &mut Rng, mut frame: Vec<u8>) -> Vec<u8> {
    if rng.hits(300_000) {
        frame.truncate(rng.index(frame.len()));
    } else {
        flip(rng, &mut frame[6..]);
    }
    frame
}

fn noise(rng: &mut Rng, scene: &Scene) -> Vec<u8> {
    let mac = scene.rig.net.mac(scene.targets[0].own.node());
    let mut frame: Vec<u8> = (0..14 + rng.index(300)).map(|_| rng.next_u64().to_le_bytes()[0]).collect();
    frame[..6].copy_from_slice(&mac);
    let ethertype: [u8; 2] = [[0x08, 0x00], [0x86, 0xDD], [0x08, 0x06], [0x81, 0x00], [0, 0]][rng.index(5)];
    frame[12..14].copy_from_slice(&ethertype);
    frame
}

fn pick<T: Copy>(rng: &mut Rng, values: &[T]) -> T {
    values[rng.index(values.len())]
}

fn bits(rng: &mut Rng, count: u32) -> u32 {
    u32::try_from(rng.below(1 << count)).unwrap_or(0)
}

fn small(rng: &mut Rng) -> u32 {
    pick(rng, &[0, 0, 0, 1, 1, 2, 3, 7, 63, 64])
}

fn psn_near(rng: &mut Rng, last: Psn) -> Psn {
    match rng.below(10) {
        0 => Psn::new(bits(rng, 24)),
        1 => last.sub(small(rng)),
        _ => last.add(small(rng)),
    }
}

/// Bytes of payload; FIRST and MIDDLE have one path MTU, or are wrong for that alone.
fn length(rng: &mut Rng, opcode: Opcode) -> usize {
    if !opcode.is_end() && rng.hits(900_000) {
        return 256;
    }
    pick(rng, &[0, 0, 1, 4, 8, 40, 64, 65, 100, 255, 256, 256, 256, 257, 400, 401, 1000])
}

/// Every header that the packet type has.
fn fill(rng: &mut Rng, scene: &Scene, repr: &mut Repr, len: usize, psn: Psn) {
    repr.bth.ack_req = rng.hits(500_000);
    repr.bth.solicited = rng.hits(300_000);
    repr.bth.becn = repr.bth.opcode == Opcode::Cnp && rng.hits(900_000);
    let (va, rkey) = place(rng, scene);
    let left = pick(rng, &[0, 0, 0, 256, 1, 512, u32::MAX]);
    let len = u32::try_from(len).unwrap_or(u32::MAX);
    if let Some(reth) = &mut repr.reth {
        *reth = Reth { va, rkey, dma_len: len.wrapping_add(left) };
    }
    if let Some(atomic) = &mut repr.atomic_eth {
        *atomic = AtomicEth { va, rkey, swap_add: rng.next_u64(), compare: rng.below(2) };
    }
    if let Some(deth) = &mut repr.deth {
        *deth = Deth { qkey: if rng.hits(800_000) { QKEY } else { bits(rng, 31) }, src_qp: bits(rng, 24) };
    }
    if let Some(aeth) = &mut repr.aeth {
        *aeth = Aeth {
            syndrome: Syndrome::from_u8(pick(rng, &[0x1F, 0x60, 0x61, 0x62, 0x63, 0x21, 0x80, 0xFF])),
            msn: bits(rng, 24),
        };
    }
    repr.ieth = repr.ieth.map(|_| rkey);
    fill_words(rng, repr, psn);
}

/// The words of the SRNIC dialect.
fn fill_words(rng: &mut Rng, repr: &mut Repr, psn: Psn) {
    let number = |rng: &mut Rng| if rng.hits(900_000) { small(rng) } else { bits(rng, 16) };
    if let Some(meta) = &mut repr.meta {
        let [low, high, ..] = number(rng).to_le_bytes();
        *meta = Meta { msn: Msn::new(number(rng)), offset: u16::from_le_bytes([low, high]) };
    }
    if let Some(ssnw) = &mut repr.ssnw {
        let [offset_hi, ..] = (bits(rng, 8) * u32::from(rng.hits(50_000))).to_le_bytes();
        *ssnw = Ssnw { offset_hi, ssn: Ssn::new(number(rng)) };
    }
    if let Some(rdw) = &mut repr.rdw {
        let [rslot, ..] = bits(rng, 3).to_le_bytes();
        *rdw = Rdw { rslot, rpsn_start: psn_near(rng, psn) };
    }
    if let Some(ackx) = &mut repr.ackx {
        let [flags, low, high, _] = bits(rng, 24).to_le_bytes();
        *ackx = Ackx {
            flags: AckFlags(flags),
            sack_psn: psn_near(rng, psn),
            ce_cnt: u16::from_le_bytes([low, high]),
            ..Ackx::default()
        };
        repr.sackb = Some(rng.next_u64());
    }
}

/// An address and a key: what is open, what is not, and what does not exist.
fn place(rng: &mut Rng, scene: &Scene) -> (u64, u32) {
    let open = scene.open;
    let mut regions = vec![open, open, open, open, scene.secret()];
    regions.extend(scene.closed.iter().map(|(region, _)| *region));
    let region = pick(rng, &regions);
    let end = region.iova + region.len as u64;
    let va = pick(
        rng,
        &[
            region.iova,
            region.iova,
            region.iova + 64,
            region.iova + 65,
            end - 8,
            end - 100,
            region.iova - 1,
            end,
            0,
            u64::MAX - 100,
        ],
    );
    let other = [0, u32::MAX, region.key ^ 1, region.key ^ 0x100, bits(rng, 31)];
    let key = if rng.hits(900_000) { region.key } else { pick(rng, &other) };
    (va, key)
}
