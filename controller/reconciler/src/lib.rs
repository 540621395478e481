//! Tasks, channels and time around the brain: eyes publish, the brain decides, hands act.

pub mod clock;
pub mod identity;
pub mod lock;
pub mod shutdown;
pub mod specs;
pub mod state;
pub mod supervise;
