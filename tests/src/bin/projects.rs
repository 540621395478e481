//! Implements `scripts/projects`: runs `tests/projects/run.py` on a private engine that has the image `busybox:1`.
#![allow(clippy::expect_used, reason = "a failed start ends with a message")]

use std::path::Path;
use std::process::ExitCode;

use argus_tests::{PrivateEngine, binary};

fn main() -> ExitCode {
    let engine = PrivateEngine::start();
    engine.make_busybox_image("busybox:1", &[]);
    let mut runner = engine.command_in_netns("python3");
    runner
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("projects/run.py"))
        .args(std::env::args_os().skip(1))
        .env("DOCKER_HOST", engine.host())
        .env("PROGRAM", binary::argus())
        .env("SCRATCH", engine.scratch("projects"));
    let ended = runner.status().expect("python3 runs; hint: ./scripts/setup");
    engine.remove();
    ExitCode::from(u8::from(!ended.success()))
}
