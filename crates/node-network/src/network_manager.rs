//! Requests to NetworkManager in addition to those of nmstate: its checkpoints,
//! and its profiles after their files were changed.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use zbus::zvariant::{ObjectPath, OwnedObjectPath, OwnedValue};
use zbus::{Connection, Proxy};

const SERVICE: &str = "org.freedesktop.NetworkManager";
const PATH: &str = "/org/freedesktop/NetworkManager";
const SETTINGS: &str = "/org/freedesktop/NetworkManager/Settings";
const ACTIVE: &str = "org.freedesktop.NetworkManager.Connection.Active";
const DEVICE: &str = "org.freedesktop.NetworkManager.Device";

/// NM_ACTIVE_CONNECTION_STATE_ACTIVATING and _ACTIVATED
const ACTIVATING: u32 = 1;
const ACTIVATED: u32 = 2;

const CONNECTION: &str = "org.freedesktop.NetworkManager.Settings.Connection";
/// NM_SETTINGS_CONNECTION_FLAG_UNSAVED
const UNSAVED: u32 = 1;
/// NM_SETTINGS_CONNECTION_FLAG_NM_GENERATED, _VOLATILE and _EXTERNAL: not created by a client.
const GENERATED: u32 = 2 | 4 | 8;

const POLL_INTERVAL: Duration = Duration::from_millis(200);
/// The interval between two requests to activate the same profile.
const REQUEST_AGAIN: Duration = Duration::from_secs(5);

/// NetworkManager's name of a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Checkpoint(pub(crate) String);

impl Checkpoint {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A profile that is in use, and on which device.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ActiveProfile {
    pub uuid: String,
    pub name: String,
    pub device: String,
    /// Whether it is being activated, such as one that waits for a lease.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_activating: bool,
}

/// A profile as NetworkManager stores it.
struct Profile {
    path: OwnedObjectPath,
    uuid: String,
    kind: String,
    interface: String,
    is_unsaved: bool,
}

impl Profile {
    /// Whether it is of a device that exists without NetworkManager. Such a profile is saved last:
    /// with it alone, a NIC would wait for a bridge or bond that no profile defines.
    fn is_hardware(&self) -> bool {
        matches!(self.kind.as_str(), "802-3-ethernet" | "802-11-wireless" | "infiniband")
    }
}

/// Profiles on disk that are not in use, where another one of the same interface is.
fn replaced<'a>(all: &[&'a Profile], active: &BTreeSet<String>) -> Vec<&'a Profile> {
    let is_active = |it: &Profile| active.contains(&it.uuid);
    let is_replaced = |other: &&&Profile| {
        let mut same = all.iter().filter(|it| it.interface == other.interface);
        !other.is_unsaved
            && !is_active(other)
            && same.any(|it| it.kind == other.kind && is_active(it))
    };
    all.iter().filter(is_replaced).copied().collect()
}

#[derive(Debug, thiserror::Error)]
#[error("asking NetworkManager {what}")]
pub struct ManagerError {
    what: String,
    source: zbus::Error,
}

fn asking(what: impl Into<String>) -> impl FnOnce(zbus::Error) -> ManagerError {
    move |source| ManagerError { what: what.into(), source }
}

/// A connection to NetworkManager.
#[derive(Debug)]
pub struct Manager {
    bus: Connection,
}

impl Manager {
    pub async fn connect() -> Result<Self, ManagerError> {
        let bus = Connection::system().await.map_err(asking("over the system bus"))?;
        Ok(Self { bus })
    }

    /// The checkpoints there are.
    pub async fn checkpoints(&self) -> Result<Vec<Checkpoint>, ManagerError> {
        let proxy = self.proxy(PATH, SERVICE).await?;
        let paths: Vec<OwnedObjectPath> =
            proxy.get_property("Checkpoints").await.map_err(asking("for its checkpoints"))?;
        Ok(paths.iter().map(|path| Checkpoint(path.to_string())).collect())
    }

    /// The name of its connection to the bus: another one after each restart.
    pub async fn instance(&self) -> Result<String, ManagerError> {
        let about = || asking("for its instance");
        let bus = zbus::fdo::DBusProxy::new(&self.bus).await.map_err(about())?;
        let name = zbus::names::BusName::try_from(SERVICE).map_err(zbus::Error::from);
        let owner = bus.get_name_owner(name.map_err(about())?).await;
        Ok(owner.map_err(|error| about()(error.into()))?.to_string())
    }

    /// Saves profiles of these interfaces that are in memory only to disk. Connections in use are
    /// not touched. Other profiles of the same interfaces are removed, so that NetworkManager does
    /// not choose them at the next boot. Interrupted, it can be repeated.
    pub async fn save_profiles(&self, interfaces: &BTreeSet<String>) -> Result<(), ManagerError> {
        let all = self.profiles().await?;
        let mut of_these: Vec<_> =
            all.iter().filter(|it| interfaces.contains(&it.interface)).collect();
        of_these.sort_by_key(|it| it.is_hardware());
        for profile in of_these.iter().filter(|it| it.is_unsaved) {
            let proxy = self.proxy(profile.path.as_str(), CONNECTION).await?;
            let what = || asking(format!("to save the profile of {}", profile.interface));
            let () = proxy.call("Save", &()).await.map_err(what())?;
        }
        let active: BTreeSet<String> =
            self.active_profiles().await?.into_iter().map(|it| it.uuid).collect();
        for other in replaced(&of_these, &active) {
            let proxy = self.proxy(other.path.as_str(), CONNECTION).await?;
            let what = || asking(format!("to delete a profile of {}", other.interface));
            let () = proxy.call("Delete", &()).await.map_err(what())?;
        }
        Ok(())
    }

    /// Profiles that clients created for one interface each.
    async fn profiles(&self) -> Result<Vec<Profile>, ManagerError> {
        let settings = self.proxy(SETTINGS, "org.freedesktop.NetworkManager.Settings").await?;
        let paths: Vec<OwnedObjectPath> =
            settings.call("ListConnections", &()).await.map_err(asking("for its profiles"))?;
        let mut profiles = Vec::new();
        for path in paths {
            // A profile that is deleted in the meantime is ignored.
            if let Ok(Some(profile)) = self.profile(path).await {
                profiles.push(profile);
            }
        }
        Ok(profiles)
    }

    async fn profile(&self, path: OwnedObjectPath) -> Result<Option<Profile>, ManagerError> {
        type Settings = BTreeMap<String, BTreeMap<String, OwnedValue>>;
        let proxy = self.proxy(path.as_str(), CONNECTION).await?;
        let about = || asking("about a profile");
        let flags: u32 = proxy.get_property("Flags").await.map_err(about())?;
        let settings: Settings = proxy.call("GetSettings", &()).await.map_err(about())?;
        let text = |key: &str| {
            let value = settings.get("connection")?.get(key)?;
            String::try_from(value.try_clone().ok()?).ok()
        };
        let (Some(uuid), Some(kind), Some(interface)) =
            (text("uuid"), text("type"), text("interface-name"))
        else {
            return Ok(None);
        };
        let is_unsaved = flags & UNSAVED != 0;
        drop(proxy);
        let profile = Profile { path, uuid, kind, interface, is_unsaved };
        Ok((flags & GENERATED == 0).then_some(profile))
    }

    /// Its version.
    pub async fn version(&self) -> Result<String, ManagerError> {
        let proxy = self.proxy(PATH, SERVICE).await?;
        proxy.get_property("Version").await.map_err(asking("for its version"))
    }

    /// The profiles in use, in a fixed order.
    pub async fn active_profiles(&self) -> Result<Vec<ActiveProfile>, ManagerError> {
        let proxy = self.proxy(PATH, SERVICE).await?;
        let paths: Vec<OwnedObjectPath> = proxy
            .get_property("ActiveConnections")
            .await
            .map_err(asking("for the profiles in use"))?;
        let mut profiles = Vec::new();
        for path in paths {
            // A profile that is deactivated in the meantime is not in use.
            if let Ok(profile) = self.active_profile(&path).await {
                profiles.extend(profile);
            }
        }
        profiles.sort();
        Ok(profiles)
    }

    async fn active_profile(
        &self,
        path: &OwnedObjectPath,
    ) -> Result<Option<ActiveProfile>, ManagerError> {
        let proxy = self.proxy(path.as_str(), ACTIVE).await?;
        let about = || asking("about a profile in use");
        let state: u32 = proxy.get_property("State").await.map_err(about())?;
        let uuid: String = proxy.get_property("Uuid").await.map_err(about())?;
        let name: String = proxy.get_property("Id").await.map_err(about())?;
        let devices: Vec<OwnedObjectPath> = proxy.get_property("Devices").await.map_err(about())?;
        let Some(device) = devices.first() else { return Ok(None) };
        let device = self.proxy(device.as_str(), DEVICE).await?;
        let device: String = device.get_property("Interface").await.map_err(about())?;
        let is_activating = state == ACTIVATING;
        let profile = ActiveProfile { uuid, name, device, is_activating };
        let is_in_use = is_activating || state == ACTIVATED;
        Ok((is_in_use && profile.device != "lo").then_some(profile))
    }

    /// Makes NetworkManager read its profiles again. Profiles whose file was deleted are removed.
    pub async fn reload_profiles(&self) -> Result<(), ManagerError> {
        let proxy = self.proxy(SETTINGS, "org.freedesktop.NetworkManager.Settings").await?;
        let _: bool = proxy
            .call("ReloadConnections", &())
            .await
            .map_err(asking("to read its profiles again"))?;
        Ok(())
    }

    /// Activates profiles again. Waits until all of them are in use, or for `limit`; returns those
    /// that are not. A profile in `changed` is activated although it is in use: NetworkManager
    /// uses the settings that it had when it was activated, not those of the file.
    pub async fn activate(
        &self,
        wanted: &[ActiveProfile],
        changed: &BTreeSet<String>,
        limit: Duration,
    ) -> Result<Vec<ActiveProfile>, ManagerError> {
        let deadline = tokio::time::Instant::now() + limit;
        let mut requested: BTreeMap<&str, tokio::time::Instant> = BTreeMap::new();
        loop {
            let active = self.active_profiles().await?;
            let is_current = |profile: &ActiveProfile| {
                !changed.contains(&profile.uuid) || requested.contains_key(profile.uuid.as_str())
            };
            let missing: Vec<&ActiveProfile> = wanted
                .iter()
                .filter(|profile| !(is_current(profile) && is_among(profile, &active)))
                .collect();
            let now = tokio::time::Instant::now();
            if missing.is_empty() || now >= deadline {
                return Ok(missing.into_iter().cloned().collect());
            }
            for profile in missing {
                let last = requested.get(profile.uuid.as_str()).map(|at| now.duration_since(*at));
                let is_new = changed.contains(&profile.uuid);
                if may_request(profile, &active, is_new, last)
                    && self.activate_one(profile).await.is_ok()
                {
                    requested.insert(&profile.uuid, now);
                }
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    async fn activate_one(&self, profile: &ActiveProfile) -> Result<(), ManagerError> {
        let what = || asking(format!("to use profile {} on {}", profile.name, profile.device));
        let settings = self.proxy(SETTINGS, "org.freedesktop.NetworkManager.Settings").await?;
        let connection: OwnedObjectPath =
            settings.call("GetConnectionByUuid", &(&profile.uuid,)).await.map_err(what())?;
        let manager = self.proxy(PATH, SERVICE).await?;
        let none = ObjectPath::from_static_str_unchecked("/");
        let device: Result<OwnedObjectPath, zbus::Error> =
            manager.call("GetDeviceByIpIface", &(&profile.device,)).await;
        // NetworkManager creates the device of a bond or VLAN with its profile.
        let device = device.unwrap_or_else(|_| none.clone().into());
        let _: OwnedObjectPath =
            manager.call("ActivateConnection", &(connection, device, none)).await.map_err(what())?;
        Ok(())
    }

    async fn proxy<'a>(&'a self, path: &'a str, of: &'a str) -> Result<Proxy<'a>, ManagerError> {
        Proxy::new(&self.bus, SERVICE, path, of).await.map_err(asking(format!("about {path}")))
    }
}

/// Whether a profile is in use on its device, at least as far as it was before.
fn is_among(profile: &ActiveProfile, active: &[ActiveProfile]) -> bool {
    active.iter().any(|it| {
        it.uuid == profile.uuid
            && it.device == profile.device
            && (profile.is_activating || !it.is_activating)
    })
}

/// Whether the activation of a profile is requested now. A device that is still leaving a bridge
/// refuses, so requests are repeated. A profile that is being activated is left alone: another
/// request would start its link and its lease over, and on a slow node it would never finish.
fn may_request(
    profile: &ActiveProfile,
    active: &[ActiveProfile],
    has_new_settings: bool,
    last_request: Option<Duration>,
) -> bool {
    let is_activating =
        active.iter().any(|it| it.uuid == profile.uuid && it.device == profile.device);
    match last_request {
        // It may be in use with its old settings.
        None => has_new_settings || !is_activating,
        Some(age) => age > REQUEST_AGAIN && !is_activating,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_that_is_being_activated_is_not_requested_again() {
        let profile = ActiveProfile {
            uuid: "u".into(),
            name: "bond0".into(),
            device: "bond0".into(),
            is_activating: false,
        };
        let activating = [ActiveProfile { is_activating: true, ..profile.clone() }];
        let long_ago = Some(REQUEST_AGAIN * 4);
        assert!(!may_request(&profile, &activating, false, None));
        assert!(may_request(&profile, &activating, true, None), "it has its old settings");
        assert!(!may_request(&profile, &activating, true, long_ago));
        assert!(may_request(&profile, &[], false, None));
        assert!(!may_request(&profile, &[], false, Some(REQUEST_AGAIN / 2)));
        assert!(may_request(&profile, &[], false, long_ago), "its device refused");
    }

    #[test]
    fn a_profile_that_another_one_replaced_is_removed_also_after_an_interruption() {
        let profile = |uuid: &str, kind: &str, interface: &str, is_unsaved| Profile {
            path: ObjectPath::from_static_str_unchecked("/1").into(),
            uuid: uuid.into(),
            kind: kind.into(),
            interface: interface.into(),
            is_unsaved,
        };
        let old = profile("old", "802-3-ethernet", "nic0", false);
        let idle = profile("idle", "802-3-ethernet", "nic1", false);
        let other_kind = profile("port", "ovs-port", "nic0", false);
        let active = BTreeSet::from(["new".to_owned()]);
        // Before and after it was saved.
        for is_unsaved in [true, false] {
            let new = profile("new", "802-3-ethernet", "nic0", is_unsaved);
            let found = replaced(&[&old, &new, &idle, &other_kind], &active);
            let found: Vec<&str> = found.iter().map(|it| it.uuid.as_str()).collect();
            assert_eq!(found, ["old"]);
            assert!(new.is_hardware() && !other_kind.is_hardware());
        }
    }

    #[test]
    fn a_profile_that_waited_for_a_lease_need_not_have_one_afterwards() {
        let profile = |is_activating| ActiveProfile {
            uuid: "u".into(),
            name: "nic1".into(),
            device: "nic1".into(),
            is_activating,
        };
        assert!(is_among(&profile(true), &[profile(true)]));
        assert!(is_among(&profile(true), &[profile(false)]));
        assert!(is_among(&profile(false), &[profile(false)]));
        assert!(!is_among(&profile(false), &[profile(true)]));
        let elsewhere = ActiveProfile { device: "nic2".into(), ..profile(false) };
        assert!(!is_among(&profile(false), &[elsewhere]));
    }
}
