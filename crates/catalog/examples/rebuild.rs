//! Reads a catalog from a folder, selects from it, and packs the result as a layer.
//!
//!     cargo run --release -p catalog --example rebuild -- FOLDER imageset.yaml
//!
//! Prints what was selected and how long each step took. `cargo xtask bench catalog` measures with it.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use catalog::{Catalog, Files, catalog_layer, filter, related_images};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args_os().skip(1).map(PathBuf::from);
    let (Some(folder), Some(configuration)) = (arguments.next(), arguments.next()) else {
        return Err("give the folder of a catalog, and an image set configuration".into());
    };
    let text = fs::read_to_string(&configuration)?;
    let set = image_set::parse_image_set(&configuration.display().to_string(), &text)?;
    let operator = set.mirror.operators.first().ok_or("the configuration names no catalog")?;
    let content = read(&folder)?;
    let length: usize = content.iter().map(|(_, bytes)| bytes.len()).sum();

    let began = Instant::now();
    let files = Files::read(content.iter().map(|(path, bytes)| (path.clone(), &bytes[..])))?;
    let catalog = Catalog::load(&files)?;
    let loaded = began.elapsed();
    let filtered = filter(&catalog, operator);
    let images = related_images(&filtered);
    let written = filtered.files();
    let selected = began.elapsed();
    let layer = catalog_layer(&written)?;
    let packed = began.elapsed();

    for finding in &filtered.findings {
        eprintln!("{finding}");
    }
    let result: u64 = written.iter().map(|file| file.size()).sum();
    println!(
        "{{\"bytes\": {length}, \"packages\": {}, \"bundles\": {}, \"images\": {}, \"result\": {result}, \
         \"layer\": {}, \"digest\": \"{}\", \"load\": {:.6}, \"select\": {:.6}, \"pack\": {:.6}}}",
        filtered.packages.len(),
        filtered.bundles().count(),
        images.images.len(),
        layer.bytes.len(),
        layer.digest,
        loaded.as_secs_f64(),
        selected.as_secs_f64(),
        packed.as_secs_f64(),
    );
    Ok(())
}

/// All files below the folder, with their paths from there.
fn read(root: &Path) -> std::io::Result<Vec<(String, Vec<u8>)>> {
    let mut files = Vec::new();
    let mut pending = vec![root.to_owned()];
    while let Some(folder) = pending.pop() {
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            if path.is_dir() {
                pending.push(path);
            } else if let Ok(name) = path.strip_prefix(root) {
                files.push((name.display().to_string(), fs::read(&path)?));
            }
        }
    }
    Ok(files)
}
