//! Names of counters: where `rdma statistic` has a name for the same thing, that is used.

/// Counters of ours that `rdma statistic` knows from other NICs, by its name for them (mlx5, and
/// `retry_exceeded_err` rxe).
const RDMA_NAMES: [(&str, &str); 13] = [
    ("rx_reads", "rx_read_requests"),
    ("rx_atomics", "rx_atomic_requests"),
    ("rx_out_of_order", "out_of_sequence"),
    ("rx_duplicates", "duplicate_request"),
    ("rx_nacks", "packet_seq_err"),
    ("rx_rnr_naks", "rnr_nak_retry_err"),
    ("tx_rnr_naks", "out_of_buffer"),
    ("rto_fired", "local_ack_timeout_err"),
    ("rx_ce_marked", "np_ecn_marked_roce_packets"),
    ("tx_cnps", "np_cnp_sent"),
    ("rx_cnps", "rp_cnp_handled"),
    ("drop_icrc", "rx_icrc_encapsulated"),
    ("retry_exceeded", "retry_exceeded_err"),
];

/// The name under which one of the engine's counters is shown.
pub fn rdma_name(ours: &'static str) -> &'static str {
    RDMA_NAMES.iter().find(|(own, _)| *own == ours).map_or(ours, |(_, theirs)| theirs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use datapath::counters::{Counters, QpCounters};

    #[test]
    fn each_name_of_rdma_statistic_stands_for_a_counter_of_ours() {
        let counters = Counters::default();
        let ours: Vec<&str> = counters.iter().map(|(name, _)| name).collect();
        for (own, theirs) in RDMA_NAMES {
            assert!(ours.contains(&own) && !ours.contains(&theirs), "{own} {theirs}");
        }
        for (name, _) in QpCounters::default().iter() {
            assert!(ours.contains(&name), "a queue pair's {name} is one of all");
        }
        assert_eq!(rdma_name("rto_fired"), "local_ack_timeout_err");
        assert_eq!(rdma_name("tx_requests"), "tx_requests");
    }
}
