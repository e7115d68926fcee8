//! What the tests share: the rules said naively, a fast path in miniature, a generator of random
//! numbers.
#![allow(dead_code, reason = "each test binary uses a part")]

pub mod fast_path;
pub mod naive;
pub mod rng;

use sr_recovery::{Command, Record, SlowPath, SlowPathConfig, StreamId};
use wire::Psn;

use naive::{NaiveReceiver, NaiveSender};

pub const STREAM: StreamId = StreamId { qp: 0, response: true };

/// Positions count from here; the first few are before the wrap of the PSN space.
pub const ORIGIN: Psn = Psn::new(0xFF_FFF0);

pub fn psn(position: u32) -> Psn {
    ORIGIN.add(position)
}

pub fn position(psn: Psn) -> u32 {
    psn.steps_from(ORIGIN)
}

/// The slow path of one stream, each of its answers compared with what the naive rules say.
pub struct Checked {
    pub slow_path: SlowPath,
    receiver: NaiveReceiver,
    /// `None` if the sender finds no scoreboard, and guesses.
    sender: Option<NaiveSender>,
}

impl Checked {
    pub fn new(window_max: u32) -> Self {
        Self {
            slow_path: SlowPath::new(SlowPathConfig { max_streams: 2, window_max, contexts: 1 }),
            receiver: NaiveReceiver::default(),
            sender: Some(NaiveSender::default()),
        }
    }

    /// One that has no scoreboard for its sender.
    pub fn untracked(window_max: u32) -> Self {
        let config = SlowPathConfig { max_streams: 2, window_max, contexts: 0 };
        Self { slow_path: SlowPath::new(config), sender: None, ..Self::new(window_max) }
    }

    /// Hands over one record and returns its checked answers.
    pub fn handle(&mut self, record: &Record) -> Vec<Command> {
        assert!(self.slow_path.ready());
        self.slow_path.handle(record);
        let commands: Vec<_> = std::iter::from_fn(|| self.slow_path.poll()).collect();
        match *record {
            Record::RxRun { .. } | Record::RxClose { .. } => {
                let expected: Vec<_> = self.receiver.handle(record).into_iter().collect();
                assert_eq!(commands, expected, "after {record:?}");
            }
            _ => self.sender.iter_mut().for_each(|sender| sender.check(record, &commands)),
        }
        let stats = self.slow_path.stats();
        assert_eq!((stats.records_invalid, stats.records_stale), (0, 0), "after {record:?}");
        commands
    }

    /// Nothing is remembered of the sender.
    pub fn sender_is_clean(&self) -> bool {
        self.slow_path.stats().senders_open == 0
    }
}
