//! What operations cost of the caps of tenants, from a file of `srnic calibrate`.

use crate::error::Error;
use datapath::sched::CostTable;
use std::path::Path;

/// Reads the table of a file: the keys below `[costs]` of a file in TOML, each a whole number.
/// Other tables are passed over.
///
/// # Errors
/// [`Error::Costs`].
pub fn read(path: &Path) -> Result<CostTable, Error> {
    let wrong = |why: String| Error::Costs { path: path.to_owned(), why };
    let text = std::fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
    parse(&text).map_err(wrong)
}

fn parse(text: &str) -> Result<CostTable, String> {
    let (mut table, mut ours, mut given) = (CostTable::default(), false, Vec::new());
    for line in text.lines().map(|line| line.split('#').next().unwrap_or_default().trim()) {
        if line.starts_with('[') {
            ours = line == "[costs]";
        } else if ours && !line.is_empty() {
            let (key, value) = line.split_once('=').ok_or_else(|| format!("`{line}` is no key and value"))?;
            let cost = match key.trim() {
                "write" => &mut table.write,
                "read" => &mut table.read,
                "atomic" => &mut table.atomic,
                "packet" => &mut table.packet,
                "kibibyte" => &mut table.kibibyte,
                other => return Err(format!("[costs] has no `{other}`")),
            };
            *cost = value.trim().parse().map_err(|_| format!("`{line}` has no whole number"))?;
            given.push(key);
        }
    }
    if given.is_empty() { Err("it has no [costs]".to_owned()) } else { Ok(table) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_read_and_what_is_none_is_refused() {
        let text = "# of a machine\n[host]\nframe_ns = 27\n\n[costs] # hundredths\nwrite = 10\natomic=7 # two\npacket = 90\n[other]\nx = 'y'\n";
        let expected = CostTable { write: 10, atomic: 7, packet: 90, ..CostTable::default() };
        assert_eq!(parse(text), Ok(expected));
        for (text, why) in [
            ("", "no [costs]"),
            ("[costs]\n", "no [costs]"),
            ("[costs]\nwrite\n", "no key and value"),
            ("[costs]\nwrite = -1\n", "no whole number"),
            ("[costs]\nbind = 1\n", "has no `bind`"),
        ] {
            assert!(parse(text).expect_err(text).contains(why), "{text}");
        }
        let missing = read(Path::new("/nowhere/at/all")).expect_err("it is not there");
        assert!(missing.to_string().contains("/nowhere/at/all"), "{missing}");
    }
}
