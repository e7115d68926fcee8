//! The leader: it appends records to its log, sends them to its followers, and commits what a
//! majority has.

use crate::layout::Hello;
use crate::peer::{Coming, Life, Log, Peer};
use crate::{FOLLOWERS, PORT, Sabotage, Shape, record};
use srnic_tools::error::{Error, Result};
use srnic_tools::perf::statistics::Latencies;
use srnic_tools::pump::Patience;
use srnic_tools::{interrupt, output};
use std::collections::VecDeque;
use std::io::stdin;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use verbs_api::{Access, ConnectionRequest, Device, FileBacking, Listener, ProtectionDomain};

/// Turns between two looks for what is rare: followers that come, signals.
const RARELY: u32 = 64;
/// How long a follower may take to end.
const LIMIT: Duration = Duration::from_secs(10);
/// How long the log may stand still: a follower that was killed is started again meanwhile.
const STANDSTILL: Duration = Duration::from_secs(60);
/// The record that [`Sabotage::Checksum`] damages.
const DAMAGED: u64 = 100;

/// Where a follower is.
enum Seat {
    Away,
    Coming(Coming),
    Here(Peer),
}

/// What is known of a follower, connected or not.
struct Follower {
    seat: Seat,
    /// The last record that it has acknowledged.
    acked: u64,
}

struct Leader {
    device: Device,
    pd: ProtectionDomain,
    listener: Listener,
    shape: Shape,
    sabotage: Option<Sabotage>,
    log: Log,
    committed: u64,
    /// When the records that are not committed were appended.
    begun: VecDeque<Instant>,
    followers: [Follower; FOLLOWERS as usize],
    latencies: Latencies,
    /// Records behind the middle may be appended: who started us has killed a follower by then.
    go_on: Arc<AtomicBool>,
    /// A record, as it is made.
    scratch: Vec<u8>,
}

/// Leads until all followers have all records. Says on standard output how far it is, in tenths,
/// and at last the rate, the packets that were sent again, and the latencies.
pub fn lead(device: &Device, path: &Path, shape: Shape, sabotage: Option<Sabotage>) -> Result<()> {
    device.wait_link(STANDSTILL)?;
    let mut leader = Leader::new(device, path, shape, sabotage)?;
    leader.wait_for_all()?;
    let start = Instant::now();
    let rate = leader.run(start)?;
    leader.close()?;
    let resent = device.counters().tx_retransmits;
    output::line(format_args!("done {rate} {resent} {}", leader.latencies.summary()))
}

impl Leader {
    fn new(device: &Device, path: &Path, shape: Shape, sabotage: Option<Sabotage>) -> Result<Self> {
        // The log is a file, and its mapping is what followers' records are sent from.
        let file = FileBacking::create(path, shape.records * shape.size as u64)?;
        let pd = device.alloc_pd();
        let memory = pd.register_file(file, Access::LOCAL_WRITE)?;
        let go_on = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&go_on);
        // It ends with the process.
        thread::spawn(move || {
            if stdin().read_line(&mut String::new()).is_ok() {
                // Relaxed: a flag of its own, which guards no other memory.
                flag.store(true, Ordering::Relaxed);
            }
        });
        Ok(Self {
            device: device.clone(),
            pd,
            listener: Listener::bind(device, PORT)?,
            shape,
            sabotage,
            log: Log { memory, size: shape.size, appended: 0 },
            committed: 0,
            begun: VecDeque::new(),
            followers: std::array::from_fn(|_| Follower { seat: Seat::Away, acked: 0 }),
            latencies: Latencies::default(),
            go_on,
            scratch: vec![0; shape.size],
        })
    }

    /// All learn that the log is complete before the first is left.
    fn close(&mut self) -> Result<()> {
        for follower in &mut self.followers {
            if let Seat::Here(peer) = &mut follower.seat {
                peer.finish(self.shape.records, LIMIT)?;
            }
        }
        for follower in &mut self.followers {
            if let Seat::Here(peer) = std::mem::replace(&mut follower.seat, Seat::Away) {
                peer.close(LIMIT)?;
            }
        }
        Ok(())
    }

    fn wait_for_all(&mut self) -> Result<()> {
        let (start, mut patience) = (Instant::now(), Patience::default());
        while !self.followers.iter().all(|follower| matches!(follower.seat, Seat::Here(_))) {
            interrupt::check()?;
            if start.elapsed() > STANDSTILL {
                return Err(Error::Late("the followers do not all come", STANDSTILL.as_secs()));
            }
            let now = Instant::now();
            self.admit(now)?;
            self.exchange(now)?;
            patience.polled(false);
        }
        Ok(())
    }

    /// Replicates all records; returns how many were committed a second.
    fn run(&mut self, start: Instant) -> Result<f64> {
        let records = self.shape.records;
        let (mut patience, mut moved, mut end) = (Patience::default(), start, None);
        let mut turn = 0_u32;
        while self.followers.iter().any(|follower| follower.acked < records) {
            let now = Instant::now();
            turn = turn.wrapping_add(1);
            if turn.is_multiple_of(RARELY) {
                interrupt::check()?;
                self.admit(now)?;
            }
            let news = self.exchange(now)?;
            self.commit(now)?;
            self.append(now)?;
            if news {
                moved = now;
            } else if now - moved > STANDSTILL {
                return Err(Error::Late("the followers do not go on", STANDSTILL.as_secs()));
            }
            if self.committed == records {
                end = end.or(Some(now));
            }
            patience.polled(news);
        }
        let end = end.unwrap_or_else(Instant::now);
        Ok(records as f64 / (end - start).as_secs_f64())
    }

    /// Lets followers in. One that comes again takes the place of what it was before.
    fn admit(&mut self, now: Instant) -> Result<()> {
        while let Some(request) = self.listener.poll() {
            // One that goes wrong is no reason to stop: it tries again.
            if let Err(error) = self.accept(request) {
                eprintln!("replog: a follower is not let in: {error}");
            }
        }
        for place in &mut self.followers {
            let Seat::Coming(coming) = &mut place.seat else { continue };
            let connected = coming.poll();
            if matches!(connected, Ok(None)) {
                continue;
            }
            let Seat::Coming(coming) = std::mem::replace(&mut place.seat, Seat::Away) else { continue };
            if let Ok(Some(pair)) = connected {
                let held = coming.hello.held;
                if held < place.acked || held > self.log.appended {
                    return Err(Error::Options(format!(
                        "follower {} comes with {held} records; it has acknowledged {}, and there are {}",
                        coming.hello.follower, place.acked, self.log.appended
                    )));
                }
                if self.log.appended > 0 {
                    output::line(format_args!("back {held} {}", self.log.appended))?;
                }
                place.seat = Seat::Here(coming.join(pair, now, self.sabotage)?);
            }
        }
        Ok(())
    }

    fn accept(&mut self, request: ConnectionRequest) -> Result<()> {
        let hello = Hello::decode(request.private_data())?;
        let place = self.followers.get_mut(usize::from(hello.follower)).ok_or_else(|| Error::Unexpected {
            said: format!("follower {}", hello.follower),
            expected: "a number below that of followers",
        })?;
        place.seat = Seat::Coming(Coming::accept(&self.device, &self.pd, request, hello)?);
        Ok(())
    }

    /// A turn with each follower; true if any has acknowledged more.
    fn exchange(&mut self, now: Instant) -> Result<bool> {
        let mut news = false;
        for place in &mut self.followers {
            let Seat::Here(peer) = &mut place.seat else { continue };
            match peer.turn(now, &self.log)? {
                Life::Acked(acked) => {
                    news |= acked > place.acked;
                    place.acked = place.acked.max(acked);
                }
                Life::Gone => place.seat = Seat::Away,
            }
        }
        self.device.progress();
        Ok(news)
    }

    /// What more than half of all, the leader among them, have in their logs is committed.
    fn commit(&mut self, now: Instant) -> Result<()> {
        let mut has: Vec<u64> = self.followers.iter().map(|follower| follower.acked).collect();
        has.push(self.log.appended);
        has.sort_unstable_by(|a, b| b.cmp(a));
        let majority = has[has.len() / 2];
        for sequence in self.committed + 1..=majority {
            let latency = self.begun.pop_front().map_or(Duration::ZERO, |begun| now - begun);
            self.latencies.record(u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX));
            if self.shape.tenth(sequence) > self.shape.tenth(sequence - 1) {
                output::line(format_args!("committed {}", self.shape.tenth(sequence)))?;
            }
        }
        self.committed = majority;
        Ok(())
    }

    /// Appends as many records as may be under way.
    fn append(&mut self, now: Instant) -> Result<()> {
        let Shape { records, size, outstanding } = self.shape;
        let allowed = if self.go_on.load(Ordering::Relaxed) { records } else { records / 2 };
        let end = allowed.min(self.committed + outstanding);
        while self.log.appended < end {
            let sequence = self.log.appended + 1;
            record::fill(&mut self.scratch, sequence);
            if self.sabotage == Some(Sabotage::Checksum) && sequence == DAMAGED {
                self.scratch[size - 1] ^= 1;
            }
            self.log.memory.write(self.log.at(sequence), &self.scratch)?;
            self.log.appended = sequence;
            self.begun.push_back(now);
        }
        Ok(())
    }
}
