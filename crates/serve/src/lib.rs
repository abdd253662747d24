//! A workspace as a read-only registry
