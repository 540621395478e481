# Each recipe is a script or a cargo command that also works without just.

# list all recipes
default:
    @just --list

# install missing Debian packages and cargo tools
setup:
    ./scripts/setup

# run the complete demo: build, run the examples, kill a container, clean up
demo *args:
    ./scripts/demo {{args}}

# run everything that CI runs
test *args:
    ./scripts/test {{args}}

# start a Docker engine if none answers
engine *args:
    ./scripts/engine {{args}}

# format, then lint as CI does
lint:
    cargo fmt --all
    cargo clippy --workspace --all-targets -- -D warnings

# run the checks before a push: format, lints and the tests without an engine
fast:
    ./scripts/test fast

# measure Argus and a baseline of raw API calls; writes docs/contributors/performance.md and docs/contributors/performance.json
bench *args:
    ./scripts/bench {{args}}

# simulate a million seeds, or a given number; `just simulate --from N` resumes
simulate *args:
    ./scripts/simulate {{args}}

# review and accept new snapshots
review:
    cargo insta review

# build and open the API docs
doc:
    cargo doc --workspace --no-deps --open

# fuzz every target for 60 s, or for the given time: `just fuzz SECONDS [TARGET...]`
fuzz *args:
    ./scripts/fuzz {{args}}
