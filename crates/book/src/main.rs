//! Prepares and checks the book in `docs/`. `cargo xtask docs` builds and runs it.
//!
//! | step | what it does |
//! |---|---|
//! | `generate-docs` | draws the diagrams below `docs/diagrams` |
//! | `collect` | checks the links of all pages, and copies the pages to a folder for mdBook |
//! | `check-html` | checks the links and anchors of the HTML that mdBook wrote |
//! | `tutorials` | runs the commands of the tutorials, and compares what they print |

mod diagrams;
mod html;
mod pages;
mod summary;
mod tutorial;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::{Parser, Subcommand};

/// Prepare and check the book
#[derive(Parser)]
#[command(disable_version_flag = true)]
struct Arguments {
    #[command(subcommand)]
    step: Step,
}

#[derive(Subcommand)]
enum Step {
    /// Write the diagrams below DIR/diagrams
    GenerateDocs {
        #[arg(long, value_name = "DIR")]
        out: PathBuf,
    },
    /// Check the links of all pages, and copy the pages to DIR
    Collect {
        /// The top of the repository
        #[arg(long, value_name = "DIR")]
        root: PathBuf,
        #[arg(long, value_name = "DIR")]
        out: PathBuf,
    },
    /// Check the links and anchors of generated HTML
    CheckHtml { folder: PathBuf },
    /// Run the commands of the tutorials
    Tutorials {
        /// The top of the repository
        #[arg(long, value_name = "DIR")]
        root: PathBuf,
        /// The folder with the programs
        #[arg(long, value_name = "DIR")]
        programs: PathBuf,
    },
}

fn main() -> ExitCode {
    match run(Arguments::parse().step) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(step: Step) -> Result<()> {
    match step {
        Step::GenerateDocs { out } => diagrams::write_all(&out),
        Step::Collect { root, out } => fail_on(pages::collect(&root, &out)?, "pages"),
        Step::CheckHtml { folder } => fail_on(html::check(&folder)?, "generated HTML"),
        Step::Tutorials { root, programs } => tutorials(&root, &programs),
    }
}

fn fail_on(findings: Vec<String>, what: &str) -> Result<()> {
    for finding in &findings {
        println!("{finding}");
    }
    match findings.len() {
        0 => Ok(()),
        1 => bail!("1 finding in the {what}"),
        count => bail!("{count} findings in the {what}"),
    }
}

/// Prints one line per tutorial, and one for each block that is not run, with the reason.
fn tutorials(root: &Path, programs: &Path) -> Result<()> {
    let mut findings = Vec::new();
    for page in summary::read(root)?.pages.iter().filter(|page| tutorial::is_tutorial(page)) {
        let tutorial = tutorial::read(root, page)?;
        for skip in &tutorial.skips {
            println!("skipped: {}:{}: {}", page.display(), skip.line, skip.reason);
        }
        let problems = tutorial::run(&tutorial, programs)?;
        println!("{}: {} blocks run", page.display(), tutorial.blocks.len());
        findings.extend(problems.into_iter().map(|it| format!("{}:{it}", page.display())));
    }
    fail_on(findings, "tutorials")
}
