//! Logs on stderr: as text or JSON, filtered by `ARGUS_LOG`.

use std::io::{self, Write};

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;

use crate::render::ci_system::CiSystem;
use crate::render::foreign_text;
use crate::render::live::screen::LiveBlock;
use crate::render::output;
use crate::settings::LogFormat;

/// Initializes logging. `default_filter` is the filter without `ARGUS_LOG`. With a `screen`, logs appear above the live table.
pub(crate) fn start(format: LogFormat, default_filter: &str, screen: Option<&LiveBlock>) {
    let mut filter = EnvFilter::try_from_env("ARGUS_LOG").unwrap_or_else(|_| EnvFilter::new(default_filter));
    // At level debug the engine's HTTP client logs request bodies, which contain the values of environment variables.
    if let Ok(quiet) = argus_docker::QUIET_LOG.parse() {
        filter = filter.add_directive(quiet);
    }
    let writer = Writer {
        screen: screen.cloned(),
    };
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(writer);
    // In tests a second start fails, and the first subscriber stays.
    let _already = match format {
        LogFormat::Human => builder
            .with_ansi(use_colours())
            .with_target(false)
            .compact()
            .try_init(),
        LogFormat::Json => builder.json().flatten_event(true).try_init(),
    };
}

fn use_colours() -> bool {
    let choice = anstream::AutoStream::choice(&io::stderr());
    choice != anstream::ColorChoice::Never && *output::ci_system() == CiSystem::Other
}

/// Makes writers to stderr, or above the live table if there is one.
#[derive(Debug, Clone)]
struct Writer {
    screen: Option<LiveBlock>,
}

/// One log event. It is written on drop.
struct Line {
    screen: Option<LiveBlock>,
    bytes: Vec<u8>,
}

impl<'a> MakeWriter<'a> for Writer {
    type Writer = Line;

    fn make_writer(&'a self) -> Self::Writer {
        Line {
            screen: self.screen.clone(),
            bytes: Vec::new(),
        }
    }
}

impl Write for Line {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        match &self.screen {
            Some(screen) => screen.print_above(&self.bytes),
            // A write error to stderr cannot be reported.
            None => match output::ci_system() {
                CiSystem::Other => drop(io::stderr().write_all(&self.bytes)),
                system => {
                    // JSON stays valid.
                    let text = foreign_text::escape_json(&String::from_utf8_lossy(&self.bytes));
                    drop(io::stderr().write_all(system.protect(&text).as_bytes()));
                }
            },
        }
    }
}
