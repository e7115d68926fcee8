//! The configuration of faults, such as `loss=1%,reorder=0.5%,delay=20us,seed=7,dir=rx`.

use super::rule::{BlackHole, DropRules};
use crate::port::options::{Keys, OptionError, duration_ns};
use core::str::FromStr;

/// The probability of a fault for one frame, as a multiple of 2^-32.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Probability(u64);

impl Probability {
    const ONE: u64 = 1 << 32;
    /// Never happens.
    pub const NEVER: Self = Self(0);
    /// Happens to every frame.
    pub const ALWAYS: Self = Self(Self::ONE);

    /// The probability nearest to `ratio`; `None` outside 0..=1.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0..=2^32 fits u64")]
    pub fn from_ratio(ratio: f64) -> Option<Self> {
        (0.0..=1.0).contains(&ratio).then(|| Self((ratio * 4_294_967_296.0).round() as u64))
    }

    /// The probability one over `n`; certainty if `n` is 0.
    #[must_use]
    pub const fn one_in(n: u32) -> Self {
        match n {
            0 => Self::ALWAYS,
            n => Self(Self::ONE / n as u64),
        }
    }

    /// Returns `true` if the fault happens, for 64 uniformly random bits.
    #[must_use]
    pub const fn hits(self, draw: u64) -> bool {
        draw >> 32 < self.0
    }
}

/// The directions that a [`Fault`](super::Fault) acts on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Direction {
    /// Frames that the engine sends.
    Tx,
    /// Frames that the engine receives.
    Rx,
    /// Both, independently of each other.
    #[default]
    Both,
}

/// The configuration of a [`Fault`](super::Fault). The default injects no faults. It is parsed from
/// `key=value` pairs with commas between:
///
/// | key | value | meaning |
/// |---|---|---|
/// | `loss` | probability | a frame is lost |
/// | `loss_tx`, `loss_rx` | probability | the same for frames sent, or received, in the place of `loss` |
/// | `drop` | `CLASS@K`, `CLASS@K-L`, `CLASS@K-` | the K-th frame of a class is lost, the K-th to the L-th, or all from the K-th |
/// | `hole` | `TIME-TIME`, `TIME-` | all frames are lost in this time after the direction's first frame |
/// | `burst` | probability | a frame begins a burst of losses |
/// | `burst_len` | 1.. | mean number of frames lost in a burst (8) |
/// | `burst_max` | time | but a burst ends after this at the latest (1ms), however few frames came |
/// | `dup` | probability | a frame is sent twice |
/// | `reorder` | probability | a frame is held back |
/// | `reorder_by` | 1.. | until so many later frames have overtaken it (3) |
/// | `reorder_max` | time | but no longer than this (1ms) |
/// | `corrupt` | probability | one bit behind the Ethernet header flips |
/// | `delay` | time | every frame is late by this (0us) |
/// | `ecn` | probability | an ECN-capable packet is marked CE |
/// | `queue` | 1..=65536 | frames that may wait; one more is dropped (1024) |
/// | `seed` | 0.. | of the random numbers (0) |
/// | `dir` | `tx`, `rx`, `both` | which frames are touched (both) |
///
/// Rules of `drop` are written with a `/` between, up to eight: `drop=ack@3/resend@1-2`. Each
/// counts the frames of its class from 1, in each direction by itself: `any`; `data` (SEND and
/// WRITE), `read_request`, `atomic`, `response` (to READs and atomics); `resend`, one of these with
/// a PSN sent before; `ack`, `nack`, `rnr`, `error_nak`; `read_ack`, whatever acknowledges
/// responses. So `drop=any@100-199` is a black hole that heals by packets, `hole=10ms-30ms` one
/// that heals by time.
///
/// A probability is a percentage (`1%`) or a fraction (`0.01`); a bare `1` is refused, as it could
/// mean either. A time is a whole number of `ns`, `us`, `ms` or `s`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FaultConfig {
    /// Independent loss.
    pub loss: Probability,
    /// Independent loss of what the engine sends, if it is not `loss`.
    pub loss_tx: Option<Probability>,
    /// Independent loss of what the engine receives, if it is not `loss`.
    pub loss_rx: Option<Probability>,
    /// Frames that are lost by their number.
    pub drop: DropRules,
    /// A time in which all frames are lost.
    pub hole: Option<BlackHole>,
    /// The probability that a frame begins a burst of losses (Gilbert model).
    pub burst: Probability,
    /// Mean number of frames lost in a burst, at least 1.
    pub burst_len: u32,
    /// Longest time, in nanoseconds, that a burst lasts: a queue that overflows is drained in time,
    /// not in frames, and a burst on a direction with few frames would outlast every probe and
    /// timeout.
    pub burst_max_ns: u64,
    /// Duplication.
    pub dup: Probability,
    /// Reordering: the frame is held back.
    pub reorder: Probability,
    /// Frames that overtake one held back, at least 1.
    pub reorder_by: u32,
    /// Longest time, in nanoseconds, that a frame is held back.
    pub reorder_max_ns: u64,
    /// A flipped bit behind the Ethernet header.
    pub corrupt: Probability,
    /// Delay of every frame, in nanoseconds.
    pub delay_ns: u64,
    /// CE mark on an ECN-capable packet.
    pub ecn: Probability,
    /// Frames that may wait in each direction, 1..=[`FaultConfig::QUEUE_MAX`].
    pub queue: u32,
    /// Seed of the random numbers.
    pub seed: u64,
    /// The directions that faults act on.
    pub dir: Direction,
}

impl FaultConfig {
    /// Largest `queue`.
    pub const QUEUE_MAX: u32 = 65_536;
}

impl Default for FaultConfig {
    fn default() -> Self {
        Self {
            loss: Probability::NEVER,
            loss_tx: None,
            loss_rx: None,
            drop: DropRules::default(),
            hole: None,
            burst: Probability::NEVER,
            burst_len: 8,
            burst_max_ns: 1_000_000,
            dup: Probability::NEVER,
            reorder: Probability::NEVER,
            reorder_by: 3,
            reorder_max_ns: 1_000_000,
            corrupt: Probability::NEVER,
            delay_ns: 0,
            ecn: Probability::NEVER,
            queue: 1024,
            seed: 0,
            dir: Direction::Both,
        }
    }
}

const KEYS: Keys = Keys {
    of: "fault",
    names: &[
        "loss",
        "loss_tx",
        "loss_rx",
        "drop",
        "hole",
        "burst",
        "burst_len",
        "burst_max",
        "dup",
        "reorder",
        "reorder_by",
        "reorder_max",
        "corrupt",
        "delay",
        "ecn",
        "queue",
        "seed",
        "dir",
    ],
    example: "loss=1%",
};

impl FromStr for FaultConfig {
    type Err = OptionError;

    fn from_str(text: &str) -> Result<Self, OptionError> {
        let mut config = Self::default();
        let items = text.split(',').map(str::trim).filter(|_| !text.trim().is_empty());
        KEYS.read(items, |key, value| config.set(key, value))?;
        Ok(config)
    }
}

const PROBABILITY: &str = "0, a percentage such as 1%, or a fraction with a point such as 0.01";
const COUNT: &str = "a whole number from 1 to 4294967295";
const QUEUE: &str = "a whole number from 1 to 65536";
const SEED: &str = "a whole number from 0 to 18446744073709551615";
const DIRECTION: &str = "tx, rx or both";

impl FaultConfig {
    /// Sets one key; the error says what is allowed.
    fn set(&mut self, key: &str, value: &str) -> Result<(), &'static str> {
        match key {
            "loss" => self.loss = probability(value)?,
            "loss_tx" => self.loss_tx = Some(probability(value)?),
            "loss_rx" => self.loss_rx = Some(probability(value)?),
            "drop" => self.drop = DropRules::parse(value).ok_or(DropRules::ALLOWED)?,
            "hole" => {
                let hole = BlackHole::parse(value, |time| duration_ns(time).ok());
                self.hole = Some(hole.ok_or(BlackHole::ALLOWED)?);
            }
            "burst" => self.burst = probability(value)?,
            "burst_len" => self.burst_len = count(value)?,
            "burst_max" => self.burst_max_ns = duration_ns(value)?,
            "dup" => self.dup = probability(value)?,
            "reorder" => self.reorder = probability(value)?,
            "reorder_by" => self.reorder_by = count(value)?,
            "reorder_max" => self.reorder_max_ns = duration_ns(value)?,
            "corrupt" => self.corrupt = probability(value)?,
            "delay" => self.delay_ns = duration_ns(value)?,
            "ecn" => self.ecn = probability(value)?,
            "queue" => {
                self.queue = count(value).ok().filter(|n| *n <= Self::QUEUE_MAX).ok_or(QUEUE)?;
            }
            "seed" => self.seed = value.parse().map_err(|_| SEED)?,
            "dir" => {
                self.dir = match value {
                    "tx" => Direction::Tx,
                    "rx" => Direction::Rx,
                    "both" => Direction::Both,
                    _ => return Err(DIRECTION),
                }
            }
            _ => unreachable!("the caller looked the key up"),
        }
        Ok(())
    }
}

fn probability(value: &str) -> Result<Probability, &'static str> {
    let (number, scale) = value.strip_suffix('%').map_or((value, 1.0), |percent| (percent, 100.0));
    // A bare 1 could be either; a bare 0 is.
    if !value.contains(['%', '.']) && value != "0" {
        return Err(PROBABILITY);
    }
    number.parse::<f64>().ok().and_then(|number| Probability::from_ratio(number / scale)).ok_or(PROBABILITY)
}

fn count(value: &str) -> Result<u32, &'static str> {
    value.parse().ok().filter(|n| *n >= 1).ok_or(COUNT)
}
