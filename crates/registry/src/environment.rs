//! What the process was started with that matters to registries. Read once,
//! by `main`; the rest of the crate only sees this value.

use std::ffi::OsString;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Variables and places of the process. [`Default`] is an empty environment:
/// no home, no proxies, system files below `/`.
#[derive(Clone, PartialEq, Eq)]
pub struct Environment {
    /// The directory above `etc/containers` and `etc/docker`; `/` but in tests.
    pub system_root: PathBuf,
    pub home: Option<PathBuf>,
    /// `XDG_RUNTIME_DIR`, or `/run/containers/<uid>` where that is not set.
    pub runtime_dir: Option<PathBuf>,
    /// `XDG_CONFIG_HOME`, or `~/.config`.
    pub config_home: Option<PathBuf>,
    /// `DOCKER_CONFIG`, or `~/.docker`.
    pub docker_config: Option<PathBuf>,
    /// `REGISTRY_AUTH_FILE`
    pub registry_auth_file: Option<PathBuf>,
    /// `CONTAINERS_REGISTRIES_CONF`
    pub registries_conf: Option<PathBuf>,
    /// `SSL_CERT_FILE`
    pub ssl_cert_file: Option<PathBuf>,
    /// `SSL_CERT_DIR`
    pub ssl_cert_dir: Option<PathBuf>,
    /// `PATH`, where credential helpers are searched.
    pub path: Option<OsString>,
    /// `HTTP_PROXY`, `HTTPS_PROXY`, `NO_PROXY`, or the same in small letters.
    pub http_proxy: Option<String>,
    pub https_proxy: Option<String>,
    pub no_proxy: Option<String>,
}

impl Default for Environment {
    fn default() -> Self {
        Self {
            system_root: PathBuf::from("/"),
            home: None,
            runtime_dir: None,
            config_home: None,
            docker_config: None,
            registry_auth_file: None,
            registries_conf: None,
            ssl_cert_file: None,
            ssl_cert_dir: None,
            path: None,
            http_proxy: None,
            https_proxy: None,
            no_proxy: None,
        }
    }
}

impl Environment {
    /// The environment of this process. For `main` alone.
    pub fn from_process() -> Self {
        let uid = std::fs::metadata("/proc/self").map(|me| me.uid()).ok();
        Self::from_variables(|name| std::env::var_os(name), uid)
    }

    fn from_variables(variable: impl Fn(&str) -> Option<OsString>, uid: Option<u32>) -> Self {
        let set = |name: &str| variable(name).filter(|value| !value.is_empty());
        let path = |name: &str| set(name).map(PathBuf::from);
        let text = |names: [&str; 2]| {
            names.into_iter().find_map(set).map(|value| value.to_string_lossy().into_owned())
        };
        let home = path("HOME");
        let below_home = |name: &str| home.as_ref().map(|home| home.join(name));
        let run = || uid.map(|uid| PathBuf::from(format!("/run/containers/{uid}")));
        Self {
            system_root: PathBuf::from("/"),
            runtime_dir: path("XDG_RUNTIME_DIR").map(|dir| dir.join("containers")).or_else(run),
            config_home: path("XDG_CONFIG_HOME").or_else(|| below_home(".config")),
            docker_config: path("DOCKER_CONFIG").or_else(|| below_home(".docker")),
            registry_auth_file: path("REGISTRY_AUTH_FILE"),
            registries_conf: path("CONTAINERS_REGISTRIES_CONF"),
            ssl_cert_file: path("SSL_CERT_FILE"),
            ssl_cert_dir: path("SSL_CERT_DIR"),
            path: set("PATH"),
            http_proxy: text(["http_proxy", "HTTP_PROXY"]),
            https_proxy: text(["https_proxy", "HTTPS_PROXY"]),
            no_proxy: text(["no_proxy", "NO_PROXY"]),
            home,
        }
    }

    /// `etc/containers/<name>` below the system root.
    pub(crate) fn system_containers(&self, name: &str) -> PathBuf {
        self.system_root.join("etc/containers").join(name)
    }

    /// `~/.config/containers/<name>`.
    pub(crate) fn user_containers(&self, name: &str) -> Option<PathBuf> {
        self.config_home.as_deref().map(|config| config.join("containers").join(name))
    }

    pub(crate) fn system_docker(&self, name: &str) -> PathBuf {
        self.system_root.join("etc/docker").join(name)
    }

    pub(crate) fn below_home(&self, name: &str) -> Option<PathBuf> {
        self.home.as_deref().map(|home: &Path| home.join(name))
    }
}

/// Proxy addresses may hold passwords, so they are not printed.
impl std::fmt::Debug for Environment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Environment")
            .field("home", &self.home)
            .field("registry_auth_file", &self.registry_auth_file)
            .field("registries_conf", &self.registries_conf)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from(variables: &[(&str, &str)]) -> Environment {
        let variable = |name: &str| {
            variables.iter().find(|(key, _)| *key == name).map(|(_, value)| OsString::from(value))
        };
        Environment::from_variables(variable, Some(7))
    }

    #[test]
    fn places_that_are_not_set_have_the_usual_defaults() {
        let environment = from(&[("HOME", "/home/me"), ("XDG_CONFIG_HOME", "")]);
        assert_eq!(environment.runtime_dir, Some("/run/containers/7".into()));
        assert_eq!(environment.config_home, Some("/home/me/.config".into()));
        assert_eq!(environment.docker_config, Some("/home/me/.docker".into()));
        let environment = from(&[("XDG_RUNTIME_DIR", "/run/user/7"), ("DOCKER_CONFIG", "/d")]);
        assert_eq!(environment.runtime_dir, Some("/run/user/7/containers".into()));
        assert_eq!(environment.docker_config, Some("/d".into()));
        assert_eq!(environment.config_home, None);
    }

    #[test]
    fn a_proxy_password_is_not_printed() {
        let environment = from(&[("https_proxy", "http://me:secret@proxy:3128")]);
        assert!(!format!("{environment:?}").contains("secret"));
        assert_eq!(environment.https_proxy.as_deref(), Some("http://me:secret@proxy:3128"));
    }
}
