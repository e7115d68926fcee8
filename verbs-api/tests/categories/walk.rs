//! A random walk over the verbs (protocol.md 1.9, 1.10, 2.4): whatever is posted, dropped and made
//! anew in whatever order, every signaled request completes once, in order, with a status that its
//! history explains; counters count exactly what succeeded; nothing is written beside what was
//! granted.

use crate::net::{ALL, Net, bytes};
use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use std::collections::VecDeque;
use verbs_api::{Access, MemoryRegion, QpState, RemoteAddr, SendData, SendRequest, WcStatus, WindowType};

const STEPS: u32 = 250;
/// Bytes of the region, of which the first eight are counted on and the last are never granted.
const LEN: usize = 4096;
const GRANTED_LEN: usize = 2048;
const GRANTED: u64 = GRANTED_LEN as u64;

struct Walk {
    net: Net,
    random: SplitMix64,
    /// The second side's, open to the first; its end through windows only.
    open: MemoryRegion,
    counter: MemoryRegion,
    scratch: MemoryRegion,
    next: u64,
    /// What the first side posted and has not seen complete: its number, whether it adds one, and
    /// whether it must fail.
    posted: VecDeque<(u64, bool, bool)>,
    /// Additions that succeeded, and those of which nobody knows because their queue pair failed.
    added: u64,
    unknown: u64,
}

impl Walk {
    fn below(&mut self, end: u64) -> u64 {
        self.random.next_u64() % end
    }

    fn new(net: Net, seed: u64) -> Self {
        let open = net.hosts[1].pd.register(LEN, ALL | Access::MW_BIND).expect("memory");
        let counter = net.hosts[1].pd.register(8, ALL).expect("memory");
        let scratch = net.hosts[0].region(LEN);
        let random = SplitMix64::seed_from_u64(seed);
        Self { net, random, open, counter, scratch, next: 0, posted: VecDeque::new(), added: 0, unknown: 0 }
    }

    fn step(&mut self) {
        match self.below(16) {
            0..6 => self.post_good(),
            6..9 => self.add(),
            9..13 => self.poll(),
            13 => self.post_bad(),
            14 => self.end_a_region(),
            _ => self.through_a_window(),
        }
    }

    /// The number of a request that is posted now.
    fn number(&mut self, adds: bool, bad: bool) -> u64 {
        let number = self.next;
        self.next += 1;
        self.posted.push_back((number, adds, bad));
        number
    }

    /// Returns `true` if there is room and the queue pair is as it should be.
    fn can_post(&mut self) -> bool {
        if self.net.pairs.iter().any(|pair| pair.state() != QpState::Rts) {
            self.recover();
        }
        self.posted.len() < 40
    }

    fn post_good(&mut self) {
        if !self.can_post() {
            return self.poll();
        }
        let len = 1 + self.below(GRANTED / 2);
        let at = self.below(GRANTED - len);
        let piece = self.scratch.slice(..usize::try_from(len).expect("small")).expect("inside");
        let there = self.open.remote().at(at);
        let kind = self.below(4);
        if kind == 3 {
            self.net.receive(1, 0, &[]);
        }
        let number = self.number(false, false);
        let pieces = [piece];
        let request = match kind {
            0 => SendRequest::write(SendData::Inline(&[0x5A; 16]), self.open.remote().at(at / 2)),
            1 => SendRequest::write(SendData::Gather(&pieces), there),
            2 => SendRequest::read(&pieces, there),
            _ => SendRequest::send(SendData::Inline(&[])),
        };
        self.net.post(0, &request.id(number).signaled());
    }

    fn add(&mut self) {
        if !self.can_post() {
            return self.poll();
        }
        let number = self.number(true, false);
        let result = self.scratch.slice(LEN - 8..).expect("inside");
        let request = SendRequest::fetch_and_add(result, self.counter.remote().at(0), 1);
        self.net.post(0, &request.id(number).signaled());
    }

    /// A key that is none, an address outside, or a word that is not aligned.
    fn post_bad(&mut self) {
        if !self.can_post() {
            return self.poll();
        }
        let RemoteAddr { addr, rkey } = self.open.remote().at(0);
        let to = match self.below(3) {
            0 => RemoteAddr { addr, rkey: rkey ^ 0x55 },
            1 => RemoteAddr { addr: addr + LEN as u64 - 4, rkey },
            _ => RemoteAddr { addr: addr.wrapping_sub(8), rkey },
        };
        let number = self.number(false, true);
        self.net.post(0, &SendRequest::write(SendData::Inline(&[0xBA; 8]), to).id(number).signaled());
    }

    /// A region that goes while its key is in use.
    fn end_a_region(&mut self) {
        if !self.can_post() {
            return self.poll();
        }
        let region = self.net.hosts[1].region(64);
        let to = region.remote().at(0);
        drop(region);
        let number = self.number(false, true);
        self.net.post(0, &SendRequest::write(SendData::Inline(&[0xBA; 8]), to).id(number).signaled());
    }

    /// The end of the region is opened, written to, and closed again.
    fn through_a_window(&mut self) {
        self.drain();
        if !self.can_post() {
            return;
        }
        while self.net.hosts[1].cq.poll().is_some() {}
        let mut window = self.net.hosts[1].pd.alloc_window(WindowType::Two).expect("a window");
        let range = LEN - 64..LEN - 32;
        let rkey = window.bind(&mut self.net.pairs[1], 7, &self.open, range, Access::REMOTE_WRITE);
        let rkey = rkey.expect("posted");
        loop {
            let done = self.net.done(1);
            if done.wr_id == 7 {
                assert_eq!(done.status, WcStatus::Success);
                break;
            }
        }
        let to = RemoteAddr { addr: self.open.addr() + LEN as u64 - 64, rkey };
        let number = self.number(false, false);
        self.net.post(0, &SendRequest::write(SendData::Inline(&[0xA5; 32]), to).id(number).signaled());
        self.drain();
    }

    /// Takes one completion, if there is one.
    fn poll(&mut self) {
        self.net.hosts[1].device.progress();
        while self.net.hosts[1].cq.poll().is_some() {}
        if let Some(done) = self.net.hosts[0].cq.poll() {
            self.take(done.wr_id, done.status);
        }
    }

    fn take(&mut self, wr_id: u64, status: WcStatus) {
        let (number, adds, bad) = self.posted.pop_front().expect("a completion of what was posted");
        assert_eq!(wr_id, number, "in order, each once");
        match status {
            WcStatus::Success => {
                assert!(!bad, "{number} was bad");
                self.added += u64::from(adds);
            }
            WcStatus::WrFlushErr => self.unknown += u64::from(adds),
            WcStatus::RemAccessErr => assert!(bad, "{number} was good"),
            other => panic!("{number}: {other:?}"),
        }
    }

    /// Takes all completions that are to come.
    fn drain(&mut self) {
        while !self.posted.is_empty() {
            while self.net.hosts[1].cq.poll().is_some() {}
            let done = self.net.done(0);
            self.take(done.wr_id, done.status);
        }
    }

    /// After a failure: everything that was posted completes, and the queue pairs are new.
    fn recover(&mut self) {
        self.drain();
        // The peer's may still wait for somebody to acknowledge a READ (2.4): it goes as it is.
        self.net.reconnect();
        // Receives that were flushed.
        self.net.hosts.iter_mut().for_each(|host| while host.cq.poll().is_some() {});
    }
}

on_every_lan! {

fn a_random_walk_is_explained_at_every_step(lan: Lan) {
    for seed in 0..4 {
        let mut walk = Walk::new(Net::new(lan), seed);
        for _ in 0..STEPS {
            walk.step();
        }
        walk.drain();
        let counted = walk.counter.load_acquire_u64(0).expect("aligned");
        let possible = walk.added..=walk.added + walk.unknown;
        assert!(possible.contains(&counted), "seed {seed}: {counted} of {possible:?}");
        assert!(walk.added > 0 && walk.next > 100, "seed {seed} shows nothing");
        let found = bytes(&walk.open);
        let beside = found[GRANTED_LEN..LEN - 64].iter().chain(&found[LEN - 32..]);
        assert!(beside.copied().all(|byte| byte == 0), "seed {seed}: beside what was granted");
    }
}

}
