//! Commands without a file of their own. Each returns when the controller has stored it and the status shows it. Its effects on containers
//! follow.

use std::num::NonZeroU32;
use std::time::Duration;

use argus_core::ident::{EnvName, ServiceName};
use argus_crds::error::{Code, Reason};
use argus_reconciler::{Command, Reply, clock};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::target;
use super::wait::goal;
use super::{Context, Effect, NextStep, Operation, Route, Summary, Tool};
use crate::command_reply::CommandReply;
use crate::exit::Failure;
use crate::status;

pub(super) fn wait_step(env: &str) -> NextStep {
    let env = json!({ "environment": env });
    NextStep::new("wait until it is ready or fails", "argus_wait", env)
}

fn resume_step(target: Value) -> NextStep {
    NextStep::new("end the hold", "argus_resume", target)
}

pub(super) fn parse_service(service: Option<String>) -> Result<Option<ServiceName>, Failure> {
    let service = service.map(ServiceName::new).transpose();
    service.map_err(|error| Failure::with_reason(Reason::BadRequest, error.to_string()).without_suggestions())
}

/// Returns `ENVIRONMENT` or `ENVIRONMENT/SERVICE`.
pub(crate) fn format_target(environment: &str, service: Option<&str>) -> String {
    match service {
        Some(service) => format!("{environment}/{service}"),
        None => environment.to_owned(),
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Hold {
    /// Environment, or ENVIRONMENT/SERVICE
    pub(crate) environment: String,
    /// Service name [default: the whole environment]
    pub(crate) service: Option<String>,
    /// Duration [default: until `argus_resume`]
    #[schemars(range(min = 1))]
    pub(crate) for_seconds: Option<NonZeroU32>,
    /// Reason, shown in the status
    #[serde(default)]
    pub(crate) reason: String,
    /// Your name, for other users of the environment
    pub(crate) holder: Option<String>,
}

impl Operation for Hold {
    const EFFECT: Effect = Effect::Additive;
    const ROUTES: &'static [Route] = &[Route::command(
        "/api/v1/commands/hold",
        "leaves an environment or a service unchanged",
    )];
    type Output = CommandReply;

    async fn run(&self, context: &Context) -> Result<CommandReply, Failure> {
        let (env, service) = target::parse_target(&self.environment, self.service.as_deref())?;
        let until = |seconds: NonZeroU32| clock::now() + Duration::from_secs(seconds.get().into());
        let command = Command::Hold {
            environment: status::parse_environment(&env)?,
            service: parse_service(service)?,
            until: self.for_seconds.map(until),
            reason: self.reason.clone(),
            holder: self.holder.clone(),
        };
        context.client.send(command).await
    }
}

impl Tool for Hold {
    const NAME: &'static str = "argus_hold";
    const TITLE: &'static str = "Hold";
    const ABOUT: &'static str = "Holds an environment or a service: running actions complete, then Argus starts and repairs nothing there until \
`argus_resume` or the end of `forSeconds`. Use it to inspect a failure. For a test run, use `argus_test`.";
    type Data = CommandReply;

    async fn summarize(&self, reply: CommandReply, _context: &Context) -> Summary<CommandReply> {
        let (env, service) =
            target::parse_target(&self.environment, self.service.as_deref()).unwrap_or_default();
        let held = format_target(&env, service.as_deref());
        let text = match self.for_seconds {
            Some(seconds) => format!("{held} is held for {seconds} s"),
            None => format!("{held} is held until argus_resume"),
        };
        let mut target = json!({ "environment": env });
        if let Some(service) = service {
            target["service"] = json!(service);
        }
        Summary::new(reply, text).with_next(resume_step(target))
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Resume {
    /// Environment, or ENVIRONMENT/SERVICE; without it, ends mode `Safe` of the controller
    pub(crate) environment: Option<String>,
    /// Service name [default: the whole environment]
    pub(crate) service: Option<String>,
}

impl Operation for Resume {
    const EFFECT: Effect = Effect::Additive;
    const ROUTES: &'static [Route] = &[
        Route::command("/api/v1/commands/resume", "ends a hold").requires(&["environment"]),
        Route::command(
            "/api/v1/commands/resumeController",
            "ends mode `Safe` of the controller",
        )
        .without(&["environment", "service"]),
    ];
    type Output = CommandReply;

    async fn run(&self, context: &Context) -> Result<CommandReply, Failure> {
        let command = match &self.environment {
            None if self.service.is_some() => return Err(Failure::usage("`service` needs `environment`")),
            None => Command::ResumeController,
            Some(target) => {
                let (env, service) = target::parse_target(target, self.service.as_deref())?;
                Command::Resume {
                    environment: status::parse_environment(&env)?,
                    service: parse_service(service)?,
                }
            }
        };
        context.client.send(command).await
    }
}

impl Tool for Resume {
    const NAME: &'static str = "argus_resume";
    const TITLE: &'static str = "Resume";
    const ABOUT: &'static str = "Ends the hold of an environment or a service. Without `environment`, it ends mode `Safe` of the controller, \
after its cause (a journal that cannot be written) is fixed.";
    type Data = CommandReply;

    async fn summarize(&self, reply: CommandReply, _context: &Context) -> Summary<CommandReply> {
        let Some(target) = &self.environment else {
            return Summary::new(reply, "the controller resumes");
        };
        let env = target.split('/').next().unwrap_or_default();
        let resumed = format_target(target, self.service.as_deref());
        Summary::new(reply, format!("{resumed} resumes")).with_next(wait_step(env))
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Cancel {
    /// Environment name
    pub(crate) environment: String,
}

impl Operation for Cancel {
    const EFFECT: Effect = Effect::Destructive;
    const ROUTES: &'static [Route] = &[Route::command(
        "/api/v1/commands/cancel",
        "cancels pulls and builds, and holds the environment",
    )];
    type Output = CommandReply;

    async fn run(&self, context: &Context) -> Result<CommandReply, Failure> {
        let why = "services share their images, so pulls and builds belong to the environment";
        let remedy = |env: &str| format!("cancel those of the environment with `argus cancel {env}`");
        let environment = target::parse_whole_environment(&self.environment, why, remedy)?;
        let command = Command::Cancel { environment };
        context.client.send(command).await
    }
}

impl Tool for Cancel {
    const NAME: &'static str = "argus_cancel";
    const TITLE: &'static str = "Cancel pulls and builds";
    const ABOUT: &'static str =
        "Cancels running pulls and builds of an environment, and holds it until `argus_resume`.";
    type Data = CommandReply;

    async fn summarize(&self, reply: CommandReply, _context: &Context) -> Summary<CommandReply> {
        let env = &self.environment;
        let text = format!("{env} is cancelled and held until argus_resume");
        Summary::new(reply, text).with_next(resume_step(json!({ "environment": env })))
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Rollback {
    /// Environment name
    pub(crate) environment: String,
}

impl Operation for Rollback {
    const EFFECT: Effect = Effect::Destructive;
    const ROUTES: &'static [Route] = &[Route::command(
        "/api/v1/commands/rollback",
        "returns to the last other revision that was ready",
    )];
    type Output = CommandReply;

    async fn run(&self, context: &Context) -> Result<CommandReply, Failure> {
        let why = "a revision contains all services of its environment";
        let remedy = |env: &str| format!("roll back the environment with `argus rollback {env}`");
        let environment = target::parse_whole_environment(&self.environment, why, remedy)?;
        context.client.send(Command::Rollback { environment }).await
    }
}

impl Tool for Rollback {
    const NAME: &'static str = "argus_rollback";
    const TITLE: &'static str = "Roll back";
    const ABOUT: &'static str = "Returns to the last other revision that was ready, with the same images, until the file changes; \
`argus_retry` keeps it. Use it if an edit broke an environment that is needed now.";
    type Data = CommandReply;

    async fn summarize(&self, reply: CommandReply, _context: &Context) -> Summary<CommandReply> {
        let env = &self.environment;
        let text = format!("{env} returns to its last other revision that was ready, until its file changes");
        Summary::new(reply, text).with_next(wait_step(env))
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Fork {
    /// Environment name
    pub(crate) environment: String,
    /// Name of the copy [default: the environment name with `-fork`]
    pub(crate) to: Option<String>,
}

impl Fork {
    /// Name of the copy.
    pub(crate) fn copy(&self) -> String {
        let to = self.to.clone();
        to.unwrap_or_else(|| format!("{}-fork", self.environment))
    }
}

impl Operation for Fork {
    const EFFECT: Effect = Effect::NonIdempotent;
    const ROUTES: &'static [Route] = &[Route::command(
        "/api/v1/commands/fork",
        "runs a copy under another name and on other ports",
    )];
    type Output = CommandReply;

    async fn run(&self, context: &Context) -> Result<CommandReply, Failure> {
        let command = Command::Fork {
            environment: target::parse_whole_environment(
                &self.environment,
                "a copy contains all services of its environment",
                |env| format!("copy the environment with `argus fork {env}`"),
            )?,
            to: status::parse_environment(&self.copy())?,
            ttl: None,
        };
        context.client.send(command).await
    }
}

impl Tool for Fork {
    const NAME: &'static str = "argus_fork";
    const TITLE: &'static str = "Run a copy";
    const ABOUT: &'static str = "Runs a copy of the same revision under another name and on other ports, until `argus_down` of the copy. \
Use it for experiments without effects on other users.";
    type Data = CommandReply;

    async fn summarize(&self, reply: CommandReply, _context: &Context) -> Summary<CommandReply> {
        let (env, to) = (&self.environment, self.copy());
        let text = format!("{to} is a copy of {env}, until argus_down {to}");
        Summary::new(reply, text).with_next(wait_step(&to))
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Down {
    /// Environment name
    pub(crate) environment: String,
    /// Also remove its named volumes, with their data; external volumes stay
    #[serde(default)]
    pub(crate) volumes: bool,
}

impl Down {
    /// Parses the name of the environment.
    pub(crate) fn parse_environment(environment: &str) -> Result<EnvName, Failure> {
        target::parse_whole_environment(
            environment,
            "Argus would start it again, because its file declares it",
            |env| format!("delete it from the file, or remove the environment with `argus down {env}`"),
        )
    }
}

impl Operation for Down {
    const EFFECT: Effect = Effect::Destructive;
    const ROUTES: &'static [Route] = &[Route::command("/api/v1/commands/down", "removes an environment")];
    type Output = CommandReply;

    async fn run(&self, context: &Context) -> Result<CommandReply, Failure> {
        let environment = Self::parse_environment(&self.environment)?;
        let statuses = context.client.statuses().await?;
        let current = statuses.environments.get(&self.environment);
        if let Some(held) = current.and_then(|status| goal::find_lease_error(status)) {
            // An environment of another controller must not be removed.
            return Err(Failure::new(held.clone()));
        }
        let is_leftover = current.is_some_and(|current| current.revision.is_none());
        let command = Command::Down {
            environment,
            volumes: self.volumes,
        };
        match context.client.send(command.clone()).await {
            // The controller does not know the environment, but remains of it exist: its removal is in progress.
            Err(Failure::Error { error, .. })
                if is_leftover && error.code == Code::PrereqMissing && error.environment.is_some() =>
            {
                Ok(CommandReply::new(&command, Reply::Done))
            }
            result => result,
        }
    }
}

impl Tool for Down {
    const NAME: &'static str = "argus_down";
    const TITLE: &'static str = "Remove an environment";
    const ABOUT: &'static str = "Removes the containers and networks of an environment from the engine. The file stays, and the named volumes without `volumes: true`. \
An edit of the file or `argus_retry` restores it. Call it when you no longer need the environment.";
    type Data = CommandReply;

    async fn summarize(&self, reply: CommandReply, _context: &Context) -> Summary<CommandReply> {
        let env = &self.environment;
        let gone = json!({ "environment": env, "for": "gone" });
        let step = NextStep::new("wait until it is removed", "argus_wait", gone);
        Summary::new(reply, format!("{env} is being removed")).with_next(step)
    }
}
