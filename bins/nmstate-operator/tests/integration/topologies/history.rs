//! Every version that an object ever had.

use std::sync::{Arc, Mutex};

use futures_util::StreamExt as _;
use kube::ResourceExt as _;
use kube::api::{Api, DynamicObject, WatchEvent, WatchParams};
use serde_json::Value;
use tokio::task::JoinHandle;

/// Collects the versions of an object until it is dropped.
pub(crate) struct History {
    seen: Arc<Mutex<Vec<Value>>>,
    task: JoinHandle<()>,
}

impl History {
    pub(crate) fn of(api: Api<DynamicObject>, name: &str) -> Self {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let parameters = WatchParams::default().fields(&format!("metadata.name={name}"));
        let task = tokio::spawn(collect(api, parameters, Arc::clone(&seen)));
        Self { seen, task }
    }

    /// What was collected so far.
    pub(crate) fn seen(&self) -> Vec<Value> {
        assert!(!self.task.is_finished(), "the watch failed");
        self.seen.lock().unwrap().clone()
    }
}

impl Drop for History {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Watches forever. A server ends each watch after some minutes; the next one continues from there.
async fn collect(api: Api<DynamicObject>, parameters: WatchParams, seen: Arc<Mutex<Vec<Value>>>) {
    let mut version = "0".to_owned();
    loop {
        let mut stream = api.watch(&parameters, &version).await.unwrap().boxed();
        while let Some(event) = stream.next().await {
            match event.unwrap() {
                WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                    version = object.resource_version().unwrap();
                    seen.lock().unwrap().push(serde_json::to_value(object).unwrap());
                }
                WatchEvent::Bookmark(mark) => version = mark.metadata.resource_version,
                other => panic!("{other:?}"),
            }
        }
    }
}
