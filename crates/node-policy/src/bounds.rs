//! How much is too much: sizes that the API server's store takes, and that a handler can hold.
//!
//! Whoever may write policies may write odd ones. None of them may end a handler.

use serde::Serialize;

/// Bytes of what a node reports in one object. The store takes one and a half MiB; conditions and
/// metadata need a little.
pub const REPORT_LIMIT: usize = 1024 * 1024;
/// Bytes that evaluating a policy may take on a node.
pub const WORK_LIMIT: usize = 64 * 1024 * 1024;

/// Bytes of a value as JSON, without making the text.
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
        // What cannot be written is too much.
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
