use super::open;
use crate::config::parse;
use std::thread::yield_now;
use std::time::{Duration, Instant};

#[test]
fn of_two_that_seemed_to_be_first_the_second_is_the_client() {
    let path = std::env::temp_dir().join(format!("srnic-either-end-{}", std::process::id()));
    // Nobody is there when either of them looks.
    let configs = ["one", "other"].map(|name| {
        parse(name, &format!("memif:{}", path.display())).unwrap_or_else(|error| panic!("{error}"))
    });
    let ends = configs.map(|config| open(&config).unwrap_or_else(|error| panic!("{error:?}")));
    assert_eq!(ends.each_ref().map(|end| end.device.ip().to_string()), ["10.77.0.1", "10.77.0.2"]);
    let start = Instant::now();
    while !ends.iter().all(|end| end.device.link_up()) {
        assert!(start.elapsed() < Duration::from_secs(60), "they do not meet");
        yield_now();
    }
}
