//! Size limits: what the API server can store, and what a handler can process.
//!
//! Users who may write policies may write unusual ones. None of them may crash a handler.

use serde::Serialize;

/// Bytes of a node's report in one object. The store accepts one and a half MiB; conditions and
/// metadata need a part of it.
pub const REPORT_LIMIT: usize = 1024 * 1024;
/// Bytes that evaluating a policy may take on a node.
pub const WORK_LIMIT: usize = 64 * 1024 * 1024;

/// Bytes of a value as JSON, without creating the text.
pub fn size(value: &impl Serialize) -> usize {
    struct Count(usize);
    impl std::io::Write for Count {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut count = Count(0);
    match serde_json::to_writer(&mut count, value) {
        Ok(()) => count.0,
        // A value that cannot be serialized counts as too large.
        Err(_) => usize::MAX,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_size_is_that_of_the_text() {
        for value in [json!({"a": [1, 2, "ä"]}), json!(null), json!([])] {
            assert_eq!(size(&value), value.to_string().len());
        }
    }
}
