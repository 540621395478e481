//! Admission: dependencies of the revision, conflicts between files, and defaults.

#![allow(clippy::unwrap_used, reason = "a failed precondition fails the test")]

use std::collections::BTreeMap;
use std::time::Duration;

use argus_core::backoff::Growth;
use argus_core::desired::admit::{Admission, SpecContext, admit, admit_with_digests};
use argus_core::desired::conflict::{self, Candidate};
use argus_core::desired::namespace::NamespaceFrom;
use argus_core::desired::nested_mounts::MountPlaces;
use argus_core::desired::worktree::Worktree;
use argus_core::desired::{
    Accepted, Build, Criticality, Desired, Image, PortStrategy, RestartMode, SecretSource, Service,
};
use argus_core::ident::PortMap;
use argus_core::ident::{EnvName, Hash, ResourceName};
use argus_core::plan::ControllerIdentity;
use argus_core::plan::render;
use argus_core::time::Timestamp;
use argus_crds::{Diagnostic, yaml};

fn context() -> SpecContext {
    SpecContext {
        directory: "/specs".to_owned(),
        now: Timestamp(1_700_000_000_000),
        ..SpecContext::default()
    }
}

fn admission(text: &str, context: &SpecContext) -> Admission {
    let parsed = yaml::read("e2e.yaml", text.as_bytes());
    admit(
        &parsed.spec.unwrap_or_else(|| panic!("{:#?}", parsed.diagnostics)),
        context,
    )
}

fn desired(text: &str, context: &SpecContext) -> Desired {
    let admission = admission(text, context);
    admission
        .desired
        .unwrap_or_else(|| panic!("{:#?}", admission.diagnostics))
}

const TWO: &str = r#"
project: {name: shop}
services:
  api:
    image: demo:1
    dependsOn: [db]
    container: {name: shop-api, ports: ["8080:80"], environment: {A: "1", B: "{{env.X}}"}}
  db:
    image: demo:1
    container: {name: shop-db, environment: {C: "{{uuid}}"}}
"#;

#[test]
fn minimal_file_gets_all_defaults() {
    let desired = desired(
        "project: {name: My Shop}\nservice: {image: demo, container: {name: app}}",
        &context(),
    );
    assert_eq!(desired.env.as_str(), "my-shop");
    assert_eq!(desired.network.as_str(), "argusai-my-shop-network");
    assert_eq!(
        (desired.ports.low, desired.ports.high, desired.ports.strategy),
        (9000, 9999, PortStrategy::Auto)
    );
    let restart = &desired.restart;
    assert_eq!(
        (restart.enabled, restart.max_restarts, restart.growth),
        (true, 3, Growth::Exponential)
    );
    let times = [
        restart.delay,
        restart.max_delay,
        restart.window,
        restart.reset_after,
    ]
    .map(|time| time.as_secs());
    assert_eq!((times, restart.mode), ([2, 60, 300, 60], RestartMode::GiveUp));
    assert!(desired.preflight.enabled);
    let app = &desired.services.values().next().unwrap();
    assert_eq!((app.name.as_str(), app.container_name.as_str()), ("app", "app"));
    assert_eq!(
        (app.stop_grace, app.criticality),
        (Duration::from_secs(10), Criticality::Important)
    );
    assert!(app.probe.is_none() && !app.one_shot && !desired.delete_volumes && desired.notes.is_empty());
}

#[test]
fn key_order_does_not_change_the_revision() {
    let other = r#"
services:
  db:
    container: {environment: {C: "{{uuid}}"}, name: shop-db}
    image: demo:1
  api:
    container: {environment: {B: "{{env.X}}", A: "1"}, ports: ["8080:80"], name: shop-api}
    dependsOn: [db]
    image: demo:1
project: {name: shop}
"#;
    assert_eq!(
        desired(TWO, &context()).revision,
        desired(other, &context()).revision
    );
}

#[test]
fn short_and_long_forms_have_the_same_revision() {
    let short = "project: {name: shop}\nservice: {image: demo, container: {name: app}}";
    let list = "project: {name: shop}\nservices: [{name: app, image: demo, container: {name: app}}]";
    let map = "project: {name: shop}\nservices: {app: {image: demo, container: {name: app}}}";
    let revision = desired(short, &context()).revision;
    assert_eq!(
        [
            desired(list, &context()).revision,
            desired(map, &context()).revision
        ],
        [revision.clone(), revision]
    );
}

#[test]
fn changed_variable_affects_one_service_and_the_revision() {
    let before = desired(TWO, &context());
    let after = desired(&TWO.replace("A: \"1\"", "A: \"2\""), &context());
    assert_ne!(before.revision, after.revision);
    let changed: Vec<_> = before
        .services
        .values()
        .filter(|service| after.services[&service.name] != **service)
        .collect();
    assert_eq!(
        changed
            .iter()
            .map(|service| service.name.as_str())
            .collect::<Vec<_>>(),
        ["api"]
    );
    let mut same = after.clone();
    same.services.clone_from(&before.services);
    same.revision = before.revision.clone();
    assert_eq!(same, before);
}

#[test]
fn container_name_is_a_dns_name() {
    let errors = |name: &str| {
        let text = format!(
            "project: {{name: shop}}\nservices: {{web: {{image: demo, container: {{name: {name}}}}}}}"
        );
        let found = admission(&text, &context()).diagnostics.into_iter();
        found.map(|it| it.message).collect::<Vec<_>>()
    };
    assert_eq!(errors(&"x".repeat(63)), [""; 0]);
    assert_eq!(errors(&format!("{}.{}", "x".repeat(63), "y".repeat(63))), [""; 0]);
    for name in ["x".repeat(64), format!("db.{}", "x".repeat(64))] {
        assert_eq!(
            errors(&name),
            ["the container name has 64 characters, more than a DNS name can have"]
        );
    }
}

#[test]
fn token_in_the_file_is_a_warning_and_a_secret() {
    // In two parts, because scanners of repositories search for tokens.
    let token = format!("ghp_{}", "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8");
    let text = TWO.replace("A: \"1\"", &format!("A: \"{token}\"")).replace(
        "container: {name: shop-db,",
        "container: {name: shop-db, command: [serve, postgres],",
    );
    let admission = admission(&text, &context());
    let warnings: Vec<_> = admission
        .diagnostics
        .iter()
        .map(|it| (it.path.as_str(), it.message.as_str()))
        .collect();
    let expected = (
        "services[0].container.environment.A",
        "the value has the form of a GitHub token",
    );
    assert!(warnings.contains(&expected), "{warnings:?}");
    let others = warnings
        .iter()
        .filter(|(_, message)| message.contains("has the form of"));
    assert_eq!(others.count(), 1, "{warnings:?}");
    let secrets = admission.desired.unwrap().secret_values();
    assert_eq!(secrets.redacted(&format!("with {token}")), "with [redacted]");
    let line = text.lines().position(|line| line.contains(&token)).unwrap() + 1;
    let place = argus_crds::Location {
        line,
        column: 5,
        length: 1,
    };
    let mistake = Diagnostic::error("", "wrong").at(place);
    let shown = argus_core::secrets::render_diagnostics("e2e.yaml", &text, &[mistake]);
    assert!(shown.contains("shop-api") && !shown.contains(&token), "{shown}");
}

#[test]
fn unset_variable_of_a_compose_file_is_empty() {
    let environment = |is_compose| {
        let context = SpecContext {
            is_compose,
            ..context()
        };
        let admission = admission(TWO, &context);
        let warnings: Vec<_> = admission
            .diagnostics
            .iter()
            .map(|it| it.message.clone())
            .collect();
        let desired = admission.desired.unwrap();
        let value = desired.services["api"].env_vars["B"].clone();
        (value, warnings.join("; "))
    };
    let (value, warnings) = environment(true);
    assert_eq!(value, "");
    assert!(
        warnings.contains("`X` is not set and becomes an empty text"),
        "{warnings}"
    );
    assert_eq!(environment(false).0, "{{env.X}}");
}

#[test]
fn context_values_affect_only_their_users() {
    let base = context();
    let changed = |change: &dyn Fn(&mut SpecContext)| {
        let mut context = base.clone();
        change(&mut context);
        let (before, after) = (desired(TWO, &base), desired(TWO, &context));
        let differing = before
            .services
            .values()
            .filter(|service| after.services[&service.name] != **service);
        let names: Vec<String> = differing.map(|service| service.name.to_string()).collect();
        assert_eq!(names.is_empty(), before.revision == after.revision);
        names.join(" ")
    };
    assert_eq!(changed(&|context| context.uuid = "u".to_owned()), "db");
    assert_eq!(
        changed(&|context| drop(context.env_vars.insert("X".to_owned(), "x".to_owned()))),
        "api"
    );
    assert_eq!(
        changed(&|context| drop(context.env_vars.insert("Y".to_owned(), "y".to_owned()))),
        ""
    );
    assert_eq!(changed(&|context| context.now = Timestamp(1)), "");
    assert_eq!(
        changed(&|context| context.allow_mounts.push("/opt".to_owned())),
        ""
    );
}

#[test]
fn notes_do_not_affect_the_revision() {
    let noted = format!("{TWO}\ndashboard: {{port: 1}}\n");
    let (plain, noted) = (desired(TWO, &context()), desired(&noted, &context()));
    assert_eq!((noted.notes.len(), plain.revision), (1, noted.revision));
}

#[test]
fn policy_changes_the_hash_only_when_not_default() {
    let rendered = |desired: &Desired| {
        let context = ControllerIdentity {
            controller: "c".to_owned(),
            run: "r".to_owned(),
            publish_address: "127.0.0.1".parse().unwrap(),
        };
        let (spec, hash) = render::render_all(desired, &PortMap::new(), &context)
            .into_values()
            .next()
            .unwrap();
        (spec, hash)
    };
    let with = |policy: &str| desired(&format!("{TWO}argus: {{policy: {policy}}}\n"), &context());
    let plain = desired(TWO, &context());
    let defaults =
        with("{init: true, noNewPrivileges: true, pidsLimit: 512, logMaxSize: 10MB, logMaxFiles: 3}");
    // Hashes omit the defaults, so an upgrade replaces no container.
    assert!(serde_json::to_value(&plain).unwrap().get("confinement").is_none());
    assert!(
        serde_json::to_value(rendered(&plain).0)
            .unwrap()
            .get("confinement")
            .is_none()
    );
    assert_eq!(
        (&defaults.revision, rendered(&defaults)),
        (&plain.revision, rendered(&plain))
    );

    let other = with("{pidsLimit: 64, noNewPrivileges: false}");
    let (spec, hash) = rendered(&other);
    assert_ne!((&other.revision, &hash), (&plain.revision, &rendered(&plain).1));
    assert_eq!(
        (
            spec.container_limits.pids_limit,
            spec.container_limits.no_new_privileges
        ),
        (64, false)
    );
    assert_eq!(
        (spec.container_limits.init, spec.container_limits.log_max_files),
        (true, 3)
    );
    assert_eq!(other.notes, Vec::<String>::new());
}

#[test]
fn settings_of_a_service_replace_those_of_the_policy() {
    let identity = ControllerIdentity {
        controller: "c".to_owned(),
        run: "r".to_owned(),
        publish_address: "127.0.0.1".parse().unwrap(),
    };
    let limits = |keys: &str, policy: &str| {
        let text = format!(
            "project: {{name: shop}}\nargus: {{policy: {{{policy}}}}}\nservices:\n  web: {{image: a, {keys} container: {{name: w}}}}\n  \
             plain: {{image: a, container: {{name: p}}}}\n"
        );
        let all = render::render_all(&desired(&text, &context()), &PortMap::new(), &identity);
        let of = |name: &str| {
            let (_, (spec, hash)) = all.iter().find(|(service, _)| service.as_str() == name).unwrap();
            let limits = &spec.container_limits;
            ((limits.init, limits.no_new_privileges), hash.clone())
        };
        (of("web"), of("plain"))
    };
    let (web, plain) = limits("", "");
    assert_eq!((web.0, plain.0), ((true, true), (true, true)));
    for (keys, policy, expected, sibling) in [
        ("init: false,", "", (false, true), (true, true)),
        ("noNewPrivileges: false,", "", (true, false), (true, true)),
        ("init: true,", "init: false", (true, true), (false, true)),
    ] {
        let (changed, other) = limits(keys, policy);
        assert_eq!((changed.0, other.0), (expected, sibling), "{keys} {policy}");
        assert_ne!(changed.1, web.1, "{keys}");
        assert_eq!(other.1 == plain.1, policy.is_empty(), "{keys}");
    }
}

#[test]
fn build_digest_covers_context_arguments_and_dockerfile() {
    let text =
        "project: {name: shop}\nservice: {build: {context: ., args: {V: \"1\"}}, container: {name: app}}";
    let digest = |text: &str, contents: Option<&str>| {
        let spec = yaml::read("e2e.yaml", text.as_bytes()).spec.unwrap();
        let mut contents = |_: &Service, _: &Build| contents.map(|contents| Hash::new(contents).unwrap());
        let mut context = context();
        context.host.allowed = true;
        let desired = admit_with_digests(&spec, &context, &mut contents)
            .desired
            .unwrap();
        match &desired.services.values().next().unwrap().image {
            Image::Built(build) => build.digest.clone(),
            Image::Named(name) => panic!("{name}"),
        }
    };
    let base = digest(text, Some("aa"));
    assert_eq!(base, digest(text, Some("aa")));
    let others = [
        digest(text, Some("bb")),
        digest(text, None),
        digest(&text.replace("\"1\"", "\"2\""), Some("aa")),
        digest(
            &text.replace("context: .", "context: ., dockerfile: ./Other"),
            Some("aa"),
        ),
        digest(
            &text.replace("context: .", "context: ., target: prod"),
            Some("aa"),
        ),
        digest(&text.replace("context: .", "context: ., target: dev"), Some("aa")),
    ];
    assert!(!others.contains(&base), "{others:?}");
    assert_ne!(others[4], others[5]);
    let with_options = |options: &str| {
        digest(
            &text.replace("context: .", &format!("context: ., {options}")),
            Some("aa"),
        )
    };
    let inline = |text: &str| with_options(&format!("dockerfileInline: {text}"));
    assert_ne!(
        inline("FROM a"),
        inline("FROM b"),
        "the text of the Dockerfile counts"
    );
    let options = ["platform: linux/arm64", "network: none", "labels: {team: till}"].map(with_options);
    assert!(!options.contains(&base), "{options:?}");
    for cache in ["cacheFrom: [\"cache:1\"]", "cacheTo: [\"cache:1\"]"] {
        assert_eq!(
            with_options(cache),
            base,
            "a build cache does not change the image"
        );
    }
    let inputs = ["secrets: {a: {file: ./a}}", "additionalContexts: {a: ./a}"].map(with_options);
    assert!(!inputs.contains(&base), "{inputs:?}");
    // A different hash would rebuild the images of earlier versions.
    assert_eq!(base.as_str(), "cb0399c6fcaf98fec61141103d3eabb7");
}

#[test]
fn only_an_allowed_project_builds_with_the_access_of_the_user() {
    let text = "project: {name: shop}\nservice: {build: {context: ., ssh: [default], secrets: {npm: {environment: NPM}, key: {file: ./key}}, \
                cacheTo: [\"cache:1\"]}, container: {name: app}}";
    let mut context = context();
    let refused = admission(text, &context);
    assert!(refused.desired.is_none());
    let paths: Vec<_> = refused.diagnostics.iter().map(|one| one.path.as_str()).collect();
    assert_eq!(
        paths,
        [
            "service.build.secrets.npm.environment",
            "service.build.ssh",
            "service.build.cacheTo"
        ]
    );
    let hints = refused.diagnostics.iter().filter_map(|one| one.hint.as_deref());
    assert_eq!(
        hints
            .filter(|hint| hint.starts_with("POLICY_VIOLATION: "))
            .count(),
        3
    );
    context.host.allowed = true;
    let spec = desired(text, &context);
    let Image::Built(build) = &spec.services.values().next().unwrap().image else {
        panic!("{spec:?}");
    };
    let directory = &context.directory;
    assert_eq!(
        build.options.secrets,
        [
            ("key".to_owned(), SecretSource::File(format!("{directory}/key"))),
            ("npm".to_owned(), SecretSource::Environment("NPM".to_owned())),
        ]
        .into()
    );
    assert!(build.options.ssh);
    assert_eq!(build.options.cache_to.len(), 1);
}

#[test]
fn template_growth_is_limited() {
    let mut vars = format!("v0: \"{}\"", "x".repeat(100));
    for n in 1..30 {
        use std::fmt::Write;
        let before = n - 1;
        write!(
            vars,
            ", v{n}: \"{{{{config.v{before}}}}}{{{{config.v{before}}}}}\""
        )
        .unwrap();
    }
    let text = format!(
        "project: {{name: shop}}\nservice: {{image: demo, vars: {{{vars}}}, container: {{name: app, environment: {{A: \"{{{{config.v29}}}}\"}}}}}}"
    );
    let admission = admission(&text, &context());
    assert!(admission.desired.is_none());
    assert!(
        admission
            .diagnostics
            .iter()
            .any(|c| c.message.contains("128 KiB")),
        "{:#?}",
        admission.diagnostics
    );
}

#[test]
fn template_growth_after_many_warnings_is_limited() {
    let words = "\"{{config.none}}\", ".repeat(1_000) + &"\"{{env.BIG}}\", ".repeat(200);
    let text = format!(
        "project: {{name: shop}}\nservice: {{image: demo, command: [{words}], container: {{name: app}}}}"
    );
    let context = SpecContext {
        env_vars: BTreeMap::from([("BIG".to_owned(), "x".repeat(100_000))]),
        ..context()
    };
    let admission = admission(&text, &context);
    assert_eq!(admission.desired, None);
    let mut messages = admission.diagnostics.iter().map(|found| found.message.as_str());
    assert!(messages.any(|message| message.contains("16 MiB")));
}

#[test]
fn chain_of_500_services_is_admitted_but_not_501() {
    let chain = |length: usize| {
        let mut text = "project: {name: chain}\nservices:\n".to_owned();
        for n in 0..length {
            use std::fmt::Write;
            let needs = if n == 0 {
                String::new()
            } else {
                format!("dependsOn: [s{}], ", n - 1)
            };
            writeln!(text, "  s{n}: {{image: demo, {needs}container: {{name: c{n}}}}}").unwrap();
        }
        text
    };
    assert_eq!(desired(&chain(500), &context()).services.len(), 500);
    let cycle = chain(500).replace("s0: {image: demo, ", "s0: {image: demo, dependsOn: [s499], ");
    assert!(admission(&cycle, &context()).desired.is_none());
    let parsed = yaml::read("e2e.yaml", chain(501).as_bytes());
    assert!(
        parsed
            .spec
            .is_none_or(|spec| admit(&spec, &context()).desired.is_none())
    );
    // Mocks count, too.
    let mocks = (0..101).map(|n| format!("  m{n}: {{port: 80}}\n"));
    let mocks = mocks.collect::<Vec<_>>().concat();
    let found = admission(&format!("{}mocks:\n{mocks}", chain(400)), &context()).diagnostics;
    let is_limit = |it: &Diagnostic| it.message.contains("501 services and mocks");
    assert!(found.iter().any(is_limit), "{found:#?}");
}

fn accepted(files: &[(&str, &str)]) -> BTreeMap<EnvName, Accepted> {
    let one = |(path, text): &(&str, &str)| {
        let desired = desired(text, &context());
        let read = argus_crds::yaml::read(path, text.as_bytes());
        let accepted = Accepted {
            desired,
            spec_path: (*path).to_owned(),
            lines: argus_core::desired::key_lines::KeyLines::from_spec(&read.spec.unwrap(), &read.source),
            accepted_at: Timestamp(0),
            has_pending_edit: false,
            allowed: false,
            is_ending: false,
            file_hash: None,
            mounted_files: std::collections::BTreeMap::new(),
        };
        (accepted.desired.env.clone(), accepted)
    };
    files.iter().map(one).collect()
}

fn conflicts(held: &BTreeMap<EnvName, Accepted>, desired: &Desired, path: &str) -> Vec<Diagnostic> {
    let mounts = MountPlaces::default();
    let candidate = Candidate::new(desired, path, &mounts, false);
    let all = held.values();
    all.flat_map(|existing| conflict::conflicts(existing, &candidate))
        .collect()
}

#[test]
fn index_finds_every_file_with_a_conflict() {
    use argus_core::desired::conflict_index::ConflictIndex;
    // Small sets of names and places make conflicts of all kinds frequent.
    let text = |number: usize| {
        let pick = |divisor: usize, count: usize| number / divisor % count;
        let source = ["/p/a", "/p/a/b", "/p/c", "/p/c/d/e", "named"][pick(1, 5)];
        let mode = ["", ":ro"][pick(5, 2)];
        format!(
            "project: {{ name: e{} }}\nnetwork: {{ name: n{} }}\nservice: {{ image: demo, container: {{ name: c{}, volumes: [\"{source}:/d{mode}\"] }} }}\nargus: {{ envFile: f{}.env }}\n",
            pick(3, 13),
            pick(7, 11),
            pick(2, 17),
            pick(11, 5)
        )
    };
    let texts: Vec<String> = (0..60).map(text).collect();
    let paths: Vec<String> = (0..60).map(|number| format!("{number}.e2e.yaml")).collect();
    let mut context = context();
    context.allow_mounts = vec!["/p".to_owned()];
    let files: Vec<Accepted> = texts
        .iter()
        .zip(&paths)
        .map(|(text, path)| Accepted {
            desired: desired(text, &context),
            spec_path: path.clone(),
            lines: argus_core::desired::key_lines::KeyLines::default(),
            accepted_at: Timestamp(0),
            has_pending_edit: false,
            allowed: false,
            is_ending: false,
            file_hash: None,
            mounted_files: std::collections::BTreeMap::new(),
        })
        .collect();
    let mut index = ConflictIndex::default();
    for file in &files {
        index.insert(&file.spec_path, &files[0].desired);
        index.insert(&file.spec_path, &file.desired);
    }
    index.remove("0.e2e.yaml");
    assert_eq!(index.len(), 59);
    let mounts = MountPlaces::default();
    let (mut all, mut found) = (0, 0);
    for file in &files {
        let candidate = Candidate::new(&file.desired, &file.spec_path, &mounts, false);
        let possible = index.find(&candidate);
        all += files.len();
        found += possible.len();
        for existing in &files[1..] {
            let conflicts = conflict::conflicts(existing, &candidate);
            assert!(
                conflicts.is_empty() || possible.contains(existing.spec_path.as_str()),
                "{}: {conflicts:?}",
                file.spec_path
            );
        }
        assert!(!possible.contains("0.e2e.yaml"));
    }
    assert!(found * 2 < all, "{found} of {all}");
}

#[test]
fn each_of_5000_files_is_compared_only_with_itself() {
    use argus_core::desired::conflict_index::ConflictIndex;
    let text = "project: { name: shop }\nservice: { image: demo, container: { name: app, volumes: [\"data:/d\"] } }\n";
    let first = desired(text, &context());
    let named = |letter: char, number: usize| format!("{letter}{number}");
    let numbered = |number: usize| {
        let mut file = first.clone();
        file.env = argus_core::ident::EnvName::new(named('e', number)).unwrap();
        file.network = argus_core::ident::ResourceName::new(named('n', number)).unwrap();
        for service in file.services.values_mut() {
            service.container_name = argus_core::ident::ResourceName::new(named('c', number)).unwrap();
        }
        file
    };
    let files: Vec<_> = (0..5_000).map(numbered).collect();
    let mut index = ConflictIndex::default();
    for (number, file) in files.iter().enumerate() {
        index.insert(&format!("{number}.e2e.yaml"), file);
    }
    let mounts = MountPlaces::default();
    let compared = files.iter().map(|file| {
        let candidate = Candidate::new(file, "new.e2e.yaml", &mounts, false);
        index.find(&candidate).len()
    });
    assert_eq!(compared.sum::<usize>(), files.len());
    // Two indexes are equal only with equal files.
    let mut other = index.clone();
    assert_eq!(other, index);
    other.remove("7.e2e.yaml");
    assert_ne!(other, index);
}

#[test]
fn link_to_an_engine_socket_is_refused() {
    let text = "project: { name: shop }\nservice: { image: demo, container: { name: app, volumes: [\"./link:/x\"] } }\n";
    for (real, is_refused) in [
        ("/specs/x/docker.sock", true),
        ("/run", true),
        ("/var/run/docker", true),
        ("/specs/x/data", false),
    ] {
        let mut context = context();
        context.host.resolved = [("/specs/link".to_owned(), Ok(real.to_owned()))].into();
        let found = admission(text, &context).diagnostics;
        let is_found = found.iter().any(|it| it.message.contains("engine socket"));
        assert_eq!(is_found, is_refused, "{real}: {found:#?}");
    }
}

#[test]
fn name_in_use_by_another_compose_file_has_its_own_remedy() {
    let text = "project: {name: a}\nservice: {image: demo, container: {name: app}}";
    let held = accepted(&[("a/compose.yaml", text)]);
    let (desired, mounts) = (desired(text, &context()), MountPlaces::default());
    let candidate = Candidate::new(&desired, "b/compose.yaml", &mounts, false).of_compose(true);
    let found = held
        .values()
        .flat_map(|existing| conflict::conflicts(existing, &candidate));
    let hints: Vec<_> = found.filter_map(|diagnostic| diagnostic.hint).collect();
    let fix = "set a different `name` at the top of the file, pass `--project-name`";
    assert_eq!(
        hints,
        [format!("SPEC_CONFLICT: {fix}, or remove `a/compose.yaml`")]
    );
}

#[test]
fn name_in_use_by_another_file_is_rejected() {
    let file = |name: &str, container: &str, volume: &str, network: &str| {
        format!(
            "project: {{name: {name}}}\nnetwork: {{name: {network}}}\nservice: {{image: demo, container: {{name: {container}, volumes: [\"{volume}:/d\"]}}}}"
        )
    };
    let held = accepted(&[("a.e2e.yaml", &file("a", "app", "data", "net"))]);
    let cases = [
        (
            file("a", "other", "other", "other"),
            "environment `a` is already defined by `a.e2e.yaml`",
            ("project.name", 1),
            "`isolation.namespace`",
        ),
        (
            file("b", "app", "x", "y"),
            "the container name `app` of service `app` is in use by environment `a` in `a.e2e.yaml`",
            ("service.container.name", 3),
            "rename the container",
        ),
        (
            file("b", "x", "y", "net"),
            "the network `net` is in use by environment `a` in `a.e2e.yaml`",
            ("network.name", 2),
            "choose another `network.name`",
        ),
    ];
    for (text, expected, (key, line), fix) in cases {
        let found = conflicts(&held, &desired(&text, &context()), "b.e2e.yaml");
        let messages: Vec<_> = found
            .iter()
            .map(|diagnostic| diagnostic.message.as_str())
            .collect();
        assert_eq!(messages, [expected]);
        let hint = found[0].hint.as_ref().unwrap();
        assert!(
            hint.starts_with("SPEC_CONFLICT: ") && hint.contains(fix),
            "{found:?}"
        );
        let holder = found[0]
            .correction
            .as_ref()
            .unwrap()
            .conflicts_with
            .as_ref()
            .unwrap();
        assert_eq!(
            (holder.file.as_str(), holder.path.as_str(), holder.line),
            ("a.e2e.yaml", key, Some(line))
        );
    }
    assert_eq!(
        conflicts(
            &held,
            &desired(&file("b", "app", "data", "net"), &context()),
            "b.e2e.yaml"
        )
        .len(),
        2
    );
    assert_eq!(
        conflicts(
            &held,
            &desired(&file("b", "x", "data", "z"), &context()),
            "b.e2e.yaml"
        ),
        [],
        "each environment has its own volumes"
    );
}

#[test]
fn namespace_precedes_the_names_of_containers_and_volumes() {
    let file = "project: {name: shop}\nisolation: {namespace: tree}\n\
                service: {name: api, image: demo, container: {name: shop-api, volumes: ['data:/data']}}";
    let desired = desired(file, &context());
    let api = desired.services.values().next().unwrap();
    assert_eq!(api.container_name.as_str(), "tree-shop-api");
    assert_eq!(
        api.aliases,
        ["shop-api"],
        "the plain name resolves in the network"
    );
    let volumes: Vec<&str> = desired.volumes.iter().map(ResourceName::as_str).collect();
    assert_eq!(volumes, ["argusai-tree_data"]);
}

#[test]
fn auto_namespace_is_the_name_of_the_worktree() {
    let file = "project: {name: shop}\nisolation: {namespace: auto}\n\
                service: {name: api, image: demo, container: {name: api, volumes: ['data:/data']}}";
    let mut context = context();
    context.host.worktree = Worktree::new(
        "/src/fix".to_owned(),
        Some("gitdir: /src/shop/.git/worktrees/fix\n"),
    );
    let found = desired(file, &context);
    let api = found.services.values().next().unwrap();
    assert_eq!(
        (found.env.as_str(), found.network.as_str()),
        ("fix", "argusai-fix-network")
    );
    assert_eq!(api.container_name.as_str(), "fix-api");
    assert_eq!(found.volumes[0].as_str(), "argusai-fix_data");
    for (worktree, expected) in [
        (None, "the file is in none"),
        (
            Worktree::new("/src/!".to_owned(), None),
            "`/src/!` contains no letter",
        ),
    ] {
        context.host.worktree = worktree;
        let refused = admission(file, &context);
        assert_eq!((&refused.desired, &refused.env), (&None, &None));
        let [only] = &refused.diagnostics[..] else {
            panic!("{refused:#?}")
        };
        assert_eq!(only.path, "isolation.namespace");
        assert!(only.message.contains(expected), "{only:?}");
    }
}

#[test]
fn namespace_source_applies_to_files_without_a_name() {
    let file = |isolation: &str| {
        format!(
            "project: {{name: shop}}\n{isolation}service: {{name: api, image: demo, container: {{name: api}}}}"
        )
    };
    let (none, auto, named) = (
        file(""),
        file("isolation: {namespace: auto}\n"),
        file("isolation: {namespace: mine}\n"),
    );
    let mut context = context();
    context.host.worktree = Worktree::new("/src/fix".to_owned(), None);
    context.host.worktree.as_mut().unwrap().head = Some("ref: refs/heads/topic/cart\n".to_owned());
    let variable = |value: Option<&str>| NamespaceFrom::Variable {
        name: "SLOT".to_owned(),
        value: value.map(str::to_owned),
    };
    for (from, of_none, of_auto) in [
        (NamespaceFrom::File, "shop", "fix"),
        (NamespaceFrom::Worktree, "fix", "fix"),
        (NamespaceFrom::Branch, "topic-cart", "topic-cart"),
        (variable(Some("slot-1")), "slot-1", "slot-1"),
    ] {
        context.namespace_from = from;
        let env = |file: &str| desired(file, &context).env.to_string();
        assert_eq!([env(&none), env(&auto), env(&named)], [of_none, of_auto, "mine"]);
    }
    context.host.worktree.as_mut().unwrap().head = None;
    for (from, expected) in [
        (NamespaceFrom::Branch, "has no branch"),
        (variable(None), "`SLOT`, which is not set"),
        (
            variable(Some("Not valid")),
            "`SLOT` is not a valid environment name",
        ),
    ] {
        context.namespace_from = from;
        let refused = admission(&none, &context).diagnostics;
        assert!(
            refused.len() == 1 && refused[0].message.contains(expected),
            "{refused:?}"
        );
        assert!(
            !format!("{refused:?}").contains("Not valid"),
            "the value is private"
        );
    }
}

#[test]
fn file_does_not_conflict_with_its_earlier_revision() {
    let held = accepted(&[("a.e2e.yaml", TWO)]);
    assert_eq!(conflicts(&held, &desired(TWO, &context()), "a.e2e.yaml"), []);
    let renamed = desired(&TWO.replace("name: shop}", "name: store}"), &context());
    assert_eq!(conflicts(&held, &renamed, "a.e2e.yaml"), []);
    assert_eq!(conflicts(&held, &renamed, "b.e2e.yaml").len(), 2);
}

#[test]
fn work_trees_with_namespaces_do_not_conflict() {
    let tree = |name: &str| format!("{TWO}\nisolation: {{namespace: {name}}}\n");
    let held = accepted(&[("a.e2e.yaml", &tree("one"))]);
    assert_eq!(
        conflicts(&held, &desired(&tree("two"), &context()), "b.e2e.yaml"),
        []
    );
    let same = conflicts(&held, &desired(&tree("one"), &context()), "b.e2e.yaml");
    assert_eq!(
        same.iter()
            .map(|diagnostic| diagnostic.path.as_str())
            .collect::<Vec<_>>(),
        ["isolation.namespace"]
    );
}

#[test]
fn resilience_section_sets_every_setting() {
    let text = "version: \"1\"
project: { name: shop }
resilience:
  preflight: { enabled: false, diskSpaceThreshold: 3GB, cleanOrphans: false }
  container: { restartOnFailure: false, maxRestarts: 7, restartDelay: 9s, restartBackoff: linear }
  network: { portConflictStrategy: fail, verifyConnectivity: false }
  circuitBreaker: { failureThreshold: 3, resetTimeoutMs: 10000 }
services:
  web: { image: \"web:1\", container: { name: shop-web } }
";
    let desired = admission(text, &context()).desired.unwrap();
    let (preflight, restart) = (desired.preflight, &desired.restart);
    assert_eq!(
        (
            preflight.enabled,
            preflight.disk_space_threshold,
            desired.clean_orphans
        ),
        (false, 3_000_000_000, false)
    );
    assert_eq!(
        (
            restart.enabled,
            restart.max_restarts,
            restart.delay,
            restart.growth
        ),
        (false, 7, Duration::from_secs(9), Growth::Linear)
    );
    assert_eq!(
        (desired.ports.strategy, desired.verify_connectivity),
        (PortStrategy::Fail, false)
    );
    let breaker = desired.breaker.unwrap();
    assert_eq!(
        (breaker.threshold, breaker.cooldown),
        (3, Duration::from_secs(10))
    );
}

#[test]
fn hint_quotes_texts_of_the_file_for_a_shell() {
    for (keys, command) in [
        (
            "image: x, container: { name: a, volumes: [\"/x;touch `id` $(id)'b --allow-privileged:/y\"] }",
            r"`--allow-mount '/x;touch `id` $(id)'\''b --allow-privileged'`",
        ),
        (
            "build: { context: \"/a b;id\" }, container: { name: a }",
            "`--allow-mount '/a b;id'`",
        ),
        (
            "image: x, container: { name: \"{{env.A --allow-privileged}}\" }",
            "`--env-allow 'A --allow-privileged'`",
        ),
    ] {
        let text = format!("project: {{ name: shop }}\nservice: {{ {keys} }}\n");
        let found = admission(&text, &context()).diagnostics;
        let mut hints = found.iter().filter_map(|one| one.hint.as_deref());
        assert!(hints.any(|hint| hint.contains(command)), "{keys}: {found:?}");
    }
}
