//! A bit that flips below the library, behind the check of the ICRC: the checksum from end to end
//! finds it, and nothing else does.

mod support;

use core::net::{IpAddr, Ipv4Addr};
use datapath::engine::EngineConfig;
use datapath::port::sim::{Segment, SimPort};
use datapath::port::{Port, PortCaps, PortStats, RxFrame};
use srnic_streams::protocol::Violation;
use srnic_streams::{Config, Endpoint, Error};
use std::io::{ErrorKind, Read, Write};
use std::sync::Arc;
use std::thread::scope;
use support::{LIMIT, bytes};
use verbs_api::{Device, Driver};

/// Where the IP header begins.
const IP: usize = 14;
/// Bytes of the ICRC.
const ICRC: usize = 4;
/// Bytes that the program writes at once: a message each.
const MESSAGE: usize = 2000;
/// Messages, and the one in which a bit flips.
const MESSAGES: usize = 8;
const DAMAGED: usize = 5;

/// A port that changes what it receives where no transport can see it: as memory does that forgets
/// a bit once the packet was checked. So the ICRC is made right again.
struct Forgetful {
    inner: SimPort,
    /// The frames of a burst as the engine sees them.
    frames: Vec<Vec<u8>>,
    /// The bytes after which the first one is damaged, once.
    after: Option<Vec<u8>>,
}

impl Forgetful {
    fn new(inner: SimPort, after: Option<Vec<u8>>) -> Self {
        Self { inner, frames: Vec::new(), after }
    }

    fn damage(&mut self, frame: &mut [u8]) {
        let Some(after) = &self.after else { return };
        let Some(at) = frame.windows(after.len()).position(|bytes| bytes == after) else { return };
        frame[at + after.len()] ^= 0x10;
        let end = frame.len() - ICRC;
        let icrc = wire::icrc::compute(&frame[IP..end]);
        frame[end..].copy_from_slice(&icrc.to_le_bytes());
        self.after = None;
    }
}

impl Port for Forgetful {
    fn caps(&self) -> PortCaps {
        self.inner.caps()
    }

    fn link_up(&self) -> bool {
        self.inner.link_up()
    }

    fn rx_burst(&mut self) -> usize {
        let count = self.inner.rx_burst();
        self.frames = (0..count).map(|index| self.inner.rx_frame(index).bytes().to_vec()).collect();
        self.inner.rx_release();
        let mut frames = core::mem::take(&mut self.frames);
        frames.iter_mut().for_each(|frame| self.damage(frame));
        self.frames = frames;
        count
    }

    fn rx_frame(&self, index: usize) -> RxFrame<'_> {
        RxFrame::new(&self.frames[index])
    }

    fn rx_release(&mut self) {
        self.frames.clear();
    }

    fn tx_slot(&mut self) -> Option<&mut [u8]> {
        self.inner.tx_slot()
    }

    fn tx_commit(&mut self, len: usize) {
        self.inner.tx_commit(len);
    }

    fn tx_cancel(&mut self) {
        self.inner.tx_cancel();
    }

    fn tx_flush(&mut self) {
        self.inner.tx_flush();
    }

    fn stats(&self) -> PortStats {
        self.inner.stats()
    }
}

/// Two endpoints; the second one's memory damages the byte behind `after`.
fn endpoints(config: Config, after: &[u8]) -> [Endpoint; 2] {
    let segment = Arc::new(Segment::new(4200));
    [(1, None), (2, Some(after.to_vec()))].map(|(number, after)| {
        let port = segment.attach(Some([2, 0, 0, 0, 0, number])).expect("free");
        let ip = IpAddr::V4(Ipv4Addr::new(10, 77, 0, number));
        let config_of_engine = EngineConfig { ip, ..EngineConfig::default() };
        let device = Device::builder().driver(Driver::THREAD);
        let device = device.from_port(Forgetful::new(port, after), config_of_engine).expect("a device");
        Endpoint::new(&device, config).expect("an endpoint")
    })
}

/// Sends the messages; what came of them, and how it ended.
fn transfer(config: Config) -> (Vec<u8>, std::io::Result<()>, [Endpoint; 2]) {
    let all = bytes(6, MESSAGES * MESSAGE);
    let from = DAMAGED * MESSAGE + 700;
    let [here, there] = endpoints(config, &all[from..from + 16]);
    let listener = there.listen(0).expect("a port");
    let mut came = Vec::new();
    let ended = scope(|threads| {
        threads.spawn(|| {
            let mut one = here.connect(listener.local_addr(), LIMIT).expect("connected");
            // Fails when the other end has found the damage.
            let _ = all.chunks(MESSAGE).try_for_each(|message| one.write_all(message));
        });
        let mut other = listener.accept_within(LIMIT).expect("accepted").expect("in time");
        loop {
            let mut part = [0; 512];
            match other.read(&mut part) {
                Ok(0) => return Ok(()),
                Ok(len) => came.extend_from_slice(&part[..len]),
                Err(error) => return Err(error),
            }
        }
    });
    (came, ended, [here, there])
}

#[test]
fn a_flipped_bit_is_an_error_that_names_the_message() {
    for write_from in [usize::MAX, 1] {
        let config = Config { checked: true, write_from, ..Config::default() };
        let (came, ended, [_, there]) = transfer(config);
        let all = bytes(6, MESSAGES * MESSAGE);
        // What came before is whole, and nothing of the damaged message is read.
        assert!(came == all[..DAMAGED * MESSAGE], "{} bytes came", came.len());
        let position = came.len() as u64;
        let error = ended.expect_err("a bit flipped");
        assert_eq!(error.kind(), ErrorKind::InvalidData);
        let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<Error>());
        assert_eq!(inner, Some(&Error::Violation { rule: Violation::Checksum, position }));
        assert!(error.to_string().contains(&format!("at byte {position} ")), "{error}");
        assert_eq!(there.stats().violations(Violation::Checksum), 1);
    }
}

/// The negative control: without the checksum the damage arrives as if it were right.
#[test]
fn without_the_checksum_the_flipped_bit_is_not_noticed() {
    let (came, ended, [_, there]) = transfer(Config::default());
    let all = bytes(6, MESSAGES * MESSAGE);
    ended.expect("nobody notices");
    let different: Vec<usize> = (0..all.len()).filter(|at| came[*at] != all[*at]).collect();
    assert_eq!((came.len(), different), (all.len(), vec![DAMAGED * MESSAGE + 700 + 16]));
    assert_eq!(there.stats().violations.iter().sum::<u64>(), 0);
    assert_eq!(there.device().counters().drop_icrc, 0);
}
