//! Faults that hit chosen frames: the k-th of a class, or all within a time.

use super::class::FrameClass;

/// Drops frames number `first` to `last` of a class, counted from 1 in each direction by itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DropRule {
    /// The class of frames that are counted.
    pub class: FrameClass,
    /// The first that is dropped, at least 1.
    pub first: u64,
    /// The last that is dropped; `u64::MAX`: none gets through any more.
    pub last: u64,
}

/// Rules at most.
const RULES_MAX: usize = 8;

/// The rules of one [`FaultConfig`](super::FaultConfig), written with a `/` between:
/// `ack@3/resend@1-2/data@9-`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DropRules([Option<DropRule>; RULES_MAX]);

impl DropRules {
    /// What a text must be.
    pub(super) const ALLOWED: &str = "one to eight of CLASS@K, CLASS@K-L or CLASS@K- with / between, K from 1, and \
         CLASS any, data, read_request, atomic, response, resend, ack, nack, rnr, error_nak or read_ack";

    /// A list of these rules; `None` if there are more than eight.
    #[must_use]
    pub fn new(rules: &[DropRule]) -> Option<Self> {
        let mut places = [None; RULES_MAX];
        for (index, rule) in rules.iter().enumerate() {
            *places.get_mut(index)? = Some(*rule);
        }
        Some(Self(places))
    }

    /// Reads the rules from their text; `None` if it is not [`DropRules::ALLOWED`].
    pub(super) fn parse(text: &str) -> Option<Self> {
        let rules: Option<Vec<_>> = text.split('/').map(rule).collect();
        Self::new(&rules?)
    }

    /// The rules, in the order written.
    pub fn iter(&self) -> impl Iterator<Item = DropRule> {
        self.0.iter().copied().flatten()
    }
}

fn rule(text: &str) -> Option<DropRule> {
    let (class, numbers) = text.split_once('@')?;
    let (first, last) = range(numbers, |number| number.parse().ok())?;
    let rule = DropRule { class: FrameClass::parse(class)?, first, last: last.unwrap_or(u64::MAX) };
    (1..=rule.last).contains(&rule.first).then_some(rule)
}

/// `A`, `A-B` or `A-`: both ends, the second `None` if it is open.
fn range(text: &str, number: impl Fn(&str) -> Option<u64>) -> Option<(u64, Option<u64>)> {
    match text.split_once('-') {
        None => number(text).map(|only| (only, Some(only))),
        Some((first, "")) => Some((number(first)?, None)),
        Some((first, last)) => Some((number(first)?, Some(number(last)?))),
    }
}

/// A time without a network, in nanoseconds after a direction's first frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BlackHole {
    /// When the black hole begins.
    pub from_ns: u64,
    /// When the black hole ends; `u64::MAX` means never.
    pub until_ns: u64,
}

impl BlackHole {
    /// What a text must be.
    pub(super) const ALLOWED: &str = "two rising times with - between, as in 10ms-30ms, or 10ms- for ever";

    /// Reads `10ms-30ms` or `10ms-`; `None` if it is not [`BlackHole::ALLOWED`].
    pub(super) fn parse(text: &str, time: impl Fn(&str) -> Option<u64>) -> Option<Self> {
        let (from_ns, until) = range(text, time)?;
        let hole = Self { from_ns, until_ns: until.unwrap_or(u64::MAX) };
        (hole.from_ns < hole.until_ns).then_some(hole)
    }

    /// Returns `true` if a frame so long after the first one is lost.
    #[must_use]
    pub const fn swallows(&self, elapsed_ns: u64) -> bool {
        self.from_ns <= elapsed_ns && elapsed_ns < self.until_ns
    }
}

/// The rules of one direction at work. Allocates nothing once it is made.
#[derive(Debug)]
pub struct Picker {
    /// Each rule, and how many frames of its class have come.
    rules: Vec<(DropRule, u64)>,
    resends: Option<super::class::Resends>,
}

impl Picker {
    /// Nothing counted yet.
    pub fn new(rules: &DropRules) -> Self {
        let rules: Vec<_> = rules.iter().map(|rule| (rule, 0)).collect();
        let resends = rules.iter().any(|(rule, _)| rule.class == FrameClass::Resend);
        Self { rules, resends: resends.then(Default::default) }
    }

    /// Counts a frame with every rule whose class it is of. True if one of them drops it.
    pub fn picks(&mut self, frame: &[u8]) -> bool {
        if self.rules.is_empty() {
            return false;
        }
        let kind = FrameClass::of(frame);
        let resent = self.resends.as_mut().is_some_and(|resends| resends.note(frame));
        let mut picked = false;
        for (rule, count) in &mut self.rules {
            let counts = match rule.class {
                FrameClass::Any => true,
                FrameClass::Resend => resent,
                class => kind == Some(class),
            };
            if counts {
                *count += 1;
                picked |= (rule.first..=rule.last).contains(count);
            }
        }
        picked
    }
}
