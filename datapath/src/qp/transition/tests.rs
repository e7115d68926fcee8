use super::*;
use crate::qp::attr::QpAttrMask as Mask;
use crate::qp_state::PostVerdict;
use std::fmt::Write as _;

/// Every type x from x to.
fn triples() -> impl Iterator<Item = (QpType, QpState, QpState)> {
    QpType::ALL.into_iter().flat_map(|qp_type| {
        QpState::ALL
            .into_iter()
            .flat_map(move |from| QpState::ALL.into_iter().map(move |to| (qp_type, from, to)))
    })
}

fn render_table() -> String {
    let mut text = String::new();
    for qp_type in QpType::ALL {
        for (_, from, to) in triples().filter(|t| t.0 == qp_type) {
            if let Some(rule) = TransitionRule::find(qp_type, from, to) {
                let (required, optional) = (rule.required(from, to), rule.optional);
                writeln!(text, "{qp_type} {from:5} -> {to:5} required {required}; optional {optional}")
                    .unwrap();
            }
        }
        writeln!(text).unwrap();
    }
    text
}

fn render_graph(qp_type: QpType) -> String {
    let mut text = format!("digraph {qp_type} {{\n");
    for (_, from, to) in triples().filter(|t| t.0 == qp_type) {
        if let Some(rule) = TransitionRule::find(qp_type, from, to) {
            writeln!(text, "    {from} -> {to} [label=\"{}\"];", rule.required).unwrap();
        }
    }
    text.push_str("}\n");
    text
}

#[test]
fn whole_table() {
    insta::assert_snapshot!("table", render_table());
}

#[test]
fn graph() {
    let graphs: Vec<String> = QpType::ALL.into_iter().map(render_graph).collect();
    insta::assert_snapshot!("graph", graphs.join("\n"));
}

#[test]
fn permissions() {
    let mut text = String::new();
    for state in QpState::ALL {
        writeln!(
            text,
            "{state:5} post_send {:?}, post_recv {:?}, receives {}, starts_sends {}, continues_sends {}, \
             flushes_sends {}, flushes_recvs {}",
            state.post_send(),
            state.post_recv(),
            state.receives(),
            state.starts_sends(),
            state.continues_sends(),
            state.flushes_sends(),
            state.flushes_recvs(),
        )
        .unwrap();
    }
    insta::assert_snapshot!("permissions", text);
}

/// What must hold between the permissions of one state, whatever the state.
#[test]
fn permissions_agree_with_each_other() {
    for state in QpState::ALL {
        assert_eq!(state.post_send() == PostVerdict::Flushed, state.flushes_sends(), "{state}");
        assert_eq!(state.post_recv() == PostVerdict::Flushed, state.flushes_recvs(), "{state}");
        assert!(!state.starts_sends() || state.continues_sends(), "{state} starts what it cannot finish");
        assert!(!(state.continues_sends() && state.flushes_sends()), "{state} sends and flushes");
        assert!(!(state.receives() && state.flushes_recvs()), "{state} receives and flushes");
        assert!(!state.continues_sends() || state.receives(), "{state} sends but is deaf to ACKs");
    }
}

#[test]
fn no_two_rows_overlap_and_no_row_requires_what_it_calls_optional() {
    for (qp_type, from, to) in triples() {
        let rows = TRANSITIONS
            .iter()
            .filter(|r| r.types.contains(&qp_type) && r.from.contains(&from) && r.to == to)
            .count();
        assert!(rows <= 1, "{rows} rows for {qp_type} {from} -> {to}");
    }
    for rule in TRANSITIONS {
        assert!(rule.required.intersection(rule.optional).is_empty(), "{rule:?}");
        assert!(!(rule.required | rule.optional).contains(Mask::STATE), "{rule:?} names STATE itself");
    }
}

/// The transitions of protocol.md 1.9, listed independently of the table.
fn exists(qp_type: QpType, from: QpState, to: QpState) -> bool {
    use QpState::*;
    match (from, to) {
        (_, Reset | Err) => true,
        (Reset | Init, Init) | (Init, Rtr) => true,
        (Rtr | Rts | Sqd, Rts) | (Rts | Sqd, Sqd) => true,
        (Sqe, Rts) => qp_type != QpType::Rc,
        _ => false,
    }
}

/// Each from x to x type: exactly what is required passes, so does all that is allowed; without any
/// one required bit, or with any one more of all 32 bits, the error names that bit and no other.
#[test]
fn every_mask_one_bit_off_is_refused() {
    for (qp_type, from, to) in triples() {
        let Some(rule) = TransitionRule::find(qp_type, from, to) else {
            assert!(!exists(qp_type, from, to), "{qp_type} {from} -> {to} is missing");
            let refused = TransitionError::NoSuchTransition { qp_type, from, to };
            for mask in [Mask::empty(), Mask::STATE, Mask::all()] {
                assert_eq!(check_transition(qp_type, from, to, mask), Err(refused));
            }
            continue;
        };
        assert!(exists(qp_type, from, to), "{qp_type} {from} -> {to} is too much");
        let check = |mask| check_transition(qp_type, from, to, mask);
        let (required, allowed) = (rule.required(from, to), rule.allowed());
        assert_eq!(check(required), Ok(()));
        assert_eq!(check(allowed), Ok(()));
        let attributes = TransitionRule::attributes(qp_type, from, to);
        assert_eq!(check(attributes), Ok(()));
        assert_eq!(allowed.difference(attributes), allowed.intersection(Mask::CUR_STATE));
        for bit in (0..u32::BITS).map(|i| Mask::from_bits_retain(1 << i)) {
            let none = Mask::empty();
            let error =
                |missing, disallowed| TransitionError::Attributes { qp_type, from, to, missing, disallowed };
            if required.contains(bit) {
                assert_eq!(check(required.difference(bit)), Err(error(bit, none)));
                assert_eq!(check(allowed.difference(bit)), Err(error(bit, none)));
            } else if allowed.contains(bit) {
                assert_eq!(check(required.union(bit)), Ok(()));
            } else {
                assert_eq!(check(required.union(bit)), Err(error(none, bit)));
                assert_eq!(check(allowed.union(bit)), Err(error(none, bit)));
            }
        }
    }
}

#[test]
fn only_a_change_of_state_needs_the_state_bit() {
    for (qp_type, from, to) in triples() {
        if let Some(rule) = TransitionRule::find(qp_type, from, to) {
            assert_eq!(rule.required(from, to).contains(Mask::STATE), from != to);
        }
    }
}

#[test]
fn both_faults_of_a_mask_are_reported_at_once() {
    let mask = Mask::STATE | Mask::AV | Mask::PATH_MTU | Mask::RQ_PSN | Mask::QKEY | Mask::SQ_PSN;
    let error = check_transition(QpType::Uc, QpState::Init, QpState::Rtr, mask).unwrap_err();
    assert_eq!(
        error.to_string(),
        "UC QP INIT to RTR: missing DEST_QPN: set them and add them to the mask; \
         not allowed here QKEY | SQ_PSN: take them out of the mask"
    );
}

#[test]
fn bits_without_a_name_are_shown_as_a_number() {
    let mask = Mask::STATE | Mask::from_bits_retain(1 << 14);
    let error = check_transition(QpType::Rc, QpState::Rts, QpState::Err, mask).unwrap_err();
    assert_eq!(error.to_string(), "RC QP RTS to ERR: not allowed here 0x4000: take them out of the mask");
}

#[test]
fn an_impossible_transition_says_what_is_possible() {
    let error = check_transition(QpType::Rc, QpState::Init, QpState::Rts, Mask::STATE).unwrap_err();
    assert_eq!(error.to_string(), "RC QP cannot go from INIT to RTS; from INIT it can go to RESET, RTR, ERR");
    let error = check_transition(QpType::Rc, QpState::Sqe, QpState::Rts, Mask::STATE).unwrap_err();
    assert_eq!(error.to_string(), "RC QP cannot go from SQE to RTS; from SQE it can go to RESET, ERR");
}
