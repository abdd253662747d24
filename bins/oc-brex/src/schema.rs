//! `oc-brex schema`.

use anyhow::Result;

/// The JSON schema of documents.
pub(crate) fn text() -> Result<String> {
    Ok(format!("{}\n", serde_json::to_string_pretty(&br_ex_authoring::document_schema::schema())?))
}
