//! The web interface of `oc-mirror`: a workspace in a browser.
//!
//! ```text
//! workspace, journals, archives ──view──▶ values ──pages──▶ HTML
//! form ──action──▶ command line ──jobs──▶ process
//! ```
//!
//! - [`WorkspaceDirectory`] is the directory that is shown. `view` reads it into values; `pages` writes them as
//!   HTML; `routes` connects both with requests. No text of a request becomes a path.
//! - `action` makes command lines of this program from forms; `jobs` runs them as processes of their
//!   own. The console has no code that mirrors, verifies or deletes.
//! - `catalogs` reads catalogs to select from, `commands` runs this program for lists and paths,
//!   `additions` adds selections to a configuration, `selection` lists and removes them, `sizes`
//!   determines in the background what they come to.
//! - `access` decides which requests are served: by host name, origin and session.
//! - Nothing is loaded from elsewhere. Style sheet and scripts are part of the program, and pages
//!   can be read without scripts.

mod access;
mod action;
mod additions;
mod app;
mod catalogs;
mod commands;
mod jobs;
mod pages;
mod routes;
mod selection;
mod server;
mod shell_line;
mod sizes;
mod token;
mod view;

pub use action::{RegistryFlags, SideFlags};
pub use catalogs::Lookups;
pub use server::{Console, Settings, StartError};
pub use token::{Token, TokenError};
pub use view::workspace_directory::{WorkspaceDirectory, WorkspaceDirectoryError};
