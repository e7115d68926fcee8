//! READs, atomics and fences among the messages of a history.

use super::message::{Defect, Kind, Limits, Message, Piece, Script, draw_len, place, scatter};
use super::plan::{ConnectionPlan, FlowPlan, limits_of};
use simnet::{QpOptions, Rng};

/// Bytes of an atomic's word.
pub const WORD: usize = 8;
/// READs and atomics that a queue pair may have under way.
const LIMITS: [u8; 5] = [1, 2, 4, 16, 128];

/// Puts READs and atomics into half of all connections.
pub fn draw(rng: &mut Rng, connections: &mut [ConnectionPlan], tidy: bool) {
    for connection in connections {
        if rng.below(2) == 0 {
            continue;
        }
        draw_limits(rng, &mut connection.options);
        for life in &mut connection.lives {
            for (side, flow) in life.flows.iter_mut().enumerate() {
                let options = &connection.options;
                let limits = limits_of(&options[side], &options[1 - side]);
                Mixer::new(rng, flow, limits).run();
            }
            let sound = life.withdrawal.is_none() && life.defects() == 0;
            if sound && !tidy && rng.below(12) == 0 {
                let side = rng.index(2);
                spoil(rng, &mut life.flows[side].script);
            }
        }
    }
}

/// What each end may have under way, and what the other one takes.
fn draw_limits(rng: &mut Rng, options: &mut [QpOptions; 2]) {
    for side in 0..2 {
        let most = LIMITS[rng.index(LIMITS.len())];
        options[1 - side].max_dest_rd_atomic = most;
        options[side].max_rd_atomic = if rng.below(2) == 0 { most } else { most.div_ceil(2) };
    }
}

/// Spoils a READ or an atomic.
fn spoil(rng: &mut Rng, script: &mut Script) {
    let candidates: Vec<usize> = (0..script.messages.len())
        .filter(|&index| script.messages[index].kind.has_response() && script.messages[index].len > 0)
        .collect();
    if candidates.is_empty() {
        return;
    }
    let message = &mut script.messages[candidates[rng.index(candidates.len())]];
    message.defect = Some(match rng.below(3) {
        0 => Defect::RemoteKey,
        1 => Defect::LocalKey,
        _ if message.kind.is_atomic() => Defect::Crooked,
        _ => Defect::RemoteRange,
    });
}

/// Puts READs and atomics between the messages of a flow.
struct Mixer<'a> {
    rng: &'a mut Rng,
    flow: &'a mut FlowPlan,
    limits: Limits,
    /// The words of the atomics, and what stands there by now.
    words: Vec<(Piece, u64)>,
    /// WRITEs so far that may be read.
    writes: Vec<usize>,
    /// Bytes that may still be read.
    budget: usize,
}

impl<'a> Mixer<'a> {
    fn new(rng: &'a mut Rng, flow: &'a mut FlowPlan, limits: Limits) -> Self {
        let budget = limits.bytes;
        Self { rng, flow, limits, words: Vec::new(), writes: Vec::new(), budget }
    }

    fn run(mut self) {
        for _ in 0..1 + self.rng.index(2) {
            let end = &mut self.flow.script.target_len;
            *end = end.next_multiple_of(WORD);
            self.words.push((place(end, WORD), 0));
        }
        let one_in = [1, 2, 4, 16][self.rng.index(4)];
        let old = core::mem::take(&mut self.flow.script.messages);
        let (before, mut fences) = (old.len(), [0, 0, 8][self.rng.index(3)]);
        if before == 0 && self.rng.below(2) == 0 {
            (0..self.rng.index(30)).for_each(|_| self.add());
            fences = 0;
        }
        for message in old {
            while self.rng.below(one_in + 1) == 0 {
                self.add();
            }
            if message.kind == Kind::Write && message.len > 0 && message.defect.is_none() {
                self.writes.push(self.flow.script.messages.len());
            }
            self.flow.script.messages.push(message);
        }
        if fences > 0 {
            for message in &mut self.flow.script.messages {
                message.fenced = self.rng.below(fences) == 0;
            }
        }
        self.post_more(self.flow.script.messages.len() - before);
    }

    /// The new messages are posted with old ones.
    fn post_more(&mut self, more: usize) {
        if self.flow.posts.is_empty() {
            self.flow.posts.push((0, 0));
        }
        let lump = self.rng.index(self.flow.posts.len());
        self.flow.posts[lump].1 += more;
    }

    fn add(&mut self) {
        match self.rng.below(3) {
            0 => self.add_atomic(),
            1 if !self.writes.is_empty() => self.add_read_of_write(),
            _ => self.add_read(),
        }
    }

    fn add_read(&mut self) {
        let len = draw_len(self.rng, &self.limits).min(self.budget);
        self.budget -= len;
        let target = place(&mut self.flow.script.target_len, len);
        self.push(Kind::Read(None), len, target);
    }

    fn add_read_of_write(&mut self) {
        let write = self.writes[self.rng.index(self.writes.len())];
        let Message { len, ref target, .. } = self.flow.script.messages[write];
        let target = target[0];
        if len <= self.budget {
            self.budget -= len;
            self.push(Kind::Read(Some(write)), len, target);
        }
    }

    fn add_atomic(&mut self) {
        let word = self.rng.index(self.words.len());
        let (piece, value) = &mut self.words[word];
        let operand = self.rng.next_u64();
        let kind = match self.rng.below(4) {
            0 | 1 => Kind::FetchAdd(operand),
            2 => Kind::CompareSwap(*value, operand),
            _ => Kind::CompareSwap(!*value, operand),
        };
        let piece = *piece;
        *value = after(kind, *value);
        self.push(kind, WORD, piece);
    }

    fn push(&mut self, kind: Kind, len: usize, target: Piece) {
        let script = &mut self.flow.script;
        let sges = if kind.is_atomic() { 1 } else { self.limits.send_sges };
        let source = match kind {
            Kind::Read(_) => scatter(self.rng, &mut script.source_len, len, sges),
            _ => vec![place(&mut script.source_len, len)],
        };
        script.messages.push(Message {
            signaled: self.rng.below(4) > 0,
            source,
            target: vec![target],
            ..Message::new(kind, len)
        });
    }
}

/// What an atomic leaves where `value` stood.
pub const fn after(kind: Kind, value: u64) -> u64 {
    match kind {
        Kind::FetchAdd(add) => value.wrapping_add(add),
        Kind::CompareSwap(expected, stored) if expected == value => stored,
        _ => value,
    }
}
