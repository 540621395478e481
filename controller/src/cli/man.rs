//! `argus man`: prints or writes manual pages, generated from the definitions of the command line.

use std::fs;
use std::path::{Path, PathBuf};

use argus_core::quoting::PathText as _;
use clap::{Args, Command, CommandFactory};
use clap_mangen::Man as Page;

use crate::process::exit::{Exit, Failure};
use crate::render::output;
use crate::settings::Options;

#[derive(Debug, Args)]
pub(crate) struct Man {
    /// Folder for all pages, created if missing [default: print the page of `argus`]
    dir: Option<PathBuf>,
}

impl Man {
    pub(crate) fn execute(self, _: &Options) -> Result<Exit, Failure> {
        let pages = render_pages()?;
        let Some(dir) = self.dir else {
            if let Some((_, first)) = pages.first() {
                output::print(first)?;
            }
            return Ok(Exit::Done);
        };
        let doing = |path: &Path| format!("cannot write `{}`", path.shown());
        fs::create_dir_all(&dir).map_err(|error| Failure::operation_failed(&doing(&dir), &error))?;
        for (name, page) in pages {
            let path = dir.join(name);
            fs::write(&path, page).map_err(|error| Failure::operation_failed(&doing(&path), &error))?;
            output::print(&format!("{}\n", path.shown()))?;
        }
        Ok(Exit::Done)
    }
}

/// All pages with their file names. The page of `argus` comes first.
fn render_pages() -> Result<Vec<(String, String)>, Failure> {
    let mut command = super::Cli::command().disable_help_subcommand(true);
    command.build();
    let mut pages = Vec::new();
    add_pages(&command, "argus", &mut pages)
        .map_err(|error| Failure::operation_failed("cannot generate manual pages", &error))?;
    Ok(pages)
}

fn add_pages(command: &Command, name: &str, pages: &mut Vec<(String, String)>) -> std::io::Result<()> {
    let page = Page::new(command.clone().display_name(name.to_owned()))
        .title(name.to_uppercase())
        .source(concat!("argus ", env!("CARGO_PKG_VERSION")))
        .manual("Argus");
    let mut text = Vec::new();
    page.render(&mut text)?;
    pages.push((format!("{name}.1"), String::from_utf8_lossy(&text).into_owned()));
    let visible = command.get_subcommands().filter(|verb| !verb.is_hide_set());
    for verb in visible {
        add_pages(verb, &format!("{name}-{}", verb.get_name()), pages)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_visible_command_has_a_manual_page() {
        let pages = render_pages().unwrap();
        let page = |name: &str| {
            let found = pages.iter().find(|(file, _)| file == name);
            found.map(|(_, text)| text.replace('\\', ""))
        };
        let visible = super::super::Cli::command();
        for verb in visible.get_subcommands().filter(|verb| !verb.is_hide_set()) {
            let name = verb.get_name();
            let text = page(&format!("argus-{name}.1")).unwrap_or_else(|| panic!("no page of `{name}`"));
            assert!(
                text.contains(&format!(".TH ARGUS-{} ", name.to_uppercase())),
                "{text}"
            );
            let options = verb.get_arguments().filter(|option| !option.is_hide_set());
            for option in options.filter_map(clap::Arg::get_long) {
                assert!(text.contains(&format!("--{option}")), "{name} --{option}: {text}");
            }
        }
        assert!(page("argus-breaker-reset.1").is_some());
        assert!(page("argus-demo-service.1").is_none());
        let whole = page("argus.1").unwrap();
        assert!(
            whole.contains("argus-events(1)") && !whole.contains("demo-service"),
            "{whole}"
        );
    }
}
