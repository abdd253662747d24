//! `enhance new`.

use std::fs::{self, File};
use std::io::{self, Write};

use anyhow::{Context, Result, bail};
use command_line::{Ending, print, say};
use jiff::civil::Date;

use crate::arguments::NewArguments;

/// Writes a new document. One that is there already is never replaced.
pub(crate) fn new(arguments: &NewArguments, today: Date) -> Result<Ending> {
    let NewArguments { title, area, dir } = arguments;
    let folder = match area {
        Some(area) => dir.join(area.path()),
        None => dir.clone(),
    };
    fs::create_dir_all(&folder).with_context(|| format!("making {}", folder.display()))?;
    let path = folder.join(format!("{}.md", title.name()));
    let writing = || format!("writing {}", path.display());
    let mut file = match File::create_new(&path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            bail!("{} is there already; choose another title, or edit it", path.display());
        }
        file => file.with_context(writing)?,
    };
    file.write_all(enhancement::fill_template(title, today).as_bytes()).with_context(writing)?;
    print(format!("{}\n", path.display()))?;
    say("Fill in what is TBD and the sections; `enhance lint` on the file tells what is left.");
    Ok(Ending::Good)
}
