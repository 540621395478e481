//! Runs a command with a private engine, which has the image `busybox:local`: `private-engine COMMAND...`. Published ports are on
//! 127.0.0.1 of the command. The engine ends with it.
#![allow(clippy::expect_used, reason = "a failed start ends with a message")]

use std::process::ExitCode;

use argus_tests::{Options, PrivateEngine};

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let Some((program, arguments)) = words.split_first() else {
        eprintln!("usage: private-engine COMMAND...");
        return ExitCode::from(2);
    };
    let engine = PrivateEngine::start_with(Options::default());
    engine.make_busybox_image("busybox:local", &[]);
    let mut command = engine.command_in_netns(program);
    command.args(arguments).env("DOCKER_HOST", engine.host());
    let status = command.status().expect("the command starts");
    engine.remove();
    ExitCode::from(
        status
            .code()
            .and_then(|code| u8::try_from(code).ok())
            .unwrap_or(1),
    )
}
