//! The load generator, and the check of what it was promised.
//!
//! Each client PUTs only keys of its own, and GETs those of all. A value says which key and which
//! PUT it is of, and the rest of its bytes follow from that: a client sees at once if it gets
//! anything that nobody wrote, or something older than what it had seen. It logs each PUT that the
//! server acknowledged, before it goes on.

use crate::client::{Client, Done};
use crate::protocol::LANES;
use crate::slot::{Found, VALUE_MAX, mix};
use srnic_tools::error::{Error, Result};
use std::collections::HashMap;
use std::fs::{File, read_to_string};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// What to do.
pub struct Plan {
    /// Number of this client, from 0.
    pub client: u64,
    /// Clients.
    pub clients: u64,
    /// Keys of each.
    pub keys: u64,
    /// Operations.
    pub operations: u64,
    /// Per cent of them that are GETs.
    pub reads: u64,
    /// Where acknowledged PUTs are written down.
    pub log: PathBuf,
}

/// The value of PUT number `number` of `key`.
fn value(key: u64, number: u64) -> Vec<u8> {
    let words = (0..VALUE_MAX as u64 / 8 - 1).map(|word| mix(key ^ number << 32 ^ word << 56));
    [number].into_iter().chain(words).flat_map(u64::to_le_bytes).collect()
}

/// The number of the PUT that wrote the value of `key`, if one did.
fn number(key: u64, bytes: &[u8]) -> Result<u64> {
    let number = bytes.first_chunk().map_or(0, |first| u64::from_le_bytes(*first));
    if bytes == value(key, number) {
        return Ok(number);
    }
    Err(Error::Options(format!("key {key} has a value that nobody wrote")))
}

/// What a lane does.
#[derive(Clone, Copy)]
enum Operation {
    /// Of a key, and the number that it must have at least.
    Get(u64, u64),
    /// Of a key, and the number of the PUT.
    Put(u64, u64),
}

struct Load<'a> {
    plan: &'a Plan,
    client: Client,
    log: File,
    lanes: [Option<Operation>; LANES],
    /// The highest number seen of each key.
    seen: HashMap<u64, u64>,
    random: u64,
    torn: u64,
}

/// Runs the plan.
pub fn run(client: Client, plan: &Plan) -> Result<()> {
    let log = File::create(&plan.log).map_err(Error::file("create", &plan.log))?;
    let random = mix(plan.client);
    let mut load = Load { plan, client, log, lanes: [None; LANES], seen: HashMap::new(), random, torn: 0 };
    let start = Instant::now();
    let (mut begun, mut done) = (0, 0);
    while done < plan.operations {
        for lane in 0..LANES {
            if load.lanes[lane].is_none() && begun < plan.operations {
                load.begin(lane)?;
                begun += 1;
            }
        }
        load.finish_one()?;
        done += 1;
    }
    let rate = plan.operations as f64 / start.elapsed().as_secs_f64();
    println!("client {}: {done} operations, {rate:.0} a second, {} read again", plan.client, load.torn);
    Ok(())
}

impl Load<'_> {
    fn draw(&mut self, below: u64) -> u64 {
        self.random = mix(self.random);
        self.random % below.max(1)
    }

    fn begin(&mut self, lane: usize) -> Result<()> {
        let plan = self.plan;
        let operation = if self.draw(100) < plan.reads {
            let key = self.draw(plan.clients * plan.keys);
            self.client.get(lane, key)?;
            Operation::Get(key, self.seen.get(&key).copied().unwrap_or(0))
        } else {
            // No two lanes PUT the same key, so numbers rise.
            let own = self.draw(plan.keys / LANES as u64) * LANES as u64 + lane as u64;
            let key = plan.client * plan.keys + own;
            let number = self.seen.get(&key).copied().unwrap_or(0) + 1;
            self.client.put(lane, key, &value(key, number))?;
            Operation::Put(key, number)
        };
        self.lanes[lane] = Some(operation);
        Ok(())
    }

    fn finish_one(&mut self) -> Result<()> {
        let (lane, done) = self.client.next(&mut self.torn)?;
        match (self.lanes[lane].take(), done) {
            (Some(Operation::Get(key, floor)), Done::Got(Found::Entry(entry))) => {
                self.got(key, floor, number(key, &entry.value)?)
            }
            (Some(Operation::Get(key, floor)), Done::Got(_)) => self.got(key, floor, 0),
            (Some(Operation::Put(key, number)), Done::Put(Some(_))) => {
                let line = format!("{key} {number}\n");
                self.log.write_all(line.as_bytes()).map_err(Error::file("write", &self.plan.log))?;
                self.seen.insert(key, number);
                Ok(())
            }
            (_, Done::Put(None)) => {
                Err(Error::Options("the store is full; give it more --buckets".to_owned()))
            }
            _ => Err(Error::Options(format!("lane {lane} ended what it had not begun"))),
        }
    }

    /// A GET sees what was acknowledged, or seen by another GET, before it began.
    fn got(&mut self, key: u64, floor: u64, number: u64) -> Result<()> {
        if number < floor {
            return Err(Error::Options(format!("key {key} went back from {floor} to {number}")));
        }
        let seen = self.seen.entry(key).or_default();
        *seen = number.max(*seen);
        Ok(())
    }
}

/// Every PUT that a log has must be there, or a later one of the same key.
pub fn check(mut client: Client, logs: &[PathBuf]) -> Result<()> {
    let mut acknowledged: HashMap<u64, u64> = HashMap::new();
    for log in logs {
        for (key, number) in read_log(log)? {
            let last = acknowledged.entry(key).or_default();
            *last = number.max(*last);
        }
    }
    for (key, last) in &acknowledged {
        client.get(0, *key)?;
        let (_, Done::Got(Found::Entry(entry))) = client.next(&mut 0)? else {
            return Err(Error::Options(format!("key {key} is lost")));
        };
        let number = number(*key, &entry.value)?;
        if number < *last {
            return Err(Error::Options(format!("key {key} has PUT {number}; {last} was acknowledged")));
        }
    }
    println!("all {} keys hold what was acknowledged", acknowledged.len());
    Ok(())
}

/// The lines of a log; the last may be half, if its writer was killed.
fn read_log(log: &Path) -> Result<Vec<(u64, u64)>> {
    let text = read_to_string(log).map_err(Error::file("read", log))?;
    let whole = text.rsplit_once('\n').map_or("", |(lines, _)| lines);
    let pairs = whole.lines().filter_map(|line| line.split_once(' '));
    Ok(pairs.filter_map(|(key, number)| Some((key.parse().ok()?, number.parse().ok()?))).collect())
}
