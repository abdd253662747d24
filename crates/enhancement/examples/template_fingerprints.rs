//! Prints the fingerprints of the sentences of templates, for
//! `src/template_fingerprints.txt`. Each argument is a file with one version.

use std::{env, fs, io};

use enhancement::TemplateSentences;

fn main() -> io::Result<()> {
    let mut sentences = TemplateSentences::default();
    for path in env::args_os().skip(1) {
        sentences.add(&fs::read_to_string(path)?);
    }
    print!("{}", sentences.fingerprints());
    Ok(())
}
