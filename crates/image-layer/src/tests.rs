use std::io::Write as _;

use tar::{Builder, Header};

use super::*;

/// Adds an entry without the checks of the library.
fn put(tar: &mut Builder<Vec<u8>>, name: &str, kind: EntryType, body: &[u8]) {
    let mut header = Header::new_gnu();
    header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
    header.set_entry_type(kind);
    header.set_size(body.len() as u64);
    header.set_cksum();
    tar.append(&header, body).unwrap();
}

fn layer(entries: &[(&str, EntryType, &[u8])]) -> Vec<u8> {
    let mut tar = Builder::new(Vec::new());
    entries.iter().for_each(|(name, kind, body)| put(&mut tar, name, *kind, body));
    tar.into_inner().unwrap()
}

fn seen(packed: &[u8]) -> Result<Vec<(String, Change, String)>, LayerError> {
    let mut seen = Vec::new();
    read(packed, |entry: &mut Entry<'_>| {
        let mut body = String::new();
        entry.body.read_to_string(&mut body).map_err(LayerError::Broken)?;
        seen.push((entry.path().join("/"), entry.change, body));
        Ok::<_, LayerError>(())
    })?;
    Ok(seen)
}

fn only(packed: &[u8]) -> (String, Change, String) {
    let mut seen = seen(packed).unwrap();
    assert_eq!(seen.len(), 1, "{seen:?}");
    seen.remove(0)
}

#[test]
fn a_layer_is_read_with_every_compression_and_notation_of_names() {
    for name in ["a/b", "./a/b", "/a//b", "a/./b"] {
        let tar = layer(&[(name, EntryType::Regular, b"text")]);
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(&tar).unwrap();
        let zstd = zstd::encode_all(&tar[..], 1).unwrap();
        for packed in [tar, gzip.finish().unwrap(), zstd] {
            assert_eq!(only(&packed), ("a/b".into(), Change::File, "text".into()));
        }
    }
}

#[test]
fn entries_state_what_is_added_and_what_is_removed() {
    let cases = [
        ("a", EntryType::Directory, "a", Change::Folder),
        ("a", EntryType::Symlink, "a", Change::Link),
        ("a", EntryType::Link, "a", Change::Link),
        ("a", EntryType::Char, "a", Change::Special),
        ("a/.wh.b", EntryType::Regular, "a/b", Change::Gone),
        (".wh.a", EntryType::Regular, "a", Change::Gone),
        ("a/.wh..wh..opq", EntryType::Regular, "a", Change::Emptied),
        (".wh..wh..opq", EntryType::Regular, "", Change::Emptied),
    ];
    for (name, kind, path, change) in cases {
        assert_eq!(only(&layer(&[(name, kind, b"")])), (path.into(), change, String::new()));
    }
}

#[test]
fn long_names_are_read_and_very_long_ones_rejected() {
    let name = "a".repeat(180);
    for kind in [EntryType::GNULongName, EntryType::XHeader] {
        let record = match kind {
            EntryType::GNULongName => format!("{name}\0").into_bytes(),
            // Its own length in decimal, a blank, the record.
            _ => format!("190 path={name}\n").into_bytes(),
        };
        let tar = layer(&[("x", kind, &record), ("cut", EntryType::Regular, b"text")]);
        assert_eq!(only(&tar), (name.clone(), Change::File, "text".into()));
        let long = vec![b'a'; MAX_NAME_BYTES as usize + 1];
        assert!(matches!(seen(&layer(&[("x", kind, &long)])), Err(LayerError::LongName)));
    }
}

#[test]
fn a_path_outside_of_the_layer_is_rejected() {
    for name in ["../a", "a/../../etc/passwd", "/.."] {
        let tar = layer(&[(name, EntryType::Regular, b"")]);
        assert!(matches!(seen(&tar), Err(LayerError::Traversal(_))), "{name}");
    }
}

#[test]
fn a_damaged_layer_is_rejected() {
    let whole = layer(&[("a", EntryType::Regular, b"text")]);
    assert!(matches!(seen(&whole[..514]), Err(LayerError::Broken(_))));
    assert!(matches!(seen(b"\x1f\x8bnot gzip"), Err(LayerError::Broken(_))));
}

/// A layer that unpacks to endless zeros: one file of the largest size.
#[test]
fn an_endless_layer_is_rejected() {
    struct Zeros(io::Cursor<Vec<u8>>);
    impl Read for Zeros {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            match self.0.read(buffer)? {
                0 => {
                    buffer.fill(0);
                    Ok(buffer.len())
                }
                read => Ok(read),
            }
        }
    }
    let mut header = Header::new_gnu();
    header.set_path("a").unwrap();
    header.set_size(MAX_LAYER_BYTES);
    header.set_cksum();
    let endless = Zeros(io::Cursor::new(header.as_bytes().to_vec()));
    let outcome = read(endless, |_| Ok::<_, LayerError>(()));
    assert!(matches!(outcome, Err(LayerError::Large)), "{outcome:?}");
}
