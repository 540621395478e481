//! No form of a planted secret appears in a rendered document.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::action::{Action, ActionKind, Cause, Step};
use crate::desired::admit::{SpecContext, admit};
use crate::journal::{Entry, Intent, JOURNAL_VERSION, Record};
use crate::preflight::{ImageFact, PreflightFacts, evaluate, report};

/// Secrets in the places of a file that can hold one.
#[derive(Debug, Clone)]
struct Planted {
    /// `{{env.DEEP}}`
    env: String,
    /// `{{env.TAG}}` in the name of an image.
    tag: String,
    variable: String,
    build_arg: String,
    var: String,
    /// Password of a URL in a log.
    password: String,
}

fn planted() -> impl Strategy<Value = Planted> {
    let text = || "k[A-Za-z0-9/+\"\\\\ =&%\u{e9}@:#-]{4,24}z";
    let word = || "k[a-z0-9]{6,12}z";
    (text(), word(), text(), text(), text(), word()).prop_map(
        |(env, tag, variable, build_arg, var, password)| Planted {
            env,
            tag,
            variable,
            build_arg,
            var,
            password,
        },
    )
}

impl Planted {
    fn all(&self) -> [&str; 6] {
        [
            &self.env,
            &self.tag,
            &self.variable,
            &self.build_arg,
            &self.var,
            &self.password,
        ]
    }

    fn desired(&self) -> Desired {
        let spec = json!({
            "version": "1",
            "project": { "name": "shop" },
            "services": [
                {
                    "name": "db",
                    "image": "registry/{{env.TAG}}:1",
                    "vars": { "API_TOKEN": self.var },
                    "container": {
                        "name": "shop-db",
                        "environment": {
                            "DB_PASSWORD": self.variable,
                            "URL": "http://{{config.API_TOKEN}}",
                            "DEEP": "<{{env.DEEP}}>",
                        },
                    },
                },
                {
                    "name": "web",
                    "build": { "context": ".", "image": "local/{{env.TAG}}", "args": { "NPM_TOKEN": self.build_arg } },
                    "container": { "name": "shop-web" },
                },
            ],
        });
        let text = spec.to_string();
        let read = argus_crds::yaml::read("e2e.yaml", text.as_bytes());
        let context = SpecContext {
            directory: "/srv/shop".to_owned(),
            env_vars: [
                ("DEEP".to_owned(), self.env.clone()),
                ("TAG".to_owned(), self.tag.clone()),
            ]
            .into(),
            ..SpecContext::default()
        };
        let admission = admit(&read.spec.unwrap(), &context);
        admission
            .desired
            .unwrap_or_else(|| panic!("{:?}", admission.diagnostics))
    }
}

fn base64(text: &str) -> String {
    const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let bits: Vec<u8> = text
        .bytes()
        .flat_map(|byte| (0..8).rev().map(move |bit| byte >> bit & 1))
        .collect();
    let digit = |six: &[u8]| {
        let value = six
            .iter()
            .chain(&[0; 6])
            .take(6)
            .fold(0, |value, bit| value * 2 + usize::from(*bit));
        char::from(DIGITS[value])
    };
    let mut out: String = bits.chunks(6).map(digit).collect();
    while !out.len().is_multiple_of(4) {
        out.push('=');
    }
    out
}

/// The forms in which a program can print a secret.
fn forms(secret: &str) -> Vec<String> {
    let quoted = Value::from(secret).to_string();
    let percent = |upper: bool, form: bool| -> String {
        let encode = |byte: u8| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' => char::from(byte).to_string(),
            b' ' if form => "+".to_owned(),
            _ if upper => format!("%{byte:02X}"),
            _ => format!("%{byte:02x}"),
        };
        secret.bytes().map(encode).collect()
    };
    let units: Vec<String> = secret
        .encode_utf16()
        .map(|unit| format!("\\u{unit:04x}"))
        .collect();
    let escaped = units.concat();
    vec![
        secret.to_owned(),
        percent(true, false),
        percent(false, false),
        percent(true, true),
        percent(false, true),
        quoted[1..quoted.len() - 1].to_owned(),
        escaped,
        base64(secret),
        base64(secret).replace('+', "-").replace('/', "_"),
    ]
}

/// Texts of a document.
fn texts(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::String(text) => found.push(text.clone()),
        Value::Array(items) => items.iter().for_each(|item| texts(item, found)),
        Value::Object(fields) => fields.values().for_each(|field| texts(field, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Lines of a container that prints every secret in every form, and one across the 16 KiB pieces of the engine.
fn lines(planted: &Planted) -> Vec<String> {
    let mut lines = Vec::new();
    for secret in &planted.all()[..5] {
        for form in forms(secret) {
            lines.push(format!("it is <{form}>, {form}"));
        }
        lines.push(format!(
            "authorization: Basic {}",
            base64(&format!("ann:{secret}"))
        ));
    }
    lines.push(format!(
        "connect to postgres://ann:{}@db:5432/x",
        planted.password
    ));
    lines
}

fn status_of(desired: &Desired, lines: &[String]) -> EnvironmentStatus {
    let mut shop = Shop::new();
    let accepted = shop.accepted.as_mut().unwrap();
    accepted.desired = desired.clone();
    accepted.desired.notes = lines.to_vec();
    let text = lines[..9].join("; ");
    let failure = Shop::failure(ActionKind::CreateContainer, ActionError::Rejected(text.clone()));
    shop.add_wait("db", WaitReason::Failed { failure });
    let mut failed_run = FailedRun::new(ContainerId::new("c-web").unwrap(), NOW);
    failed_run.exit_code = 1;
    failed_run.evidence = Some(crate::outcome::Evidence {
        stdout: lines.to_vec(),
        stderr: lines.to_vec(),
        missing: lines.to_vec(),
        ..crate::outcome::Evidence::default()
    });
    let web = shop.history.service_mut(&name("web"));
    web.failures.push(failed_run);
    shop.add_wait("web", WaitReason::GaveUp { restarts: 1 });
    let image = desired.services["web"].image.key();
    shop.progress
        .insert(Subject::Image { key: image.clone() }, text.clone().into());
    shop.diagnostics = Some((
        Code::SpecInvalid,
        lines.iter().map(|line| Diagnostic::error("x", line)).collect(),
    ));
    shop.status()
}

fn records(desired: &Desired, secrets: &Secrets) -> Vec<Record> {
    let record = |service: &Service| {
        let action = match &service.image {
            Image::Named(reference) => Action::PullImage {
                reference: reference.clone(),
                policy: argus_crds::PullPolicy::Missing,
            },
            Image::Built(build) => Action::BuildImage(build.clone()),
        };
        let step = Step {
            subject: Subject::of_image(&service.image),
            action,
            cause: Cause::Missing,
        };
        Record {
            v: JOURNAL_VERSION,
            seq: 1,
            at: NOW.to_string(),
            run: "RUN".to_owned(),
            entry: Entry::Intent(Intent::of(&step.redacted(secrets), "A")),
        }
    };
    desired.services.values().map(record).collect()
}

fn preflight_of(desired: &Desired, secrets: &Secrets) -> Value {
    let image = |service: &Service| ImageFact::new(service.image.reference(), false, false, secrets);
    let facts = PreflightFacts {
        host: crate::preflight::HostFacts::unknown("not asked"),
        orphans: Fact::unknown("not asked"),
        ports: Fact::unknown("not asked"),
        images: Fact::Known(desired.services.values().map(image).collect()),
        journal: Fact::Known(Ok(())),
        disk_full: None,
    };
    let outcomes = evaluate(&facts, &PreflightSettings::default(), &[], NOW);
    json!(report(outcomes, NOW))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn planted_secret_is_in_no_document(planted in planted()) {
        let desired = planted.desired();
        let secrets = desired.secret_values();
        let lines = lines(&planted);
        // A mock cuts the bodies that it stores.
        let cut = |line: &String| {
            let end = (0..=line.len() / 2).rev().find(|at| line.is_char_boundary(*at)).unwrap_or(0);
            secrets.redacted_fragment(&line[..end])
        };
        let documents = [
            json!(status_of(&desired, &lines)),
            json!(records(&desired, &secrets)),
            preflight_of(&desired, &secrets),
            json!(lines.iter().map(|line| secrets.redacted(line)).collect::<Vec<_>>()),
            json!(lines.iter().map(cut).collect::<Vec<_>>()),
        ];
        for document in documents {
            let mut found = Vec::new();
            texts(&document, &mut found);
            prop_assert!(!found.is_empty());
            for text in found {
                for secret in planted.all() {
                    for form in forms(secret) {
                        prop_assert!(!text.contains(&form), "`{form}` of `{secret}` in `{text}`");
                    }
                    prop_assert!(!text.contains(&base64(&format!("ann:{secret}"))), "`{secret}` in `{text}`");
                }
            }
        }
    }
}
