//! Packs the folder of a chart, as `helm package` does. The same files always give the same bytes.

use std::collections::BTreeMap;
use std::io;

use flate2::{Compression, GzBuilder};
use tar::{Builder, EntryType, Header};

use super::{Chart, ChartError, IgnoreRules};

/// The .tgz of a chart's folder, and the chart. What `.helmignore` excludes is left out.
pub fn pack(files: &BTreeMap<String, Vec<u8>>) -> Result<(Chart, Vec<u8>), ChartError> {
    let chart = Chart::from_folder(files)?;
    let rules = match files.get(".helmignore") {
        Some(text) => IgnoreRules::parse(&String::from_utf8_lossy(text))?,
        None => IgnoreRules::default(),
    };
    let kept = files.iter().filter(|(name, _)| !rules.excludes(name));
    let packed = write(chart.name(), kept).map_err(ChartError::Packing)?;
    Ok((chart, packed))
}

fn write<'f>(
    folder: &str,
    files: impl Iterator<Item = (&'f String, &'f Vec<u8>)>,
) -> io::Result<Vec<u8>> {
    let gzip = GzBuilder::new().mtime(0).write(Vec::new(), Compression::default());
    let mut archive = Builder::new(gzip);
    for (name, data) in files {
        let mut header = Header::new_gnu();
        header.set_entry_type(EntryType::Regular);
        header.set_mode(0o644);
        header.set_size(data.len() as u64);
        archive.append_data(&mut header, format!("{folder}/{name}"), data.as_slice())?;
    }
    archive.into_inner()?.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_packed_can_be_loaded_and_does_not_change() {
        let files: BTreeMap<String, Vec<u8>> = [
            ("Chart.yaml", "apiVersion: v2\nname: web\nversion: 1.0.0\n"),
            (".helmignore", "secret\n"),
            ("secret", "x"),
            ("templates/a.yaml", "kind: Pod\n"),
        ]
        .map(|(name, text)| (name.to_owned(), text.as_bytes().to_vec()))
        .into();
        let (chart, packed) = pack(&files).unwrap();
        let loaded = Chart::from_archive(&packed).unwrap();
        assert_eq!(loaded.metadata, chart.metadata);
        assert_eq!(loaded.templates, chart.templates);
        assert!(loaded.file("secret").is_none());
        assert_eq!(pack(&files).unwrap().1, packed);
    }
}
