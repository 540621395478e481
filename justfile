# One verb each; every recipe is a script or a cargo command that works without just.

# what there is to do
default:
    @just --list

# install what is missing (Debian packages, cargo tools)
setup:
    ./scripts/setup

# the whole tour on this machine: build, run the examples, kill a container, clean up
demo *args:
    ./scripts/demo {{args}}

# all that CI runs
test *args:
    ./scripts/test {{args}}

# start a Docker engine when none answers
engine *args:
    ./scripts/engine {{args}}

# format, then lint as CI does
lint:
    cargo fmt --all
    cargo clippy --workspace --all-targets -- -D warnings

# the quick tests: no engine needed
quick:
    cargo test --workspace --lib
    cargo test -p argus-tests --test tidy

# measure beside the floor of raw API calls; writes docs/performance.md and docs/performance.json
bench *args:
    ./scripts/bench {{args}}

# a million seeds of the simulation, or so many; `just simulate --from N` goes on
simulate *args:
    ./scripts/simulate {{args}}

# accept new snapshots after reading them
review:
    cargo insta review

# the API docs
doc:
    cargo doc --workspace --no-deps --open

# feed admission with hostile bytes (nightly)
fuzz *args:
    ./scripts/fuzz {{args}}
