//! `enhance`: creates and checks enhancement documents.

use std::process::ExitCode;

use jiff::Zoned;

fn main() -> ExitCode {
    enhance::run(std::env::args_os(), Zoned::now().date())
}
