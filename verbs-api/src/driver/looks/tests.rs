use super::*;

fn missing(times: u32) -> Looks {
    let mut looks = Looks::new();
    (0..times).for_each(|_| looks.stood_in(true));
    looks
}

#[test]
fn looks_are_rarer_while_somebody_polls() {
    let mut looks = Looks::new();
    for us in [50, 100, 200, 400, 800, 1000, 1000] {
        assert_eq!(looks.until_next(), Duration::from_micros(us));
        looks.found_polls();
    }
    looks.stood_in(false);
    assert_eq!(looks.until_next(), LOOK_MIN);
}

#[test]
fn a_program_that_looks_into_its_memory_has_its_frames_waited_for() {
    assert!(!missing(MISSED - 1).waits_for_frames());
    let mut looks = missing(MISSED);
    assert!(looks.waits_for_frames());
    // Such a program polls as well, after each message.
    let mut looks_between = missing(MISSED - 1);
    looks_between.found_polls();
    looks_between.stood_in(true);
    assert!(looks_between.waits_for_frames());
    looks.stood_in(false);
    assert!(!looks.waits_for_frames());
}

#[test]
fn one_that_polls_for_long_or_says_that_it_stops_has_not() {
    let mut looks = missing(MISSED - 1);
    while looks.until_next() < LOOK_MAX {
        looks.found_polls();
    }
    looks.found_polls();
    looks.stood_in(true);
    assert!(!looks.waits_for_frames());
    let mut looks = missing(MISSED - 1);
    looks.stood_in(false);
    looks.stood_in(true);
    assert!(!looks.waits_for_frames());
}

#[test]
fn waiting_in_vain_ends() {
    let mut looks = missing(MISSED);
    for _ in 1..IN_VAIN {
        looks.woke(false);
    }
    looks.woke(true);
    for _ in 1..IN_VAIN {
        looks.woke(false);
        assert!(looks.waits_for_frames());
    }
    looks.woke(false);
    assert!(!looks.waits_for_frames());
    (0..MISSED).for_each(|_| looks.stood_in(true));
    looks.woke(false);
    assert!(looks.waits_for_frames(), "the count begins again");
}

#[test]
fn a_program_that_says_when_it_stops_has_its_frames_waited_for_no_longer() {
    let mut looks = missing(MISSED);
    looks.was_told();
    assert!(!looks.waits_for_frames());
}

/// It may have become one that polls.
#[test]
fn now_and_then_the_thread_finds_out_again() {
    let mut looks = missing(MISSED);
    for _ in 1..WAITS_MAX {
        looks.woke(true);
        assert!(looks.waits_for_frames());
    }
    looks.woke(true);
    assert!(!looks.waits_for_frames());
    (0..MISSED).for_each(|_| looks.stood_in(true));
    looks.woke(true);
    assert!(looks.waits_for_frames(), "the count begins again");
}
