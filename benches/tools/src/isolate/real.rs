//! Some pairs of the matrix on two processes over memif.
//!
//! This process is host 0, and a process of its own for each policy is host 1: devices that never
//! had tenants, and devices with them. Alone, off and on are measured in turn, again and again, and
//! the median of each counts, since machines change their speed meanwhile.

mod peer;
mod playable;

pub use peer::answer;
pub use playable::{check, cut};

use crate::error::{Error, Result};
use crate::interrupt;
use crate::place::Place;
use crate::two_hosts::Player;
use indicatif::ProgressBar;
use peer::Peer;
use srnic_workload::isolate::{Matrix, Pair, Side};
use srnic_workload::scenario::Scenario;
use std::time::Duration;

/// What is measured if nobody says which attackers and victims.
pub const PAIRS: [(&str, &str); 6] = [
    ("bulk", "write-64K"),
    ("bulk", "read-8"),
    ("tiny", "write-4K"),
    ("atomics", "write-8"),
    ("many", "write-64K"),
    ("not-ready", "send-4K"),
];

/// How it is measured.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Rounds, of which the median counts.
    pub rounds: u32,
    /// How long each run is measured.
    pub time: Duration,
}

/// Two hosts without tenants, and two with them.
struct Hosts {
    players: [Player; 2],
    _peers: [Peer; 2],
    _place: Place,
}

impl Hosts {
    fn open(matrix: &Matrix) -> Result<Self> {
        let place = Place::new("isolate")?;
        let open = |policy: bool| {
            let socket = place.path().join(if policy { "on.sock" } else { "off.sock" });
            let peer = Peer::start(&socket, policy.then_some(&matrix.policy))?;
            let device = format!("memif:{}", socket.display());
            let player = Player::open(&device, policy.then_some(&matrix.policy))?;
            Ok::<_, Error>((peer, player))
        };
        let ((off_peer, off), (on_peer, on)) = (open(false)?, open(true)?);
        Ok(Self { players: [off, on], _peers: [off_peer, on_peer], _place: place })
    }

    /// What a victim has, alone or beside an attacker, in Gb/s.
    fn run(&self, attacker: Option<&Side>, victim: &Side, policy: bool, plan: Plan) -> Result<f64> {
        self.players[usize::from(policy)].run(attacker, victim, plan.time)
    }
}

/// Measures pairs of a matrix; once Ctrl-C comes, those that are done are returned.
///
/// # Errors
/// [`Error::Verbs`], and what else two processes may suffer.
pub fn measure(
    matrix: &Matrix,
    pairs: &[(usize, usize)],
    plan: Plan,
    bar: &ProgressBar,
) -> Result<Vec<Pair>> {
    let hosts = Hosts::open(matrix)?;
    let mut measured = Vec::new();
    for (attacker, victim) in pairs {
        let (attacker, victim) = (&matrix.attacker[*attacker], &matrix.victim[*victim]);
        let mut samples = [const { Vec::new() }; 3];
        for _ in 0..plan.rounds {
            let runs = [(None, false), (Some(attacker), false), (Some(attacker), true)];
            for ((attacker, policy), samples) in runs.into_iter().zip(&mut samples) {
                match hosts.run(attacker, victim, policy, plan) {
                    // Ctrl-C ends the peer, too, which this host may notice first.
                    Err(_) if interrupt::check().is_err() => return Ok(measured),
                    gbps => samples.push(gbps?),
                }
                bar.inc(1);
            }
        }
        let [alone, off, on] = samples.map(crate::calibrate::median);
        measured.push(Pair {
            attacker: attacker.name.clone(),
            victim: victim.name.clone(),
            needs: attacker.needs,
            alone,
            guaranteed: alone * matrix.share(),
            off,
            on,
            reason: None,
            scenario: Scenario::default(),
        });
        if interrupt::check().is_err() {
            break;
        }
    }
    Ok(measured)
}
