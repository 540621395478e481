//! Removal that an earlier command began and did not complete, such as because the circuit breaker of the engine was open.

use argus_crds::status::{Condition, Phase, Truth};
use argus_reconciler::reconciler::PersistedState;

use super::Session;
use crate::api::target::Target;
use crate::api::wait::goal::{ENGINE_PATIENCE, WaitGoal, WaitLimits};
use crate::client::ControllerClient;
use crate::local_state::status;
use crate::process::exit::Failure;
use crate::render::live::View;
use crate::render::output;
use crate::view::Statuses;

impl Session {
    /// Completes the removal, before the environment starts again from nothing.
    pub(super) async fn finish_removal(&self, limits: WaitLimits, view: &mut View) -> Result<(), Failure> {
        let environment = status::parse_environment(&self.environment)?;
        let is_down = move |client: &ControllerClient| {
            let persisted = PersistedState::peek(client.state());
            Ok(persisted.overrides.down.contains_key(&environment))
        };
        if !self.client.run_blocking(is_down).await? {
            return Ok(());
        }
        // Before the first list, nothing shows what is left. The wait for the environment reports an engine that is away.
        let is_listed = |statuses: &Statuses| {
            let conditions = &statuses.controller.conditions;
            let is_known = |it: &Condition| it.kind == "EngineReachable" && it.status != Truth::Unknown;
            conditions.iter().any(is_known).then_some(())
        };
        self.client.wait_for(ENGINE_PATIENCE, is_listed).await?;
        let names = [self.environment.clone()];
        let known = self.client.select_statuses(Some(&names)).await?.pop();
        let phase = known.and_then(|(_, status)| Some(status?.phase));
        if phase == Some(Phase::Terminating) {
            let env = &self.environment;
            output::print_note(&format!(
                "note: an earlier removal of `{env}` did not end; it ends first"
            ));
            let targets = [Target::environment(env)];
            self.wait(&targets, WaitGoal::Gone, limits, view).await?;
        }
        Ok(())
    }
}
