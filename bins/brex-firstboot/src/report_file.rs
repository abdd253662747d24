//! The report of this boot on the disk.

use anyhow::{Context, Result};
use first_boot::Report;
use first_boot::report::Entry;

use crate::disk::Disk;
use crate::layout::REPORTS;

/// Reports of so many boots are kept.
const KEPT: usize = 10;
/// The report of the last boot that had one, under a name that does not change.
pub(crate) const LATEST: &str = "report.json";

/// Adds an entry to the report of this boot.
pub(crate) fn add(disk: &Disk, boot_id: &str, hostname: &str, entry: Entry) -> Result<()> {
    let path = format!("{REPORTS}/{LATEST}");
    let held = disk.read(&path)?.and_then(|bytes| serde_json::from_slice::<Report>(&bytes).ok());
    let mut report = match held {
        Some(report) if report.boot_id == boot_id => report,
        Some(earlier) => {
            keep(disk, &earlier)?;
            new(boot_id, hostname)
        }
        None => new(boot_id, hostname),
    };
    report.add(entry);
    write(disk, &path, &report)
}

fn new(boot_id: &str, hostname: &str) -> Report {
    let program = format!("brex-firstboot {}", env!("CARGO_PKG_VERSION"));
    Report::new(program, boot_id.to_owned(), hostname.to_owned())
}

/// Renames the report of an earlier boot, and removes the oldest.
fn keep(disk: &Disk, report: &Report) -> Result<()> {
    let began = report.entries.first().map_or("", |entry| entry.at.as_str());
    let began: String = began.chars().filter(char::is_ascii_alphanumeric).take(16).collect();
    let boot: String = report.boot_id.chars().filter(char::is_ascii_alphanumeric).take(8).collect();
    write(disk, &format!("{REPORTS}/report-{began}-{boot}.json"), report)?;
    let names = disk.names(REPORTS)?;
    let earlier: Vec<&String> = names.iter().filter(|name| name.starts_with("report-")).collect();
    for name in earlier.iter().take(earlier.len().saturating_sub(KEPT)) {
        disk.remove(&format!("{REPORTS}/{name}"))?;
    }
    Ok(())
}

fn write(disk: &Disk, path: &str, report: &Report) -> Result<()> {
    let mut bytes = serde_json::to_vec_pretty(report).context("writing the report")?;
    bytes.push(b'\n');
    Ok(disk.write(path, &bytes, 0o644)?)
}

#[cfg(test)]
mod tests {
    use first_boot::report::Command;

    use super::*;

    #[test]
    fn there_is_one_report_per_boot_and_the_oldest_go() {
        let folder = tempfile::tempdir().unwrap();
        let disk = Disk::new(folder.path());
        for boot in 0..15 {
            for _ in 0..2 {
                let at = format!("2026-11-16T00:00:{boot:02}Z");
                let entry = Entry::new(Command::Stage, at);
                add(&disk, &format!("boot{boot:04}"), "worker-0", entry).unwrap();
            }
        }
        let names = disk.names(REPORTS).unwrap();
        assert_eq!(names.len(), KEPT + 1, "{names:?}");
        let latest = disk.read(&format!("{REPORTS}/{LATEST}")).unwrap().unwrap();
        let latest: Report = serde_json::from_slice(&latest).unwrap();
        assert_eq!((latest.boot_id.as_str(), latest.entries.len()), ("boot0014", 2));
    }
}
