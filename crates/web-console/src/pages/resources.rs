//! Cluster resources.

use maud::{Markup, html};

use super::layout::copyable;
use super::parts::{address, bytes, table};
use crate::shell_line::ShellLine;
use crate::view::resources::{ResourceList, ResourceText};

pub(crate) fn list(list: &ResourceList) -> Markup {
    let row = |file: &crate::view::resources::ResourceFile| {
        html! {
            tr {
                th scope="row" { a href=(address("/resource", &[("name", &file.name)])) { code { (file.name) } } }
                td { (bytes(file.bytes)) }
            }
        }
    };
    html! {
        @if list.files.is_empty() {
            p { "There are no cluster resources yet. A run that pushes to a registry writes them." }
        } @else {
            p { "Apply these manifests to the cluster after the push:" }
            (copyable(&ShellLine::new("oc", ["apply", "-f", &list.directory.display().to_string()]).to_string()))
            (table("Cluster resources", &["File", "Size"], &list.files.iter().map(row).collect::<Vec<_>>()))
        }
    }
}

pub(crate) fn text(resource: &ResourceText) -> Markup {
    let path = resource.path.display().to_string();
    html! {
        p { "Apply this manifest to the cluster:" }
        (copyable(&ShellLine::new("oc", ["apply", "-f", &path]).to_string()))
        @if resource.is_cut { p { "Only the start of the file is shown." } }
        (copyable(&resource.text))
    }
}
