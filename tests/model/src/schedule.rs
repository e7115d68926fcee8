//! One schedule: everything that a seed decides before the run starts.

use wire::serial::Psn;

use crate::packet::Side;
use crate::rng::Rng;

/// Most messages that one side of a connection posts in one life.
pub const OPS_MAX: usize = 24;
/// Most cells in a message.
pub const CELLS_MAX: u32 = 6;
/// Cells in which small WRITEs overwrite each other.
pub const FLAGS: usize = 2;

/// What an application asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verb {
    /// SEND.
    Send,
    /// WRITE to an address of its own.
    Write,
    /// One-cell WRITE to an address that others overwrite.
    Flag(usize),
    /// READ of constant data.
    Read,
    /// READ of a flag.
    ReadFlag(usize),
    /// FETCH_ADD of one to the one counter.
    FetchAdd,
}

/// A work request.
#[derive(Clone, Copy, Debug)]
pub struct Op {
    /// The operation.
    pub verb: Verb,
    /// Length.
    pub cells: u32,
    /// With immediate data (WRITE and flags only; a SEND consumes a receive WQE anyway).
    pub imm: bool,
    /// The packet, if any, that the responder must refuse.
    pub bad_at: Option<u32>,
}

impl Op {
    /// Request packets.
    #[must_use]
    pub fn packets(&self) -> u32 {
        if self.answers() > 0 { 1 } else { self.cells.max(1) }
    }

    /// Response packets.
    #[must_use]
    pub fn answers(&self) -> u32 {
        match self.verb {
            Verb::Read | Verb::ReadFlag(_) => self.cells.max(1),
            Verb::FetchAdd => 1,
            _ => 0,
        }
    }

    /// True if it needs the key of flags and counter.
    #[must_use]
    pub fn touches_words(&self) -> bool {
        matches!(self.verb, Verb::Flag(_) | Verb::ReadFlag(_) | Verb::FetchAdd)
    }

    /// True if it takes a receive WQE.
    #[must_use]
    pub fn receives(&self) -> bool {
        self.verb == Verb::Send || self.imm
    }
}

/// Something that happens at a given time.
#[derive(Clone, Copy, Debug)]
pub enum Step {
    /// Host `host` posts `op` on queue pair `qp`.
    Post {
        /// Host.
        host: usize,
        /// Queue pair.
        qp: usize,
        /// Work request.
        op: Op,
    },
    /// Host `host` posts `count` receives.
    Receive {
        /// Host.
        host: usize,
        /// Queue pair.
        qp: usize,
        /// Receive WQEs.
        count: u32,
    },
    /// The congestion controller of a stream decides on `packets`; 0 is less than a packet.
    Cwnd {
        /// Host.
        host: usize,
        /// Queue pair.
        qp: usize,
        /// Stream.
        side: Side,
        /// New window.
        packets: u32,
    },
    /// Host `host` withdraws the key of the words of queue pair `qp`: flags and counter.
    Revoke {
        /// Host.
        host: usize,
        /// Queue pair.
        qp: usize,
    },
    /// Both ends of `qp` go through RESET.
    Reset(Reset),
}

/// How two ends are reset and connected again.
#[derive(Clone, Copy, Debug)]
pub struct Reset {
    /// Queue pair.
    pub qp: usize,
    /// The host that goes first, both times.
    pub first: usize,
    /// Ticks between the two resets.
    pub gap: u64,
    /// Ticks in RESET.
    pub wait: u64,
    /// Ticks between the two connections.
    pub gap_connect: u64,
}

/// What the network does. Chances are per mille.
#[derive(Clone, Debug)]
pub struct Faults {
    /// Loss of requests and responses.
    pub loss_data: u64,
    /// Loss of acknowledgements.
    pub loss_ack: u64,
    /// Longest run of losses of one sender's packets of one kind outside blackouts: a bounded
    /// adversary, so that exhausted retries are always somebody's fault.
    pub loss_run_max: u32,
    /// Duplication of requests and responses.
    pub duplicate_data: u64,
    /// Duplication of acknowledgements.
    pub duplicate_ack: u64,
    /// Reordering; what is not reordered stays in order.
    pub reorder_data: u64,
    /// Reordering of acknowledgements.
    pub reorder_ack: u64,
    /// Longest ordinary delay.
    pub delay_max: u64,
    /// Longest delay of a reordered packet or of a copy.
    pub delay_reordered_max: u64,
    /// Times at which one direction, or both, lose everything: from, to, sending hosts.
    pub blackouts: Vec<(u64, u64, [bool; 2])>,
}

/// The parameters of a run, and its steps in order of time.
#[derive(Clone, Debug)]
pub struct Schedule {
    /// Where all comes from.
    pub seed: u64,
    /// Queue pairs between the two hosts, sharing each host's metadata ring.
    pub qps: usize,
    /// Largest window in packets, the same for sender (`cap`) and receiver.
    pub window: u32,
    /// Metadata records that a host's ring holds.
    pub ring: usize,
    /// Commands that a host's command ring holds.
    pub commands: usize,
    /// Longest ordinary delay of the slow path, each way.
    pub slow_delay_max: u64,
    /// Chance of a delay twenty times as long.
    pub slow_stall: u64,
    /// The sender's scoreboard is the slow path's, too: SACKs come late to it, or never.
    pub slow_scoreboard: bool,
    /// In-order packets per acknowledgement.
    pub ack_every: u32,
    /// Delay after which a pending acknowledgement is flushed, if at all.
    pub flush: Option<u64>,
    /// StrictPlacement: what is out of order is dropped.
    pub strict: bool,
    /// First interval of the tail probe, if it is on.
    pub tail_probe: Option<u64>,
    /// Retransmission timeout without backoff.
    pub rto: u64,
    /// 4.096 us x 2^timeout; `None` is `timeout = 0`.
    pub patience: Option<u64>,
    /// As in verbs.
    pub retry_cnt: u32,
    /// As in verbs: 7 is for ever.
    pub rnr_retry: u32,
    /// Ticks that an RNR NAK asks for.
    pub rnr_wait: u64,
    /// Outstanding READs and ATOMICs, both roles.
    pub rd_atomic: usize,
    /// WQEs of the receive queue that all queue pairs of a host share, if they do; each is posted
    /// again when its message completes.
    pub srq: Option<u32>,
    /// Network.
    pub faults: Faults,
    /// True if timeouts must be explained by losses (see `oracle`).
    pub tidy: bool,
    /// Lives of each queue pair.
    pub lives: u32,
    /// First PSNs start near this.
    pub psn_base: Psn,
    /// First MSN and SSN of each life are this many below the wrap.
    pub below_wrap: u32,
    /// First congestion windows.
    pub cwnd: u32,
    /// What applications do.
    pub steps: Vec<(u64, Step)>,
    /// When all faults stop.
    pub heal_at: u64,
}

impl Schedule {
    /// Draws the schedule of `seed`.
    #[must_use]
    pub fn draw(seed: u64) -> Self {
        let rng = &mut Rng::new(seed);
        let tidy = rng.chance(150);
        let lives = if tidy { 1 } else { rng.pick(&[1, 1, 1, 2, 3]) };
        let heal_at = rng.between(80, 900);
        let rto = rng.between(80, 160);
        let window = rng.pick(&[2, 3, 4, 4, 8, 8, 16, 32]);
        let faults = if tidy { Faults::tidy(rng) } else { Faults::draw(rng, heal_at, rto) };
        let mut schedule = Self {
            seed,
            qps: rng.pick(&[1, 1, 2, 2, 3]),
            window,
            ring: rng.pick(&[3, 4, 6, 8, 16, 64]),
            commands: rng.pick(&[1, 1, 2, 4, 8]),
            slow_delay_max: if tidy { rng.between(0, 2) } else { rng.pick(&[0, 2, 10, 30]) },
            slow_stall: if tidy { 0 } else { rng.pick(&[0, 0, 50, 200]) },
            slow_scoreboard: !tidy && rng.chance(300),
            ack_every: rng.count(1, 5),
            flush: if tidy { Some(2) } else { rng.pick(&[None, Some(1), Some(3)]) },
            strict: rng.chance(if tidy { 200 } else { 60 }),
            tail_probe: if tidy { None } else { rng.pick(&[None, Some(30), Some(45)]) },
            rto,
            patience: Some(rto * 8),
            retry_cnt: 7,
            rnr_retry: if tidy { 7 } else { rng.pick(&[7, 7, 7, 0, 2]) },
            rnr_wait: rng.between(5, 80),
            rd_atomic: usize::try_from(rng.between(1, 4)).expect("small"),
            srq: None,
            faults,
            tidy,
            lives,
            psn_base: rng.pick(&[
                Psn::new(0),
                Psn::new(0x00ff_fff0),
                Psn::new(0x007f_fff8),
                Psn::new(0x12_3456),
            ]),
            below_wrap: rng.pick(&[0, 3, 10]),
            cwnd: rng.count(if tidy { 2 } else { 1 }, window),
            steps: Vec::new(),
            heal_at,
        };
        if !schedule.faults.blackouts.is_empty() {
            schedule.retry_cnt = rng.pick(&[0, 1, 2, 7]);
            schedule.patience = Some(rto * rng.between(1, 4));
        }
        let errors = if tidy { 0 } else { rng.pick(&[0, 0, 0, 15, 60]) };
        if errors == 0 && schedule.faults.blackouts.is_empty() && schedule.rnr_retry == 7 {
            // A peer that may die keeps shared WQEs for ever, and is never found out with `timeout
            // = 0`.
            schedule.srq = rng.chance(200).then(|| rng.count(1, 6));
            schedule.patience = schedule.patience.filter(|_| lives > 1 || rng.chance(700));
        }
        schedule.draw_steps(rng, errors);
        schedule
    }

    fn draw_steps(&mut self, rng: &mut Rng, errors: u64) {
        let windows = if self.tidy { [2, 3, 4, 8, self.window] } else { [0, 1, 1, 2, self.window] };
        let eager_receives = rng.chance(500);
        let verbs = rng.word();
        for qp in 0..self.qps {
            for host in 0..2 {
                for _ in 0..rng.between(0, OPS_MAX as u64) {
                    let op = draw_op(rng, verbs, errors);
                    let at = rng.between(0, self.heal_at);
                    self.steps.push((at, Step::Post { host, qp, op }));
                    if op.receives() {
                        let at = if eager_receives { 0 } else { rng.between(0, self.heal_at * 2) };
                        let step = Step::Receive { host: 1 - host, qp, count: 1 };
                        self.steps.push((at.min(self.heal_at), step));
                    }
                }
                for _ in 0..rng.between(0, 3) {
                    let side = rng.pick(&[Side::Request, Side::Response]);
                    let packets = rng.pick(&windows);
                    let at = rng.between(0, self.heal_at);
                    self.steps.push((at, Step::Cwnd { host, qp, side, packets }));
                }
            }
            if errors > 0 && rng.chance(250) {
                let at = rng.between(0, self.heal_at);
                self.steps.push((at, Step::Revoke { host: usize::from(rng.chance(500)), qp }));
            }
            for _ in 1..self.lives {
                let at = rng.between(20, self.heal_at);
                self.steps.push((at, Step::Reset(Reset::draw(rng, qp))));
            }
        }
        self.steps.sort_by_key(|(at, _)| *at);
    }

    /// First PSN of life number `life` in the direction of `host`'s requests. Lives lie 2^20 PSNs
    /// apart, so that no late packet falls into a later life's window.
    #[must_use]
    pub fn first_psn(&self, host: usize, qp: usize, life: u32) -> Psn {
        let lane = u32::try_from(host + 2 * qp).expect("few queue pairs");
        let step = if self.seed.is_multiple_of(2) { life << 20 } else { 0u32.wrapping_sub(life << 20) };
        self.psn_base.add(lane * 3).add(step)
    }
}

impl Reset {
    /// Draws one for `qp`.
    pub fn draw(rng: &mut Rng, qp: usize) -> Self {
        Self {
            qp,
            first: usize::from(rng.chance(500)),
            gap: rng.between(0, 40),
            wait: rng.between(0, 60),
            gap_connect: rng.between(0, 40),
        }
    }
}

impl Faults {
    fn draw(rng: &mut Rng, heal_at: u64, rto: u64) -> Self {
        let delay_max = rng.between(1, 8);
        let mut blackouts = Vec::new();
        if rng.chance(120) {
            let from = rng.between(0, heal_at);
            let hosts = rng.pick(&[[true, true], [true, false], [false, true]]);
            blackouts.push((from, from + rto * rng.between(1, 30), hosts));
        }
        Self {
            loss_data: rng.pick(&[0, 10, 50, 150, 300]),
            loss_ack: rng.pick(&[0, 10, 50, 150, 300]),
            loss_run_max: 3,
            duplicate_data: rng.pick(&[0, 0, 20, 150]),
            duplicate_ack: rng.pick(&[0, 0, 20, 150]),
            reorder_data: rng.pick(&[0, 0, 20, 200, 500]),
            reorder_ack: rng.pick(&[0, 0, 20, 200, 500]),
            delay_max,
            delay_reordered_max: delay_max * rng.between(2, 20),
            blackouts,
        }
    }

    /// Data packets are lost, and acknowledgements come late a second time; nothing else goes
    /// wrong.
    fn tidy(rng: &mut Rng) -> Self {
        Self {
            loss_data: rng.pick(&[0, 10, 50, 150, 300]),
            loss_ack: 0,
            loss_run_max: 3,
            duplicate_data: 0,
            duplicate_ack: rng.pick(&[0, 100, 500]),
            reorder_data: 0,
            reorder_ack: 0,
            delay_max: rng.between(1, 4),
            delay_reordered_max: 40,
            blackouts: Vec::new(),
        }
    }
}

fn draw_op(rng: &mut Rng, verbs: u64, errors: u64) -> Op {
    // `verbs` leaves some verbs out, so that some schedules are all small WRITEs, all READs, and so
    // on.
    let mut kind = rng.between(0, 5);
    while verbs >> kind & 1 == 0 && verbs & 0x3f != 0 {
        kind = (kind + 1) % 6;
    }
    let flag = usize::try_from(rng.between(0, FLAGS as u64 - 1)).expect("small");
    let verb = [Verb::Send, Verb::Write, Verb::Flag(flag), Verb::Read, Verb::ReadFlag(flag), Verb::FetchAdd]
        [usize::try_from(kind).expect("small")];
    let cells = match verb {
        Verb::Send | Verb::Write | Verb::Read => rng.count(0, CELLS_MAX),
        _ => 1,
    };
    let imm = matches!(verb, Verb::Write | Verb::Flag(_)) && rng.chance(200);
    let mut op = Op { verb, cells, imm, bad_at: None };
    if rng.chance(errors) {
        op.bad_at = Some(rng.count(0, op.packets() - 1));
    }
    op
}
