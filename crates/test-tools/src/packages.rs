//! Programs of the distribution that the tests need.

use std::env;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// A Debian package, and the program in it that we run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Package {
    pub name: &'static str,
    pub program: &'static str,
    pub purpose: &'static str,
}

/// Packages that all tests need. A package is missing if its program is, so that a program from
/// another source is accepted.
pub const PACKAGES: [Package; 17] = [
    Package {
        name: "apache2-utils",
        program: "htpasswd",
        purpose: "writes the password file of a test registry",
    },
    Package {
        name: "busybox-static",
        program: "busybox",
        purpose: "the shell of trees that packages are installed into",
    },
    Package { name: "chromium", program: "chromium", purpose: "opens the pages of the console" },
    Package {
        name: "chromium-driver",
        program: "chromedriver",
        purpose: "controls the browser of the console's tests",
    },
    Package { name: "curl", program: "curl", purpose: "an independent client of the console" },
    Package { name: "docker-registry", program: "docker-registry", purpose: "a real registry" },
    Package { name: "e2fsprogs", program: "mke2fs", purpose: "creates the disk of a test machine" },
    Package { name: "g++", program: "c++", purpose: "compiles libFuzzer" },
    Package { name: "gnupg", program: "gpg", purpose: "signs the releases of tests" },
    Package { name: "jq", program: "jq", purpose: "a peer in the benchmark of catalogs" },
    Package { name: "iproute2", program: "ip", purpose: "network namespaces and virtual links" },
    Package {
        name: "mmdebstrap",
        program: "mmdebstrap",
        purpose: "creates the root of test nodes",
    },
    Package { name: "npm", program: "npm", purpose: "installs axe-core" },
    Package { name: "rpm", program: "rpm", purpose: "installs our packages in a test tree" },
    Package { name: "skopeo", program: "skopeo", purpose: "reads and writes images" },
    Package { name: "umoci", program: "umoci", purpose: "unpacks the images that we build" },
    Package {
        name: "xfsprogs",
        program: "mkfs.xfs",
        purpose: "creates a file system with reflinks",
    },
];

/// What checks of release artefacts for other architectures need in addition.
pub const DIST_PACKAGES: [Package; 1] = [Package {
    name: "qemu-user-static",
    program: "qemu-aarch64-static",
    purpose: "runs programs of another architecture",
}];

/// What tests on whole machines need in addition.
pub const MACHINE_PACKAGES: [Package; 1] = [Package {
    name: "qemu-system-x86",
    program: "qemu-system-x86_64",
    purpose: "emulates a whole machine",
}];

/// Those of `packages` whose program is not installed on this machine.
pub fn missing_packages(packages: &[Package]) -> Vec<Package> {
    packages.iter().filter(|package| !is_installed(package.program)).copied().collect()
}

/// Whether a program is installed on this machine.
pub fn is_installed(program: &str) -> bool {
    find(program, &search_folders(env::var_os("PATH").as_deref())).is_some()
}

/// The folders of programs: those in `PATH`, and those of system programs, which the `PATH` of an
/// ordinary user does not contain.
fn search_folders(path: Option<&OsStr>) -> Vec<PathBuf> {
    let system = ["/usr/sbin", "/sbin"].map(PathBuf::from);
    path.map(|path| env::split_paths(path).collect::<Vec<_>>())
        .unwrap_or_default()
        .into_iter()
        .chain(system)
        .collect()
}

fn find(program: &str, folders: &[PathBuf]) -> Option<PathBuf> {
    folders.iter().map(|folder| folder.join(program)).find(|path: &PathBuf| Path::is_file(path))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_program_is_found_in_any_folder_of_the_path() {
        let (first, second) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let path = env::join_paths([first.path(), second.path()]).unwrap();
        let folders = search_folders(Some(&path));
        assert_eq!(find("landfall-probe", &folders), None);
        fs::write(second.path().join("landfall-probe"), "").unwrap();
        assert_eq!(find("landfall-probe", &folders), Some(second.path().join("landfall-probe")));
    }

    #[test]
    fn system_folders_are_searched_although_the_path_does_not_contain_them() {
        assert!(search_folders(None).contains(&PathBuf::from("/usr/sbin")));
    }
}
