//! What a run leaves behind beside the content: archives, generated files, the log of a target.

pub(crate) mod archive;
pub(crate) mod generated_files;
pub(crate) mod pushed_log;
pub(crate) mod upload_log;
