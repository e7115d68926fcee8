//! The part of a file that says what hosts and switches do otherwise than their scheme.

use super::{FileError, positive, unknown};
use crate::clock::Ps;
use crate::host::model::Control;
use crate::plan::Plan;
use crate::switch::Marks;
use datapath::engine::WINDOW_LIMIT;
use datapath::qp::attr::{CongestionAlgorithm, CongestionTuning, RecoveryPolicy};
use serde::Deserialize;
use wire::Pmtu;

#[derive(Deserialize, Debug, Default)]
#[serde(deny_unknown_fields)]
pub struct HostFile {
    window: Option<u16>,
    mtu: Option<u32>,
    /// Of the engine.
    congestion: Option<String>,
    recovery: Option<String>,
    recovery_contexts: Option<u32>,
    rtt_reference_ns: Option<u32>,
    message_bytes: Option<u32>,
    messages: Option<u32>,
    /// Of models.
    control: Option<String>,
    notify_gap_us: Option<u64>,
    cut_gap_us: Option<u64>,
    turn_ns: Option<u64>,
}

#[derive(Deserialize, Debug, Default)]
#[serde(deny_unknown_fields)]
pub struct SwitchFile {
    buffer_bytes: Option<u64>,
    mark_bytes: Option<u64>,
    red: Option<RedFile>,
    #[serde(default)]
    spray: bool,
}

#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
struct RedFile {
    from_bytes: u64,
    until_bytes: u64,
    most: f64,
}

impl HostFile {
    pub fn change(&self, plan: &mut Plan) -> Result<(), FileError> {
        plan.window = self.window.unwrap_or(plan.window);
        if !(1..=WINDOW_LIMIT).contains(&plan.window) {
            return Err(FileError::Window(WINDOW_LIMIT));
        }
        let changes = &mut plan.changes;
        changes.mtu = self.mtu.map(pmtu).transpose()?;
        changes.congestion = self.congestion.as_deref().map(congestion).transpose()?;
        changes.recovery = self.recovery.as_deref().map(recovery).transpose()?;
        let contexts = |number| positive("recovery_contexts", number);
        changes.recovery_contexts = self.recovery_contexts.map(contexts).transpose()?;
        changes.control = self.control.as_deref().map(control).transpose()?;
        let micros = |us: u64| Ps::from_ns(us.saturating_mul(1000));
        (changes.notify_gap, changes.cut_gap) = (self.notify_gap_us.map(micros), self.cut_gap_us.map(micros));
        changes.turn = self.turn_ns.map(|ns| Ps::from_ns(ns.max(1)));
        if let Some(rtt_reference_ns) = self.rtt_reference_ns {
            changes.tuning = Some(CongestionTuning { rtt_reference_ns, ..CongestionTuning::default() });
        }
        changes.messages = match (self.message_bytes, self.messages) {
            (None, None) => None,
            (None, Some(_)) => return Err(FileError::Messages),
            (Some(bytes), messages) => {
                Some((positive("message_bytes", bytes)?, positive("messages", messages.unwrap_or(128))?))
            }
        };
        Ok(())
    }
}

impl SwitchFile {
    pub fn change(&self, plan: &mut Plan) -> Result<(), FileError> {
        let changes = &mut plan.changes;
        changes.spray = self.spray;
        (changes.pool, changes.mark) = (self.buffer_bytes, self.mark_bytes);
        changes.marks = self.red.as_ref().map(RedFile::marks).transpose()?;
        Ok(())
    }
}

impl RedFile {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is in the range")]
    fn marks(&self) -> Result<Marks, FileError> {
        if !(0.0..=1.0).contains(&self.most) {
            return Err(FileError::Loss(self.most));
        }
        let until = self.until_bytes.max(self.from_bytes);
        Ok(Marks { from: self.from_bytes, until, most: (self.most * 65536.0) as u32 })
    }
}

fn pmtu(bytes: u32) -> Result<Pmtu, FileError> {
    let all = [Pmtu::B256, Pmtu::B512, Pmtu::B1024, Pmtu::B2048, Pmtu::B4096];
    let found = all.into_iter().find(|pmtu| pmtu.bytes() == bytes);
    found.ok_or_else(|| unknown("mtu", &bytes.to_string(), ["256", "512", "1024", "2048", "4096"]))
}

fn congestion(name: &str) -> Result<CongestionAlgorithm, FileError> {
    Ok(match name {
        "fixed" => CongestionAlgorithm::Fixed,
        "dctcp" => CongestionAlgorithm::Dctcp,
        "swift" => CongestionAlgorithm::Swift,
        "dcqcn" => CongestionAlgorithm::Dcqcn,
        _ => return Err(unknown("congestion", name, ["fixed", "dctcp", "swift", "dcqcn"])),
    })
}

fn recovery(name: &str) -> Result<RecoveryPolicy, FileError> {
    Ok(match name {
        "selective-repeat" => RecoveryPolicy::SelectiveRepeat,
        "go-back-n" => RecoveryPolicy::GoBackN,
        _ => return Err(unknown("recovery", name, ["selective-repeat", "go-back-n"])),
    })
}

fn control(name: &str) -> Result<Control, FileError> {
    Ok(match name {
        "line" => Control::Line,
        "dctcp" => Control::WindowDctcp,
        "dcqcn" => Control::PacedDcqcn,
        _ => return Err(unknown("control", name, ["line", "dctcp", "dcqcn"])),
    })
}
