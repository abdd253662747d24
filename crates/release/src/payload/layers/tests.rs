use tar::{Builder, EntryType, Header};

use super::*;

const REFERENCES: &str = "release-manifests/image-references";
const METADATA: &str = "release-manifests/release-metadata";

/// An entry without the checks of the library.
fn put(tar: &mut Builder<Vec<u8>>, name: &str, kind: EntryType, link: &str, body: &[u8]) {
    let mut header = Header::new_gnu();
    header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
    header.as_old_mut().linkname[..link.len()].copy_from_slice(link.as_bytes());
    header.set_entry_type(kind);
    header.set_size(body.len() as u64);
    header.set_mode(0o644);
    header.set_cksum();
    tar.append(&header, body).unwrap();
}

fn layer(entries: &[(&str, EntryType, &str, &[u8])]) -> Vec<u8> {
    let mut tar = Builder::new(Vec::new());
    for (name, kind, link, body) in entries {
        put(&mut tar, name, *kind, link, body);
    }
    tar.into_inner().unwrap()
}

fn files(entries: &[(&str, &[u8])]) -> Vec<u8> {
    let entries: Vec<_> =
        entries.iter().map(|(name, body)| (*name, EntryType::Regular, "", *body)).collect();
    layer(&entries)
}

/// From the top down.
fn read(layers: &[Vec<u8>]) -> Result<PayloadFiles, LayerError> {
    let mut found = PayloadFiles::new(Wanted::Components);
    for layer in layers {
        found.read_layer(&layer[..])?;
    }
    Ok(found)
}

#[test]
fn files_are_found_however_their_names_are_written() {
    for name in
        [REFERENCES, "./release-manifests/image-references", "/release-manifests//image-references"]
    {
        let found = read(&[files(&[("etc/passwd", b"x"), (name, b"images")])]).unwrap();
        assert_eq!(found.image_references().unwrap(), b"images");
        assert_eq!(found.release_metadata(), None);
        assert!(!found.is_settled());
    }
}

#[test]
fn the_topmost_layer_wins() {
    let top = files(&[(REFERENCES, b"new"), (METADATA, b"meta")]);
    let found = read(&[top, files(&[(REFERENCES, b"old")])]).unwrap();
    assert!(found.is_settled());
    assert_eq!(found.image_references().unwrap(), b"new");
    // Inside one layer it is the last entry, as in tar.
    let twice = files(&[(REFERENCES, b"first"), (REFERENCES, b"second")]);
    assert_eq!(read(&[twice]).unwrap().image_references().unwrap(), b"second");
}

#[test]
fn what_a_layer_removes_is_not_found_below_it() {
    let below = files(&[(REFERENCES, b"old"), (METADATA, b"meta")]);
    for (gone, metadata_too) in [
        ("release-manifests/.wh.image-references", false),
        ("release-manifests/.wh..wh..opq", true),
        (".wh.release-manifests", true),
        ("./.wh..wh..opq", true),
        ("release-manifests", true),
    ] {
        let found = read(&[files(&[(gone, b"")]), below.clone()]).unwrap();
        assert!(matches!(found.image_references(), Err(LayerError::NoReferences)), "{gone}");
        assert_eq!(found.release_metadata().is_none(), metadata_too, "{gone}");
    }
    // What a layer adds is not touched by what it removes.
    let replaced = files(&[("release-manifests/.wh..wh..opq", b""), (REFERENCES, b"new")]);
    assert_eq!(read(&[replaced, below]).unwrap().image_references().unwrap(), b"new");
}

#[test]
fn what_leads_out_of_a_layer_is_refused() {
    let out = files(&[("../release-manifests/image-references", b"x")]);
    assert!(matches!(read(&[out]), Err(LayerError::Layer(_))));
    for kind in [EntryType::Symlink, EntryType::Link] {
        let tar = layer(&[(REFERENCES, kind, "/etc/shadow", b"")]);
        assert!(matches!(read(&[tar]), Err(LayerError::Link("image-references"))));
    }
    // Links elsewhere are everyday matters.
    let tar = layer(&[
        ("bin/sh", EntryType::Symlink, "../../bash", b""),
        (REFERENCES, EntryType::Regular, "", b"x"),
    ]);
    assert!(read(&[tar]).is_ok());
}

#[test]
fn what_is_too_large_or_broken_is_refused() {
    let large = vec![b' '; MAX_FILE_BYTES as usize + 1];
    assert!(matches!(read(&[files(&[(REFERENCES, &large)])]), Err(LayerError::LargeFile(_))));
    let whole = files(&[(REFERENCES, b"images")]);
    assert!(matches!(read(&[whole[..600].to_vec()]), Err(LayerError::Layer(_))));
}
