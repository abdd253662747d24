//! Warnings of nmstate. It has no other means for them than the `log` crate.

use std::cell::RefCell;
use std::sync::Once;

use log::{Level, LevelFilter, Log, Metadata, Record};

thread_local! {
    /// The messages of the work in progress on this thread.
    static MESSAGES: RefCell<Option<Vec<String>>> = const { RefCell::new(None) };
}

struct Collector;

impl Log for Collector {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.level() == Level::Warn && metadata.target().starts_with("nmstate")
    }

    fn log(&self, record: &Record<'_>) {
        if !self.enabled(record.metadata()) {
            return;
        }
        MESSAGES.with_borrow_mut(|messages| {
            if let Some(messages) = messages {
                messages.push(record.args().to_string());
            }
        });
    }

    fn flush(&self) {}
}

static COLLECTOR: Collector = Collector;

/// Runs `work` and returns its result, with the warnings of nmstate in it. There are none if the
/// program has another logger of the `log` crate.
pub fn collect<T>(work: impl FnOnce() -> T) -> (T, Vec<String>) {
    static INSTALL: Once = Once::new();
    INSTALL.call_once(|| {
        if log::set_logger(&COLLECTOR).is_ok() {
            log::set_max_level(LevelFilter::Warn);
        }
    });
    MESSAGES.set(Some(Vec::new()));
    let result = work();
    (result, MESSAGES.take().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_warnings_of_nmstate_during_the_work_are_collected() {
        let (result, messages) = collect(|| {
            log::warn!(target: "nmstate::iface", "one");
            log::warn!(target: "another", "two");
            log::error!(target: "nmstate", "three");
            7
        });
        assert_eq!((result, messages), (7, vec!["one".to_owned()]));
        log::warn!(target: "nmstate", "four");
        assert_eq!(collect(|| ()).1, Vec::<String>::new());
    }
}
