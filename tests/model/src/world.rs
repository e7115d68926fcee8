//! Two hosts, the network, and virtual time that jumps from one event to the next.

use crate::context::Cx;
use crate::defects::Defect;
use crate::network::{Agenda, Event, Fate, Network};
use crate::oracle::Oracle;
use crate::packet::{Body, Packet, Side};
use crate::queue_pair::{Life, QueuePair, State};
use crate::rng::{Rng, mix};
use crate::schedule::{Reset, Schedule, Step};
use crate::slow_path::{SlowPath, StreamId};

/// A run that takes longer is a live-lock.
const EVENTS_MAX: u64 = 100_000;

/// What happened in a run that went well.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Stats {
    /// Events handled.
    pub events: u64,
    /// Packets sent, of any kind.
    pub packets: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
    /// Packets declared lost and sent again.
    pub resent: u64,
    /// Messages posted.
    pub messages: u64,
    /// Hash of all packets with their times.
    pub trace: u64,
}

impl Stats {
    /// Adds those of another run.
    pub fn add(&mut self, other: &Self) {
        self.events += other.events;
        self.packets += other.packets;
        self.timeouts += other.timeouts;
        self.resent += other.resent;
        self.messages += other.messages;
        self.trace ^= other.trace;
    }
}

#[derive(Debug)]
struct Host {
    qps: Vec<QueuePair>,
    slow: SlowPath,
    /// Free WQEs of the shared receive queue.
    srq: u32,
    slow_busy: bool,
    commands_busy: bool,
    evidence_busy: bool,
}

/// A connection's lives.
#[derive(Clone, Copy, Default, Debug)]
struct Connection {
    life: u32,
    resetting: bool,
    started: bool,
}

/// A run.
#[derive(Debug)]
pub struct World<'a> {
    schedule: &'a Schedule,
    defect: Option<Defect>,
    now: u64,
    next_step: usize,
    agenda: Agenda,
    network: Network,
    hosts: [Host; 2],
    connections: Vec<Connection>,
    oracle: Oracle,
    rng: Rng,
    out: Vec<Packet>,
    stats: Stats,
    /// Print every packet.
    verbose: bool,
}

impl<'a> World<'a> {
    /// All connections up, nothing posted.
    #[must_use]
    pub fn new(schedule: &'a Schedule, defect: Option<Defect>) -> Self {
        let mut rng = Rng::new(schedule.seed ^ 0x6e65_7477_6f72_6b00);
        let network = Network::new(Rng::new(rng.word()), schedule.qps);
        let host = |host: usize| Host {
            qps: (0..schedule.qps)
                .map(|qp| QueuePair::connect(&life(schedule, host, qp, 0, defect), None, schedule, defect))
                .collect(),
            slow: SlowPath::new(schedule.qps * 2, schedule.ring, schedule.commands, defect),
            srq: schedule.srq.unwrap_or(0),
            slow_busy: false,
            commands_busy: false,
            evidence_busy: false,
        };
        let mut world = Self {
            schedule,
            defect,
            now: 0,
            next_step: 0,
            agenda: Agenda::default(),
            network,
            hosts: [host(0), host(1)],
            connections: vec![Connection::default(); schedule.qps],
            oracle: Oracle::new(schedule),
            rng,
            out: Vec::new(),
            stats: Stats::default(),
            verbose: false,
        };
        for qp in 0..schedule.qps {
            for host in 0..2 {
                world.begin_life(host, qp);
            }
        }
        world.agenda.at(schedule.heal_at, Event::Heal);
        world
    }

    /// Prints every packet.
    #[must_use]
    pub fn verbose(mut self) -> Self {
        self.verbose = true;
        self
    }

    /// Runs to the end.
    ///
    /// # Errors
    /// What the oracle saw first.
    pub fn run(mut self) -> Result<Stats, String> {
        while self.oracle.verdict().is_none() {
            let step_at = self.schedule.steps.get(self.next_step).map_or(u64::MAX, |(at, _)| *at);
            let event_at = self.agenda.next_at();
            let (timer_at, host, qp) = self.next_timer();
            let at = step_at.min(event_at).min(timer_at);
            if at == u64::MAX {
                self.judge_end();
                break;
            }
            self.now = self.now.max(at);
            self.stats.events += 1;
            if self.stats.events > EVENTS_MAX {
                self.oracle.fail("no end in sight".into());
            }
            if at == step_at {
                let step = self.schedule.steps[self.next_step].1;
                self.next_step += 1;
                self.take_step(step);
            } else if at == event_at {
                if let Some(event) = self.agenda.pop() {
                    self.handle(event);
                }
            } else {
                self.with(host, qp, |end, cx| end.poll(cx));
            }
        }
        match self.oracle.verdict() {
            None => Ok(self.stats),
            Some(what) => Err(format!("tick {}: {what}", self.now)),
        }
    }

    fn next_timer(&self) -> (u64, usize, usize) {
        let mut first = (u64::MAX, 0, 0);
        for (host, state) in self.hosts.iter().enumerate() {
            for (qp, end) in state.qps.iter().enumerate() {
                first = first.min((end.deadline(), host, qp));
            }
        }
        first
    }

    /// Lets one end of a connection act, and carries away what it sends.
    fn with(&mut self, host: usize, qp: usize, act: impl FnOnce(&mut QueuePair, &mut Cx<'_>)) {
        let state = &mut self.hosts[host];
        let mut cx = Cx {
            now: self.now,
            schedule: self.schedule,
            defect: self.defect,
            slow: &mut state.slow,
            srq: &mut state.srq,
            out: &mut self.out,
            oracle: &mut self.oracle,
            host,
            qp,
        };
        act(&mut state.qps[qp], &mut cx);
        let failed = state.qps[qp].state == State::Error;
        for packet in self.out.drain(..) {
            self.oracle.on_sent(host, &packet);
            let faults = (self.now < self.schedule.heal_at).then_some(&self.schedule.faults);
            let delay_max = self.schedule.faults.delay_max;
            let fate = self.network.send((host, packet), self.now, faults, delay_max, &mut self.agenda);
            match (fate, packet.body) {
                (Fate::BlackedOut, _) => self.oracle.excuse_all(qp),
                (Fate::Lost, Body::Request(_)) => {
                    self.oracle.on_lost(host, StreamId { qp, side: Side::Request })
                }
                (Fate::Lost, Body::Response(_)) => {
                    self.oracle.on_lost(host, StreamId { qp, side: Side::Response })
                }
                _ => {}
            }
            self.stats.packets += 1;
            if self.verbose {
                println!("{} host {host}: {fate:?} {packet:?}", self.now);
            }
            let word = u64::from(packet.psn.get()) ^ (self.now << 24) ^ ((host as u64) << 63);
            self.stats.trace = mix(self.stats.trace ^ word);
        }
        if failed && self.now < self.schedule.heal_at {
            let at_most = self.schedule.heal_at - self.now;
            let delay = self.rng.between(0, at_most.min(300));
            let reset = Reset::draw(&mut self.rng, qp);
            self.reset(reset, delay);
        }
        self.wake_slow_path(host);
    }

    fn wake_slow_path(&mut self, host: usize) {
        let delay = self.slow_delay();
        let state = &mut self.hosts[host];
        if state.slow.has_records() && !state.slow_busy {
            state.slow_busy = true;
            self.agenda.at(self.now + delay, Event::SlowWork { host });
        }
        if state.slow.has_evidence() && !state.evidence_busy {
            state.evidence_busy = true;
            self.agenda.at(self.now + delay, Event::Evidence { host });
        }
        if state.slow.has_commands() && !state.commands_busy {
            state.commands_busy = true;
            self.agenda.at(self.now + delay / 2, Event::Commands { host });
        }
    }

    fn slow_delay(&mut self) -> u64 {
        let stalls = self.now < self.schedule.heal_at && self.rng.chance(self.schedule.slow_stall);
        let factor = if stalls { 20 } else { 1 };
        self.rng.between(0, self.schedule.slow_delay_max * factor)
    }

    fn take_step(&mut self, step: Step) {
        match step {
            Step::Post { host, qp, op } => self.with(host, qp, |end, cx| {
                end.post(op, cx);
                end.settle(cx);
            }),
            Step::Receive { host, qp, count } => self.hosts[host].qps[qp].responder.post_receives(count),
            Step::Cwnd { host, qp, side, packets } => self.with(host, qp, |end, cx| {
                match side {
                    Side::Request => end.requester.tx.cwnd = packets,
                    Side::Response => end.responder.tx.cwnd = packets,
                }
                end.settle(cx);
            }),
            // Between two lives there is no key to withdraw.
            Step::Revoke { qp, .. } if self.connections[qp].resetting => {}
            Step::Revoke { host, qp } => {
                self.hosts[host].qps[qp].responder.words_revoked = true;
                self.oracle.ledger(1 - host, qp).revoke_words();
            }
            Step::Reset(reset) => self.reset(reset, 0),
        }
    }

    /// Puts a connection through RESET, unless it is there or its lives are used up.
    fn reset(&mut self, reset: Reset, delay: u64) {
        let connection = &mut self.connections[reset.qp];
        if connection.resetting || connection.life + 1 >= self.schedule.lives {
            return;
        }
        *connection = Connection { life: connection.life + 1, resetting: true, started: false };
        let start = self.now + delay;
        let (first, second) = (reset.first, 1 - reset.first);
        let ready = start + reset.gap + reset.wait;
        self.agenda.at(start, Event::Disconnect { host: first, qp: reset.qp });
        self.agenda.at(start + reset.gap, Event::Disconnect { host: second, qp: reset.qp });
        self.agenda.at(ready, Event::Connect { host: first, qp: reset.qp });
        self.agenda.at(ready + reset.gap_connect, Event::Connect { host: second, qp: reset.qp });
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Deliver { to, packet } => {
                self.oracle.on_delivered(to, &packet);
                self.with(to, packet.qp, |end, cx| end.on_packet(&packet, cx));
            }
            Event::SlowWork { host } => {
                let n = usize::try_from(self.rng.between(1, 4)).expect("small");
                self.hosts[host].slow_busy = false;
                self.hosts[host].slow.work(n);
                self.wake_slow_path(host);
            }
            Event::Commands { host } => {
                self.hosts[host].commands_busy = false;
                if let Some(command) = self.hosts[host].slow.take_command() {
                    self.with(host, command.stream.qp, |end, cx| end.on_command(&command, cx));
                }
            }
            Event::Evidence { host } => {
                self.hosts[host].evidence_busy = false;
                if let Some((qp, psn, ack)) = self.hosts[host].slow.take_evidence() {
                    self.with(host, qp, |end, cx| end.on_evidence(psn, &ack, cx));
                }
            }
            Event::Disconnect { host, qp } => {
                self.oracle.excuse_peer_of(host, qp, false);
                self.judge_life(host, qp);
                let Host { qps, srq, .. } = &mut self.hosts[host];
                qps[qp].state = State::Reset;
                qps[qp].responder.abandon_receives(srq);
            }
            Event::Connect { host, qp } => self.connect(host, qp),
            Event::Heal => {
                for host in &mut self.hosts {
                    host.qps.iter_mut().for_each(|end| end.responder.post_receives(ALL_RECEIVES));
                }
            }
        }
    }

    fn connect(&mut self, host: usize, qp: usize) {
        let number = self.connections[qp].life;
        let life = life(self.schedule, host, qp, number, self.defect);
        let before = &self.hosts[host].qps[qp];
        let mut end = QueuePair::connect(&life, Some(before), self.schedule, self.defect);
        if self.now >= self.schedule.heal_at {
            end.responder.post_receives(ALL_RECEIVES);
        }
        self.hosts[host].qps[qp] = end;
        let connection = &mut self.connections[qp];
        if connection.started {
            connection.resetting = false;
        } else {
            connection.started = true;
            self.begin_life(host, qp);
            self.begin_life(1 - host, qp);
        }
    }

    fn begin_life(&mut self, host: usize, qp: usize) {
        let life = life(self.schedule, host, qp, self.connections[qp].life, self.defect);
        self.oracle.begin_life(host, qp, life.own_tag);
        self.oracle.begin_stream(host, StreamId { qp, side: Side::Request }, life.peer_first);
        self.oracle.begin_stream(host, StreamId { qp, side: Side::Response }, life.own_first);
    }

    /// One end's memory at the end of a life.
    fn judge_life(&mut self, host: usize, qp: usize) {
        let end = &self.hosts[host].qps[qp];
        let remote = self.oracle.ledger(1 - host, qp).settle_memory(&end.responder.memory);
        let local = self.oracle.ledger(host, qp).settle_local(&end.requester.local);
        if let Err(what) = remote.and(local) {
            self.oracle.fail(format!("host {host} qp {qp} at the end of its life: {what}"));
        }
    }

    /// Nothing moves any more: everything must be finished.
    fn judge_end(&mut self) {
        for qp in 0..self.schedule.qps {
            for host in 0..2 {
                let end = &self.hosts[host].qps[qp];
                let pending = self.oracle.ledger(host, qp).pending();
                let peer_alive = self.hosts[1 - host].qps[qp].state == State::Ready;
                let stuck = peer_alive && end.is_recovering();
                if end.state == State::Reset || !end.is_quiet() || pending > 0 || stuck {
                    let what =
                        format!("host {host} qp {qp} never finishes: {pending} messages, {}", end.outline());
                    self.oracle.fail(what);
                }
                self.judge_life(host, qp);
                self.stats.messages += self.oracle.ledger(host, qp).posted() as u64;
                let end = &self.hosts[host].qps[qp];
                let sides = [(Side::Request, &end.requester.tx), (Side::Response, &end.responder.tx)];
                for (side, tx) in sides {
                    self.stats.timeouts += u64::from(tx.counters.timeouts);
                    self.stats.resent += u64::from(tx.counters.resent);
                    if self.schedule.tidy {
                        self.oracle.judge_cost(host, StreamId { qp, side }, &tx.counters);
                    }
                }
            }
        }
        let idle = self.hosts.iter().all(|host| !host.slow.has_records() && !host.slow.has_commands());
        if !idle {
            self.oracle.fail("the slow path sleeps on its work".into());
        }
    }
}

/// More receives than anyone needs.
const ALL_RECEIVES: u32 = 1 << 10;

fn life(schedule: &Schedule, host: usize, qp: usize, number: u32, defect: Option<Defect>) -> Life {
    let psns = if defect == Some(Defect::PsnsReused) { 0 } else { number };
    let tag = |host: usize| mix(schedule.seed ^ mix((host + 2 * qp) as u64) ^ u64::from(number));
    Life {
        own_first: schedule.first_psn(host, qp, psns),
        peer_first: schedule.first_psn(1 - host, qp, psns),
        own_tag: tag(host),
        peer_tag: tag(1 - host),
    }
}
