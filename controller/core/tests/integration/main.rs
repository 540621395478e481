//! Admission and decisions over several inputs.

mod actions_before_observation;
mod admit;
mod admit_corpus;
mod admit_properties;
mod advisory_actions;
mod builds;
mod disruptions;
mod failures;
mod foreign_projects;
mod moved_networks;
mod networks;
mod obstacles;
mod orphan_reports;
mod peers;
mod ports;
mod reattachments;
mod reconcile;
mod shared_networks;
mod stop_order;
mod writable_sources;
