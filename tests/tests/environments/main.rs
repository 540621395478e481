//! Environments on a real engine, as a user runs them: journeys, drift, ports, leases, mocks, suites and the self-test.

mod ci;
mod compose_files;
mod dead_runs;
mod drift_and_lifecycle;
mod first_hour;
mod journal;
mod journeys;
mod leases;
mod mock_containers;
mod network_settings;
mod object_labels;
mod ports;
mod recovery;
mod registries;
mod remote_engine;
mod repositories;
mod retry_settings;
mod selftest;
mod status_files;
mod stop_order;
mod suites;
mod trust;
mod up;
mod volumes;
mod worktrees;
mod yaml_suites;
