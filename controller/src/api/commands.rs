//! Commands without a file of their own. Each returns when the controller has stored it and the status shows it. Its effects on containers
//! follow.

use std::num::NonZeroU32;
use std::time::Duration;

use argus_core::ident::{EnvName, ServiceName};
use argus_crds::error::{Code, Reason};
use argus_reconciler::{Command, Reply, clock};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::target::{self, Target};
use super::wait::goal;
use super::{Context, Effect, NextStep, Operation, Route, Summary, Tool};
use crate::client::command_reply::CommandReply;
use crate::local_state::status;
use crate::process::exit::Failure;

fn wait_step(target: &Target) -> NextStep {
    let env = json!({ "environment": target.environment });
    NextStep::new("wait until it is ready or fails", "argus_wait", env)
}

fn resume_step(target: &Target) -> NextStep {
    let mut arguments = json!({ "environment": target.environment });
    if let Some(service) = &target.service {
        arguments["service"] = json!(service);
    }
    NextStep::new("end the hold", "argus_resume", arguments)
}

fn parse_target(target: &str, service: Option<&str>) -> Result<(EnvName, Option<ServiceName>), Failure> {
    let (env, service) = target::parse_target(target, service)?;
    let service = service.map(ServiceName::new).transpose();
    let service = service
        .map_err(|error| Failure::with_reason(Reason::BadRequest, error.to_string()).without_suggestions())?;
    Ok((status::parse_environment(&env)?, service))
}

/// Target of an accepted command.
fn target_of(target: &str, service: Option<&str>) -> Target {
    Target::parse(target, service).unwrap_or_else(|_| Target::environment(target))
}

/// Defines commands whose only argument is an environment or one of its services.
macro_rules! service_commands {
    ($($name:ident)+) => {$(
        #[derive(Debug, Deserialize, JsonSchema)]
        #[serde(rename_all = "camelCase", deny_unknown_fields)]
        pub(crate) struct $name {
            /// Environment, or ENVIRONMENT/SERVICE
            pub(crate) environment: String,
            /// Service name [default: the whole environment]
            pub(crate) service: Option<String>,
        }

        impl $name {
            fn command(&self) -> Result<Command, Failure> {
                let (environment, service) = parse_target(&self.environment, self.service.as_deref())?;
                Ok(Command::$name { environment, service })
            }

            fn target(&self) -> Target {
                target_of(&self.environment, self.service.as_deref())
            }
        }
    )+};
}

/// Defines commands whose only argument is a whole environment. For a service, the error says why, and names the command to use instead.
macro_rules! environment_commands {
    ($($name:ident: $why:literal, $remedy:literal;)+) => {$(
        #[derive(Debug, Deserialize, JsonSchema)]
        #[serde(rename_all = "camelCase", deny_unknown_fields)]
        pub(crate) struct $name {
            /// Environment name
            pub(crate) environment: String,
        }

        impl $name {
            fn command(&self) -> Result<Command, Failure> {
                let remedy = |env: &str| format!("{} {env}`", $remedy);
                let environment = target::parse_whole_environment(&self.environment, $why, remedy)?;
                Ok(Command::$name { environment })
            }

            fn target(&self) -> Target {
                Target::environment(&self.environment)
            }
        }
    )+};
}

/// Table of the commands on a target: effect, HTTP route, tool, and the effect in one sentence with the next call.
macro_rules! table_of_commands {
    ($($name:ident {
        effect: $effect:ident, is_open_world: $is_open_world:literal, verb: $verb:literal, title: $title:literal,
        route: $route:literal,
        about: $about:literal,
        sentence: $sentence:literal, then: $then:ident,
    })+) => {$(
        impl Operation for $name {
            const EFFECT: Effect = Effect::$effect;
            const IS_OPEN_WORLD: bool = $is_open_world;
            const ROUTES: &'static [Route] = &[Route::command(concat!("/api/v1/commands/", $verb), $route)];
            type Output = CommandReply;

            async fn run(&self, context: &Context) -> Result<CommandReply, Failure> {
                context.client.send(self.command()?).await
            }
        }

        impl Tool for $name {
            const NAME: &'static str = concat!("argus_", $verb);
            const TITLE: &'static str = $title;
            const ABOUT: &'static str = $about;
            type Data = CommandReply;

            async fn summarize(&self, reply: CommandReply, _context: &Context) -> Summary<CommandReply> {
                let target = self.target();
                Summary::new(reply, format!("{target} {}", $sentence)).with_next($then(&target))
            }
        }
    )+};
}

service_commands! { Retry Restart }

environment_commands! {
    Cancel: "services share their images, so pulls and builds belong to the environment",
        "cancel those of the environment with `argus cancel";
    Rollback: "a revision contains all services of its environment", "roll back the environment with `argus rollback";
}

table_of_commands! {
    Retry {
        // It pulls and builds again.
        effect: Additive, is_open_world: true, verb: "retry", title: "Retry",
        route: "retries given-up services of an environment, or one service",
        about: "Retries services that Argus gave up, with the same file and with failure counters at zero; with `service`, only this one. For an environment, it also restores what \
`argus_down` removed, and ends an automatic rollback; a rollback by `argus_rollback` stays until the file changes. Not needed after an edit.",
        sentence: "is retried", then: wait_step,
    }
    Restart {
        effect: DestructiveEachTime, is_open_world: false, verb: "restart", title: "Restart",
        route: "restarts a service, or all services of an environment",
        about: "Stops and starts the containers of a service, or of an environment without its completed one-shots. It uses no \
restart budget and does not count as a failure. During a test lease, it waits. Not needed after an edit, which takes effect automatically.",
        sentence: "restarts", then: wait_step,
    }
    Cancel {
        effect: Destructive, is_open_world: false, verb: "cancel", title: "Cancel pulls and builds",
        route: "cancels pulls and builds, and holds the environment",
        about: "Cancels running pulls and builds of an environment, and holds it until `argus_resume`.",
        sentence: "is cancelled and held until argus_resume", then: resume_step,
    }
    Rollback {
        effect: Destructive, is_open_world: false, verb: "rollback", title: "Roll back",
        route: "returns to the last other revision that was ready",
        about: "Returns to the last other revision that was ready, with the same images, until the file changes; \
`argus_retry` keeps it. Use it if an edit broke an environment that is needed now.",
        sentence: "returns to its last other revision that was ready, until its file changes", then: wait_step,
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
    /// True to stop the service as well, which only `argus stop` requests.
    #[serde(skip)]
    pub(crate) stops: bool,
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
        let (environment, service) = parse_target(&self.environment, self.service.as_deref())?;
        let until = |seconds: NonZeroU32| clock::now() + Duration::from_secs(seconds.get().into());
        let command = Command::Hold {
            environment,
            service,
            until: self.for_seconds.map(until),
            stops: self.stops,
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
        let target = target_of(&self.environment, self.service.as_deref());
        let text = match self.for_seconds {
            Some(seconds) => format!("{target} is held for {seconds} s"),
            None => format!("{target} is held until argus_resume"),
        };
        Summary::new(reply, text).with_next(resume_step(&target))
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
                let (environment, service) = parse_target(target, self.service.as_deref())?;
                Command::Resume { environment, service }
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
        let target = target_of(target, self.service.as_deref());
        Summary::new(reply, format!("{target} resumes")).with_next(wait_step(&target))
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
        Summary::new(reply, text).with_next(wait_step(&Target::environment(to)))
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
    const ABOUT: &'static str = "Removes the containers and networks of an environment. The file stays, and the named volumes without `volumes: true`. \
An edit of the file or `argus_retry` restores it. Call it when you no longer need the environment.";
    type Data = CommandReply;

    async fn summarize(&self, reply: CommandReply, _context: &Context) -> Summary<CommandReply> {
        let env = &self.environment;
        let gone = json!({ "environment": env, "for": "gone" });
        let step = NextStep::new("wait until it is removed", "argus_wait", gone);
        Summary::new(reply, format!("{env} is being removed")).with_next(step)
    }
}
