//! Files of the state directory, as commands read them with and without a running controller: statuses, their age, and the calls
//! behind their errors.

pub(crate) mod call_trace;
pub(crate) mod liveness;
pub(crate) mod status;
