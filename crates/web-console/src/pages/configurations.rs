//! Configurations: the list, and the editor.

use command_line::quantity;
use maud::{Markup, html};

use super::parts::{address, bytes, table};
use super::selection::{SelectionView, panel, total};
use crate::sizes::measured::Estimate;
use crate::view::configurations::{Checked, ConfigurationRow, Purpose, Start, StartOrigin};

/// A text in the editor.
#[derive(Debug)]
pub(crate) struct Editor<'a> {
    /// Empty for a new one.
    pub(crate) name: &'a str,
    pub(crate) text: &'a str,
    /// The digest of the file that is edited; empty for a new one.
    pub(crate) base: &'a str,
    pub(crate) checked: &'a Checked,
    /// What the text selects, where it has no errors.
    pub(crate) selection: Option<&'a SelectionView>,
    pub(crate) message: Option<Message<'a>>,
}

/// What became of the last request.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Message<'a> {
    Saved,
    NotSaved(&'a str),
    Draft(&'a str),
}

/// A configuration of the workspace, and the size of what it selects.
pub(crate) type SizedRow = (ConfigurationRow, Option<Estimate>);

pub(crate) fn list(rows: &[SizedRow], starts: &[Start], minor: &str) -> Markup {
    let row = |(row, estimate): &SizedRow| {
        let name = row.name.to_string();
        html! {
            tr {
                th scope="row" { a href=(address("/configuration", &[("name", &name)])) { code { (name) } } }
                td { (purpose(&row.checked)) }
                td { @match estimate { Some(estimate) => (total(estimate)), None => "–" } }
                td { (bytes(row.bytes as u64)) }
                td { a href=(address("/configuration/download", &[("name", &name)])) { "Download" } }
            }
        }
    };
    html! {
        @if rows.is_empty() { p { "There are no configurations in this workspace yet." } } @else {
            (table("Configurations", &["Name", "State", "Size of the selection", "Size of the file", "File"], &rows.iter().map(row).collect::<Vec<_>>()))
        }
        section aria-labelledby="new" {
            h2 id="new" { "New configuration" }
            ul {
                li { a href="/configuration/new" { "Empty" } }
                @for start in starts {
                    li { @match start.origin {
                        StartOrigin::Run(number) => {
                            a href=(address("/configuration/new", &[("run", &number.to_string())])) { "The configuration of run " (number) }
                        },
                        StartOrigin::Archive => { a href="/configuration/new?archive=true" { "The configuration in the newest archive" } },
                    } " " code { (start.name) } }
                }
            }
            form method="get" action="/configuration/new" {
                label for="minor" { "Example for OpenShift" }
                input id="minor" name="minor" required pattern="4\\.[0-9]+" size="6" value=(minor);
                button type="submit" { "Start from the example" }
            }
            p .note { "To upload a file, open an empty configuration and choose the file there, or drop it on the text." }
        }
        (for_cluster())
    }
}

fn purpose(checked: &Checked) -> Markup {
    match (checked.purpose, checked.errors()) {
        (Some(Purpose::Mirror), _) => html! { span .badge.good { "Mirror" } },
        (Some(Purpose::Delete), _) => html! { span .badge.good { "Delete" } },
        (None, errors) => html! { span .badge.bad { (quantity::count(errors, "error")) } },
    }
}

/// A configuration for what a cluster needs next.
fn for_cluster() -> Markup {
    html! {
        section aria-labelledby="cluster" {
            h2 id="cluster" { "For a cluster" }
            p { "On the disconnected side, " code { "oc-mirror inventory --out cluster.json" }
                " writes what a cluster has. From it follows what it needs next: releases on the path to an update, and its operators." }
            form .stacked method="post" action="/configuration/inventory" {
                label for="inventory-file" hidden { "Inventory file" }
                input id="inventory-file" type="file" accept=".json,application/json" data-into="inventory" hidden;
                label for="inventory" { "Inventory (JSON)" }
                textarea .short id="inventory" name="inventory" required spellcheck="false" autocapitalize="off" {}
                label for="inventory-to" { "Update to" }
                input id="inventory-to" name="to" placeholder="the newest that its channel leads to" spellcheck="false" autocomplete="off";
                label for="inventory-offline" { "Offline" }
                span { input id="inventory-offline" type="checkbox" name="carried" value="true"; " read the graphs in this workspace" }
                button type="submit" { "Make a configuration" }
            }
        }
    }
}

pub(crate) fn editor(editor: &Editor<'_>) -> Markup {
    let Editor { name, text, base, checked, message, .. } = editor;
    let is_stored = !base.is_empty() && matches!(message, None | Some(Message::Saved));
    html! {
        @match message {
            Some(Message::Saved) => p .saved role="status" { "Saved." },
            Some(Message::NotSaved(why)) => p .fault role="alert" { (why) },
            Some(Message::Draft(what)) => p .note role="status" { (what) },
            None => {},
        }
        form .editor method="post" action="/configuration/save" data-check="/configuration/check" data-unsaved[!is_stored] {
            input type="hidden" name="base" value=(base);
            div .columns {
                div {
                    span .pair {
                        label for="name" { "File name" } " "
                        input id="name" name="name" required value=(name) placeholder="isc.yaml" autocomplete="off" spellcheck="false";
                    }
                    span .pair {
                        label for="upload" hidden { "Upload" } " "
                        input id="upload" type="file" accept=".yaml,.yml,text/yaml" hidden;
                    }
                    label .wide for="text" { "Configuration (YAML)" }
                    textarea id="text" name="text" spellcheck="false" autocapitalize="off" aria-describedby="findings" { (text) }
                    button type="submit" { "Save" }
                    button .quiet type="submit" formaction="/configuration/check-page" formnovalidate { "Check" }
                    @if !base.is_empty() {
                        a href=(address("/configuration/download", &[("name", name)])) { "Download" }
                        @if checked.purpose == Some(Purpose::Mirror) {
                            a href=(address("/configuration/new", &[("delete", name)])) { "Create a delete configuration from it" }
                            a href="/start" { "Start a run" }
                        }
                    }
                }
                div { (side(editor)) }
            }
        }
    }
}

/// What is wrong with the text and what it selects, beside the text.
fn side(editor: &Editor<'_>) -> Markup {
    let Editor { base, checked, selection, .. } = editor;
    html! {
        section .panel aria-labelledby="findings-title" {
            h2 id="findings-title" { "Check" }
            div id="findings" role="status" { (findings(checked)) }
        }
        section .panel aria-labelledby="selection-title" {
            h2 id="selection-title" { "Selection" }
            div id="selection" { (panel(*selection)) }
            h3 { "Add" }
            p {
                label for="image" { "Image with tag or digest" } " "
                input id="image" name="image" placeholder="quay.io/org/image:v1" autocomplete="off" spellcheck="false"; " "
                button .quiet type="submit" formaction="/configuration/change" formnovalidate name="change" value="image" { "Check and add" }
            }
            @if base.is_empty() {
                p .note { "Save the file to add operators, releases and charts to it from their pages." }
            } @else {
                p {
                    "Select " a href="/operators" { "operators from a catalog" } ", " a href="/releases" { "releases" }
                    " or " a href="/charts" { "charts" } ". They are added to the saved file."
                }
            }
        }
    }
}

/// What the script of the editor replaces while you type.
pub(crate) fn parts(checked: &Checked, selection: Option<&SelectionView>) -> Markup {
    html! {
        div data-for="findings" { (findings(checked)) }
        div data-for="selection" { (panel(selection)) }
    }
}

/// What is wrong with the text, line by line.
pub(crate) fn findings(checked: &Checked) -> Markup {
    html! {
        @if checked.remarks.is_empty() {
            p { span .badge.good { "No errors" } }
        } @else {
            @if checked.errors() > 0 {
                p { span .badge.bad { (quantity::count(checked.errors(), "error")) } }
            }
            ol .findings {
                @for remark in &checked.remarks {
                    li {
                        a href="#text" data-line=(remark.line) { "Line " (remark.line) ", column " (remark.column) }
                        @if !remark.is_error { " " span .badge.warn { "warning" } }
                        ": " (remark.message)
                        pre { code { (remark.line) " | " (remark.excerpt) } }
                    }
                }
            }
        }
    }
}
