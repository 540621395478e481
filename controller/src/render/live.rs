//! Output of `argus run` and `argus up`: a live table on terminals, lines elsewhere.

use std::sync::Arc;
use std::time::Duration;

use argus_reconciler::clock;
use tokio::sync::watch;

use crate::render::output;
use crate::view::Statuses;

pub(crate) mod image_progress;
mod lines;
pub(crate) mod screen;
mod table;

use image_progress::ProgressThrottle;
use lines::Lines;
use screen::LiveBlock;

/// Minimum time between two draws of the table.
const FRAME_INTERVAL: Duration = Duration::from_millis(80);

/// Display of statuses: a table on a terminal, lines about changes elsewhere.
pub(crate) struct View {
    screen: Option<LiveBlock>,
    /// Last line of the table.
    note: String,
    lines: Lines,
    paced: ProgressThrottle,
}

impl View {
    /// Creates a display on `screen`, or of lines without one.
    pub(crate) fn new(screen: Option<LiveBlock>, note: String) -> Self {
        Self {
            screen,
            note,
            lines: Lines::default(),
            paced: ProgressThrottle::default(),
        }
    }

    /// Draws the table. Without a terminal, returns the lines about changes.
    pub(crate) fn update(&mut self, now: &Statuses) -> Vec<String> {
        if let Some(screen) = &self.screen {
            screen.draw(table::draw(now, &self.note, screen.width()));
            return Vec::new();
        }
        let images = image_progress::list_progress(now.environments.values().map(AsRef::as_ref));
        let progress = self.paced.select_lines(&images, clock::now());
        self.lines
            .changed_lines(now)
            .into_iter()
            .chain(progress)
            .collect()
    }

    /// Removes the table, before other output.
    pub(crate) fn clear(&self) {
        if let Some(screen) = &self.screen {
            screen.draw(Vec::new());
        }
    }
}

/// Shows changes until the controller ends.
pub(crate) async fn show(mut statuses: watch::Receiver<Arc<Statuses>>, mut view: View) {
    loop {
        let now = statuses.borrow_and_update().clone();
        let lines = view.update(&now);
        // A closed stdout ends the output, but not the controller.
        if !lines.is_empty() && output::print(&output::join_lines(lines)).is_err() {
            return;
        }
        if view.screen.is_some() {
            tokio::time::sleep(FRAME_INTERVAL).await;
        }
        if statuses.changed().await.is_err() {
            return;
        }
    }
}
