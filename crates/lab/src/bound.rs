//! Programs that never outlive the process which started them.

use std::path::Path;
use std::process::{Command, Stdio};

/// Waits for the end of the pipe that only our process holds, then kills the program. A destructor
/// alone would leave the program running after a SIGKILL, an abort, or when it sits in a `static`.
/// `exec` keeps the process id, so `$$` is the program itself.
const WATCHED: &str = r#"exec 3<&0
(read -r _ <&3; kill -9 $$) 2>/dev/null &
exec "$0" "$@" 3<&- </dev/null"#;

/// A command whose program is killed when its standard input is closed here, at the latest when this
/// process ends. Arguments are added as usual; the process id of the child is that of the program.
///
/// [`std::process::Child::wait`] closes the standard input first: to wait for a program that must
/// end by itself, use `try_wait`.
pub fn bound_command(program: &Path) -> Command {
    let mut command = Command::new("/bin/sh");
    command.args(["-c", WATCHED]).arg(program).stdin(Stdio::piped());
    command
}
