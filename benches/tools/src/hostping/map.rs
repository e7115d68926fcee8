//! Probes as a heat map: CPUs by kinds of pages and ways, and how much slower than usual.

use super::judge::{Row, TOLERANCE};
use super::path::{Part, Path};
use crate::heat::{Cell, HeatMap};
use std::collections::BTreeSet;

/// From which factor on a cell has each level; the second is what is called slow.
const LEVELS: [f64; 4] = [1.1, TOLERANCE, 1.5, 2.0];

/// How much slower than usual each probe was.
#[must_use]
pub fn map(rows: &[Row]) -> HeatMap {
    let way = |path: &Path| (path.peer, path.memory);
    let ways: BTreeSet<_> = rows.iter().map(|row| way(&row.path)).collect();
    let cpus: BTreeSet<usize> = rows.iter().map(|row| row.path.cpu).collect();
    let name = |(peer, memory): &(Option<std::net::IpAddr>, _)| {
        let to = peer.map_or_else(|| "loopback".to_owned(), |peer| Part::Peer(peer).to_string());
        format!("{}, {to}", Part::Memory(*memory))
    };
    let of = |cpu: usize| {
        let cell = |at: &_| rows.iter().find(|row| row.path.cpu == cpu && way(&row.path) == *at).map(cell);
        (Part::Cpu(cpu).to_string(), ways.iter().map(cell).collect())
    };
    HeatMap {
        title: format!("times slower than usual; from {TOLERANCE} on it is slow"),
        columns: ways.iter().map(name).collect(),
        rows: cpus.into_iter().map(of).collect(),
    }
}

fn cell(row: &Row) -> Cell {
    let slowness = row.slowness();
    let level = LEVELS.iter().filter(|from| slowness >= **from).count();
    let text = if row.measured.is_some() { format!("{slowness:.2}") } else { "no answer".to_owned() };
    Cell { text, level }
}

#[cfg(test)]
mod tests {
    use super::super::measure::Measured;
    use super::super::path::Memory;
    use super::*;

    #[test]
    fn each_probe_has_its_cell() {
        let usual = Measured { latency_ns: 1000.0, gbps: 100.0 };
        let row = |cpu, memory, latency_ns, gbps| Row {
            path: Path { cpu, memory, peer: None },
            measured: Some(Measured { latency_ns, gbps }),
            usual: Some(usual),
        };
        let silent = Row { measured: None, ..row(3, Memory::Huge, 1.0, 1.0) };
        let rows = [
            row(0, Memory::Ordinary, 1000.0, 100.0),
            row(0, Memory::Huge, 1000.0, 40.0),
            row(3, Memory::Ordinary, 1300.0, 100.0),
            silent,
        ];
        let map = map(&rows);
        assert_eq!(map.columns, ["ordinary pages, loopback", "huge pages, loopback"]);
        let cell = |text: &str, level| Some(Cell { text: text.to_owned(), level });
        assert_eq!(map.rows[0], ("CPU 0".to_owned(), vec![cell("1.00", 0), cell("2.50", 4)]));
        assert_eq!(map.rows[1], ("CPU 3".to_owned(), vec![cell("1.30", 2), cell("no answer", 4)]));
    }
}
