//! Settings of the allocator, which the build reads from `.cargo/config.toml`.

use std::process::Command;

#[test]
fn allocator_has_one_arena_without_caches() {
    let mut search = Command::new("grep");
    let binary = env!("CARGO_BIN_EXE_argus");
    search.args([
        "-q",
        "-a",
        "-F",
        "narenas:1,tcache:false,dirty_decay_ms:1000,muzzy_decay_ms:0",
        binary,
    ]);
    assert!(
        search.status().unwrap().success(),
        "{binary} has other settings: build it in the repository, so that Cargo reads `.cargo/config.toml`"
    );
}
