// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Manual pages: one for each command in section 1, one for each topic in section 7.

use super::markdown;
use super::topics::{Topic, TOPICS};
use anyhow::{Context, Result};
use clap::Command;
use clap_mangen::roff::{roman, Roff};
use clap_mangen::Man;
use plumb_report::terminal::screen::{Screen, COLUMNS};
use std::path::Path;

/// What a page's text is indented by.
const MARGIN: usize = 7;

/// Writes all pages below a directory, into man1/ and man7/, which are made; answers how many.
///
/// # Errors
/// The directory or a file cannot be written; named.
pub fn write(root: Command, dir: &Path) -> Result<usize> {
    let mut root = root;
    // Names of the pages, `plumb-load-verify`, come with this.
    root.build();
    let mut pages = 0;
    command(&root, dir, &mut pages)?;
    for topic in TOPICS {
        save(dir, &format!("plumb-{}.7", topic.name), &topic_page(topic)?)?;
        pages += 1;
    }
    Ok(pages)
}

fn save(dir: &Path, name: &str, page: &[u8]) -> Result<()> {
    let section = name.rsplit('.').next().unwrap_or_default();
    let dir = dir.join(format!("man{section}"));
    std::fs::create_dir_all(&dir).with_context(|| dir.display().to_string())?;
    let path = dir.join(name);
    std::fs::write(&path, page).with_context(|| path.display().to_string())
}

/// The page of a command and those of its own commands.
fn command(command: &Command, dir: &Path, pages: &mut usize) -> Result<()> {
    let man = Man::new(command.clone()).source(source()).manual("plumb");
    save(dir, &man.get_filename(), &command_page(&man, command)?)?;
    *pages += 1;
    for below in command.get_subcommands().filter(|c| !c.is_hide_set()) {
        self::command(below, dir, pages)?;
    }
    Ok(())
}

fn source() -> String {
    format!("plumb {}", env!("CARGO_PKG_VERSION"))
}

fn command_page(man: &Man, command: &Command) -> Result<Vec<u8>> {
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    if command.get_arguments().any(|a| !a.is_hide_set()) {
        man.render_options_section(&mut page)?;
    }
    if command.get_subcommands().any(|c| !c.is_hide_set()) {
        man.render_subcommands_section(&mut page)?;
    }
    // The library's own section for this would fill the lines of the examples.
    if let Some(more) = command.get_after_long_help().or_else(|| command.get_after_help()) {
        verbatim("NOTES AND EXAMPLES", &more.to_string(), &mut page)?;
    }
    Ok(page)
}

fn topic_page(topic: &Topic) -> Result<Vec<u8>> {
    let mut page = Vec::new();
    let name = format!("plumb-{}", topic.name);
    let mut roff = Roff::new();
    roff.control("TH", [name.as_str(), "7", "", source().as_str(), "plumb"]);
    roff.control("SH", ["NAME"]);
    roff.text([roman(format!("{name} - {}", topic.about))]);
    roff.to_writer(&mut page)?;
    let mut text = Vec::new();
    markdown::write(topic.text, COLUMNS - MARGIN, &mut Screen::file(&mut text))?;
    verbatim("DESCRIPTION", &String::from_utf8_lossy(&text), &mut page)?;
    Ok(page)
}

/// A section whose lines stay as they are; lines that are too long are broken.
fn verbatim(title: &str, text: &str, page: &mut Vec<u8>) -> Result<()> {
    let mut roff = Roff::new();
    roff.control("SH", [title]);
    for line in text.lines() {
        let code = line.starts_with(' ');
        // An empty line of its own is none within filled text.
        if line.is_empty() {
            roff.control("PP", []);
        } else if code {
            roff.control("nf", []);
            roff.text([roman(line)]);
            roff.control("fi", []);
        } else {
            roff.text([roman(line)]);
            roff.control("br", []);
        }
    }
    roff.to_writer(page)?;
    Ok(())
}
