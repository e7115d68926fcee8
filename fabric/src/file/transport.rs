//! The part of a file that says what hosts and switches do otherwise than their scheme.

use super::{FileError, microseconds, nanoseconds, positive, small, unknown, within};
use crate::host::model::Control;
use crate::limits;
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
        let contexts = |number| small("recovery_contexts", number, limits::RECOVERY_CONTEXTS);
        changes.recovery_contexts = self.recovery_contexts.map(contexts).transpose()?;
        changes.control = self.control.as_deref().map(control).transpose()?;
        changes.notify_gap = microseconds("notify_gap_us", self.notify_gap_us, limits::GAP_US)?;
        changes.cut_gap = microseconds("cut_gap_us", self.cut_gap_us, limits::GAP_US)?;
        changes.turn = nanoseconds("turn_ns", self.turn_ns.map(|ns| ns.max(1)))?;
        if let Some(rtt_reference_ns) = self.rtt_reference_ns {
            small("rtt_reference_ns", rtt_reference_ns, limits::RTT_REFERENCE_NS)?;
            changes.tuning = Some(CongestionTuning { rtt_reference_ns, ..CongestionTuning::default() });
        }
        changes.messages = match (self.message_bytes, self.messages) {
            (None, None) => None,
            (None, Some(_)) => return Err(FileError::Messages),
            (Some(bytes), messages) => Some((
                positive("message_bytes", bytes)?,
                small("messages", messages.unwrap_or(128), limits::MESSAGES)?,
            )),
        };
        Ok(())
    }
}

impl SwitchFile {
    pub fn change(&self, plan: &mut Plan) -> Result<(), FileError> {
        let changes = &mut plan.changes;
        changes.spray = self.spray;
        let pool = |bytes| within("buffer_bytes", bytes, limits::BUFFER_BYTES);
        let mark = |bytes| within("mark_bytes", bytes, limits::MARK_BYTES);
        changes.pool = self.buffer_bytes.map(pool).transpose()?;
        changes.mark = self.mark_bytes.map(mark).transpose()?;
        changes.marks = self.red.as_ref().map(RedFile::marks).transpose()?;
        Ok(())
    }
}

impl RedFile {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is in the range")]
    fn marks(&self) -> Result<Marks, FileError> {
        if !(0.0..=1.0).contains(&self.most) {
            return Err(FileError::Part { what: "red: most", part: self.most });
        }
        let from = within("red: from_bytes", self.from_bytes, limits::MARK_BYTES)?;
        let until = within("red: until_bytes", self.until_bytes, limits::MARK_BYTES)?;
        if until < from {
            return Err(FileError::Red { from, until });
        }
        Ok(Marks { from, until, most: (self.most * 65536.0) as u32 })
    }
}

fn pmtu(bytes: u32) -> Result<Pmtu, FileError> {
    let known = ["256", "512", "1024", "1408", "2048", "4096"];
    Pmtu::from_bytes(bytes).ok_or_else(|| unknown("mtu", &bytes.to_string(), known))
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
