//! Validity and order of leases and claims.

use std::time::Duration;

use super::ControllerLease;
use crate::time::Timestamp;

/// Time after which all claims of one engine second are in a new list. The engine reports times in whole seconds.
pub(super) const CLAIM_SECOND: Duration = Duration::from_millis(1_100);

/// Returns whether the lease of this process is still valid for it.
///
/// The validity ends at two thirds of the `ttl`, so that running actions can finish before others take over.
pub(super) fn is_still_valid(own: &ControllerLease, now: Timestamp) -> bool {
    now.since(own.renewed_at) < validity_period(own)
}

/// Order of controllers that claimed an environment in the same second: the one that runs longer, then the lower run id.
pub(super) fn seniority(lease: &ControllerLease) -> (Timestamp, &str) {
    (lease.since(), &lease.spec.run)
}

/// Own time from which a list contains every claim of this engine second.
pub(super) fn end_of_second(own: &ControllerLease, claimed_at: Timestamp) -> Timestamp {
    let offset = own.renewed_at.0.saturating_sub(own.created_at.0);
    Timestamp(claimed_at.0.saturating_add(offset)) + CLAIM_SECOND
}

pub(super) fn validity_period(own: &ControllerLease) -> Duration {
    own.spec.ttl * 2 / 3
}
