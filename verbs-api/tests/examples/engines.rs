//! The example `engines`: two processes with two engines each.

use super::talk;

#[test]
fn every_engine_of_one_process_talks_to_every_engine_of_the_other() {
    for (said, [us, them]) in talk("engines").iter().zip([["server", "client"], ["client", "server"]]) {
        for (one, other) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
            let line = format!("{us} {one} hears: {them} {other} greets you, {one}\n");
            assert_eq!(said.matches(&line).count(), 1, "{said}");
        }
        assert_eq!(said.lines().count(), 4, "{said}");
    }
}
