//! What is shown of a device's metrics.

use super::report::Report;
use super::{explain, json, text};

const METRICS: &str = r#"# TYPE srnic_operations_sampled counter
srnic_sampled_one_in 64.0
srnic_operations_sampled_total{qpn="17",opcode="Write",status="Success"} 100
srnic_operation_part_seconds_total{qpn="17",opcode="Write",status="Success",part="scheduler"} 0.0001
srnic_operation_part_seconds_total{qpn="17",opcode="Write",status="Success",part="network"} 0.0002
srnic_operation_part_seconds_total{qpn="17",opcode="Write",status="Success",part="polling"} 0.0001
srnic_operation_seconds{qpn="17",opcode="Write",status="Success",quantile="0.5"} 0.0000035
srnic_operation_seconds{qpn="17",opcode="Write",status="Success",quantile="1"} 0.000021
srnic_operation_part_quantile_seconds{part="network",quantile="0.5"} 0.000002
srnic_operations_unsampled_total 3
srnic_slow_operations_total 1
srnic_slow_operation_info{qpn="17",opcode="Send",status="Success",wr_id="4711",posted="5",total="3200000",again="2",posting="0",scheduler="100000",port="0",window="0",congestion="0",reads="0",receives="2900000",recovery="0",network="200000",peer="0",polling="0",peer_address="10.77.0.1",state="RTS",limit="no receive posted",requests="4",outstanding_packets="3",window_packets="64",cwnd_packets="64",srtt="5000"} 1
# EOF
"#;

#[test]
fn a_bar_has_each_part_as_wide_as_its_share() {
    let table = text::table(&Report::parse(METRICS), 10);
    let bar = format!("|{}{}{}|", "s".repeat(15), "=".repeat(30), ".".repeat(15));
    assert!(table.contains(&bar), "{table}");
    assert!(table.contains("mean 4.00 us  p50 3.50 us  most 21.00 us"), "{table}");
    let shares = "s scheduler 25 % (1.00 us), = network 50 % (2.00 us), . polling 25 % (1.00 us)";
    assert!(table.contains(shares), "{table}");
    assert!(table.contains("3 were to be sampled and were not"), "{table}");
}

#[test]
fn of_two_looks_what_is_new_is_shown() {
    let before = Report::parse(METRICS);
    let now = Report::parse(
        &METRICS
            .replace("Success\"} 100\n", "Success\"} 110\n")
            .replace("part=\"polling\"} 0.0001\n", "part=\"polling\"} 0.0101\n")
            .replace("unsampled_total 3\n", "unsampled_total 7\n")
            .replace("slow_operations_total 1\n", "slow_operations_total 3\n"),
    );
    let since = now.since(&before);
    assert_eq!((since.unsampled, since.slow_count), (4.0, 2.0), "counted as the rest is");
    let of = since.operations.values().next().expect("one key");
    assert!((of.count - 10.0).abs() < 1e-9 && (of.total() - 0.01).abs() < 1e-9, "{of:?}");
    assert_eq!(before.since(&before).operations.values().next().map(|of| of.count), Some(0.0));
    assert!(text::table(&before.since(&before), 10).starts_with("no operation was sampled"));
}

#[test]
fn programs_have_the_same_numbers() {
    let document = json::document("/tmp/a.stat", 7.0, &Report::parse(METRICS));
    let of = &document["operations"][0];
    assert_eq!((of["qpn"].as_u64(), of["count"].as_f64()), (Some(17), Some(100.0)));
    assert_eq!(of["parts"]["network"].as_f64(), Some(0.0002));
    assert_eq!(of["quantiles"]["1"].as_f64(), Some(0.000_021));
    assert_eq!(document["slow"][0]["wr_id"], "4711");
}

#[test]
fn a_slow_operation_is_told_in_sentences_with_its_remedy() {
    let told = explain::sentences(&Report::parse(METRICS));
    for part in [
        "Send 4711 of queue pair 17 to 10.77.0.1 took 3.20 ms.",
        "2.90 ms (91 %): the peer had no receive posted for it",
        "Packets of it sent again: 2.",
        "in RTS, with 4 requests posted, 3 packets outstanding",
        "it was held back by: no receive posted.",
        "What to do: post more receives at the peer",
    ] {
        assert!(told.contains(part), "{part}\n{told}");
    }
    let none = explain::sentences(&Report::default());
    assert!(none.starts_with("No sampled operation was slow"), "{none}");
}
