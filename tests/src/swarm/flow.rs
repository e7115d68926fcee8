//! One direction of a pair's life: its memory, what is posted when, and what was seen of it.

use super::message::{Defect, Kind, Message, ORDERED_BYTES_MAX, Piece, Script};
use super::plan::FlowPlan;
use super::window::{Target, Window};
use datapath::queue::{Completion, PostError};
use simnet::{Qp, Region, Rig, Rng, Span, Work, pattern};

/// What the application puts over the bytes of sources whose message completed: a late resend would
/// carry it, and a late response would undo it.
pub const SPENT: u8 = 0xEE;
/// What the application puts over the bytes of messages that arrived: a late write would undo it.
pub const CONSUMED: u8 = 0xC5;
/// Work requests posted to a queue pair that is known to be in ERR.
const POSTS_TO_ERR: usize = 2;
/// Turns a good key into one that names nothing.
const KEY_SPOILER: u32 = 0x7F;

/// Which errors may befall a flow.
#[derive(Clone, Copy, Debug)]
pub struct Danger {
    /// Something other than the flow's own defect may end the life.
    pub elsewhere: bool,
    /// Retries may be exhausted.
    pub lethal: bool,
}

/// A region of the flow was deregistered.
#[derive(Clone, Debug)]
pub enum Withdrawn {
    /// The sender's memory, and what stood there then.
    Source(Vec<u8>),
    /// The receiver's memory, and what stood there then: nobody writes it any more.
    Target(Vec<u8>),
    /// The window to the receiver's memory, and what stood there then: only SENDs are written there
    /// any more.
    Window(Vec<u8>),
}

/// WRITEs of one packet to one address.
#[derive(Clone, Debug)]
pub struct Group {
    /// Where they write.
    pub piece: Piece,
    /// Where that is in each message.
    pub at: usize,
    /// Who sees one may rely on everything sent before it.
    pub in_turn: bool,
    /// The messages, in order, and what they write.
    pub members: Vec<(usize, Vec<u8>)>,
    /// The highest member seen in memory.
    pub seen: Option<usize>,
}

/// One direction of a life.
pub struct Flow {
    /// Who sends.
    pub from: Qp,
    /// Who receives.
    pub to: Qp,
    /// The messages.
    pub messages: Vec<Message>,
    /// Messages by the receives that they consume, in order.
    pub receives: Vec<usize>,
    /// Where the data come from, and those of READs and atomics go.
    pub source: Region,
    /// Where the data go, and those of READs and atomics come from.
    pub target: Region,
    /// First wr_id, and seed of the first message's bytes.
    pub tag: u64,
    /// Which errors may happen.
    pub danger: Danger,
    /// Messages posted.
    pub posted: usize,
    /// Receives posted.
    pub receives_posted: usize,
    /// Messages whose end is known to the sender.
    pub sent: usize,
    /// Receives completed.
    pub received: usize,
    /// Messages known to have arrived, all before them included.
    pub arrived: usize,
    /// Messages that are complete at the sender, all before them included.
    pub succeeded: usize,
    /// A send ended with an error.
    pub send_failed: bool,
    /// A receive ended with an error.
    pub receive_failed: bool,
    /// WRITEs to one address.
    pub groups: Vec<Group>,
    /// Bytes of a packet.
    packet: usize,
    /// Nothing is placed out of order, or before it was verified.
    strict: bool,
    /// What was taken away from it.
    pub withdrawn: Option<Withdrawn>,
    /// What WRITEs, READs and atomics go through, if not the region itself.
    pub window: Option<Window>,
    /// The window of the other direction, which this one binds.
    pub binds: Option<Target>,
    /// Its receives are taken from a shared queue.
    pub stocked: bool,
    /// Receives of a shared queue that have completed.
    pub landed: usize,
    /// A completion queue has overflowed: some completions are missing.
    pub gaps: bool,
    /// The peer says once that it refuses a request, and then nothing any more: what is lost of
    /// that ends as a silent peer (protocol.md 1.9).
    pub refused_once: bool,
    posts: Vec<(u64, usize)>,
    receive_posts: Vec<(u64, usize)>,
    posts_allowed: usize,
    receives_allowed: usize,
    rng: Rng,
}

impl Flow {
    /// Makes the memory of a flow; posts nothing yet.
    pub fn new(rig: &mut Rig, from: Qp, to: Qp, plan: &FlowPlan, tag: u64, danger: Danger) -> Self {
        let Script { messages, source_len, target_len, groups, packet } = plan.script.clone();
        let source = rig.region(from.node(), source_len.max(1));
        let (target, window) = super::window::target(rig, to.node(), target_len.max(1), plan.window);
        let receives = (0..messages.len()).filter(|&index| messages[index].consumes_receive()).collect();
        let mut flow = Self {
            from,
            to,
            receives,
            source,
            target,
            tag,
            danger,
            posted: 0,
            receives_posted: 0,
            sent: 0,
            received: 0,
            arrived: 0,
            succeeded: 0,
            send_failed: false,
            receive_failed: false,
            groups: Vec::with_capacity(groups),
            packet,
            strict: false,
            withdrawn: None,
            window,
            binds: None,
            stocked: false,
            landed: 0,
            gaps: false,
            refused_once: false,
            posts: plan.posts.clone(),
            receive_posts: plan.receives.clone(),
            posts_allowed: 0,
            receives_allowed: 0,
            rng: Rng::new(tag),
            messages,
        };
        for index in 0..flow.messages.len() {
            let bytes = flow.bytes_of(index);
            let message = &flow.messages[index];
            match message.kind {
                Kind::Send | Kind::Write => write_pieces(rig, source, &message.source, &bytes),
                Kind::Read(None) => write_pieces(rig, target, &message.target, &bytes),
                _ => {}
            }
            if let Some(first) = flow.messages[index].group {
                flow.join_groups(index, first, bytes.chunks(packet));
            }
        }
        flow
    }

    /// Each packet of a WRITE is a member of a group of its own.
    fn join_groups<'a>(&mut self, index: usize, first: usize, packets: impl Iterator<Item = &'a [u8]>) {
        let Piece { offset, len } = self.messages[index].target[0];
        let mut at = 0;
        for (number, bytes) in (first..).zip(packets) {
            if self.groups.len() == number {
                let piece = Piece { offset: offset + at, len: bytes.len() };
                self.groups.push(Group {
                    piece,
                    at,
                    in_turn: len <= ORDERED_BYTES_MAX,
                    members: Vec::new(),
                    seen: None,
                });
            }
            self.groups[number].members.push((index, bytes.to_vec()));
            at += bytes.len();
        }
    }

    /// All its receives come from a shared queue, of which others see to it that they are posted.
    pub fn take_shared_receive(&mut self) {
        self.stocked = true;
        self.receives_posted = self.receives.len();
        self.receive_posts.clear();
    }

    /// Everything is placed in the order in which it was sent.
    pub fn place_strictly(&mut self) {
        self.strict = true;
        self.groups.iter_mut().for_each(|group| group.in_turn = true);
    }

    /// The packet of a message that has byte `at`, if it may lie there as it came damaged, because
    /// the message is not complete: what must come next is copied before it is verified
    /// (docs/adr/0024), if it is in the middle of a message, or a SEND by itself.
    pub fn damaged_packet(&self, index: usize, at: usize) -> Option<usize> {
        let message = &self.messages[index];
        let last = message.len.div_ceil(self.packet).saturating_sub(1);
        let number = at / self.packet;
        let in_the_middle = (1..last).contains(&number);
        let is_placed_first = match message.kind {
            // What comes to a shared queue the application puts where it belongs.
            Kind::Send => !self.stocked && (in_the_middle || last == 0),
            Kind::Write => in_the_middle,
            _ => false,
        };
        let is_open = (self.arrived..self.posted).contains(&index);
        (!self.strict && is_placed_first && is_open).then_some(number)
    }

    /// The bytes of a message.
    pub fn bytes_of(&self, index: usize) -> Vec<u8> {
        pattern(self.tag + index as u64, self.messages[index].len)
    }

    /// Immediate data of a message.
    pub fn imm_of(&self, index: usize) -> u32 {
        u32::try_from(index).unwrap_or(0) ^ 0xA5A5_0000
    }

    /// The next time at which something is to be posted, in nanoseconds since the life began.
    pub fn next_post_ns(&self) -> Option<u64> {
        [self.posts.first(), self.receive_posts.first()].into_iter().flatten().map(|(at, _)| *at).min()
    }

    /// Posts what is due `age_ns` after the life began, as far as the queues have room.
    pub fn post(&mut self, rig: &mut Rig, age_ns: u64) {
        take_due(&mut self.posts, age_ns, &mut self.posts_allowed);
        take_due(&mut self.receive_posts, age_ns, &mut self.receives_allowed);
        self.post_receives(rig);
        self.post_sends(rig);
    }

    /// No more is posted from now on.
    pub fn stop(&mut self) {
        self.posts.clear();
        self.receive_posts.clear();
        self.posts_allowed = self.posted;
        self.receives_allowed = self.receives_posted;
    }

    /// Deregisters one of its regions, whatever is under way.
    pub fn withdraw(&mut self, rig: &mut Rig, source: bool) {
        let (region, withdrawn) = if source {
            (self.source, Withdrawn::Source(rig.bytes(self.source.all())))
        } else {
            (self.target, Withdrawn::Target(rig.bytes(self.target.all())))
        };
        assert!(rig.deregister(region), "it was registered");
        self.withdrawn = Some(withdrawn);
    }

    /// The queue pairs die: a few more work requests are posted, all in vain.
    pub fn give_up(&mut self) {
        self.posts = vec![(0, POSTS_TO_ERR)];
        self.receive_posts = vec![(0, POSTS_TO_ERR)];
        self.posts_allowed = self.posted;
        self.receives_allowed = self.receives_posted;
    }

    /// Where it stands, for people.
    pub fn progress(&self) -> String {
        let Self { posted, sent, received, arrived, receives_posted, .. } = self;
        let (messages, receives) = (self.messages.len(), self.receives.len());
        format!(
            "{posted} of {messages} sends posted, {sent} done, {arrived} known to have arrived; \
             {receives_posted} of {receives} receives posted, {received} done"
        )
    }

    /// Returns `true` if all messages were posted, and every completion that must come has come.
    pub fn is_done(&self) -> bool {
        let waits = |message: &Message| message.signaled || message.defect.is_some();
        self.posted == self.messages.len()
            && !self.messages[self.sent..].iter().any(waits)
            && self.received == self.receives.len()
    }

    /// Returns `true` if every work request that was posted has completed, as it must be in ERR.
    pub fn is_flushed(&self, rig: &Rig) -> bool {
        self.gaps || ((self.stocked || self.received == self.receives_posted) && self.sends_flushed(rig))
    }

    /// Returns `true` if every send that was posted has completed: the last ones silently, if they
    /// arrived.
    pub fn sends_flushed(&self, rig: &Rig) -> bool {
        let silent = |index| {
            let message: &Message = &self.messages[index];
            !message.signaled && !self.send_failed && self.has_arrived(rig, index)
        };
        self.gaps || (self.sent..self.posted).all(silent)
    }

    /// A part of the target region.
    pub fn target_span(&self, piece: Piece) -> Span {
        self.target.at(piece.offset, piece.len)
    }

    /// Returns `true` if a message was executed.
    fn has_arrived(&self, rig: &Rig, index: usize) -> bool {
        if self.messages[index].kind.has_response() {
            return self.brought(rig, index);
        }
        if index < self.arrived || self.messages[index].group.is_none() {
            return index < self.arrived || self.holds(rig, index);
        }
        (0..self.groups.len()).all(|number| {
            let member = self.groups[number].members.iter().position(|(member, _)| *member == index);
            member.is_none() || self.visible(rig, number).is_some_and(|visible| visible >= member)
        })
    }

    /// Returns `true` if the bytes of a message stand where they belong.
    pub fn holds(&self, rig: &Rig, index: usize) -> bool {
        let bytes = self.bytes_of(index);
        let mut rest = &bytes[..];
        for &piece in &self.messages[index].target {
            let (here, behind) = rest.split_at(piece.len.min(rest.len()));
            if rig.bytes(self.target.at(piece.offset, here.len())) != here {
                return false;
            }
            rest = behind;
        }
        rest.is_empty()
    }

    /// The application puts the bytes of a message where they belong.
    pub fn deliver(&self, rig: &mut Rig, index: usize) {
        write_pieces(rig, self.target, &self.messages[index].target, &self.bytes_of(index));
    }

    /// The application is done with the target bytes of a message.
    pub fn consume(&self, rig: &mut Rig, index: usize) {
        let message = &self.messages[index];
        write_pieces(rig, self.target, &message.target, &vec![CONSUMED; message.len]);
    }

    /// The application is done with the bytes of a message at the sender's end.
    pub fn spend(&self, rig: &mut Rig, index: usize) {
        let message = &self.messages[index];
        write_pieces(rig, self.source, &message.source, &vec![SPENT; message.len]);
    }

    /// What is wrong with the flow, and with which message.
    pub fn defect(&self) -> Option<(usize, Defect)> {
        self.messages.iter().enumerate().find_map(|(index, message)| Some((index, message.defect?)))
    }

    /// For messages about a completion.
    pub fn describe(&self, index: usize, done: &Completion) -> String {
        format!("{done:?} of message {index}, {:?}", self.messages[index])
    }

    fn post_receives(&mut self, rig: &mut Rig) {
        while self.receives_posted < self.receives_allowed.min(self.receives.len()) {
            let index = self.receives[self.receives_posted];
            let message = &self.messages[index];
            let mut region = self.target;
            if message.defect == Some(Defect::ReceiveKey) {
                region.key ^= KEY_SPOILER;
            }
            let span = |piece: &Piece| region.at(piece.offset, piece.len);
            let spans: Vec<Span> = match message.kind {
                Kind::Send => message.target.iter().map(span).collect(),
                _ => message.bystander.iter().map(span).collect(),
            };
            match rig.try_post_recv_as(self.to, &spans, self.tag + index as u64) {
                Ok(()) => self.receives_posted += 1,
                Err(PostError::QueueFull { .. }) => break,
                Err(error) => panic!("receive of message {index}: {error}"),
            }
        }
    }

    fn post_sends(&mut self, rig: &mut Rig) {
        let mut batch = 1;
        let last = self.postable().min(self.posts_allowed);
        while self.posted < last {
            let end = last.min(self.posted + batch);
            let works: Vec<Work> = (self.posted..end).map(|index| self.work(index)).collect();
            let (accepted, outcome) = rig.post_batch(self.from, &works);
            self.posted += accepted;
            match outcome {
                Ok(()) => batch = 1 + self.rng.index(6),
                Err(PostError::QueueFull { .. }) => break,
                Err(error) => panic!("message {}: {error}", self.posted),
            }
        }
    }

    /// Messages that may be posted: before the window is bound, only what binds the other one.
    fn postable(&self) -> usize {
        if self.window.is_none_or(|window| window.open) {
            return self.messages.len();
        }
        self.messages.iter().take_while(|message| message.kind == Kind::Bind).count()
    }

    fn work(&self, index: usize) -> Work {
        let message = &self.messages[index];
        let spans: Vec<Span> =
            message.source.iter().map(|piece| self.source.at(piece.offset, piece.len)).collect();
        let mut work = match (message.kind, message.inline) {
            (Kind::Send, true) => Work::send_inline(&self.bytes_of(index)),
            (Kind::Send, false) => Work::send_gather(&spans),
            (Kind::Write, true) => Work::write_inline(&self.bytes_of(index), self.remote_span(message)),
            (Kind::Write, false) => Work::write_gather(&spans, self.remote_span(message)),
            (Kind::Read(_), _) => Work::read_scatter(&spans, self.remote_span(message)),
            (Kind::FetchAdd(add), _) => Work::fetch_add(spans[0], self.remote_span(message), add),
            (Kind::CompareSwap(expected, stored), _) => {
                Work::compare_swap(spans[0], self.remote_span(message), expected, stored)
            }
            (Kind::Bind, _) => self.binds.expect("there is a window to bind").bind(),
            (Kind::Unbind, _) => self.binds.expect("there is a window to end").unbind(),
        };
        if message.invalidates {
            work = work.invalidating(self.remote().key);
        }
        if message.fenced {
            work = work.fenced();
        }
        if message.imm {
            work = work.imm(self.imm_of(index));
        }
        if !message.signaled {
            work = work.unsignaled();
        }
        if message.solicited {
            work = work.solicited();
        }
        match message.defect {
            Some(Defect::RemoteKey) => {
                let to = self.remote_span(message);
                work = work.to(to.addr(), self.remote().key ^ KEY_SPOILER);
            }
            Some(Defect::LocalKey) => work = work.lkey(self.source.key ^ KEY_SPOILER),
            _ => {}
        }
        work.wr_id(self.tag + index as u64)
    }

    fn remote_span(&self, message: &Message) -> Span {
        let offset = match message.defect {
            Some(Defect::RemoteRange) => self.target.len - message.len + 1,
            Some(Defect::Crooked) => message.target[0].offset + 1,
            _ => message.target.first().map_or(0, |piece| piece.offset),
        };
        self.remote().at(offset, message.len)
    }

    /// The target as the sender names it.
    pub fn remote(&self) -> Region {
        let mut remote = self.target;
        remote.key = self.window.map_or(remote.key, |window| window.key);
        remote
    }
}

fn take_due(lumps: &mut Vec<(u64, usize)>, age_ns: u64, allowed: &mut usize) {
    let due = lumps.iter().take_while(|(at, _)| *at <= age_ns).count();
    *allowed += lumps.drain(..due).map(|(_, count)| count).sum::<usize>();
}

fn write_pieces(rig: &mut Rig, region: Region, pieces: &[Piece], bytes: &[u8]) {
    let mut rest = bytes;
    for piece in pieces {
        let (here, behind) = rest.split_at(piece.len.min(rest.len()));
        rig.set(region.at(piece.offset, here.len()), here);
        rest = behind;
    }
}
