//! Every version that an object ever had.

use std::sync::{Arc, Mutex};

use futures_util::StreamExt as _;
use kube::api::{Api, DynamicObject, WatchEvent, WatchParams};
use serde_json::Value;
use tokio::task::JoinHandle;

/// Collects the versions of an object until it is dropped.
pub(crate) struct History {
    seen: Arc<Mutex<Vec<Value>>>,
    task: JoinHandle<()>,
}

impl History {
    pub(crate) async fn of(api: Api<DynamicObject>, name: &str) -> Self {
        // Longer than any test, so that one stream has them all.
        let parameters = WatchParams::default().timeout(294);
        let stream =
            api.watch(&parameters.fields(&format!("metadata.name={name}")), "0").await.unwrap();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&seen);
        let task = tokio::spawn(async move {
            let mut stream = stream.boxed();
            while let Some(event) = stream.next().await {
                match event.unwrap() {
                    WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                        kept.lock().unwrap().push(serde_json::to_value(object).unwrap());
                    }
                    WatchEvent::Bookmark(_) => {}
                    other => panic!("{other:?}"),
                }
            }
        });
        Self { seen, task }
    }

    /// What was collected so far.
    pub(crate) fn seen(&self) -> Vec<Value> {
        assert!(!self.task.is_finished(), "the watch ended before the test");
        self.seen.lock().unwrap().clone()
    }
}

impl Drop for History {
    fn drop(&mut self) {
        self.task.abort();
    }
}
