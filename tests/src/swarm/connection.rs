//! Two queue pairs through their lives: work, errors, RESETs, and what must not outlive them.

use super::flow::{Danger, Flow};
use super::message::Kind;
use super::plan::{ConnectionPlan, End, LifePlan, Pause, Withdrawal};
use super::shared_receives::SharedReceives;
use datapath::engine::AsyncEvent;
use datapath::qp::attr::{QpAttr, QpAttrMask, WriteOrder};
use datapath::qp::state::QpState;
use datapath::queue::{Completion, WcStatus};
use datapath::time::Time;
use simnet::{NodeId, Qp, QpOptions, Rig, Rng, Span, Srq, TraceHash};
use wire::WireMode;

/// A peer in ERR must be noticed within the periods that the retries take, and this much
/// (protocol.md 2.5).
const NOTICE_SLACK_NS: u64 = 1_100_000_000;
const PSN_MASK: u32 = 0xFF_FFFF;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    /// Both ends work.
    Running,
    /// An end is in ERR; at this time the application takes the other one there too. `true`: by
    /// then it must have noticed by itself.
    Dying(Time, bool),
    /// One end was reset; the other follows at this time.
    HalfReset(Time),
    /// The last life is over.
    Finished,
}

/// A pair of queue pairs.
pub struct Connection {
    plan: ConnectionPlan,
    number: usize,
    ends: [Qp; 2],
    /// From the left end to the right one, and back.
    flows: [Flow; 2],
    life: usize,
    began: Time,
    phase: Phase,
    told: bool,
    /// Completions looked at, of each end's sends and receives.
    seen: [(usize, usize); 2],
    /// Completions of shared receives whose data were moved, of each end.
    landed: [usize; 2],
    psns: [u32; 2],
    /// Memory of former lives, which nobody may write any more.
    past: Vec<(Span, Vec<u8>)>,
    rng: Rng,
    operations: u64,
}

impl Connection {
    /// Creates and connects both ends, and begins the first life.
    pub fn new(rig: &mut Rig, plan: &ConnectionPlan, srqs: &[Option<Srq>], number: usize, seed: u64) -> Self {
        let mut plan = plan.clone();
        for side in (0..2).filter(|&side| plan.shared[side]) {
            plan.options[side].srq = srqs[plan.nodes[side]];
        }
        let end = |rig: &mut Rig, side: usize| rig.create_qp(NodeId(plan.nodes[side]), plan.options[side]);
        let ends = [end(rig, 0), end(rig, 1)];
        rig.connect(ends[0], ends[1]);
        let mut rng = Rng::new(seed ^ (number as u64) << 32);
        let flows = flows_of(rig, &plan, 0, ends, &mut rng);
        Self {
            psns: plan.options.map(|options| options.sq_psn),
            plan,
            number,
            ends,
            flows,
            life: 0,
            began: rig.now(),
            phase: Phase::Running,
            told: false,
            seen: [(0, 0); 2],
            landed: [0; 2],
            past: Vec::new(),
            rng,
            operations: 0,
        }
    }

    /// Returns `true` if the last life is over.
    pub fn is_finished(&self) -> bool {
        self.phase == Phase::Finished
    }

    /// Where it stands, for people.
    pub fn progress(&self) -> String {
        let [there, back] = self.flows.each_ref().map(Flow::progress);
        format!("pair {} in life {}, {:?}: {there}; back: {back}", self.number, self.life, self.phase)
    }

    /// Work requests that completed, of both kinds.
    pub const fn operations(&self) -> u64 {
        self.operations
    }

    /// Checks everything that completed since the last call.
    pub fn observe(
        &mut self,
        rig: &mut Rig,
        shared_receives: &mut [Option<SharedReceives>],
        hash: &mut TraceHash,
    ) {
        self.notice_overruns(rig);
        self.watch_windows(rig);
        self.land(rig, shared_receives);
        for side in 0..2 {
            while let Some(done) = rig.recvs(self.ends[side]).get(self.seen[side].1).copied() {
                self.seen[side].1 += 1;
                self.note(hash, rig.now(), &done);
                self.flows[1 - side].check_receive(rig, &done);
            }
            while let Some(done) = rig.sends(self.ends[side]).get(self.seen[side].0).copied() {
                self.seen[side].0 += 1;
                self.note(hash, rig.now(), &done);
                self.flows[side].check_send(rig, &done);
            }
        }
        self.watch_windows(rig);
        for flow in &mut self.flows {
            flow.watch_groups(rig);
        }
    }

    /// A completion queue that overflows ends its queue pair, and some completions are not seen.
    fn notice_overruns(&mut self, rig: &Rig) {
        let overran = |end: &Qp| {
            let of_it = |event: &AsyncEvent| matches!(event, AsyncEvent::CqOverrun { qpn, .. } if *qpn == rig.qpn(*end));
            rig.events(end.node()).iter().any(of_it)
        };
        if self.plan.cramped && self.ends.iter().any(overran) {
            for flow in &mut self.flows {
                flow.gaps = true;
                flow.danger.elsewhere = true;
            }
        }
    }

    /// Windows are bound, and some ended, by messages of the other direction.
    fn watch_windows(&mut self, rig: &Rig) {
        for side in 0..2 {
            let Flow { messages, posted, succeeded, .. } = &self.flows[1 - side];
            let unbind = messages.iter().position(|message| message.kind == Kind::Unbind);
            let (posted, succeeded) = (*posted, *succeeded);
            self.flows[side].follow_binder(rig, posted, succeeded, unbind);
            if self.flows[side].window_ends() {
                self.flows.iter_mut().for_each(|flow| flow.danger.elsewhere = true);
            }
        }
    }

    /// Moves what came by shared receives to where it belongs, before anybody looks there.
    fn land(&mut self, rig: &mut Rig, shared_receives: &mut [Option<SharedReceives>]) {
        for side in 0..2 {
            let Some(shared_receives) = self.shared_receives(side, shared_receives) else { continue };
            while let Some(done) = rig.recvs(self.ends[side]).get(self.landed[side]).copied() {
                self.landed[side] += 1;
                self.flows[1 - side].land(rig, shared_receives, &done);
            }
        }
    }

    /// The shared queue that an end takes receives from.
    fn shared_receives<'a>(
        &self,
        side: usize,
        shared_receives: &'a mut [Option<SharedReceives>],
    ) -> Option<&'a mut SharedReceives> {
        shared_receives[self.plan.nodes[side]].as_mut().filter(|_| self.plan.shared[side])
    }

    /// Does what the plan says for the present.
    pub fn act(&mut self, rig: &mut Rig, shared_receives: &mut [Option<SharedReceives>]) {
        let now = rig.now();
        let age = now.since(self.began);
        match self.phase {
            Phase::Running => self.run(rig, shared_receives, age),
            Phase::Dying(until, alone) => {
                // What is posted now cannot have been flushed yet.
                let quiet = self.flows.iter().all(|flow| flow.sends_flushed(rig));
                self.flows.iter_mut().for_each(|flow| flow.post(rig, age));
                self.die(rig, shared_receives, now >= until, (alone, quiet));
            }
            Phase::HalfReset(until) if now >= until => self.next_life(rig, shared_receives),
            Phase::HalfReset(_) | Phase::Finished => {}
        }
    }

    /// Ends that ask whether their peer is there would do so for ever.
    pub fn ask_no_more(&self, rig: &mut Rig) {
        for end in self.ends {
            if rig.qp_options(end).keepalive_ms > 0 && rig.state(end).continues_sends() {
                let off = rig.modify(end, &QpAttr::default(), QpAttrMask::KEEPALIVE);
                off.expect("the keepalive can be changed in RTS and SQD");
            }
        }
    }

    /// When there is something to do even if nothing happens.
    pub fn next_wake(&self, now: Time) -> Option<Time> {
        let posts = self.flows.iter().filter_map(Flow::next_post_ns).map(|ns| self.began.after(ns)).min();
        match self.phase {
            Phase::Running => {
                let rest = self.plan.lives[self.life]
                    .pause
                    .and_then(|pause| next_turn(&pause, now.since(self.began)));
                let withdrawal = self.withdrawal().map(|withdrawal| self.began.after(withdrawal.after_ns));
                let end = match self.plan.lives[self.life].end {
                    End::Reset { after_ns, .. } => Some(after_ns),
                    End::Err { after_ns, .. } if !self.told => Some(after_ns),
                    End::Err { .. } | End::Done => None,
                };
                [posts, end.map(|ns| self.began.after(ns)), rest.map(|ns| self.began.after(ns)), withdrawal]
                    .into_iter()
                    .flatten()
                    .min()
            }
            Phase::Dying(until, _) => Some(posts.map_or(until, |at| at.min(until))),
            Phase::HalfReset(until) => Some(until),
            Phase::Finished => None,
        }
    }

    /// After the last life a request may still fail that nobody waited for, an unsignaled one. With
    /// `timeout` 0 the other end never notices, and resends its response for ever: its application
    /// takes it to ERR, too.
    pub fn follow_to_err(&self, rig: &mut Rig) {
        if self.ends.iter().any(|&end| rig.state(end) == QpState::Err) {
            self.ends.iter().for_each(|&end| rig.to_err(end));
        }
    }

    /// Checks all memory after the last life, when nothing moves any more.
    ///
    /// # Panics
    /// If a byte is wrong.
    pub fn check_memory(&self, rig: &Rig) {
        let failed = self.flows.iter().any(|flow| flow.send_failed || flow.receive_failed || flow.gaps);
        for flow in &self.flows {
            flow.check_image(rig, !failed && !self.told);
        }
        for (span, bytes) in &self.past {
            assert!(rig.bytes(*span) == *bytes, "{span:?} of a former life was written after its RESET");
        }
    }

    fn note(&mut self, hash: &mut TraceHash, now: Time, done: &datapath::queue::Completion) {
        self.operations += 1;
        hash.word(now.0);
        hash.word(done.wr_id ^ done.status as u64);
    }

    fn run(&mut self, rig: &mut Rig, shared_receives: &mut [Option<SharedReceives>], age: u64) {
        match self.plan.lives[self.life].end {
            End::Reset { after_ns, first, gap_ns } if age >= after_ns => {
                if self.plan.lives[self.life].replaced {
                    rig.destroy(self.ends[first]);
                } else {
                    rig.reset(self.ends[first]);
                }
                self.flows.iter_mut().for_each(Flow::stop);
                // What the first end had taken of a shared queue is flushed.
                self.flows[1 - first].danger.elsewhere |= self.plan.shared[first];
                self.phase = Phase::HalfReset(rig.now().after(gap_ns));
                return;
            }
            End::Err { after_ns, end } if age >= after_ns && !self.told => {
                self.told = true;
                rig.to_err(self.ends[end]);
            }
            _ => {}
        }
        if let Some(Withdrawal { flow, source, after_ns }) = self.withdrawal()
            && age >= after_ns
        {
            self.flows[flow].withdraw(rig, source);
            self.flows.iter_mut().for_each(|flow| flow.danger.elsewhere = true);
        }
        if self.ends.iter().any(|&end| rig.state(end) == QpState::Err) {
            self.begin_to_die(rig);
            self.flows.iter_mut().for_each(|flow| flow.post(rig, age));
            return;
        }
        self.rest(rig, age);
        self.flows.iter_mut().for_each(|flow| flow.post(rig, age));
        let waits_for_end = !self.told && matches!(self.plan.lives[self.life].end, End::Err { .. });
        // In SQD the last messages may not have begun, and nobody waits for unsignaled ones.
        let rests = self.ends.iter().any(|&end| rig.state(end) == QpState::Sqd);
        if !waits_for_end && !rests && self.flows.iter().all(Flow::is_done) {
            self.next_life(rig, shared_receives);
        }
    }

    /// The deregistration that is still to come in this life.
    fn withdrawal(&self) -> Option<Withdrawal> {
        let withdrawal = self.plan.lives[self.life].withdrawal?;
        self.flows[withdrawal.flow].withdrawn.is_none().then_some(withdrawal)
    }

    /// Takes an end to SQD and back: no message is lost, none begins meanwhile.
    fn rest(&self, rig: &mut Rig, age: u64) {
        let Some(Pause { end, from_ns, to_ns }) = self.plan.lives[self.life].pause else { return };
        let resting = (from_ns..to_ns).contains(&age);
        match rig.state(self.ends[end]) {
            QpState::Rts if resting => rig.to_state(self.ends[end], QpState::Sqd),
            QpState::Sqd if !resting => rig.to_state(self.ends[end], QpState::Rts),
            _ => {}
        }
    }

    fn begin_to_die(&mut self, rig: &mut Rig) {
        self.flows.iter_mut().for_each(Flow::give_up);
        for end in self.ends {
            // Who begins nothing notices nothing.
            if rig.state(end) == QpState::Sqd {
                rig.to_state(end, QpState::Rts);
            }
        }
        let options = &self.plan.options[0];
        let alone = options.timeout > 0 && self.rng.below(4) == 0;
        let delay = if alone {
            (u64::from(options.retry_cnt) + 1) * (4096 << options.timeout) + NOTICE_SLACK_NS
        } else {
            self.rng.below(300_000)
        };
        self.phase = Phase::Dying(rig.now().after(delay), alone);
    }

    /// An end is in ERR: sooner or later both are, and everything is flushed. `quiet`: all sends
    /// posted before now were.
    fn die(
        &mut self,
        rig: &mut Rig,
        shared_receives: &mut [Option<SharedReceives>],
        due: bool,
        (alone, quiet): (bool, bool),
    ) {
        let may_go_on = due || (alone && quiet);
        if !may_go_on {
            return;
        }
        if let Some(end) = self.ends.into_iter().find(|&end| rig.state(end) != QpState::Err) {
            assert!(!alone || quiet, "the peer is in ERR, and nobody noticed: {}", self.progress());
            self.flows.iter_mut().for_each(|flow| flow.danger.elsewhere = true);
            rig.to_err(end);
        } else if self.flows.iter().all(|flow| flow.is_flushed(rig)) {
            self.next_life(rig, shared_receives);
        }
    }

    /// The present life is over: what it left behind must stay as it is.
    fn next_life(&mut self, rig: &mut Rig, shared_receives: &mut [Option<SharedReceives>]) {
        if self.life + 1 == self.plan.lives.len() && !matches!(self.phase, Phase::HalfReset(_)) {
            self.phase = Phase::Finished;
            return;
        }
        let packets = self.flows.each_ref().map(|flow| self.packets_of(flow));
        for (psn, packets) in self.psns.iter_mut().zip(packets) {
            // Beyond everything that a late packet of this life may name, by more than a window.
            let step = packets + 2048 + u32::try_from(self.rng.below(1 << 16)).unwrap_or(0);
            *psn = psn.wrapping_add(step) & PSN_MASK;
        }
        let replaced = self.plan.lives[self.life].replaced;
        for end in self.ends {
            if replaced {
                rig.destroy(end);
            } else {
                rig.reset(end);
            }
        }
        for flow in &self.flows {
            flow.check_image(rig, false);
            let span = flow.target.all();
            self.past.push((span, rig.bytes(span)));
        }
        rig.poll();
        for side in 0..2 {
            let (sends, receives) = rig.take_completions(self.ends[side]);
            let (_, mut left) = receives.split_at(self.seen[side].1);
            if let Some(shared_receives) = self.shared_receives(side, shared_receives) {
                left.iter().for_each(|done| give_back(rig, shared_receives, done));
                left = &[];
            }
            let left = (sends.len() - self.seen[side].0, left.len());
            assert_eq!(left, (0, 0), "pair {}: RESET makes no completions", self.number);
            (self.seen[side], self.landed[side]) = ((0, 0), 0);
        }
        if replaced {
            self.ends = self.create(rig);
        } else {
            rig.reconnect(self.ends[0], self.psns[0], self.ends[1], self.psns[1]);
        }
        self.life += 1;
        self.flows = flows_of(rig, &self.plan, self.life, self.ends, &mut self.rng);
        self.began = rig.now();
        self.phase = Phase::Running;
        self.told = false;
    }

    /// New queue pairs in the place of those destroyed.
    fn create(&self, rig: &mut Rig) -> [Qp; 2] {
        let ends = [0, 1].map(|side| {
            let options = QpOptions { sq_psn: self.psns[side], ..self.plan.options[side] };
            rig.create_qp(NodeId(self.plan.nodes[side]), options)
        });
        rig.connect(ends[0], ends[1]);
        ends
    }

    fn packets_of(&self, flow: &Flow) -> u32 {
        let pmtu = self.plan.options[0].pmtu.bytes() as usize;
        let packets: usize = flow.messages.iter().map(|message| message.packets(pmtu)).sum();
        u32::try_from(packets).expect("a life has fewer than 2^32 packets")
    }
}

/// The next time at which a pause begins or ends.
fn next_turn(pause: &Pause, age: u64) -> Option<u64> {
    [pause.from_ns, pause.to_ns].into_iter().find(|&at| at > age)
}

fn flows_of(rig: &mut Rig, plan: &ConnectionPlan, life: usize, ends: [Qp; 2], rng: &mut Rng) -> [Flow; 2] {
    let LifePlan { flows, end, .. } = &plan.lives[life];
    let spoiled = flows.each_ref().map(|flow| flow.script.messages.iter().any(|m| m.defect.is_some()));
    let mut make = |side: usize| {
        let elsewhere = plan.lethal || matches!(end, End::Err { .. }) || spoiled[1 - side];
        let danger = Danger { elsewhere, lethal: plan.lethal };
        let mut flow = Flow::new(rig, ends[side], ends[1 - side], &flows[side], rng.next_u64(), danger);
        flow.refused_once = plan.options[side].wire_mode == WireMode::Plain;
        if plan.shared[1 - side] {
            flow.take_shared_receive();
        }
        if plan.options[1 - side].write_order.contains(WriteOrder::STRICT_PLACEMENT) {
            flow.place_strictly();
        }
        flow
    };
    let mut flows = [make(0), make(1)];
    for side in 0..2 {
        flows[side].binds = flows[1 - side].to_bind();
    }
    flows
}

/// RESET flushes what the queue pair had taken of a shared queue.
fn give_back(rig: &mut Rig, shared_receives: &mut SharedReceives, done: &Completion) {
    assert_eq!(done.status, WcStatus::WrFlushErr, "RESET makes no other completions: {done:?}");
    shared_receives.take(rig, done);
}
