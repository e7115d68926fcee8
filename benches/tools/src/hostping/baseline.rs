//! What probes measured when all was well, in a file.

use super::measure::Measured;
use super::path::{Outcome, Path};
use crate::error::{Error, Result};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path as FilePath;

/// What is usual for each way.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Baseline(BTreeMap<String, Measured>);

impl Baseline {
    /// The worst of each way that a look measured is usual; probes without an answer tell nothing.
    #[must_use]
    pub fn of_probes(looks: &[Vec<Outcome>]) -> Self {
        let mut usual = BTreeMap::new();
        for (path, measured) in looks.iter().flatten().filter_map(|(path, of)| Some((path, (*of)?))) {
            let worst = usual.entry(path.to_string()).or_insert(measured);
            *worst = measured.worst_of(*worst);
        }
        Self(usual)
    }

    /// What is usual for a way, if it is known.
    #[must_use]
    pub fn of(&self, path: &Path) -> Option<Measured> {
        self.0.get(&path.to_string()).copied()
    }

    /// Reads what [`write`](Self::write) wrote.
    ///
    /// # Errors
    /// [`Error::File`]; [`Error::Options`] if it is no such file.
    pub fn read(path: &FilePath) -> Result<Self> {
        let text = fs::read_to_string(path).map_err(Error::file("read", path))?;
        let refused = || Error::Options(format!("{}: no baseline; make one by --save", path.display()));
        Self::parse(&text).ok_or_else(refused)
    }

    fn parse(text: &str) -> Option<Self> {
        let document: Value = serde_json::from_str(text).ok()?;
        let number = |of: &Value, key: &str| of.get(key)?.as_f64().filter(|number| *number > 0.0);
        let measured =
            |of: &Value| Some(Measured { latency_ns: number(of, "latency_ns")?, gbps: number(of, "gbps")? });
        let probes = document.get("probes")?.as_object()?;
        probes.iter().map(|(path, of)| Some((path.clone(), measured(of)?))).collect::<Option<_>>().map(Self)
    }

    /// Writes a file.
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn write(&self, path: &FilePath) -> Result<()> {
        fs::write(path, self.text()).map_err(Error::file("write", path))
    }

    fn text(&self) -> String {
        let probe = |(path, of): (&String, &Measured)| {
            (path.clone(), json!({ "latency_ns": of.latency_ns, "gbps": of.gbps }))
        };
        let probes: Map<String, Value> = self.0.iter().map(probe).collect();
        format!("{:#}\n", json!({ "probes": probes }))
    }
}

#[cfg(test)]
mod tests {
    use super::super::path::Memory;
    use super::*;

    #[test]
    fn what_was_written_is_read() {
        let path = Path { cpu: 3, memory: Memory::Huge, peer: Some([10, 77, 0, 1].into()) };
        let other = Path { peer: None, ..path };
        let usual = Measured { latency_ns: 1234.5, gbps: 99.25 };
        let baseline = Baseline::of_probes(&[vec![(path, Some(usual)), (other, None)]]);
        let read = Baseline::parse(&baseline.text()).expect("its own text");
        assert_eq!((read.of(&path), read.of(&other)), (Some(usual), None));
    }

    /// A machine that is now fast and now slow may be slow.
    #[test]
    fn the_worst_of_several_looks_is_usual() {
        let path = Path { cpu: 0, memory: Memory::Ordinary, peer: None };
        let look = |latency_ns, gbps| vec![(path, Some(Measured { latency_ns, gbps }))];
        let looks = [look(1_000.0, 80.0), look(1_400.0, 100.0), vec![(path, None)], look(1_200.0, 90.0)];
        let usual = Baseline::of_probes(&looks).of(&path);
        assert_eq!(usual, Some(Measured { latency_ns: 1_400.0, gbps: 80.0 }));
    }

    #[test]
    fn other_files_are_refused() {
        for text in ["", "{}", r#"{"probes":[]}"#, r#"{"probes":{"x":{"latency_ns":0,"gbps":1}}}"#] {
            assert_eq!(Baseline::parse(text), None, "{text}");
        }
    }
}
