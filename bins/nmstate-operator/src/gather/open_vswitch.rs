//! The database of Open vSwitch, read through its own protocol (RFC 7047).

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::time::timeout;

/// Tables that describe bridges and the objects that they refer to.
const TABLES: [&str; 5] = ["Open_vSwitch", "Bridge", "Port", "Interface", "Controller"];
/// No database of a node is larger.
const LARGEST: usize = 32 << 20;
const PATIENCE: Duration = Duration::from_secs(10);

/// The rows of each table, or why they cannot be read.
pub(super) async fn tables(socket: &Path) -> Vec<(&'static str, Result<Value>)> {
    let mut all = Vec::new();
    for table in TABLES {
        let rows = match timeout(PATIENCE, select(socket, table)).await {
            Ok(rows) => rows,
            Err(_) => Err(anyhow::anyhow!("no response within {} s", PATIENCE.as_secs())),
        };
        all.push((table, rows));
    }
    all
}

async fn select(socket: &Path, table: &str) -> Result<Value> {
    let connecting = || format!("connecting to {}", socket.display());
    let mut stream = UnixStream::connect(socket).await.with_context(connecting)?;
    let request = json!({
        "method": "transact",
        "params": ["Open_vSwitch", { "op": "select", "table": table, "where": [] }],
        "id": 0,
    });
    stream.write_all(request.to_string().as_bytes()).await.context("sending a request")?;
    let mut text = Vec::new();
    let mut part = vec![0; 64 << 10];
    loop {
        let length = stream.read(&mut part).await.context("reading the response")?;
        if length == 0 {
            bail!("the database closed the connection");
        }
        text.extend_from_slice(&part[..length]);
        if text.len() > LARGEST {
            bail!("expected a response of at most {} MiB", LARGEST >> 20);
        }
        // A response has no length and ends with its last brace.
        match serde_json::from_slice::<Value>(&text) {
            Ok(response) => return rows(&response),
            Err(error) if error.is_eof() => {}
            Err(error) => return Err(error).context("reading the response"),
        }
    }
}

fn rows(response: &Value) -> Result<Value> {
    let result = &response["result"][0];
    match (&response["error"], &result["error"], &result["rows"]) {
        (Value::Null, Value::Null, rows @ Value::Array(_)) => Ok(rows.clone()),
        (Value::Null, error, _) | (error, ..) => bail!("the database refused the request: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_distinguished_from_errors() {
        let good = json!({"id": 0, "error": null, "result": [{"rows": [{"name": "br-ex"}]}]});
        assert_eq!(rows(&good).unwrap(), json!([{"name": "br-ex"}]));
        let bad = json!({"id": 0, "error": null, "result": [{"error": "unknown table"}]});
        assert!(rows(&bad).unwrap_err().to_string().contains("unknown table"));
        let refused = json!({"id": 0, "error": "unknown database", "result": null});
        assert!(rows(&refused).unwrap_err().to_string().contains("unknown database"));
    }
}
