//! Mutants: with one rule broken, some schedule must fail, or the oracle is blind to that rule.

use srnic_model::defects::Defect;
use srnic_model::run;

/// Schedules that a mutant is given to fail in.
const SCHEDULES: u64 = 40_000;

/// The first schedule in which `defect` shows, and how.
fn first_failure(defect: Defect) -> Option<(u64, String)> {
    (0..SCHEDULES).find_map(|seed| run(seed, Some(defect)).err().map(|what| (seed, what)))
}

macro_rules! mutants {
    ($($name:ident: $defect:ident),+ $(,)?) => {
        $(
            #[test]
            fn $name() {
                let (seed, what) = first_failure(Defect::$defect).expect("no schedule catches this mutant");
                assert!(run(seed, None).is_ok(), "schedule {seed} fails without the mutant, too");
                println!("{}: schedule {seed}: {what}", stringify!($defect));
            }
        )+

        #[test]
        fn every_mutant_has_a_test() {
            assert_eq!(Defect::ALL, [$(Defect::$defect),+]);
        }
    };
}

mutants! {
    late_advance_accepted: LateAdvanceAccepted,
    rto_skips_sacked_una: RtoSkipsSackedUna,
    error_dropped_in_recovery: ErrorDroppedInRecovery,
    record_lost: RecordLost,
    rslot_reuse_refused: RslotReuseRefused,
    error_nak_once: ErrorNakOnce,
    sack_without_record: SackWithoutRecord,
    resend_gated_by_window: ResendGatedByWindow,
    probe_gated_by_pipe: ProbeGatedByPipe,
    timers_stopped_by_sack: TimersStoppedBySack,
    exit_only_past_right: ExitOnlyPastRight,
    exit_not_past_right: ExitNotPastRight,
    exit_below_left: ExitBelowLeft,
    gen_not_raised: GenNotRaised,
    gen_reset_with_qp: GenResetWithQp,
    newest_advance_dropped: NewestAdvanceDropped,
    parked_written_at_once: ParkedWrittenAtOnce,
    stale_nack_obeyed: StaleNackObeyed,
    resend_all_repeated: ResendAllRepeated,
    read_at_arrival: ReadAtArrival,
    duplicate_response_ignored: DuplicateResponseIgnored,
    no_response_timer: NoResponseTimer,
    dropped_never_reported: DroppedNeverReported,
    dropped_reported_on_exit_only: DroppedReportedOnExitOnly,
    srq_out_of_order: SrqOutOfOrder,
    rslot_not_idempotent: RslotNotIdempotent,
    too_few_slots: TooFewSlots,
    psns_reused: PsnsReused,
    key_not_checked_at_emission: KeyNotCheckedAtEmission,
    emission_error_at_epsn: EmissionErrorAtEpsn,
    no_marks: NoMarks,
    duplicate_placed: DuplicatePlaced,
    emitted_early: EmittedEarly,
    rnr_counted_during_wait: RnrCountedDuringWait,
}
