//! Rates of links, as numbers of InfiniBand's and as speeds.

use core::ffi::c_int;

/// `ibv_rate`, the multiple of 2.5 Gb/s that it is taken for, and megabits a second.
const RATES: [(c_int, c_int, c_int); 23] = [
    (2, 1, 2_500),
    (5, 2, 5_000),
    (3, 4, 10_000),
    (6, 8, 20_000),
    (4, 12, 30_000),
    (7, 16, 40_000),
    (8, 24, 60_000),
    (9, 32, 80_000),
    (10, 48, 120_000),
    (11, 6, 14_062),
    (12, 22, 56_250),
    (13, 45, 112_500),
    (14, 67, 168_750),
    (15, 10, 25_781),
    (16, 40, 103_125),
    (17, 80, 206_250),
    (18, 120, 309_375),
    (19, 11, 28_125),
    (20, 20, 53_125),
    (21, 160, 425_000),
    (22, 240, 637_500),
    (23, 320, 850_000),
    (24, 480, 1_275_000),
];
/// As fast as the port.
const MAX: c_int = 0;

exports! {
    fn ibv_rate_to_mult(rate: c_int) -> c_int = value {
        Ok(RATES.iter().find(|(code, ..)| *code == rate).map_or(-1, |(_, mult, _)| *mult))
    }

    fn mult_to_ibv_rate(mult: c_int) -> c_int = value {
        Ok(RATES.iter().find(|(_, of, _)| *of == mult).map_or(MAX, |(code, ..)| *code))
    }

    fn ibv_rate_to_mbps(rate: c_int) -> c_int = value {
        Ok(RATES.iter().find(|(code, ..)| *code == rate).map_or(-1, |(.., mbps)| *mbps))
    }

    fn mbps_to_ibv_rate(mbps: c_int) -> c_int = value {
        Ok(RATES.iter().find(|(.., of)| *of == mbps).map_or(MAX, |(code, ..)| *code))
    }
}
