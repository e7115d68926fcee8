//! The parts: reading, plain text, JSON, rates, keys.

use super::history;
use crate::stat::history::History;
use crate::stat::number::{bars, rate};
use crate::stat::snapshot::Snapshot;
use crate::stat::view::{Order, Page, View};
use crate::stat::{json, text};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

const TEXT: &str = "# TYPE srnic_device info\nsrnic_device_info{ip=\"10.77.0.1\",driver=\"thread\"} 1\n\
    srnic_link_up 1.0\nsrnic_rx_acks_total 7\nsrnic_port_rx_packets_total 9\nnot ours 3\nsrnic_odd\n\
    srnic_qp_info{qpn=\"18\",type=\"RC\",state=\"RTS\",peer=\"10.77.0.2\",dest_qpn=\"5\",limit=\"nothing to send\"} 1\n\
    srnic_qp_info{qpn=\"19\",type=\"RC\",state=\"RTS\",peer=\"10.77.0.3\",dest_qpn=\"6\",limit=\"peer silent\"} 1\n\
    srnic_qp_silent_seconds{qpn=\"19\"} 0.25\nsrnic_qp_outstanding_packets{qpn=\"19\"} 4.0\n\
    srnic_qp_tx_retransmits_total{qpn=\"19\"} 0\nsrnic_qp_packet_seq_err_total{qpn=\"18\"} 2\n\
    srnic_qp_completed_requests_total{qpn=\"19\"} 4294967290\n\
    srnic_qp_window_packets{qpn=\"19\"} 512.0\nsrnic_qp_receives{qpn=\"18\"} 3.0\n# EOF\n";

fn table(text: &str, before: Option<&Snapshot>, most: usize) -> String {
    text::table(&Snapshot::parse(text), before, most)
}

#[test]
fn who_is_held_up_comes_first() {
    let table = table(TEXT, None, 10);
    let lines: Vec<&str> = table.lines().collect();
    assert_eq!(lines[0], "device 10.77.0.1, driver thread, link up, 2 queue pairs");
    let cells = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let held_up = "19 RTS 10.77.0.3 0 4294967290 shared 4/512 0 0 0.0 250 peer silent";
    assert_eq!(cells(lines[2]), held_up.split(' ').collect::<Vec<_>>());
    assert_eq!(cells(lines[3])[..6], ["18", "RTS", "10.77.0.2", "0", "0", "3"]);
    assert!(lines[3].ends_with("nothing to send, 2 packet_seq_err"), "{table}");
    assert_eq!(
        lines[4..].iter().map(|line| line.trim()).collect::<Vec<_>>(),
        ["9 port_rx_packets", "7 rx_acks"]
    );
}

#[test]
fn only_what_has_been_counted_since_is_shown() {
    let before = Snapshot::parse(TEXT);
    let text = TEXT
        .replace("rx_acks_total 7", "rx_acks_total 12")
        .replace("retransmits_total{qpn=\"19\"} 0", "retransmits_total{qpn=\"19\"} 4")
        .replace("} 4294967290", "} 14");
    let table = table(&text, Some(&before), 1);
    assert!(table.contains("peer silent, 4 tx_retransmits\n"), "{table}");
    assert!(table.contains(" 10.77.0.3        0        20 "), "20 across the end of the count: {table}");
    assert!(table.ends_with("      .. and 1 more\n               5 rx_acks\n"), "{table}");
}

#[test]
fn why_there_is_no_link_is_said() {
    let reason = r#"the peer says \"mtu=9000\", C:\\a\nb"#;
    let down = TEXT.replace(
        "srnic_link_up 1.0",
        &format!("srnic_link_up 0.0\nsrnic_link_error{{reason=\"{reason}\"}} 1.0"),
    );
    let first =
        "device 10.77.0.1, driver thread, link down (the peer says \"mtu=9000\", C:\\a\nb), 2 queue pairs\n";
    assert!(table(&down, None, 10).starts_with(first));
    let down = TEXT.replace("srnic_link_up 1.0", "srnic_link_up 0.0");
    assert!(table(&down, None, 10).contains(", link down, "));
}

#[test]
fn rates_are_by_the_clock_and_not_across_a_gap() {
    let mut history = History::new(["/a".to_owned()]);
    let told =
        |acks: u32| Ok(Snapshot::parse(&TEXT.replace("rx_acks_total 7", &format!("rx_acks_total {acks}"))));
    history.note(0, 10.0, told(7));
    assert_eq!(history.tracks[0].counter_rate("rx_acks"), None);
    history.note(0, 12.0, told(107));
    assert_eq!(history.tracks[0].counter_rate("rx_acks"), Some(50.0));
    history.note(0, 13.0, Err("gone".to_owned()));
    assert_eq!((history.tracks[0].trouble(), history.tracks[0].time()), (Some("gone"), 12.0));
    history.note(0, 14.0, told(207));
    assert_eq!((history.tracks[0].trouble(), history.tracks[0].counter_rate("rx_acks")), (None, None));
    assert_eq!(history.tracks[0].before(), None);
    history.note(0, 15.0, told(210));
    history.note(0, 16.0, told(5));
    assert_eq!(history.tracks[0].counter_rate("rx_acks"), None, "another device, which counts from 0");
    // Of another device there is nothing to note.
    history.note(1, 15.0, told(1));
}

#[test]
fn a_document_has_rates_once_there_are_two_looks() {
    let mut history = History::new(["/a".to_owned()]);
    history.note(0, 1.0, Ok(Snapshot::parse(TEXT)));
    let first = json::document(&history.tracks[0]);
    assert!(first["rates"].is_null() && first["queue_pairs"][1]["completed_per_second"].is_null(), "{first}");
    history.note(0, 1.5, Ok(Snapshot::parse(&TEXT.replace("} 4294967290", "} 14"))));
    let second = json::document(&history.tracks[0]);
    assert_eq!(second["queue_pairs"][1]["completed_per_second"], 40.0);
    assert_eq!((&second["queue_pairs"][1]["qpn"], &second["link_up"]), (&19.into(), &true.into()));
    assert_eq!((&second["rates"]["rx_acks"], &second["counters"]["rx_acks"]), (&0.0.into(), &7.0.into()));
    assert_eq!(second["queue_pairs"][1]["labels"]["limit"], "peer silent");
}

#[test]
fn numbers_have_three_digits_or_four_and_a_prefix() {
    let shown = [0.0, 0.25, 7.0, 12.34, 999.0, 999.9, 12_100_000.0, 3.2e10, 5e15]
        .map(|value| rate(Some(value), "b/s"));
    let expected = [
        "0 b/s",
        "0.25 b/s",
        "7 b/s",
        "12.3 b/s",
        "999 b/s",
        "1.00 kb/s",
        "12.1 Mb/s",
        "32.0 Gb/s",
        "5000 Tb/s",
    ];
    assert_eq!(shown, expected);
    assert_eq!((rate(None, "/s"), rate(Some(1.0), "")), ("-".to_owned(), "1".to_owned()));
}

#[test]
fn bars_are_as_high_as_their_values() {
    let values = [Some(0.0), Some(1.0), None, Some(4.0), Some(8.0)];
    assert_eq!(bars(&values, 7), "  ▁▁ ▄█");
    assert_eq!(bars(&values, 2), "▄█");
    assert_eq!(bars(&values, 0), "");
    assert_eq!(bars(&[Some(0.0)], 1), "▁");
}

fn press(view: &mut View, history: &History, codes: &[KeyCode]) -> bool {
    codes.iter().all(|code| view.press(KeyEvent::new(*code, KeyModifiers::NONE), history))
}

#[test]
fn keys_sort_and_choose() {
    let history = history(1);
    let mut view = View::default();
    let numbers =
        |view: &View| view.rows(&history).iter().map(|row| row.id.1 - 5_309_808).collect::<Vec<_>>();
    assert_eq!(numbers(&view), [2, 0, 1, 3, 4]);
    let mut orders = vec![(view.order, numbers(&view))];
    for _ in 0..5 {
        assert!(press(&mut view, &history, &[KeyCode::Char('s')]));
        orders.push((view.order, numbers(&view)));
    }
    let expected = [
        (Order::Limit, vec![2, 0, 1, 3, 4]),
        (Order::Completed, vec![3, 0, 1, 2, 4]),
        (Order::Resends, vec![0, 1, 2, 3, 4]),
        (Order::RoundTrip, vec![0, 1, 2, 3, 4]),
        (Order::Number, vec![0, 1, 2, 3, 4]),
        (Order::Limit, vec![2, 0, 1, 3, 4]),
    ];
    assert_eq!(orders, expected);
    let chosen = |view: &View| view.position(&view.rows(&history));
    press(&mut view, &history, &[KeyCode::Down, KeyCode::Char('j')]);
    assert_eq!(chosen(&view), 2);
    // It stays the same queue pair, wherever it stands.
    press(&mut view, &history, &[KeyCode::Char('r')]);
    assert_eq!((numbers(&view), chosen(&view)), (vec![4, 3, 1, 0, 2], 2));
    press(&mut view, &history, &[KeyCode::Char('s')]);
    assert_eq!((numbers(&view), chosen(&view)), (vec![4, 2, 1, 0, 3], 2));
    for (key, at) in [(KeyCode::End, 4), (KeyCode::Down, 4), (KeyCode::PageUp, 0), (KeyCode::Up, 0)] {
        press(&mut view, &history, &[key]);
        assert_eq!(chosen(&view), at, "{key}");
    }
}

#[test]
fn keys_open_and_close() {
    let history = history(1);
    let mut view = View::default();
    for (key, page) in [
        (KeyCode::Enter, Page::Details),
        (KeyCode::Down, Page::Details),
        (KeyCode::Char('?'), Page::Help),
        (KeyCode::Char('q'), Page::Table),
        (KeyCode::Char('/'), Page::Filter),
        (KeyCode::Char('q'), Page::Filter),
        (KeyCode::Backspace, Page::Filter),
        (KeyCode::Char('s'), Page::Filter),
        (KeyCode::Enter, Page::Table),
    ] {
        assert!(press(&mut view, &history, &[key]), "{key} quits");
        assert_eq!(view.page, page, "{key}");
    }
    assert_eq!(view.filter, "s");
    assert!(press(&mut view, &history, &[KeyCode::Esc]));
    assert_eq!((view.filter.as_str(), view.page), ("", Page::Table));
    assert!(!press(&mut view, &history, &[KeyCode::Char('q')]));
    let control = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
    press(&mut view, &history, &[KeyCode::Char('/')]);
    assert!(!view.press(control, &history));
}
