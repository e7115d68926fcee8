//! The statuses with which work requests end.

use core::fmt;

/// Completion status, the values of `ibv_wc_status` (protocol.md 1.10). Shown as text it says what
/// happened, and what to do about it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum WcStatus {
    /// `IBV_WC_SUCCESS`.
    Success = 0,
    /// `IBV_WC_LOC_LEN_ERR`: a message was longer than the receive that it found.
    LocLenErr = 1,
    /// `IBV_WC_LOC_QP_OP_ERR`: the request asks for what its queue pair cannot do.
    LocQpOpErr = 2,
    /// `IBV_WC_LOC_PROT_ERR`: the request names memory of ours that its key does not open.
    LocProtErr = 4,
    /// `IBV_WC_WR_FLUSH_ERR`: the queue pair went to ERR, or SQE, before the request was done.
    WrFlushErr = 5,
    /// `IBV_WC_MW_BIND_ERR`: the window could not be bound.
    MwBindErr = 6,
    /// `IBV_WC_BAD_RESP_ERR`: the peer's answer is not one to the request.
    BadRespErr = 7,
    /// `IBV_WC_LOC_ACCESS_ERR`: the peer's WRITE with immediate was refused here, and had taken
    /// this receive.
    LocAccessErr = 8,
    /// `IBV_WC_REM_INV_REQ_ERR`: the peer refused the request as invalid.
    RemInvReqErr = 9,
    /// `IBV_WC_REM_ACCESS_ERR`: the peer's key does not allow it.
    RemAccessErr = 10,
    /// `IBV_WC_REM_OP_ERR`: the peer could not carry the request out.
    RemOpErr = 11,
    /// `IBV_WC_RETRY_EXC_ERR`: the peer did not answer.
    RetryExcErr = 12,
    /// `IBV_WC_RNR_RETRY_EXC_ERR`: the peer had no receive for the message.
    RnrRetryExcErr = 13,
    /// `IBV_WC_FATAL_ERR`.
    FatalErr = 19,
    /// `IBV_WC_GENERAL_ERR`.
    GeneralErr = 21,
}

impl WcStatus {
    const ALL: [Self; 15] = [
        Self::Success,
        Self::LocLenErr,
        Self::LocQpOpErr,
        Self::LocProtErr,
        Self::WrFlushErr,
        Self::MwBindErr,
        Self::BadRespErr,
        Self::LocAccessErr,
        Self::RemInvReqErr,
        Self::RemAccessErr,
        Self::RemOpErr,
        Self::RetryExcErr,
        Self::RnrRetryExcErr,
        Self::FatalErr,
        Self::GeneralErr,
    ];

    /// The name of this status in `ibv_wc_status`.
    ///
    /// ```
    /// assert_eq!(datapath::queue::WcStatus::RetryExcErr.name(), "IBV_WC_RETRY_EXC_ERR");
    /// ```
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Success => "IBV_WC_SUCCESS",
            Self::LocLenErr => "IBV_WC_LOC_LEN_ERR",
            Self::LocQpOpErr => "IBV_WC_LOC_QP_OP_ERR",
            Self::LocProtErr => "IBV_WC_LOC_PROT_ERR",
            Self::WrFlushErr => "IBV_WC_WR_FLUSH_ERR",
            Self::MwBindErr => "IBV_WC_MW_BIND_ERR",
            Self::BadRespErr => "IBV_WC_BAD_RESP_ERR",
            Self::LocAccessErr => "IBV_WC_LOC_ACCESS_ERR",
            Self::RemInvReqErr => "IBV_WC_REM_INV_REQ_ERR",
            Self::RemAccessErr => "IBV_WC_REM_ACCESS_ERR",
            Self::RemOpErr => "IBV_WC_REM_OP_ERR",
            Self::RetryExcErr => "IBV_WC_RETRY_EXC_ERR",
            Self::RnrRetryExcErr => "IBV_WC_RNR_RETRY_EXC_ERR",
            Self::FatalErr => "IBV_WC_FATAL_ERR",
            Self::GeneralErr => "IBV_WC_GENERAL_ERR",
        }
    }

    /// What happened, and what to do.
    const fn advice(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::LocLenErr => {
                "the peer's message is longer than the receive that it found; post longer receives, or send less at once"
            }
            Self::LocQpOpErr => {
                "the request asks for what its queue pair cannot do; check its address handle, its window, and its elements, and of a \
                 READ or atomic that neither its queue pair's max_rd_atomic nor the peer's max_dest_rd_atomic is 0"
            }
            Self::LocProtErr => {
                "the request names memory that its lkey does not open; check that the region is alive, of the queue pair's \
                 protection domain, long enough, and has LOCAL_WRITE if it is written"
            }
            Self::WrFlushErr => {
                "it was still posted when the connection ended, which is no failure if `is_disconnected` says so; else the queue pair \
                 failed, and the first completion with another status says why, or the device's event"
            }
            Self::MwBindErr => {
                "the memory window was not bound; its region needs MW_BIND and the rights, and a window of type 2 is to be \
                 invalidated first"
            }
            Self::BadRespErr => "the peer's response does not belong to the request; check what the peer is",
            Self::LocAccessErr => {
                "the peer's WRITE with immediate was refused here; check that the region or window is alive, long enough, and grants it"
            }
            Self::RemInvReqErr => {
                "the peer refused the request as invalid; a READ or atomic most likely because its queue pair grants WRITEs only, as by \
                 default, see `QueuePairBuilder::access` there, or because the atomic's address is no multiple of 8; a SEND because it is longer than \
                 the receive that it found"
            }
            Self::RemAccessErr => {
                "the peer's rkey does not allow this; most likely its region or window is gone there, or ends before the address and \
                 length of the request do; else it was not registered for this access, or in another protection domain than the queue pair's"
            }
            Self::RemOpErr => {
                "the peer could not carry the request out; most likely the memory of its receive is gone, which the completion there says, \
                 or its completion queue is full, which its events say"
            }
            Self::RetryExcErr => {
                "the peer did not answer in any try; most likely its process ended, its queue pair was dropped, or nobody runs its engine: it \
                 is to poll, or to have a thread (`Driver::THREAD`); else the link is down, or longer than timeout and retry_cnt allow"
            }
            Self::RnrRetryExcErr => {
                "the peer had no receive for the message in any try; most likely its program posts them too late or too few: the first \
                 before it connects, the next before it answers; or raise rnr_retry (7, the default, is for ever)"
            }
            Self::FatalErr => "the device failed; open it anew",
            Self::GeneralErr => "an error that has no name of its own",
        }
    }

    pub(super) fn from_code(code: u8) -> Self {
        Self::ALL.into_iter().find(|status| *status as u8 == code).unwrap_or(Self::GeneralErr)
    }
}

impl fmt::Display for WcStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.name(), self.advice())
    }
}

#[cfg(test)]
mod tests {
    use super::WcStatus;
    use std::collections::HashSet;

    #[test]
    fn what_the_peer_refused_says_which_cause_is_likely() {
        for (status, cause) in [
            (WcStatus::RemAccessErr, "most likely its region or window is gone"),
            (WcStatus::RemInvReqErr, "most likely because its queue pair grants WRITEs only"),
            (WcStatus::RemOpErr, "most likely the memory of its receive is gone"),
            (WcStatus::RetryExcErr, "most likely its process ended"),
            (WcStatus::RnrRetryExcErr, "most likely its program posts them too late"),
        ] {
            assert!(status.to_string().contains(cause), "{status}");
        }
    }

    #[test]
    fn each_status_has_its_code_its_name_and_its_advice() {
        let texts: HashSet<String> = WcStatus::ALL.iter().map(ToString::to_string).collect();
        assert_eq!(texts.len(), WcStatus::ALL.len());
        for status in WcStatus::ALL {
            assert_eq!(WcStatus::from_code(status as u8), status);
            // IBV_WC_RETRY_EXC_ERR is RetryExcErr.
            let name: String =
                status.name().trim_start_matches("IBV_WC_").split('_').flat_map(str::chars).collect();
            assert!(name.eq_ignore_ascii_case(&format!("{status:?}")), "{status:?} is {}", status.name());
        }
    }
}
