//! Output of `argus run`: a live table on terminals, lines elsewhere.

use std::sync::Arc;
use std::time::Duration;

use argus_reconciler::clock;
use tokio::sync::watch;

use crate::output;
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

/// Shows changes until the controller ends.
pub(crate) async fn show(
    mut statuses: watch::Receiver<Arc<Statuses>>,
    screen: Option<LiveBlock>,
    note: String,
) {
    let (mut lines, mut paced) = (Lines::default(), ProgressThrottle::default());
    loop {
        let now = statuses.borrow_and_update().clone();
        if let Some(screen) = &screen {
            screen.draw(table::draw(&now, &note, screen.width()));
            tokio::time::sleep(FRAME_INTERVAL).await;
        } else {
            let images = image_progress::list_progress(now.environments.values());
            let progress = paced.select_lines(&images, clock::now());
            let text = output::join_lines(lines.changed_lines(&now).into_iter().chain(progress));
            // A closed stdout ends the output, but not the controller.
            if !text.is_empty() && output::print(&text).is_err() {
                return;
            }
        }
        if statuses.changed().await.is_err() {
            return;
        }
    }
}
