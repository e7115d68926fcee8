//! The dialect of a reliable connection, as programs tell each other of it (`ibv_query_ece`,
//! `ibv_set_ece`): options that a vendor's queue pairs may speak with each other. librdmacm does so
//! for its programs.

use crate::abi::Ece;
use crate::argument::Out;
use crate::errno::{Errno, Result};
use crate::opened::TAKES_1408;
use crate::qp::Qp;
use core::ffi::c_int;
use core::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use verbs_api::raw::Options;
use verbs_api::{
    CongestionAlgorithm, QpAttr, QpAttrMask, QpState, QpType, RecoveryPolicy, WireMode, WriteOrder,
};

/// What the program has set for a queue pair.
#[derive(Default)]
pub struct Dialect(Mutex<Choice>);

#[derive(Clone, Copy, Default)]
enum Choice {
    /// Nothing: the device's.
    #[default]
    Unset,
    /// The peer takes none of what this end offers.
    Plain,
    Srnic(Options),
}

impl Dialect {
    fn get(&self) -> Choice {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, choice: Choice) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = choice;
    }
}

/// A queue pair in this dialect; `None`: plain.
pub fn speak(qp: &Qp, options: Option<Options>, attr: &mut QpAttr, mask: &mut QpAttrMask) {
    attr.wire_mode = if options.is_some() { WireMode::Srnic } else { WireMode::Plain };
    *mask |= QpAttrMask::WIRE_MODE;
    let Some(options) = options else {
        // What goes with plain RoCEv2, as for programs in Rust.
        (attr.recovery, attr.congestion) = (RecoveryPolicy::GoBackN, CongestionAlgorithm::Dcqcn);
        *mask |= QpAttrMask::RECOVERY | QpAttrMask::CONGESTION;
        return;
    };
    qp.pair().limit_window(options.window);
    if options.strict_placement {
        place_strictly(attr, mask);
    }
}

fn place_strictly(attr: &mut QpAttr, mask: &mut QpAttrMask) {
    attr.write_order |= WriteOrder::STRICT_PLACEMENT;
    *mask |= QpAttrMask::WRITE_ORDER;
}

/// What the program has set, or else the device's dialect, becomes an attribute.
pub fn take_choice(qp: &Qp, attr: &mut QpAttr, mask: &mut QpAttrMask) {
    let config = &qp.engine().config;
    match qp.dialect().get() {
        Choice::Unset if config.wire_mode == WireMode::Srnic && config.strict_placement => {
            place_strictly(attr, mask);
        }
        Choice::Unset if config.wire_mode == WireMode::Srnic => {}
        Choice::Unset | Choice::Plain => speak(qp, None, attr, mask),
        Choice::Srnic(options) => speak(qp, Some(options), attr, mask),
    }
}

/// What the user is told of two ends that were given different dialects, of which verbs know
/// nothing.
pub fn disagreement(qpn: u32, peer: IpAddr, theirs: WireMode) -> String {
    let [srnic, plain] = ["the SRNIC dialect", "plain RoCEv2"];
    let (own, theirs) = if theirs == WireMode::Plain { (srnic, plain) } else { (plain, srnic) };
    format!(
        "queue pair {qpn} speaks {own}, its peer at {peer} speaks {theirs}, and neither takes what the other sends: \
         give both devices the same dialect (`DEVICE; dialect=srnic` or `DEVICE; dialect=plain`)"
    )
}

/// The options that the device offers for a queue pair. EOPNOTSUPP if it has none.
fn offer(qp: &Qp) -> Result<Options> {
    let engine = qp.engine();
    if qp.pair().qp_type() != QpType::Rc || engine.config.wire_mode == WireMode::Plain {
        return Err(Errno::NOT_SUPPORTED);
    }
    Ok(Options {
        window: engine.device.window_max(),
        strict_placement: engine.config.strict_placement,
        path_mtu: engine.path_mtu_max(),
        takes_1408: TAKES_1408,
    })
}

exports! {
    fn ibv_query_ece(qp: &Qp, ece: Out<Ece>) -> c_int = both {
        let (vendor_id, options) = match (offer(qp)?, qp.dialect().get()) {
            (offer, Choice::Unset) => offer.to_ece(),
            (offer, Choice::Plain) => (offer.to_ece().0, 0),
            (_, Choice::Srnic(options)) => options.to_ece(),
        };
        ece.set(Ece { vendor_id, options, comp_mask: 0 });
        Ok(())
    }

    fn ibv_set_ece(qp: &Qp, ece: Out<Ece>) -> c_int = both {
        let (offer, asked) = (offer(qp)?, ece.get());
        if asked.vendor_id != offer.to_ece().0 {
            return Err(Errno::NOT_SUPPORTED);
        }
        if asked.comp_mask != 0 || !matches!(qp.pair().state(), QpState::Reset | QpState::Init) {
            return Err(Errno::INVALID);
        }
        // Nothing is what a peer takes that has none of it, or another version.
        match Options::from_ece(asked.vendor_id, asked.options) {
            None => {
                qp.dialect().set(Choice::Plain);
                ece.set(Ece { options: 0, ..asked });
            }
            Some(theirs) => {
                let both = offer.with(theirs);
                qp.dialect().set(Choice::Srnic(both));
                ece.set(Ece { options: both.to_ece().1, ..asked });
            }
        }
        Ok(())
    }
}
