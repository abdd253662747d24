//! Single objects of a cluster: create, read, delete, and the logs of pods.

use kube::api::{DeleteParams, GetParams, LogParams, PostParams, PropagationPolicy};
use kube::core::Request;
use serde_json::Value;

use crate::{Connection, explain};

/// A request about an object failed.
#[derive(Debug, thiserror::Error)]
pub enum ObjectError {
    #[error("{what}: it already exists")]
    Exists { what: String },
    /// Contains the message of the API server.
    #[error("{what}: {message}")]
    Forbidden { what: String, message: String },
    #[error(
        "{what}: the cluster at {address} does not accept the credentials of the kubeconfig; log in again with `oc login`, or use a valid kubeconfig"
    )]
    Unauthorized { what: String, address: String },
    /// Contains the message of the API server.
    #[error("{what}: {message}")]
    Rejected { what: String, message: String },
    #[error("{what}: {message}")]
    Failed { what: String, message: String },
}

impl Connection {
    /// The namespace of the kubeconfig's context.
    pub fn namespace(&self) -> &str {
        self.client().default_namespace()
    }

    /// Creates an object in the collection at `path`, such as `/apis/batch/v1/namespaces/x/jobs`.
    /// Fields that are unknown to the server are an error.
    ///
    /// # Errors
    /// It exists, the account may not create it, or the server rejects it.
    pub async fn create(&self, path: &str, object: &Value) -> Result<Value, ObjectError> {
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        let what = format!("creating {} {name}", object["kind"].as_str().unwrap_or("object"));
        let failed = |error: &kube::Error| self.failure(&what, error);
        let bytes =
            serde_json::to_vec(object).map_err(|error| failed(&kube::Error::SerdeError(error)))?;
        let parameters =
            PostParams { field_manager: Some("oc-mirror".to_owned()), ..PostParams::default() };
        let request = Request::new(path).create(&parameters, bytes);
        let request = request.map_err(|error| failed(&kube::Error::BuildRequest(error)))?;
        self.client().request(request).await.map_err(|error| failed(&error))
    }

    /// Reads an object; none if it does not exist.
    ///
    /// # Errors
    /// The server does not respond, or the account may not read it.
    pub async fn get(&self, path: &str, name: &str) -> Result<Option<Value>, ObjectError> {
        let what = format!("reading {name}");
        let request = Request::new(path).get(name, &GetParams::default());
        let request =
            request.map_err(|error| self.failure(&what, &kube::Error::BuildRequest(error)))?;
        match self.client().request(request).await {
            Ok(object) => Ok(Some(object)),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
            Err(error) => Err(self.failure(&what, &error)),
        }
    }

    /// Deletes an object, and in the background what it owns. False if it does not exist.
    ///
    /// # Errors
    /// The server does not respond, or the account may not delete it.
    pub async fn delete(&self, path: &str, name: &str) -> Result<bool, ObjectError> {
        let what = format!("deleting {name}");
        let parameters = DeleteParams {
            propagation_policy: Some(PropagationPolicy::Background),
            ..DeleteParams::default()
        };
        let request = Request::new(path).delete(name, &parameters);
        let request =
            request.map_err(|error| self.failure(&what, &kube::Error::BuildRequest(error)))?;
        match self.client().request::<Value>(request).await {
            Ok(_) => Ok(true),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(false),
            Err(error) => Err(self.failure(&what, &error)),
        }
    }

    /// The log of a pod in the collection at `path`: all of it, or its last lines.
    ///
    /// # Errors
    /// The pod has none yet, the server does not respond, or the account may not read it.
    pub async fn logs(
        &self,
        path: &str,
        pod: &str,
        last_lines: Option<u32>,
    ) -> Result<String, ObjectError> {
        let what = format!("reading the log of {pod}");
        let tail_lines = last_lines.map(i64::from);
        let parameters = LogParams { tail_lines, ..LogParams::default() };
        let request = Request::new(path).logs(pod, &parameters);
        let request =
            request.map_err(|error| self.failure(&what, &kube::Error::BuildRequest(error)))?;
        self.client().request_text(request).await.map_err(|error| self.failure(&what, &error))
    }

    fn failure(&self, what: &str, error: &kube::Error) -> ObjectError {
        let what = what.to_owned();
        let kube::Error::Api(status) = error else {
            return ObjectError::Failed { what, message: explain(error) };
        };
        let message = status.message.clone();
        match status.code {
            401 => ObjectError::Unauthorized { what, address: self.address().to_owned() },
            403 => ObjectError::Forbidden { what, message },
            409 if status.reason == "AlreadyExists" => ObjectError::Exists { what },
            400..500 => ObjectError::Rejected { what, message },
            _ => ObjectError::Failed { what, message: explain(error) },
        }
    }
}
