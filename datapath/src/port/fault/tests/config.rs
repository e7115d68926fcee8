use super::*;

fn error(text: &str) -> String {
    text.parse::<FaultConfig>().unwrap_err().to_string()
}

#[test]
fn every_key_is_read() {
    let text = "loss=1%,loss_tx=0,loss_rx=1.0,drop=ack@3/any@7-9/read_ack@2-,hole=10ms-1s, burst=0.001,burst_len=4,burst_max=3us,dup=100%,reorder=2.5%,reorder_by=7,reorder_max=2ms,corrupt=0,\
                delay=20us,ecn=100%,queue=65536,seed=18446744073709551615,dir=rx";
    let rule = |class, first, last| DropRule { class, first, last };
    let rules =
        [rule(FrameClass::Ack, 3, 3), rule(FrameClass::Any, 7, 9), rule(FrameClass::ReadAck, 2, u64::MAX)];
    let expected = FaultConfig {
        loss: Probability::from_ratio(0.01).unwrap(),
        loss_tx: Some(Probability::NEVER),
        loss_rx: Some(Probability::ALWAYS),
        drop: DropRules::new(&rules).unwrap(),
        hole: Some(BlackHole { from_ns: 10_000_000, until_ns: 1_000_000_000 }),
        burst: Probability::from_ratio(0.001).unwrap(),
        burst_len: 4,
        burst_max_ns: 3_000,
        dup: Probability::ALWAYS,
        reorder: Probability::from_ratio(0.025).unwrap(),
        reorder_by: 7,
        reorder_max_ns: 2_000_000,
        corrupt: Probability::NEVER,
        delay_ns: 20_000,
        ecn: Probability::ALWAYS,
        queue: 65_536,
        seed: u64::MAX,
        dir: Direction::Rx,
    };
    assert_eq!(text.parse(), Ok(expected));
}

#[test]
fn a_hole_may_stay() {
    let hole = "hole=5us-".parse::<FaultConfig>().unwrap().hole;
    assert_eq!(hole, Some(BlackHole { from_ns: 5_000, until_ns: u64::MAX }));
}

#[test]
fn what_is_not_given_keeps_its_default() {
    assert_eq!("".parse(), Ok(FaultConfig::default()));
    assert_eq!("seed=7".parse(), Ok(FaultConfig { seed: 7, ..FaultConfig::default() }));
    assert_eq!("dir=tx".parse(), Ok(FaultConfig { dir: Direction::Tx, ..FaultConfig::default() }));
    assert_eq!("dir=both".parse(), Ok(FaultConfig::default()));
}

#[test]
fn every_unit_of_time_is_read() {
    for (text, ns) in [("0ns", 0), ("7ns", 7), ("1us", 1_000), ("3ms", 3_000_000), ("2s", 2_000_000_000)] {
        assert_eq!(format!("delay={text}").parse::<FaultConfig>().unwrap().delay_ns, ns);
    }
}

#[test]
fn errors_name_the_key_and_what_is_allowed() {
    let texts = [
        "loss",
        "los=1%",
        "loss=1%,",
        "loss=1%,loss=2%",
        "loss=1",
        "loss=1e0",
        "loss=+1",
        "dup=1",
        "loss=101%",
        "loss=-0.1",
        "loss=NaN",
        "dup=",
        "reorder=1.5",
        "corrupt=1%%",
        "burst_len=0",
        "reorder_by=4294967296",
        "delay=20",
        "delay=us",
        "delay=1.5us",
        "delay=18446744073709551615s",
        "reorder_max=1m",
        "queue=65537",
        "queue=0",
        "seed=-1",
        "dir=up",
        "loss_tx=2",
        "drop=",
        "drop=ack",
        "drop=ack@0",
        "drop=ack@3-2",
        "drop=acks@1",
        "drop=ack@1/",
        "drop=any@1/any@2/any@3/any@4/any@5/any@6/any@7/any@8/any@9",
        "hole=10ms",
        "hole=10ms-10ms",
        "hole=10ms-5",
    ];
    let messages: Vec<String> = texts.into_iter().map(error).collect();
    insta::assert_snapshot!("config_errors", messages.join("\n"));
}

#[test]
fn probabilities_are_exact_at_their_ends() {
    assert!(!Probability::NEVER.hits(0));
    assert!(Probability::ALWAYS.hits(u64::MAX));
    let half = Probability::from_ratio(0.5).unwrap();
    assert!(half.hits((1 << 63) - 1));
    assert!(!half.hits(1 << 63));
    assert_eq!(Probability::one_in(1), Probability::ALWAYS);
    assert_eq!(Probability::one_in(2), half);
    assert_eq!(Probability::from_ratio(1.000_001), None);
    assert_eq!(Probability::from_ratio(f64::NAN), None);
}
