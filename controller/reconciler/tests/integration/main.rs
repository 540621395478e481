//! The reconciler with state directories in any condition.

mod state;
