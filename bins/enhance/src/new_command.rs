//! `enhance new`.

use std::fs::{self, File};
use std::io::{self, Write};

use anyhow::{Context, Result, bail};
use command_line::{Ending, print, print_message};
use jiff::civil::Date;

use crate::arguments::NewArguments;

/// Writes a new document. An existing file is never replaced.
pub(crate) fn new(arguments: &NewArguments, today: Date) -> Result<Ending> {
    let NewArguments { title, area, dir } = arguments;
    let directory = match area {
        Some(area) => dir.join(area.path()),
        None => dir.clone(),
    };
    fs::create_dir_all(&directory).with_context(|| format!("creating {}", directory.display()))?;
    let path = directory.join(format!("{}.md", title.name()));
    let writing = || format!("writing {}", path.display());
    let mut file = match File::create_new(&path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            bail!("{} exists; choose another title, or edit the file", path.display());
        }
        file => file.with_context(writing)?,
    };
    file.write_all(enhancement::fill_template(title, today).as_bytes()).with_context(writing)?;
    print(format!("{}\n", path.display()))?;
    print_message(
        "Replace every TBD and write the sections; `enhance lint` lists what is missing.",
    );
    Ok(Ending::Good)
}
