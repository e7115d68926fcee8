//! What an end of ours says by its name: memif has no other way for it.

/// How the names of our ends begin, DPDK's driver or not.
const PREFIX: &str = "net_memif_f";

/// What is wrong with an end that has other queues than ours.
pub const OTHER_QUEUES: &str = "it has another number of queues; both ends need the same engines";

/// What both ends must agree on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Told {
    /// Longest frame, in bytes.
    pub max_frame: u16,
    /// Queues each way.
    pub queues: u8,
}

impl Told {
    /// How a name that tells this begins: something that makes it one of its kind may follow.
    ///
    /// ```
    /// use memif::Told;
    ///
    /// assert_eq!(Told { max_frame: 4608, queues: 1 }.prefix(), "net_memif_f4608_");
    /// assert_eq!(Told { max_frame: 1518, queues: 2 }.prefix(), "net_memif_f1518_q2_");
    /// ```
    #[must_use]
    pub fn prefix(self) -> String {
        let Self { max_frame, queues } = self;
        if queues == 1 { format!("{PREFIX}{max_frame}_") } else { format!("{PREFIX}{max_frame}_q{queues}_") }
    }

    /// What is wrong with a peer of that name, if it is one of our kind and tells something else than this.
    #[must_use]
    pub fn mismatch(self, name: &[u8]) -> Option<&'static str> {
        let theirs = Self::by(name)?;
        if theirs.max_frame != self.max_frame {
            return Some("its longest frame is another; both ends need the same mtu");
        }
        (theirs.queues != self.queues).then_some(OTHER_QUEUES)
    }

    /// What a name tells; `None` if it is not of our kind.
    #[must_use]
    pub fn by(name: &[u8]) -> Option<Self> {
        let mut parts = std::str::from_utf8(name).ok()?.strip_prefix(PREFIX)?.split('_');
        let max_frame = parts.next()?.parse().ok()?;
        let queues = parts.next().and_then(|part| part.strip_prefix('q')).map_or(Ok(1), str::parse);
        Some(Self { max_frame, queues: queues.ok()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_tells_what_it_was_made_of() {
        for told in [(64, 1), (u16::MAX, 8), (4608, 2)] {
            let told = Told { max_frame: told.0, queues: told.1 };
            for rest in ["", "7", "srnic"] {
                assert_eq!(Told::by((told.prefix() + rest).as_bytes()), Some(told));
            }
        }
        for name in ["", "net_memif_f", "net_memif_fx_1", "net_memif7", "memif", "net_memif_f1518_qx_1"] {
            assert_eq!(Told::by(name.as_bytes()), None, "{name}");
        }
    }
}
