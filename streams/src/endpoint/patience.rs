//! How long who waits polls before it sleeps.

use core::time::Duration;

/// How long, unless packets come.
const POLLING: Duration = Duration::from_micros(50);
/// How long behind the last packet that came: a long message takes longer than a wait, and its
/// packets show that it comes.
const TRICKLE: Duration = Duration::from_micros(10);
/// How long altogether.
const POLLING_MAX: Duration = Duration::from_millis(1);

/// The patience of one wait.
pub struct Patience {
    lasts: Duration,
    /// Packets that the device had received when it was last over.
    packets: Option<u64>,
}

impl Patience {
    pub const fn new() -> Self {
        Self { lasts: POLLING, packets: None }
    }

    /// Returns `true` if it is over after so long. `packets` that the device has received are asked
    /// for only where that may be so.
    pub fn is_over(&mut self, polled: Duration, packets: impl FnOnce() -> u64) -> bool {
        if polled < self.lasts {
            return false;
        }
        let before = self.packets.replace(packets());
        if polled >= POLLING_MAX || before == self.packets {
            return true;
        }
        self.lasts = polled + TRICKLE;
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn micros(count: u64) -> Duration {
        Duration::from_micros(count)
    }

    #[test]
    fn nobody_polls_for_long_where_nothing_comes() {
        let mut patience = Patience::new();
        assert!(!patience.is_over(micros(49), || panic!("nobody asks yet")));
        assert!(!patience.is_over(micros(50), || 7));
        assert!(!patience.is_over(micros(59), || panic!("nobody asks yet")));
        assert!(patience.is_over(micros(60), || 7));
    }

    #[test]
    fn packets_keep_it_up_but_not_for_ever() {
        let mut patience = Patience::new();
        for micro in 0..1000 {
            assert!(!patience.is_over(micros(micro), || micro), "{micro}");
        }
        assert!(patience.is_over(POLLING_MAX, || 1000));
    }
}
