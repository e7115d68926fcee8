//! How long flows are.

use super::whole;
use std::borrow::Cow;

/// Sizes of flows, as knots of their distribution: bytes, and the part of the flows that have at
/// most so many. Linear between.
#[derive(Clone, PartialEq, Debug)]
pub struct Sizes(Cow<'static, [(f64, f64)]>);

impl Sizes {
    /// Cache_Follower: flows of a cache tier (Roy et al., SIGCOMM '15), by the knots that
    /// simulators use.
    pub const CACHE_FOLLOWER: Self = Self(Cow::Borrowed(&[
        (50.0, 0.0),
        (100.0, 0.031),
        (200.0, 0.048),
        (300.0, 0.116),
        (400.0, 0.223),
        (500.0, 0.28),
        (700.0, 0.35),
        (1e3, 0.374),
        (2e3, 0.437),
        (5e3, 0.467),
        (10e3, 0.478),
        (30e3, 0.501),
        (60e3, 0.517),
        (100e3, 0.533),
        (200e3, 0.592),
        (300e3, 0.648),
        (400e3, 0.678),
        (600e3, 0.714),
        (1e6, 0.718),
        (1.4e6, 0.72),
        (1.7e6, 0.764),
        (2e6, 0.821),
        (2.4e6, 0.89),
        (2.8e6, 0.97),
        (3.2e6, 0.993),
        (3.8e6, 1.0),
    ]));

    /// All flows have so many bytes.
    #[must_use]
    pub fn all(bytes: u32) -> Self {
        let bytes = f64::from(bytes);
        Self(Cow::Owned(vec![(bytes, 0.0), (bytes, 1.0)]))
    }

    /// Of these knots.
    ///
    /// # Errors
    /// [`SizesError`].
    pub fn of_knots(knots: Vec<(f64, f64)>) -> Result<Self, SizesError> {
        let rises = knots.windows(2).all(|pair| pair[0].0 <= pair[1].0 && pair[0].1 <= pair[1].1);
        let fits = |knot: &(f64, f64)| (1.0..=f64::from(u32::MAX)).contains(&knot.0) && knot.1 >= 0.0;
        match (knots.first(), knots.last()) {
            (Some(first), Some(last)) if knots.len() > 1 && first.1 <= 0.0 && last.1 >= 1.0 => {
                if rises && last.1 <= 1.0 && knots.iter().all(fits) {
                    Ok(Self(Cow::Owned(knots)))
                } else {
                    Err(SizesError::Order)
                }
            }
            _ => Err(SizesError::Ends),
        }
    }

    /// The size below which a part `of` the flows, 0 to 1, are.
    #[must_use]
    pub fn quantile(&self, of: f64) -> u32 {
        let knots = self.0.windows(2).find(|knots| of <= knots[1].1);
        let Some([(low, before), (high, until)]) = knots else { return self.largest() };
        let part = if until > before { (of - before) / (until - before) } else { 0.0 };
        whole(low + part * (high - low))
    }

    /// Mean size in bytes.
    #[must_use]
    pub fn mean(&self) -> f64 {
        self.0.windows(2).map(|knots| (knots[1].1 - knots[0].1) * f64::midpoint(knots[0].0, knots[1].0)).sum()
    }

    /// The largest size.
    #[must_use]
    pub fn largest(&self) -> u32 {
        self.0.last().map_or(1, |knot| whole(knot.0))
    }
}

/// Why knots are no distribution.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SizesError {
    /// It must begin at 0 and end at 1.
    #[error("the first knot must be at 0 and the last at 1, such as [[100, 0], [1000, 1]]")]
    Ends,
    /// Knots must rise.
    #[error("knots must rise, from 1 byte to 4 GiB, and from 0 to 1")]
    Order,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cache_follower_has_its_mean() {
        let mean = Sizes::CACHE_FOLLOWER.mean();
        assert!((mean / 686_800.0 - 1.0).abs() < 0.01, "{mean}");
    }

    #[test]
    fn knots_that_are_no_distribution_are_refused() {
        assert_eq!(Sizes::of_knots(vec![(1.0, 0.0)]), Err(SizesError::Ends));
        assert_eq!(Sizes::of_knots(vec![(1.0, 0.0), (9.0, 0.9)]), Err(SizesError::Ends));
        assert_eq!(Sizes::of_knots(vec![(9.0, 0.0), (1.0, 1.0)]), Err(SizesError::Order));
        assert_eq!(Sizes::of_knots(vec![(0.0, 0.0), (1.0, 1.0)]), Err(SizesError::Order));
        let sizes = Sizes::of_knots(vec![(100.0, 0.0), (200.0, 0.5), (1000.0, 1.0)]).expect("a distribution");
        assert_eq!((sizes.quantile(0.25), sizes.quantile(0.75), sizes.largest()), (150, 600, 1000));
        assert_eq!(Sizes::all(7).quantile(0.3), 7);
    }
}
