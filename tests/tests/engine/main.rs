//! The adapters on a real engine: the Docker backend, mounts, networks, builds, pulls and preflight, and the test harness.

mod build_context;
mod buildkit;
mod contract;
mod docker_backend;
mod git_directories;
mod harness;
mod mounts;
mod networks;
mod preflight;
mod progress;
mod registries;
mod tls;
