//! Queue-pair attributes and their ranges (protocol.md 1.9).

mod congestion;
mod error;
mod mask;
#[cfg(test)]
mod tests;
mod write_order;

/// What [`QpAttr::recovery`] chooses.
pub use crate::stream::RecoveryPolicy;
pub use congestion::{CongestionAlgorithm, CongestionTuning, LossResponse};
pub use error::AttrError;
pub use mask::QpAttrMask;
pub use write_order::WriteOrder;

use crate::memory::Access;
use crate::qp_state::QpState;
use crate::qpn::MULTICAST_QPN;
use crate::sched::{PRIORITY_MAX, SchedAttributes, WEIGHT_LIMIT};
use core::net::{IpAddr, Ipv4Addr};
use wire::{Pmtu, WireMode};

/// Where a queue pair's packets go.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct AddressVector {
    /// Our address on this path.
    pub src_ip: IpAddr,
    /// The peer's address, of the same family.
    pub dst_ip: IpAddr,
    /// The next hop's Ethernet address; `None`: resolve it.
    pub dst_mac: Option<[u8; 6]>,
    /// Differentiated services code point, 0..=63.
    pub dscp: u8,
    /// IPv4 TTL or IPv6 hop limit, 1..=255.
    pub hop_limit: u8,
    /// 20 bits, from which the UDP source port derives (protocol.md 1.8); 0: derived from the two
    /// QPNs.
    pub flow_label: u32,
}

impl Default for AddressVector {
    /// Names no peer: does not validate until both addresses are set.
    fn default() -> Self {
        let none = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
        Self { src_ip: none, dst_ip: none, dst_mac: None, dscp: 0, hop_limit: 64, flow_label: 0 }
    }
}

/// Attributes of a queue pair. A [`QpAttrMask`] says which fields count; the others are ignored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QpAttr {
    /// The state to go to.
    pub state: QpState,
    /// The state the caller believes the QP to be in.
    pub cur_state: QpState,
    /// Raise an event once a QP in SQD has drained.
    pub en_sqd_async_notify: bool,
    /// What the peer may do. Remote writes and atomics need local write.
    pub access_flags: Access,
    /// Partition key; its low 15 bits are not 0.
    pub pkey: u16,
    /// Port of the device: 1, as there is only one.
    pub port_num: u8,
    /// Q_Key of a UD queue pair.
    pub qkey: u32,
    /// Where packets go.
    pub av: AddressVector,
    /// Largest payload of a packet.
    pub path_mtu: Pmtu,
    /// The peer's QPN, 1..=0xFF_FFFE.
    pub dest_qpn: u32,
    /// First PSN that we receive, 24 bits.
    pub rq_psn: u32,
    /// First PSN that we send, 24 bits.
    pub sq_psn: u32,
    /// A try lasts 4.096 us x 2^timeout, 0..=31; 0 switches the failure detector off.
    pub timeout: u8,
    /// Tries without any sign of life before RETRY_EXC_ERR, 0..=7.
    pub retry_cnt: u8,
    /// RNR waits before RNR_RETRY_EXC_ERR, 0..=7; 7: for ever.
    pub rnr_retry: u8,
    /// The code of the delay that our RNR NAKs ask for (protocol.md 1.5), 0..=31.
    pub min_rnr_timer: u8,
    /// READs and atomics that we may have outstanding.
    pub max_rd_atomic: u8,
    /// READs and atomics that the peer may have outstanding here.
    pub max_dest_rd_atomic: u8,
    /// The dialect on the wire.
    pub wire_mode: WireMode,
    /// How losses are recovered.
    pub recovery: RecoveryPolicy,
    /// What WRITEs promise about their order in memory.
    pub write_order: WriteOrder,
    /// Which congestion controller runs.
    pub congestion: CongestionAlgorithm,
    /// Its parameters; they go with `congestion`.
    pub congestion_tuning: CongestionTuning,
    /// Weight and priority beside other queue pairs.
    pub scheduling: SchedAttributes,
    /// Milliseconds without a sign of life after which an idle queue pair asks for one; 0: never.
    pub keepalive_ms: u32,
}

impl Default for QpAttr {
    /// A usable value for everything but the peer: `av` and `dest_qpn` do not validate until they
    /// are set.
    fn default() -> Self {
        Self {
            state: QpState::Reset,
            cur_state: QpState::Reset,
            en_sqd_async_notify: false,
            access_flags: Access::empty(),
            pkey: 0xFFFF,
            port_num: 1,
            qkey: 0,
            av: AddressVector::default(),
            path_mtu: Pmtu::B1024,
            dest_qpn: 0,
            rq_psn: 0,
            sq_psn: 0,
            timeout: 14,
            retry_cnt: 7,
            rnr_retry: 7,
            min_rnr_timer: 12,
            max_rd_atomic: 0,
            max_dest_rd_atomic: 0,
            wire_mode: WireMode::Srnic,
            recovery: RecoveryPolicy::SelectiveRepeat,
            write_order: WriteOrder::empty(),
            congestion: CongestionAlgorithm::Dctcp,
            congestion_tuning: CongestionTuning::default(),
            scheduling: SchedAttributes::default(),
            keepalive_ms: 0,
        }
    }
}

impl QpAttr {
    /// Checks the values of the attributes that `mask` names. Whether they may be set in some state
    /// is another question: [`check_transition`](super::transition::check_transition).
    ///
    /// # Errors
    /// The first value found wrong.
    pub fn validate(&self, mask: QpAttrMask) -> Result<(), AttrError> {
        let unknown = mask.bits() & !QpAttrMask::all().bits();
        if unknown != 0 {
            return Err(AttrError::UnknownAttributes { bits: unknown });
        }
        self.validate_ranges(mask)?;
        if mask.contains(QpAttrMask::AV) {
            self.av.validate()?;
        }
        if mask.contains(QpAttrMask::ACCESS_FLAGS) && !self.access_flags.is_consistent() {
            return Err(AttrError::InconsistentAccess(self.access_flags));
        }
        if mask.contains(QpAttrMask::PKEY_INDEX) && self.pkey & 0x7FFF == 0 {
            return Err(AttrError::Pkey(self.pkey));
        }
        if mask.contains(QpAttrMask::CONGESTION) {
            self.congestion_tuning.validate()?;
        }
        let counts_tries = mask.contains(QpAttrMask::KEEPALIVE | QpAttrMask::TIMEOUT);
        if counts_tries && self.keepalive_ms > 0 && self.timeout == 0 {
            return Err(AttrError::KeepaliveWithoutTimeout);
        }
        let both = QpAttrMask::WIRE_MODE | QpAttrMask::RECOVERY;
        if mask.contains(both)
            && self.wire_mode == WireMode::Plain
            && self.recovery == RecoveryPolicy::SelectiveRepeat
        {
            return Err(AttrError::SelectiveRepeatOnPlain);
        }
        Ok(())
    }

    fn validate_ranges(&self, mask: QpAttrMask) -> Result<(), AttrError> {
        const PSN_MAX: u32 = 0xFF_FFFF;
        let ranges = [
            (QpAttrMask::PORT, u32::from(self.port_num), 1, 1),
            (QpAttrMask::DEST_QPN, self.dest_qpn, 1, MULTICAST_QPN - 1),
            (QpAttrMask::RQ_PSN, self.rq_psn, 0, PSN_MAX),
            (QpAttrMask::SQ_PSN, self.sq_psn, 0, PSN_MAX),
            (QpAttrMask::TIMEOUT, u32::from(self.timeout), 0, 31),
            (QpAttrMask::RETRY_CNT, u32::from(self.retry_cnt), 0, 7),
            (QpAttrMask::RNR_RETRY, u32::from(self.rnr_retry), 0, 7),
            (QpAttrMask::MIN_RNR_TIMER, u32::from(self.min_rnr_timer), 0, 31),
            (QpAttrMask::SCHEDULING, u32::from(self.scheduling.weight), 1, u32::from(WEIGHT_LIMIT)),
            (QpAttrMask::SCHEDULING, u32::from(self.scheduling.priority), 0, u32::from(PRIORITY_MAX)),
        ];
        for (attribute, value, min, max) in ranges {
            if mask.contains(attribute) && !(min..=max).contains(&value) {
                return Err(AttrError::OutOfRange { attribute, value, min, max });
            }
        }
        Ok(())
    }
}

/// Whether one host has this address.
const fn is_unicast(ip: IpAddr) -> bool {
    let broadcast = matches!(ip, IpAddr::V4(v4) if v4.is_broadcast());
    !(ip.is_unspecified() || ip.is_multicast() || broadcast)
}

impl AddressVector {
    /// Checks every field of one that names a host.
    ///
    /// # Errors
    /// The first value found wrong.
    pub fn validate(&self) -> Result<(), AttrError> {
        for (field, ip) in [("src_ip", self.src_ip), ("dst_ip", self.dst_ip)] {
            if !is_unicast(ip) {
                return Err(AttrError::NotUnicast { field, ip });
            }
        }
        self.validate_but_hosts()
    }

    /// Checks every field of one that names a host or a multicast group, to which only datagrams
    /// go.
    ///
    /// # Errors
    /// The first value found wrong.
    pub fn validate_for_datagrams(&self) -> Result<(), AttrError> {
        if !is_unicast(self.src_ip) {
            return Err(AttrError::NotUnicast { field: "src_ip", ip: self.src_ip });
        }
        if !(is_unicast(self.dst_ip) || self.dst_ip.is_multicast()) {
            return Err(AttrError::NotUnicast { field: "dst_ip", ip: self.dst_ip });
        }
        self.validate_but_hosts()
    }

    fn validate_but_hosts(&self) -> Result<(), AttrError> {
        if self.src_ip.is_ipv4() != self.dst_ip.is_ipv4() {
            return Err(AttrError::MixedFamilies { src: self.src_ip, dst: self.dst_ip });
        }
        if let Some(mac) = self.dst_mac.filter(|mac| mac[0] & 1 != 0 || *mac == [0; 6]) {
            return Err(AttrError::DestinationMac(mac));
        }
        self.validate_headers()
    }

    /// Checks what does not name a host: what goes into the headers beside the addresses.
    ///
    /// # Errors
    /// The first value found wrong.
    pub fn validate_headers(&self) -> Result<(), AttrError> {
        let ranges = [
            ("dscp", u32::from(self.dscp), 0, 63),
            ("hop_limit", u32::from(self.hop_limit), 1, 255),
            ("flow_label", self.flow_label, 0, 0xF_FFFF),
        ];
        for (field, value, min, max) in ranges {
            if !(min..=max).contains(&value) {
                return Err(AttrError::AddressVectorRange { field, value, min, max });
            }
        }
        Ok(())
    }
}
