//! Planner state before the first reconcile pass.

use std::sync::Arc;

use argus_core::failed_run::{FailedRun, Fingerprint, Ran};
use argus_core::ident::ContainerId;
use argus_core::outcome::Evidence;
use argus_core::state::{EndedBudget, ImageState, RefusedPort};

use crate::error;
use crate::fixture::{GoldenFixture, Played, moment};
use crate::objects::{self, Options};

impl GoldenFixture {
    pub(crate) fn remember(&mut self, words: &[&str]) -> Played {
        if self.planner.is_some() {
            return Err("stored state must precede the first turn".to_owned());
        }
        match words {
            ["death", service, at, rest @ ..] => {
                let (env, service) = self.address(service)?;
                let at = moment(self.now, at);
                let ran = Options(rest.to_vec()).get("ran").unwrap_or("1s").to_owned();
                let container = ContainerId::new("c1").map_err(|why| why.to_string())?;
                let kept = Arc::make_mut(self.memory.environments.entry(env).or_default());
                let kept = kept.service_mut(&service);
                let options = Options(rest.to_vec());
                kept.failure_count += 1;
                kept.failures.push(FailedRun {
                    started_at: Some(moment(at, &format!("-{ran}"))),
                    exit_code: options
                        .get("exit")
                        .and_then(|code| code.parse().ok())
                        .unwrap_or(1),
                    number: kept.failure_count,
                    evidence: (!options.has("bare")).then(|| Evidence {
                        stderr: options.get("said").map(str::to_owned).into_iter().collect(),
                        ..Evidence::default()
                    }),
                    ..FailedRun::new(container, at)
                });
            }
            ["budget", service, at, rest @ ..] => {
                let (env, service) = self.address(service)?;
                let message = Options(rest.to_vec()).get("said").unwrap_or_default().to_owned();
                let kept = Arc::make_mut(self.memory.environments.entry(env).or_default());
                let kept = kept.service_mut(&service);
                kept.ended_budgets.push(EndedBudget {
                    at: moment(self.now, at),
                    fingerprint: Some(Fingerprint {
                        exit_code: 1,
                        line: message,
                        ran: Ran::Seconds,
                    }),
                    retried: true,
                });
            }
            ["completed", service] => {
                let (env, service) = self.address(service)?;
                let ports = self.ports(&env, &service, None);
                let (_, hash) = objects::spec_of(&self.written[&env], &service, &ports, &self.site, self.now)
                    .ok_or("no such service")?;
                let kept = Arc::make_mut(self.memory.environments.entry(env).or_default());
                kept.service_mut(&service).completed = Some(hash);
            }
            ["port", service, pair, "wanted", wanted] => {
                let (env, service) = self.address(service)?;
                let (key, host) = objects::pair(&service, pair).ok_or("no port")?;
                let kept = Arc::make_mut(self.memory.environments.entry(env).or_default());
                kept.ports.insert(key.clone(), host);
                kept.requested_ports
                    .insert(key, wanted.parse().map_err(|_| "no port")?);
            }
            ["image", service, known] => {
                let (env, service) = self.address(service)?;
                let service = &self.written[&env]
                    .services
                    .get(&service)
                    .ok_or("no such service")?;
                let known = match *known {
                    "missing" => ImageState::Missing,
                    "present" => ImageState::Present,
                    _ => return Err("missing or present".to_owned()),
                };
                self.memory.images.insert(service.image.key(), known);
            }
            ["refused", at, rest @ ..] => {
                let refusal = error::refusal(rest)?;
                let times = Options(rest.to_vec())
                    .get("times")
                    .and_then(|n| n.parse().ok())
                    .unwrap_or(1);
                let at = moment(self.now, at);
                self.memory
                    .refused
                    .insert(refusal.port, RefusedPort { at, refusal, times });
            }
            _ => return Err("cannot be stored".to_owned()),
        }
        Ok(())
    }
}
