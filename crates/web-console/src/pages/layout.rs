//! What every page has: head, navigation, content, and the command line that shows the same.

use maud::{DOCTYPE, Markup, html};

use crate::shell_line::ShellLine;
use crate::view::Fault;
use crate::view::workspace_directory::WorkspaceDirectory;

/// The parts of the console.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Section {
    Overview,
    Configurations,
    Operators,
    Releases,
    Charts,
    Start,
    Runs,
    Images,
    Archives,
    Resources,
}

const SECTIONS: [(Section, &str, &str); 10] = [
    (Section::Overview, "/", "Overview"),
    (Section::Configurations, "/configurations", "Configurations"),
    (Section::Operators, "/operators", "Operators"),
    (Section::Releases, "/releases", "Releases"),
    (Section::Charts, "/charts", "Charts"),
    (Section::Start, "/start", "Start"),
    (Section::Runs, "/runs", "Runs"),
    (Section::Images, "/images", "Images"),
    (Section::Archives, "/archives", "Archives"),
    (Section::Resources, "/resources", "Cluster resources"),
];

/// A page before it is put together.
#[derive(Debug)]
pub(crate) struct Document<'a> {
    pub(crate) title: &'a str,
    pub(crate) section: Section,
    pub(crate) place: &'a WorkspaceDirectory,
    /// What shows or does the same in a terminal.
    pub(crate) commands: Vec<ShellLine>,
    pub(crate) content: Markup,
}

/// The whole page.
pub(crate) fn page(document: &Document<'_>) -> Markup {
    let Document { title, section, place, commands, content } = document;
    html! {
        (DOCTYPE)
        html lang="en" {
            (head(title))
            body {
                a .skip href="#content" { "Skip to content" }
                header {
                    p .product { "oc-mirror console" }
                    p .place { code { (place.argument) } }
                }
                nav aria-label="Sections" {
                    ul {
                        @for (of, address, name) in &SECTIONS {
                            li { a href=(address) aria-current=[(of == section).then_some("page")] { (name) } }
                        }
                    }
                }
                main id="content" tabindex="-1" {
                    h1 { (title) }
                    (content)
                    (command_lines(commands))
                }
            }
        }
    }
}

/// A page outside the navigation: the login, and what refuses a request.
pub(crate) fn plain_page(title: &str, content: &Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            (head(title))
            body {
                header { p .product { "oc-mirror console" } }
                main id="content" { h1 { (title) } (content) }
            }
        }
    }
}

fn head(title: &str) -> Markup {
    html! {
        head {
            meta charset="utf-8";
            meta name="viewport" content="width=device-width, initial-scale=1";
            meta name="color-scheme" content="light dark";
            title { (title) " · oc-mirror console" }
            link rel="icon" href="/assets/icon.svg" type="image/svg+xml";
            link rel="stylesheet" href="/assets/console.css";
            script type="module" src="/assets/console.js" {}
            script type="module" src="/assets/editor.js" {}
        }
    }
}

fn command_lines(commands: &[ShellLine]) -> Markup {
    html! {
        @if !commands.is_empty() {
            section .commands aria-labelledby="commands" {
                h2 id="commands" { "The same in a terminal" }
                @for command in commands { (copyable(&command.to_string())) }
            }
        }
    }
}

/// Text with a button that copies it. The button appears only where scripts run.
pub(crate) fn copyable(text: &str) -> Markup {
    html! {
        div .copyable {
            pre tabindex="0" { code { (text) } }
            button type="button" data-copy hidden { "Copy" }
        }
    }
}

/// Why something cannot be shown.
pub(crate) fn fault(fault: &Fault) -> Markup {
    let text = match fault {
        Fault::Absent(text) | Fault::Failed(text) => text,
    };
    html! { p .fault role="alert" { (text) } }
}
