//! Archives and the archives they build on.

use jiff::Timestamp;
use workspace::Workspace;
use workspace::archive::{ArchiveSeverity, ArchiveStatus, Archives, Index, OpenError};

use super::Fault;

/// The archive of one run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ArchiveRow {
    pub(crate) run: u64,
    /// The run whose archive is needed too.
    pub(crate) base: Option<u64>,
    /// Whether the base is here, where there is one.
    pub(crate) has_base: bool,
    pub(crate) created: Timestamp,
    pub(crate) status: ArchiveStatus,
    pub(crate) images: usize,
    pub(crate) failed: usize,
    pub(crate) chunks: Vec<ChunkRow>,
    pub(crate) bytes: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ChunkRow {
    pub(crate) name: String,
    pub(crate) is_present: bool,
}

/// Archives, newest first, and what is wrong with them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ArchiveList {
    pub(crate) archives: Vec<ArchiveRow>,
    pub(crate) problems: Vec<String>,
    pub(crate) notes: Vec<String>,
}

pub(crate) fn read(workspace: &Workspace) -> Result<ArchiveList, Fault> {
    let archives = match Archives::open(workspace.root()) {
        Ok(archives) => archives,
        Err(OpenError::None(_)) => return Ok(ArchiveList::default()),
        Err(error) => return Err(Fault::failed("reading the archives", &error)),
    };
    let runs: Vec<u64> = archives.indexes().map(|index| index.run).collect();
    let is_present = |name: &str| workspace.root().join(name).is_file();
    let mut rows: Vec<ArchiveRow> =
        archives.indexes().map(|index| row(index, &runs, &is_present)).collect();
    rows.reverse();
    let (notes, problems): (Vec<_>, Vec<_>) =
        archives.findings().iter().partition(|finding| finding.severity() == ArchiveSeverity::Note);
    let texts = |list: Vec<&workspace::archive::ArchiveFinding>| {
        list.iter().map(ToString::to_string).collect()
    };
    Ok(ArchiveList { archives: rows, problems: texts(problems), notes: texts(notes) })
}

fn row(index: &Index, runs: &[u64], is_present: &dyn Fn(&str) -> bool) -> ArchiveRow {
    let chunks = index.own_chunks().map(|chunk| {
        let name = format!("mirror_{:06}.tar", chunk.number);
        ChunkRow { is_present: is_present(&name), name }
    });
    ArchiveRow {
        run: index.run,
        base: index.base,
        has_base: index.base.is_none_or(|base| runs.contains(&base)),
        created: index.created,
        status: index.status,
        images: index.images.len(),
        failed: index.failed.len(),
        chunks: chunks.collect(),
        bytes: index.own_chunks().map(|chunk| chunk.length).sum(),
    }
}
