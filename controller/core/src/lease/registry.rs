//! All leases as seen from here, and how far they can be believed.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::ident::EnvName;
use crate::time::Timestamp;

use super::{ControllerLease, Liveness, Ownership};

/// A lease that is gone may have been pruned with other volumes, and is written again by then: what its holder made is
/// not removed before.
const DOUBT: Duration = Duration::from_secs(60);
/// Whoever did not look for longer than this cannot say that nobody renewed: it slept, or its clock jumped.
const BLINK: Duration = Duration::from_secs(45);

/// Whose view this is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnIdentity {
    /// Identity of the controller.
    pub controller: String,
    /// Its run.
    pub run: String,
    /// Its state directory: another run's lease from there is dead, because we hold its lock.
    pub place: String,
    /// It holds a lease itself, and acts only while that is alive. A command that comes and goes holds none.
    pub holds: bool,
}

/// All leases on an engine; without [`Me`] nothing was read, and nothing is known of others.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Leases {
    me: Option<OwnIdentity>,
    /// They were read at least once.
    read: bool,
    seen: BTreeMap<String, ControllerLease>,
    /// By controller: when its last lease was seen to be gone.
    gone: BTreeMap<String, Timestamp>,
    /// Runs that were seen to renew.
    renewing: BTreeSet<String>,
    listed_at: Timestamp,
    /// The engine does not answer: nobody can renew.
    away: bool,
    /// Nobody could renew, or be seen to, before this.
    blind_until: Option<Timestamp>,
    /// Grows with every other picture.
    version: u64,
    /// Judged as of then, whatever time is pretended.
    frozen: Option<Timestamp>,
}

impl Leases {
    /// Nothing is read yet.
    pub fn of(me: OwnIdentity) -> Self {
        Self {
            me: Some(me),
            ..Self::default()
        }
    }

    /// Takes a complete look in; tells whether it is another picture than before.
    pub fn take(&mut self, found: Vec<ControllerLease>, now: Timestamp) -> bool {
        let before = self.clone();
        let first = !self.read;
        let blinked = now.since(self.listed_at) > BLINK || now < self.listed_at;
        if !first && (self.away || blinked) {
            self.blind_until = Some(now);
        }
        self.away = false;
        self.listed_at = now;
        self.read = true;
        let mut seen: BTreeMap<String, ControllerLease> = BTreeMap::new();
        for lease in found {
            let run = lease.spec.run.clone();
            // While one follows the other both are there: the newer one counts.
            let newer = |other: &ControllerLease| (other.made_at, &other.name) < (lease.made_at, &lease.name);
            if seen.get(&run).is_none_or(newer) {
                seen.insert(run, lease);
            }
        }
        for (run, lease) in &mut seen {
            match self.seen.get(run) {
                // What was told of it at the first look stands, whatever clocks did since.
                Some(old) if old.name == lease.name => lease.renewed_at = old.renewed_at,
                Some(_) => drop(self.renewing.insert(run.clone())),
                None => {}
            }
        }
        for (run, lease) in &self.seen {
            if !seen.contains_key(run) && self.is_fresh(lease, now) {
                self.gone.insert(lease.spec.controller.clone(), now);
            }
        }
        self.gone.retain(|_, at| now < *at + DOUBT);
        self.renewing.retain(|run| seen.contains_key(run));
        self.seen = seen;
        let differs = Self {
            listed_at: before.listed_at,
            ..self.clone()
        } != before;
        self.version += u64::from(differs);
        differs
    }

    /// The same picture for ever, as of now: for whoever pretends that time passes.
    #[must_use]
    pub fn frozen(&self, now: Timestamp) -> Self {
        Self {
            frozen: Some(now),
            ..self.clone()
        }
    }

    /// Another one for another picture.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// The engine does not answer: until it did for a while, nobody's silence means anything. Tells whether that is new.
    pub fn lost(&mut self) -> bool {
        let news = self.read && !self.away;
        self.away |= news;
        self.version += u64::from(news);
        news
    }

    /// What our next lease says: what it said before, with the same times, and what came to it since.
    ///
    /// Where ours had run out and another living one has come meanwhile, that one was first.
    pub fn claims(&self, wanted: &BTreeSet<EnvName>, now: Timestamp) -> BTreeMap<EnvName, Option<Timestamp>> {
        let kept = |env: &EnvName| {
            let own = self.own()?;
            let lost = !is_ours_still(own, now) && self.other_claims(env, now);
            own.claims(env).filter(|_| !lost)
        };
        wanted.iter().map(|env| (env.clone(), kept(env))).collect()
    }

    fn other_claims(&self, env: &EnvName, now: Timestamp) -> bool {
        let mut others = self.seen.values().filter(|lease| self.lives(lease, now));
        others.any(|lease| lease.claims(env).is_some())
    }

    /// The engine's time, as far as any lease tells how its clock goes.
    pub fn engine_time(&self, now: Timestamp) -> Timestamp {
        let newest = self.seen.values().max_by_key(|lease| lease.renewed_at);
        let ahead = newest.map_or(0, |lease| lease.made_at.0.saturating_sub(lease.renewed_at.0));
        Timestamp(now.0.saturating_add(ahead))
    }

    /// Our own is there, and not about to be thought dead.
    pub fn is_well(&self, now: Timestamp) -> bool {
        self.own().is_some_and(|own| is_ours_still(own, now))
    }

    /// Every lease that is seen.
    pub fn all(&self) -> impl Iterator<Item = &ControllerLease> {
        self.seen.values()
    }

    /// Our own.
    pub fn own(&self) -> Option<&ControllerLease> {
        self.seen.get(&self.me.as_ref()?.run)
    }

    /// Whether others' leases were read at all.
    pub fn is_read(&self) -> bool {
        self.read
    }

    /// Its holder was seen to renew, so that it is not merely dead and not yet called so.
    pub fn renews(&self, lease: &ControllerLease) -> bool {
        self.renewing.contains(&lease.spec.run)
    }

    /// Whether an environment may be acted on; `wanted`: by its file, and not only for what is left of it.
    pub fn ownership(&self, env: &EnvName, wanted: bool, now: Timestamp) -> Ownership<'_> {
        let now = self.frozen.unwrap_or(now);
        let Some(me) = &self.me else {
            return Ownership::Ours;
        };
        let own = self.own().filter(|own| is_ours_still(own, now));
        let claim = own.and_then(|own| Some((own.claims(env)?, &me.run)));
        let others = self.seen.values().filter(|lease| self.lives(lease, now));
        let first = others
            .filter_map(|lease| Some(((lease.claims(env)?, &lease.spec.run), lease)))
            .min_by(|(one, _), (other, _)| one.cmp(other));
        match first {
            Some((theirs, lease)) if claim.is_none_or(|ours| theirs < ours) => Ownership::Theirs(lease),
            _ if !me.holds && self.read => Ownership::Ours,
            _ if own.is_none() || (wanted && claim.is_none()) => Ownership::Unclaimed,
            _ => Ownership::Ours,
        }
    }

    /// Whether a controller lives, by the identity on what it made.
    pub fn liveness(&self, controller: &str, now: Timestamp) -> Liveness<'_> {
        let now = self.frozen.unwrap_or(now);
        match &self.me {
            // The Node tool's things name no controller, and neither does a command without a state directory.
            Some(me) if me.controller == controller && !controller.is_empty() => return Liveness::Own,
            Some(_) if self.read => {}
            Some(_) | None => return Liveness::Unknown,
        }
        let mut of_it = self
            .seen
            .values()
            .filter(|lease| lease.spec.controller == controller);
        if let Some(lease) = of_it.find(|lease| self.lives(lease, now)) {
            return Liveness::Alive(lease);
        }
        match self.gone.get(controller) {
            Some(at) if now < *at + DOUBT => Liveness::Doubtful,
            Some(_) | None => Liveness::Dead,
        }
    }

    /// Whether something in an environment that is ours, made by somebody else, is ours with it: its maker is dead, or
    /// claims the environment too and gave way.
    pub fn yields(&self, env: &EnvName, controller: &str, now: Timestamp) -> bool {
        match self.liveness(controller, now) {
            Liveness::Own | Liveness::Doubtful | Liveness::Dead => true,
            Liveness::Alive(lease) => lease.claims(env).is_some(),
            Liveness::Unknown => false,
        }
    }

    /// When the passing of time alone changes one of these answers.
    pub fn next_change(&self, now: Timestamp) -> Option<Timestamp> {
        if self.frozen.is_some() {
            return None;
        }
        let ends = self.seen.values().flat_map(|lease| {
            let end = lease.renewed_at + lease.spec.ttl;
            let blind = self.blind_until.map(|until| until + lease.spec.ttl);
            [Some(end), blind, Some(lease.renewed_at + trust(lease))]
        });
        let doubts = self.gone.values().map(|at| Some(*at + DOUBT));
        ends.chain(doubts).flatten().filter(|at| *at > now).min()
    }

    /// Another process's lease: alive by what was seen, as far as that can be told.
    fn lives(&self, lease: &ControllerLease, now: Timestamp) -> bool {
        let ours = self
            .me
            .as_ref()
            .is_some_and(|me| me.run == lease.spec.run || me.place == lease.spec.place);
        !ours && self.is_fresh(lease, now)
    }

    fn is_fresh(&self, lease: &ControllerLease, now: Timestamp) -> bool {
        let ttl = lease.spec.ttl;
        let seen = now.since(lease.renewed_at) < ttl;
        seen || self.away || self.blind_until.is_some_and(|until| now < until + ttl)
    }
}

/// We stop to act well before others begin to think us dead: what is in flight then has time to end.
fn is_ours_still(own: &ControllerLease, now: Timestamp) -> bool {
    now.since(own.renewed_at) < trust(own)
}

fn trust(own: &ControllerLease) -> Duration {
    own.spec.ttl * 2 / 3
}

#[cfg(test)]
#[path = "registry_tests.rs"]
mod tests;
