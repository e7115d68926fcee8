// The releases of DPDK that the bindings are written for: the build script refuses others, and so
// does `cargo xtask setup`.

/// (year, month) of the oldest and of the newest.
const RELEASES: std::ops::RangeInclusive<(u32, u32)> = (22, 11)..=(25, 11);

/// Fails if a version, such as `22.11.5` or `24.11.0-rc1`, is of no release that is supported.
///
/// # Errors
/// A sentence that names the version and those that are.
pub fn supported(version: &str) -> Result<(), String> {
    let mut parts = version.split('.').map(str::parse::<u32>);
    match (parts.next(), parts.next()) {
        (Some(Ok(year)), Some(Ok(month))) if RELEASES.contains(&(year, month)) => Ok(()),
        _ => {
            let ((old_year, old_month), (year, month)) = (RELEASES.start(), RELEASES.end());
            Err(format!(
                "DPDK {version} is not supported: {old_year}.{old_month:02} to {year}.{month:02} are"
            ))
        }
    }
}
