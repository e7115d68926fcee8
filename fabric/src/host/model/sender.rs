//! The sending side of a flow in a reference model.

use super::dcqcn::Dcqcn;
use super::header::{Header, Kind, MAP_BITS, MAP_WORDS, Map};
use super::{Control, ModelConfig, Recovery};
use crate::clock::Ps;
use cc_dctcp::{AckEvent, Dctcp, DctcpConfig, LossEvent, LossResponse};

/// In-flight packets up to which the short timer runs (IRN, SIGCOMM '18).
const SHORT_TIMER_PACKETS: u32 = 3;

/// What limits the rate of a flow beside its cap.
#[derive(Clone, Copy, Debug)]
enum Rate {
    Line,
    Window(Dctcp),
    Paced { dcqcn: Dcqcn, next: Ps },
}

/// Packets are being sent again.
#[derive(Clone, Copy, Debug)]
struct Episode {
    /// It ends when everything before is acknowledged.
    until: u32,
    /// What is before was sent again, or has come.
    again: u32,
    /// What is before counts as lost, whatever acknowledgements say.
    lost_before: u32,
}

/// What is known of a flow where it is sent.
#[derive(Clone, Copy, Debug)]
pub struct Sender {
    /// The flow.
    pub flow: u32,
    /// The host that it goes to.
    pub to: u32,
    /// Packets in all.
    packets: u32,
    last_payload: u32,
    /// The first packet that is not acknowledged, and which have come behind it.
    first: u32,
    map: Map,
    /// The first packet that was not sent, or was sent and shall be again (go-back-N).
    next: u32,
    episode: Option<Episode>,
    /// Marks of which acknowledgements have told.
    marks: u32,
    /// When something was acknowledged last.
    heard_at: Ps,
    rate: Rate,
}

impl Sender {
    /// Of `bytes` to host `to`.
    #[must_use]
    pub fn new(config: &ModelConfig, now: Ps, (flow, to, bytes): (u32, u32, u32)) -> Self {
        let mtu = config.mtu.bytes();
        let packets = bytes.max(1).div_ceil(mtu);
        let window = config.cap.min(MAP_BITS) * mtu;
        let dctcp = DctcpConfig { loss_response: LossResponse::None, ..DctcpConfig::new(window, mtu) };
        let rate = match config.control {
            Control::Line => Rate::Line,
            Control::WindowDctcp => Rate::Window(Dctcp::new(dctcp)),
            Control::PacedDcqcn => Rate::Paced { dcqcn: Dcqcn::new(now), next: now },
        };
        Self {
            flow,
            to,
            packets,
            last_payload: bytes - (packets - 1) * mtu,
            first: 0,
            map: Map([0; MAP_WORDS]),
            next: 0,
            episode: None,
            marks: 0,
            heard_at: now,
            rate,
        }
    }

    /// Everything is acknowledged.
    #[must_use]
    pub const fn is_done(&self) -> bool {
        self.first >= self.packets
    }

    /// Bytes that are acknowledged in order.
    #[must_use]
    pub const fn acknowledged(&self, config: &ModelConfig) -> u32 {
        self.first * config.mtu.bytes()
    }

    /// Packets in all.
    #[must_use]
    pub const fn packets(&self) -> u32 {
        self.packets
    }

    /// Bytes of payload of a packet.
    #[must_use]
    pub const fn payload(&self, config: &ModelConfig, number: u32) -> u32 {
        if number + 1 == self.packets { self.last_payload } else { config.mtu.bytes() }
    }

    /// The packet to send next, if pacing allows it at `now`.
    pub fn next_packet(&mut self, config: &ModelConfig, now: Ps) -> Option<u32> {
        if let Rate::Paced { dcqcn, next } = &mut self.rate {
            if *next > now {
                return None;
            }
            dcqcn.advance(now);
        }
        self.due_packet(config)
    }

    /// The packet to send next, whatever pacing says.
    fn due_packet(&self, config: &ModelConfig) -> Option<u32> {
        self.lost_packet().or_else(|| self.new_packet(config))
    }

    fn lost_packet(&self) -> Option<u32> {
        let episode = self.episode?;
        let end = episode.lost_before.max(self.first + self.map.end());
        (episode.again.max(self.first)..end).find(|number| !self.has_come(*number))
    }

    fn has_come(&self, number: u32) -> bool {
        number < self.first || number > self.first && self.map.has(number - self.first - 1)
    }

    fn new_packet(&self, config: &ModelConfig) -> Option<u32> {
        let ahead = self.next - self.first;
        let mtu = config.mtu.bytes();
        let window_allows = match &self.rate {
            Rate::Window(dctcp) => (self.in_flight() + 1) * mtu <= dctcp.cwnd_bytes().max(mtu),
            Rate::Line | Rate::Paced { .. } => true,
        };
        (self.next < self.packets && ahead < config.cap && window_allows).then_some(self.next)
    }

    fn in_flight(&self) -> u32 {
        (self.next - self.first).saturating_sub(self.map.count())
    }

    /// A packet was sent, of `bytes` on a link of `ps_per_byte`.
    pub fn sent(&mut self, now: Ps, number: u32, (bytes, ps_per_byte): (u64, u32)) {
        if self.next == self.first {
            self.heard_at = now;
        }
        match &mut self.episode {
            Some(episode) if number < self.next => episode.again = number + 1,
            _ => self.next = number + 1,
        }
        if let Rate::Paced { dcqcn, next } = &mut self.rate {
            dcqcn.on_sent(bytes);
            *next = now + paced(bytes, ps_per_byte, dcqcn.rate());
        }
    }

    /// An acknowledgement, or a notification.
    pub fn hear(&mut self, config: &ModelConfig, now: Ps, header: &Header) {
        if header.kind == Kind::Congestion {
            if let Rate::Paced { dcqcn, .. } = &mut self.rate {
                dcqcn.on_notification(now, config.cut_gap);
            }
            return;
        }
        let limited = self.new_packet(config).is_none() && self.next == self.packets;
        let acknowledged = self.acknowledge(now, header);
        self.inform_window(config, header, (acknowledged, limited));
        if header.kind == Kind::OutOfSequence {
            self.next = self.first;
        } else if config.recovery == Recovery::SelectiveRepeat {
            self.note_episode();
        }
    }

    /// Packets of which this is the first word.
    fn acknowledge(&mut self, now: Ps, header: &Header) -> u32 {
        let before = self.first + self.map.count();
        if let Some(by @ 1..) = header.number.checked_sub(self.first) {
            self.map.advance(by);
            self.first = header.number;
            self.next = self.next.max(self.first);
            self.heard_at = now;
        }
        if header.number == self.first {
            self.map.0.iter_mut().zip(header.map).for_each(|(known, new)| *known |= new);
        }
        self.first + self.map.count() - before
    }

    fn inform_window(&mut self, config: &ModelConfig, header: &Header, (packets, limited): (u32, bool)) {
        let Rate::Window(dctcp) = &mut self.rate else { return };
        let ce_delta = header.count.saturating_sub(self.marks);
        self.marks = self.marks.max(header.count);
        if packets > 0 || ce_delta > 0 {
            dctcp.on_ack(&AckEvent {
                acked_bytes: packets * config.mtu.bytes(),
                acked_packets: packets,
                ce_delta,
                app_limited: limited,
                ..AckEvent::default()
            });
        }
    }

    /// An episode ends when all that was sent before it is acknowledged, and begins when something
    /// is missing.
    fn note_episode(&mut self) {
        if self.episode.is_some_and(|episode| self.first >= episode.until) {
            self.episode = None;
        }
        if self.episode.is_none() && self.map.end() > 0 {
            self.episode = Some(Episode { until: self.next, again: self.first, lost_before: 0 });
        }
    }

    /// When the timer fires if nothing is heard, and when pacing allows a packet that is due.
    #[must_use]
    pub fn deadline(&self, config: &ModelConfig) -> Ps {
        let timer = if self.next == self.first {
            Ps::NEVER
        } else if self.in_flight() <= SHORT_TIMER_PACKETS {
            self.heard_at + config.timer_short
        } else {
            self.heard_at + config.timer_long
        };
        match &self.rate {
            Rate::Paced { next, .. } if self.due_packet(config).is_some() => timer.min(*next),
            _ => timer,
        }
    }

    /// Fires the timer if nothing was heard for long enough.
    pub fn look_at_timer(&mut self, config: &ModelConfig, now: Ps) {
        let timer =
            if self.in_flight() <= SHORT_TIMER_PACKETS { config.timer_short } else { config.timer_long };
        if self.next == self.first || now < self.heard_at + timer {
            return;
        }
        self.heard_at = now;
        match config.recovery {
            Recovery::GoBackN => self.next = self.first,
            Recovery::SelectiveRepeat => {
                let until = self.next;
                self.episode = Some(Episode { until, again: self.first, lost_before: self.first + 1 });
            }
        }
        if let Rate::Window(dctcp) = &mut self.rate {
            dctcp.on_rto(&LossEvent::default());
        }
    }
}

/// The time that `bytes` take at `rate` (a part of the line's).
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a time, at least that of the line"
)]
fn paced(bytes: u64, ps_per_byte: u32, rate: f64) -> Ps {
    Ps((bytes as f64 * f64::from(ps_per_byte) / rate) as u64)
}
