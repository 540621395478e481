//! Translations of Compose files in place of spec files.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use super::*;

fn translated(text: &str, files: &[(&str, &str)]) -> Translation {
    try_translate(text, files).unwrap()
}

fn try_translate(text: &str, files: &[(&str, &str)]) -> Option<Translation> {
    let read = |path: &Path| {
        let found = files
            .iter()
            .find(|(name, _)| path == Path::new("/shop").join(name));
        let (_, text) = found.ok_or_else(|| "no such file".to_owned())?;
        Ok(text.as_bytes().to_vec())
    };
    let variables = BTreeMap::from([
        ("TAG".to_owned(), "7".to_owned()),
        ("P".to_owned(), "till".to_owned()),
    ]);
    let source = ComposeSource {
        name: "compose.yaml",
        file: Path::new("/shop/compose.yaml"),
        bytes: text.as_bytes(),
        read: &read,
        variables: &variables,
    };
    translate(&source)
}

fn errors(text: &str, files: &[(&str, &str)]) -> Vec<String> {
    let translation = translated(text, files);
    let all = translation.contents.diagnostics.iter();
    let errors: Vec<_> = all.filter(|diagnostic| diagnostic.is_error()).collect();
    assert_eq!(
        translation.contents.spec.is_none(),
        !errors.is_empty(),
        "{errors:?}"
    );
    errors.iter().map(|error| error.message.clone()).collect()
}

#[test]
fn variables_without_a_value_have_their_first_lines() {
    let text = "# OTHER\nservices:\n  a:\n    image: \"x:${TAG}-${OTHER:-1}\" # PIN\n    volumes: [\"$HOME/x:/x\"]\n    environment: [PIN, P]\n";
    let unset = translated(text, &[]).unset.into_iter();
    let unset: Vec<String> = unset
        .map(|(name, at)| format!("{name} {}", at.map_or(0, |at| at.line)))
        .collect();
    let expected = [
        "COMPOSE_FILE 0",
        "COMPOSE_PROFILES 0",
        "COMPOSE_PROJECT_NAME 0",
        "OTHER 4",
        "PIN 6",
    ];
    assert_eq!(unset, expected, "an error names `HOME`");
}

#[test]
fn invalid_files_are_errors_and_never_fewer_services() {
    for good in [
        "services: { a: { image: x } }",
        "include:\nservices: { a: { image: x, extends: } }",
    ] {
        assert_eq!(errors(good, &[]), [""; 0]);
    }
    assert!(
        try_translate("project: { name: shop }", &[]).is_none(),
        "it is a spec file"
    );
    for (text, error) in [
        ("servi", "the file is not a map"),
        ("- a", "the file is not a map"),
        ("services:", "no service could be translated"),
        ("version: \"3\"", "no service could be translated"),
        ("services: []", "`services` is not a map"),
        ("services:\nweb:\n  image: x", "no service could be translated"),
        ("services: { a: { image: x }, b: y }", "service `b` is not a map"),
        ("services: { a: { image: x }, b: }", "service `b` is not a map"),
        (
            "services: { a: { image: x }, b: { imagee: y } }",
            "neither `image` nor `build`",
        ),
        ("services: { a: { image: x, image: y } }", "duplicate key"),
        (
            "networks: [back]\nservices: { a: { image: x } }",
            "`networks` is not a map",
        ),
        (
            "services: { a: { image: x, networks: [back] } }",
            "`a`: the file declares no network `back`",
        ),
        (
            "include: [gone.yaml]\nservices: { a: { image: x } }",
            "cannot read `gone.yaml`: no such file",
        ),
        (
            "include: [text]\nservices: { a: { image: x } }",
            "the file is not a map",
        ),
        (
            "include: [b.yaml]\nservices: { b: { image: x } }",
            "`services.b` is also in the included file `b.yaml`",
        ),
        (
            "include: [loop.yaml]\nservices: { a: { image: x } }",
            "`include`: `loop.yaml` includes itself (`loop.yaml`, line 1)",
        ),
        (
            "include: [{ path: b.yaml, env_file: gone.env }]",
            "`include`: cannot read `gone.env`: no such file",
        ),
        (
            "services: { a: { image: x, env_file: gone.env } }",
            "`env_file`: cannot read `gone.env`",
        ),
        (
            "include: text\nservices: { a: { image: x } }",
            "`include` is not a list",
        ),
        (
            "services: { a: { extends: a } }",
            "the chain is too long or a circle",
        ),
        (
            "services: { a: { image: x, extends: { file: gone.yaml, service: b } } }",
            "cannot read `gone.yaml`",
        ),
    ] {
        let files = [
            ("text", "servi"),
            ("b.yaml", "services: { b: { image: y } }"),
            ("loop.yaml", "include: [loop.yaml]"),
        ];
        let found = errors(text, &files);
        assert!(
            found.iter().any(|found| found.contains(error)),
            "{text}: {found:?}"
        );
    }
}

#[test]
fn files_are_the_other_compose_files() {
    let text = "include: [sub/b.yaml]\nservices: { a: { image: x, env_file: a.env }, c: { extends: { file: c.yaml, service: c } } }";
    let files = [
        ("sub/b.yaml", "services: { b: { image: y, env_file: b.env } }"),
        ("c.yaml", "services: { c: { image: z } }"),
        ("a.env", "A=1"),
        ("sub/b.env", "B=1"),
    ];
    let translation = translated(text, &files);
    assert!(translation.contents.spec.is_some());
    let expected = ["/shop/sub/b.yaml", "/shop/c.yaml"].map(std::path::PathBuf::from);
    assert_eq!(translation.files, expected);
}

#[test]
fn values_of_variables_are_not_in_the_text() {
    let text =
        "name: ${P:-shop}\nservices: { a: { image: \"app:${TAG:-1}\", environment: { B: \"${NONE:-2}\" } } }";
    let translation = translated(text, &[]);
    assert!(
        translation.text.contains("app:{{env.TAG}}"),
        "{}",
        translation.text
    );
    assert!(translation.text.contains("B: \"2\""), "{}", translation.text);
    assert_eq!(translation.contents.spec.unwrap().project.name, "till");
}

#[test]
fn settings_without_variables_get_the_values() {
    let text = "services: { a: { image: x, user: \"${TAG}:${G:-0}\", working_dir: \"/${P}\", hostname: \"h${TAG}\", stop_signal: \"${TAG}\", extra_hosts: [\"${P}:1.2.3.4\"], cap_drop: [\"${C:-ALL}\"], ulimits: { nofile: \"${TAG}\" }, tmpfs: [\"/${P}\"], pull_policy: \"${X:-never}\", read_only: \"${R:-true}\", environment: { E: \"${TAG}\" } } }";
    let service = translated(text, &[]).contents.spec.unwrap().services.remove(0);
    assert_eq!(service.user.as_deref(), Some("7:0"));
    assert_eq!(service.working_dir.as_deref(), Some("/till"));
    assert_eq!(service.hostname.as_deref(), Some("h7"));
    assert_eq!(service.stop_signal.as_deref(), Some("7"));
    assert!(service.read_only);
    assert_eq!(service.ulimits["nofile"], "7");
    assert_eq!(service.cap_drop, ["ALL"]);
    assert_eq!(service.tmpfs, ["/till"]);
    assert!(service.extra_hosts[0].starts_with("till:"));
    let container = service.container.unwrap();
    assert_eq!(container.environment["E"], "{{env.TAG}}");
}

#[test]
fn init_and_privileges_belong_to_the_service() {
    let notes = |translation: &Translation| {
        let all = translation.contents.diagnostics.iter();
        all.map(|diagnostic| diagnostic.message.clone())
            .collect::<Vec<_>>()
    };
    for (keys, init, protected) in [
        ("init: false", Some(false), None),
        (
            "init: true, security_opt: [no-new-privileges]",
            Some(true),
            Some(true),
        ),
        ("init: \"${I:-false}\"", Some(false), None),
        ("security_opt: [\"no-new-privileges:false\"]", None, Some(false)),
        (
            "security_opt: [\"no-new-privileges=${N:-true}\"]",
            None,
            Some(true),
        ),
    ] {
        let found = translated(&format!("services: {{ a: {{ image: x, {keys} }} }}"), &[]);
        assert_eq!(notes(&found), Vec::<String>::new(), "{keys}");
        let service = found.contents.spec.unwrap().services.remove(0);
        assert_eq!(
            (service.init, service.no_new_privileges),
            (init, protected),
            "{keys}"
        );
    }
    let text =
        "services: { a: { image: x, security_opt: [\"seccomp:unconfined\", \"no-new-privileges:false\"] } }";
    let found = translated(text, &[]);
    assert_eq!(
        notes(&found),
        ["left out of `a`: the security option `seccomp:unconfined`"]
    );
    let service = found.contents.spec.unwrap().services.remove(0);
    assert_eq!(service.no_new_privileges, Some(false));
}

#[test]
fn env_file_is_read_like_the_env_of_the_project() {
    let spec = "services: { a: { image: x, env_file: [one.env, two.env], environment: { OWN: o } } }";
    let one = "\u{feff}export A='$x #1' # c\r\nB=\"two\nlines\"\nPLAIN=p\n";
    let two = "C=\"${PLAIN}-${OWN}-${TAG}\"\nPLAIN=q\nD=${NONE:-d}\n";
    let found = translated(spec, &[("one.env", one), ("two.env", two)]);
    let services = found.contents.spec.unwrap().services;
    let container = services[0].container.as_ref().unwrap();
    let variables: Vec<_> = container
        .environment
        .iter()
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    assert_eq!(
        variables,
        [
            "A=$x #1",
            "B=two\nlines",
            "C=p-o-{{env.TAG}}",
            "D=d",
            "OWN=o",
            "PLAIN=q"
        ]
    );
    let broken = [("one.env", "A=1\n!=2\n"), ("two.env", "A=$B\n")];
    assert_eq!(
        errors(spec, &broken),
        [
            "`a`: `env_file`: `one.env:2:1`: `!` is not a character of a name",
            "`a`: `env_file`: `two.env:1:3`: the variable `B` has no value",
        ]
    );
}

#[test]
fn dependencies_wait_for_what_compose_waits_for() {
    let text = "services: { a: { image: x }, b: { image: x, depends_on: [a] }, c: { image: x, depends_on: { a: { condition: service_started }, b: { condition: service_healthy } } } }";
    let services = translated(text, &[]).contents.spec.unwrap().services;
    let conditions: Vec<_> = services
        .iter()
        .flat_map(|service| &service.depends_on)
        .map(|on| format!("{} {:?}", on.service, on.condition))
        .collect();
    assert_eq!(
        conditions,
        ["a Some(Started)", "a Some(Started)", "b Some(Healthy)"]
    );
}

#[test]
fn profiles_of_the_project_select_services() {
    let text = "services: { a: { image: x }, b: { image: x, profiles: [dev] }, c: { image: x, profiles: [test, ci] } }";
    let names = |profiles: Option<&str>| {
        let read = |_: &Path| Err("no such file".to_owned());
        let variables = profiles.map(|value| ("COMPOSE_PROFILES".to_owned(), value.to_owned()));
        let source = ComposeSource {
            name: "compose.yaml",
            file: Path::new("/shop/compose.yaml"),
            bytes: text.as_bytes(),
            read: &read,
            variables: &variables.into_iter().collect(),
        };
        let spec = translate(&source).unwrap().contents.spec.unwrap();
        let names = spec.services.iter().filter_map(|service| service.name.clone());
        names.collect::<Vec<_>>()
    };
    assert_eq!(names(None), ["a"]);
    assert_eq!(names(Some("dev")), ["a", "b"]);
    assert_eq!(names(Some("ci, other")), ["a", "c"]);
    assert_eq!(names(Some("*")), ["a", "b", "c"]);
}

#[test]
fn selected_services_start_with_their_dependencies() {
    let text = "services: { a: { image: x }, b: { image: x, depends_on: [a] }, c: { image: x, profiles: [dev], links: [\"b:bee\"] }, d: { image: x, network_mode: \"service:a\" } }";
    let found = |selected: &str| {
        let read = |_: &Path| Err("no such file".to_owned());
        let source = ComposeSource {
            name: "compose.yaml",
            file: Path::new("/shop/compose.yaml"),
            bytes: text.as_bytes(),
            read: &read,
            variables: &[("ARGUS_SERVICES".to_owned(), selected.to_owned())].into(),
        };
        translate(&source).unwrap().contents
    };
    let names = |selected: &str| {
        let spec = found(selected).spec.unwrap();
        let names = spec.services.iter().filter_map(|service| service.name.clone());
        names.collect::<Vec<_>>()
    };
    assert_eq!(names("b"), ["a", "b"]);
    assert_eq!(names("c"), ["a", "b", "c"], "a selected service needs no profile");
    assert_eq!(names("d,b"), ["a", "b", "d"]);
    assert_eq!(names("a,d?,gone?,d-2?"), ["a", "d"], "those that exist stay");
    assert!(found("a").diagnostics.is_empty(), "the others are not noted");
    let errors = found("web").diagnostics;
    let is_named = errors.iter().any(|it| it.message.contains("no service `web`"));
    assert!(is_named, "{errors:?}");
}

#[test]
fn override_file_is_merged_as_compose_merges_it() {
    let text = "services:\n  a: { image: x, command: [one], ports: [\"80:80\", \"82:82/tcp\"], environment: [A=1, B=2], volumes: [\"./a:/data\", \"v:/v\"] }\n  test: { image: z, user: u }\n";
    let over = "services:\n  a: { command: [two], ports: [\"81:81\", \"80:80\", { target: 82, published: \"82\" }], environment: { B: 3 }, volumes: [\"./b:/data\"], oom_score_adj: 5 }\n  test: { image: y }\n  c: { image: x }\nvolumes:\n";
    let found = translated(text, &[("compose.override.yaml", over)]);
    assert_eq!(
        found.files,
        [std::path::PathBuf::from("/shop/compose.override.yaml")]
    );
    let notes: Vec<_> = found
        .contents
        .diagnostics
        .iter()
        .map(|note| note.message.as_str())
        .collect();
    assert_eq!(
        notes,
        ["left out of `a`: `oom_score_adj` (`compose.override.yaml`, line 2)"]
    );
    let services = found.contents.spec.unwrap().services;
    let names: Vec<_> = services
        .iter()
        .filter_map(|service| service.name.as_deref())
        .collect();
    assert_eq!(names, ["a", "test", "c"]);
    assert_eq!(services[1].user.as_deref(), Some("u"));
    let items = found
        .text
        .lines()
        .filter_map(|line| line.trim().strip_prefix("- "));
    let items: Vec<_> = items.map(|item| item.trim_matches(['"', '\''])).collect();
    let expected = [
        "name: a",
        "two",
        "81:81",
        "80:80",
        "82:82",
        "v:/v",
        "./b:/data",
        "name: test",
        "name: c",
    ];
    assert_eq!(items, expected, "{}", found.text);
    for part in ["A: \"1\"", "B: \"3\"", "image: \"y\""] {
        assert!(found.text.contains(part), "{part}: {}", found.text);
    }
    let broken = [("compose.override.yml", "services: []")];
    let expected = "`services` is not a map (`compose.override.yml`, line 1)";
    assert_eq!(errors(text, &broken), [expected]);
}

#[test]
fn each_file_is_resolved_before_the_merge() {
    let text = "include: [sub/b.yaml]\nservices:\n  a: { image: x, user: main }\n  d: { extends: b }\n";
    let over = "services:\n  b: { image: z, oom_score_adj: 5 }\n  a: { extends: base, working_dir: /w }\n  base: { image: base, user: base }\n";
    let files = [
        (
            "sub/b.yaml",
            "services: { b: { image: y, user: u, volumes: [\"./d:/d\"] } }",
        ),
        ("compose.override.yaml", over),
    ];
    let found = translated(text, &files);
    let notes: Vec<_> = found
        .contents
        .diagnostics
        .iter()
        .map(|note| note.message.as_str())
        .collect();
    assert_eq!(
        notes,
        ["left out of `b`: `oom_score_adj` (`compose.override.yaml`, line 2)"]
    );
    let services = found.contents.spec.unwrap().services;
    let described: Vec<_> = services
        .iter()
        .map(|service| {
            let texts = [&service.name, &service.image, &service.user, &service.working_dir];
            let texts = texts.map(|text| text.as_deref().unwrap_or("-"));
            format!(
                "{} {:?}",
                texts.join(" "),
                service.container.as_ref().unwrap().volumes
            )
        })
        .collect();
    assert_eq!(
        described,
        [
            "a base base /w []",
            r#"d y u - ["./sub/d:/d"]"#,
            r#"b z u - ["./sub/d:/d"]"#,
            "base base base - []",
        ]
    );
    // As in Compose, a file does not see the services of the file that it overrides.
    let files = [("compose.override.yaml", "services: { b: { extends: a } }")];
    let expected = "left out of `b`: `extends`: no service `a` (`compose.override.yaml`, line 1)";
    assert!(errors("services: { a: { image: x } }", &files).contains(&expected.to_owned()));
}

#[test]
fn included_files_have_their_own_folder_and_variables() {
    let text = "include:\n  - path: [\"sub/${P}.yaml\", sub/more.yaml]\n    project_directory: data\n    env_file: sub/b.env\n  \
                - other/e.yaml\nservices: { a: { image: x, environment: { V: \"${OWN:-none}\" } } }\n";
    let files = [
        (
            "sub/till.yaml",
            "services: { b: { image: \"y:${OWN}-${TAG}\", volumes: [\"./d:/d\"], environment: [OWN, \"P=$$OWN ${NONE:-$OWN} ${D}\"] } }",
        ),
        (
            "sub/more.yaml",
            "services: { b: { user: u, extends: { file: c.yaml, service: c } } }",
        ),
        ("data/c.yaml", "services: { c: { working_dir: \"/c${OWN}\" } }"),
        ("sub/b.env", "OWN=1\nTAG=9\nD='a$b'\n"),
        ("other/e.yaml", "services: { e: { image: \"e:${OWN}\" } }"),
        ("other/.env", "OWN=3\n"),
    ];
    let found = translated(text, &files);
    let services = found.contents.spec.unwrap().services;
    assert_eq!(services[1].image.as_deref(), Some("y:1-{{env.TAG}}"));
    assert_eq!(services[1].user.as_deref(), Some("u"));
    assert_eq!(services[1].working_dir.as_deref(), Some("/c1"));
    assert_eq!(services[2].image.as_deref(), Some("e:3"));
    let container = services[1].container.as_ref().unwrap();
    assert_eq!(container.volumes, ["./data/d:/d"]);
    let variables = container.environment.iter();
    let variables: Vec<_> = variables.map(|(name, value)| format!("{name}={value}")).collect();
    assert_eq!(variables, ["OWN=1", "P=$OWN 1 a$b"]);
    assert_eq!(services[0].container.as_ref().unwrap().environment["V"], "none");
}

#[test]
fn unknown_keys_are_errors_with_their_line() {
    for (key, path, nearest) in [
        (
            "volumes: [{ type: bind, source: ./x, target: /x, readonly: true }]",
            "volumes[0].readonly",
            "read_only",
        ),
        (
            "volumes: [{ type: tmpfs, target: /x, tmpfs: { sise: 1m } }]",
            "volumes[0].tmpfs.sise",
            "size",
        ),
        (
            "ports: [{ target: 80, publishd: 80 }]",
            "ports[0].publishd",
            "published",
        ),
        (
            "depends_on: { b: { conditions: service_healthy } }",
            "depends_on.b.conditions",
            "condition",
        ),
        (
            "healthcheck: { test: \"true\", intervall: 1s }",
            "healthcheck.intervall",
            "interval",
        ),
        (
            "deploy: { resources: { limit: { cpus: 1 } } }",
            "deploy.resources.limit",
            "limits",
        ),
        ("build: { context: ., agrs: { A: 1 } }", "build.agrs", "args"),
        (
            "secrets: [{ source: s, traget: x }]",
            "secrets[0].traget",
            "target",
        ),
        ("configs: [{ sources: c }]", "configs[0].sources", "source"),
        ("networks: { n: { aliase: [x] } }", "networks.n.aliase", "aliases"),
        (
            "env_file: [{ path: a.env, requird: false }]",
            "env_file[0].requird",
            "required",
        ),
        (
            "ulimits: { nofile: { softt: 1 } }",
            "ulimits.nofile.softt",
            "soft",
        ),
        ("enviroment: { A: 1 }", "enviroment", "environment"),
    ] {
        let text = format!("services:\n  b: {{ image: x }}\n  a:\n    image: x\n    {key}\n");
        let found = translated(&text, &[("a.env", "")]).contents;
        let found = found
            .diagnostics
            .iter()
            .find(|found| found.message.contains("is not a key"));
        let message =
            format!("`services.a.{path}` is not a key of Compose files; the nearest key is `{nearest}`");
        let found = found.unwrap_or_else(|| panic!("{key}"));
        let line = found.location.map(|location| location.line);
        assert_eq!(
            (found.message.as_str(), line, found.is_error()),
            (message.as_str(), Some(5), true)
        );
    }
    let outside = "services: { a: { image: x } }\nnetworks: { n: { internl: true } }\nvolume: { v: }\n";
    let expected = [
        "`networks.n.internl` is not a key of Compose files; the nearest key is `internal`",
        "`volume` is not a key of Compose files; the nearest key is `volumes`",
    ];
    assert_eq!(errors(outside, &[]), expected);
    let mine = "x-a: { b: [{ c: 1 }] }\nservices: { a: { image: x, x-b: 1, labels: { any: 1 }, healthcheck: { x-c: 1, test: \"true\" }, logging: { options: { any: \"1\" } } } }";
    assert_eq!(errors(mine, &[]), [""; 0]);
    let included = [("b.yaml", "services:\n  b:\n    image: x\n    port: [80]\n")];
    assert_eq!(
        errors("include: [b.yaml]", &included),
        ["`services.b.port` is not a key of Compose files (`b.yaml`, line 4); the nearest key is `ports`"]
    );
}

#[test]
fn disabled_health_check_leaves_the_check_of_the_port() {
    use argus_crds::ProbeType::{Docker, Tcp};
    for (keys, expected, notes) in [
        ("ports: [80]", Some(Docker), 0),
        ("ports: [80], healthcheck:", Some(Docker), 0),
        ("ports: [80], healthcheck: { disable: true }", Some(Tcp), 1),
        ("ports: [80], healthcheck: { test: [NONE] }", Some(Tcp), 1),
        ("ports: [53/udp], healthcheck: { disable: true }", None, 0),
        ("ports: [80], healthcheck: {}", Some(Docker), 0),
        ("user: u", None, 0),
    ] {
        let contents = translated(&format!("services: {{ a: {{ image: x, {keys} }} }}"), &[]).contents;
        assert_eq!(
            contents.diagnostics.len(),
            notes,
            "{keys}: {:?}",
            contents.diagnostics
        );
        let services = contents.spec.unwrap().services;
        let container = services[0].container.as_ref().unwrap();
        let check = container.healthcheck.as_ref();
        assert_eq!(check.map(|check| check.kind), expected, "{keys}");
        let port = (expected.is_some() && keys != "ports: [80], healthcheck: {}").then_some(80);
        assert_eq!(check.and_then(|check| check.port), port, "{keys}");
    }
}

#[test]
fn service_completes_if_compose_does_not_start_it_again() {
    for (keys, expected) in [
        ("user: u", true),
        ("restart: \"no\"", true),
        ("restart: \"on-failure:3\"", true),
        ("restart: always", false),
        ("deploy: { restart_policy: { condition: on-failure } }", true),
        ("deploy: { restart_policy: { delay: 1s } }", false),
        (
            "restart: always, deploy: { restart_policy: { condition: none } }",
            true,
        ),
        ("ports: [80]", false),
        ("ports: [53/udp]", false),
        ("healthcheck: { test: \"true\" }", false),
        ("healthcheck: { disable: true }", true),
    ] {
        let text = format!("services: {{ a: {{ image: x, {keys} }} }}");
        let services = translated(&text, &[]).contents.spec.unwrap().services;
        assert_eq!(services[0].can_complete, expected, "{keys}");
    }
    for (condition, expected) in [
        ("service_started", (true, false)),
        ("service_healthy", (false, false)),
        ("service_completed_successfully", (false, true)),
    ] {
        let text = format!(
            "services: {{ a: {{ image: x }}, b: {{ image: x, depends_on: {{ a: {{ condition: {condition} }} }} }} }}"
        );
        let services = translated(&text, &[]).contents.spec.unwrap().services;
        let found = (services[0].can_complete, services[0].one_shot);
        assert_eq!(found, expected, "{condition}");
    }
}

#[test]
fn files_of_the_project_replace_the_override_file() {
    let text = "services: { a: { image: x } }";
    let with = |files: &str| {
        let read = |path: &Path| match path.to_str() {
            Some("/shop/compose.override.yaml") => Ok(b"services: { b: { image: x } }".to_vec()),
            Some("/shop/ci.yaml") => Ok(b"services: { c: { image: x } }".to_vec()),
            _ => Err("no such file".to_owned()),
        };
        let variables = [("COMPOSE_FILE", files), ("COMPOSE_PROJECT_NAME", "till")];
        let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let source = ComposeSource {
            name: "compose.yaml",
            file: Path::new("/shop/compose.yaml"),
            bytes: text.as_bytes(),
            read: &read,
            variables: &variables.into(),
        };
        let contents = translate(&source).unwrap().contents;
        let notes = contents.diagnostics.into_iter().map(|note| note.message);
        let spec = contents.spec.or(contents.rest).unwrap();
        assert_eq!(spec.project.name, "till");
        let names = spec.services.into_iter().filter_map(|service| service.name);
        names.chain(notes).collect::<Vec<_>>()
    };
    assert_eq!(with(""), ["a", "b"]);
    assert_eq!(with("compose.yaml:ci.yaml"), ["a", "c"]);
    assert_eq!(
        with("ci.yaml"),
        [
            "a",
            "left out: the files in `COMPOSE_FILE`, which begins with `ci.yaml`"
        ]
    );
    assert_eq!(
        with("compose.yaml:gone.yaml"),
        ["a", "cannot read `gone.yaml`: no such file"]
    );
}

#[test]
fn file_with_several_spellings_is_read_once() {
    let names = |files: &str| {
        let reads = std::cell::Cell::new(0);
        let read = |path: &Path| {
            reads.set(reads.get() + usize::from(path.ends_with("ci.yaml")));
            Ok(b"services: { c: { image: x } }".to_vec())
        };
        let source = ComposeSource {
            name: "compose.yaml",
            file: Path::new("/shop/compose.yaml"),
            bytes: b"services: { a: { image: x } }",
            read: &read,
            variables: &BTreeMap::from([("COMPOSE_FILE".to_owned(), files.to_owned())]),
        };
        let notes = translate(&source).unwrap().contents.diagnostics;
        let notes: Vec<_> = notes.into_iter().map(|note| note.message).collect();
        (reads.get(), notes)
    };
    let spellings = "compose.yaml:ci.yaml:./ci.yaml:.//ci.yaml:././ci.yaml:ci.yaml";
    assert_eq!(names(spellings), (1, Vec::new()));
    let many = (0..65).map(|number| format!(":{number}.yaml"));
    let many = many.collect::<Vec<_>>().concat();
    assert_eq!(
        names(&format!("compose.yaml{many}")),
        (0, vec!["`COMPOSE_FILE` names more than 64 files".to_owned()])
    );
}

#[test]
fn variables_of_all_env_files_are_bounded() {
    let lines = (0..9_000).map(|number| format!("A{number}=1\n"));
    let file = lines.collect::<Vec<_>>().concat();
    let services =
        ('a'..='f').map(|name| format!("  {name}: {{ image: x, env_file: [big.env, big.env] }}\n"));
    let services = services.collect::<Vec<_>>().concat();
    let found = errors(&format!("services:\n{services}"), &[("big.env", &file)]);
    let excess = "`b`: `env_file`: the files under `env_file` of this project have more than 20000 variables";
    assert!(found.iter().any(|error| error == excess), "{found:?}");
}

#[test]
fn values_in_all_env_files_are_bounded() {
    let long = format!(
        "X={}\nY={}\nZ={}\n",
        "v".repeat(1_000),
        "$X".repeat(30),
        "$Y".repeat(30)
    );
    let one = "services: { j: { image: x } }\n";
    // Each entry has a copy of the variables around it.
    let entries = "{ path: j.yaml, env_file: own.env }, ".repeat(20);
    let nested = format!("include: [{entries}]\n");
    let files = [
        ("long.env", long.as_str()),
        ("own.env", "OWN=1\n"),
        ("j.yaml", one),
        ("nested.yaml", nested.as_str()),
    ];
    let many = "long.env, ".repeat(20);
    let excess = "the files under `env_file` of this project have more than 16777216 bytes with the values of their variables";
    for (text, place) in [
        (
            format!("services: {{ a: {{ image: x, env_file: [{many}] }} }}"),
            "`a`: `env_file`",
        ),
        (
            format!("include: [{{ path: j.yaml, env_file: [{many}] }}]"),
            "`include`",
        ),
        (
            "include: [{ path: nested.yaml, env_file: long.env }]".to_owned(),
            "`include`",
        ),
    ] {
        let found = errors(&text, &files);
        let excess = format!("{place}: {excess}");
        assert!(found.iter().any(|error| error.contains(&excess)), "{found:?}");
    }
}

#[test]
fn size_of_all_files_and_repetitions_is_bounded() {
    let excess = "the Compose files of this project have more than 8388608 bytes with the parts that `include` and `extends` repeat: \
                  remove some of both";
    let long = "x".repeat(900_000);
    let file = format!("x-a: {long}\n");
    let names: Vec<String> = (0..20).map(|number| format!("{number}.yaml")).collect();
    let files: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), file.as_str())).collect();
    let one = "services: { s: { image: x } }\n";
    let found = errors(&format!("include: [{}]\n{one}", names.join(", ")), &files);
    assert_eq!(found, [excess]);
    let mut text = format!("services:\n  s: {{ image: x, environment: {{ A: {long} }} }}\n");
    for number in 0..200 {
        writeln!(text, "  s{number}: {{ extends: s }}").unwrap();
    }
    assert!(errors(&text, &[]).iter().any(|error| error == excess));
    // A file with a mistake is not read again without end.
    let mut text = one.replace("{ s: { image: x } }", "\n  s: { image: x }");
    for number in 0..200 {
        writeln!(
            text,
            "  s{number}: {{ extends: {{ file: bad.yaml, service: a }} }}"
        )
        .unwrap();
    }
    let bad = format!("{file}- ]");
    let found = errors(&text, &[("bad.yaml", &bad)]);
    let reads = found.iter().filter(|error| error.starts_with("cannot read"));
    assert_eq!(
        (reads.count(), found.iter().any(|error| error == excess)),
        (9, true)
    );
}

#[test]
fn variables_without_an_end_are_read_in_linear_time() {
    let cpu_time = || {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        Duration::try_from(time).unwrap()
    };
    for text in ["${", "${A-", "${A}", "$"] {
        let (text, before) = (text.repeat(250_000), cpu_time());
        Variables::default().replace(&text);
        let took = cpu_time().saturating_sub(before);
        assert!(took < Duration::from_secs(3), "{took:?}");
    }
}

#[test]
fn values_of_a_wrong_kind_are_errors() {
    for (key, error) in [
        ("ports: \"80:80\"", "`ports` of the service `a` is not a list"),
        (
            "environment: [{ A_TOKEN: hidden }]",
            "`environment[0]` of the service `a` is not a text",
        ),
        (
            "labels: text",
            "`labels` of the service `a` is not a list or a map",
        ),
        (
            "command: 5",
            "`command` of the service `a` is not a text or a list",
        ),
    ] {
        let text = format!("services:\n  a:\n    image: x\n    {key}\n");
        assert_eq!(errors(&text, &[]).last().map(String::as_str), Some(error));
    }
}

#[test]
fn folders_in_memory_links_and_replicas_are_translated() {
    let text = r#"
services:
  a: { image: x, tmpfs: /run, shm_size: 256mb, volumes: [{ type: tmpfs, target: /cache, tmpfs: { size: 1gb } }], links: [b, "b:c"] }
  b: { image: x, depends_on: { gone: { condition: service_healthy, required: false } }, environment: [NONE, TAG] }
  none: { image: x, scale: 0 }
  zero: { image: x, deploy: { replicas: 0 } }
"#;
    let found = translated(text, &[]);
    let notes: Vec<_> = found
        .contents
        .diagnostics
        .iter()
        .map(|note| note.message.as_str())
        .collect();
    assert_eq!(
        notes,
        [
            "left out of `a`: `links`: `b:c`",
            "left out of `b`: `environment`: the variable `NONE`, which is not set",
            "left out: service `none`, which has no replicas",
            "left out: service `zero`, which has no replicas",
        ]
    );
    let services = found.contents.spec.unwrap().services;
    assert_eq!(
        services[0].tmpfs,
        ["/run", "/cache:size=1g", "/dev/shm:size=256m"]
    );
    assert_eq!(services[0].depends_on.len(), 1);
    assert_eq!(services[0].depends_on[0].service, "b");
    assert!(services[1].depends_on.is_empty());
    let variables = &services[1].container.as_ref().unwrap().environment;
    assert_eq!(variables.keys().collect::<Vec<_>>(), ["TAG"]);
}

#[test]
fn texts_and_variables_become_files_of_the_container() {
    let text = r#"
services:
  a:
    image: x
    secrets: [s, { source: t, target: /etc/token, mode: 0440, uid: "103" }]
    configs: [{ source: c, target: app/x.conf, mode: 0o400 }, { source: d, gid: staff }]
  b: { image: y }
secrets: { s: { environment: TAG }, t: { environment: P }, unused: { environment: NONE } }
configs:
  c: { content: "tag=${TAG} $$HOME {{ .Name }}\n" }
  d: { environment: P }
"#;
    let found = translated(text, &[]);
    let notes = found.contents.diagnostics.iter();
    let notes: Vec<_> = notes.map(|note| note.message.as_str()).collect();
    assert_eq!(notes, ["left out of `a`: `configs`: `gid` of `d`"]);
    assert!(!found.text.contains("till"), "{}", found.text);
    let services = found.contents.spec.unwrap().services;
    let files = services[0].container.as_ref().unwrap().files.iter();
    let files: Vec<_> = files
        .map(|file| {
            (
                file.path.as_str(),
                file.content.as_str(),
                file.mode.as_deref(),
                file.uid,
            )
        })
        .collect();
    let expected = [
        ("/run/secrets/s", "{{env.TAG}}", None, None),
        ("/etc/token", "{{env.P}}", Some("440"), Some(103)),
        (
            "/app/x.conf",
            "tag={{env.TAG}} $HOME {{ .Name }}\n",
            Some("400"),
            None,
        ),
        ("/d", "{{env.P}}", None, None),
    ];
    assert_eq!(files, expected);
    let missing = "services: { a: { image: x, secrets: [s] } }\nsecrets: { s: { environment: NONE } }";
    let found = errors(missing, &[]);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(
        found[0].starts_with("`secrets.s` needs the variable `NONE`, which is not set"),
        "{found:?}"
    );
}

#[test]
fn inputs_of_a_build_are_translated_or_noted() {
    let text = r#"
services:
  a:
    build:
      context: ./x
      secrets: [token, { source: variable, target: id, mode: "0400" }, gone]
      additional_contexts: { libs: ../libs, base: "docker-image://alpine:${TAG}", other: "service:b", git: "https://h/a.git" }
      ssh: [default, "key=/root/key"]
      cache_to: ["type=registry,ref=h/c,mode=max", h/d, "type=inline"]
  b: { build: { context: ., additional_contexts: ["libs=./libs"], ssh: default } }
secrets:
  token: { file: ./token.txt }
  variable: { environment: TOKEN }
"#;
    let found = translated(text, &[]);
    let notes: Vec<_> = found
        .contents
        .diagnostics
        .iter()
        .map(|note| note.message.trim_start_matches("left out of `a`: "))
        .collect();
    assert_eq!(
        notes,
        [
            "`build.cache_to: type=inline`",
            "`build.secrets`: `mode` of `variable`",
            "`build.secrets`: `gone` is neither a file nor a variable",
            "`build.additional_contexts.other`: `service:b` is neither a folder nor an image",
            "`build.additional_contexts.git`: `https://h/a.git` is neither a folder nor an image",
            "`build.ssh: key=/root/key`; Argus reads no private keys",
        ]
    );
    let services = found.contents.spec.unwrap().services;
    let build = services[0].build.as_ref().unwrap();
    assert_eq!(build.secrets["token"].file.as_deref(), Some("token.txt"));
    assert_eq!(build.secrets["id"].environment.as_deref(), Some("TOKEN"));
    let contexts: Vec<_> = build.additional_contexts.iter().collect();
    let expected = [("base", "docker-image://alpine:7"), ("libs", "../libs")];
    let expected = expected.map(|(name, from)| (name.to_owned(), from.to_owned()));
    assert_eq!(
        contexts,
        expected
            .iter()
            .map(|(name, from)| (name, from))
            .collect::<Vec<_>>()
    );
    assert_eq!(build.ssh, ["default"]);
    assert_eq!(build.cache_to, ["type=registry,ref=h/c,mode=max", "h/d"]);
    let build = services[1].build.as_ref().unwrap();
    assert_eq!(
        (build.additional_contexts["libs"].as_str(), build.ssh.len()),
        ("libs", 1)
    );
}

#[test]
fn privileges_are_requests_and_host_namespaces_are_errors() {
    let text = "services: { a: { image: x, privileged: true, cap_add: [NET_ADMIN], devices: [/dev/a, { source: /dev/b, permissions: r }] } }";
    let found = translated(text, &[]).contents;
    assert!(found.diagnostics.is_empty(), "{:?}", found.diagnostics);
    let service = &found.spec.unwrap().services[0];
    assert!(service.privileged);
    assert_eq!(service.cap_add, ["NET_ADMIN"]);
    assert_eq!(service.devices, ["/dev/a", "/dev/b:/dev/b:r"]);
    for key in ["network_mode", "pid", "ipc", "uts", "userns_mode"] {
        let text = format!("services:\n  a:\n    image: x\n    {key}: host\n");
        let found = translated(&text, &[]).contents.diagnostics;
        assert!(
            found[0]
                .message
                .starts_with(&format!("`{key}: host` of `a` is not allowed")),
            "{found:?}"
        );
        assert_eq!(found[0].location.unwrap().line, 4, "{key}");
    }
}

#[test]
fn network_of_another_service_is_translated() {
    let text = "services:\n  vpn: { image: x, ports: [\"80:80\"] }\n  web:\n    image: y\n    network_mode: service:vpn\n";
    let found = translated(text, &[]).contents;
    assert!(found.diagnostics.is_empty(), "{:?}", found.diagnostics);
    let services = found.spec.unwrap().services;
    assert_eq!(services[1].network_mode.as_deref(), Some("service:vpn"));
    for (mode, key) in [
        ("container:x", "network_mode"),
        ("service:vpn", "pid"),
        ("container:x", "ipc"),
    ] {
        let text = format!("services:\n  web:\n    image: y\n    {key}: {mode}\n");
        let found = errors(&text, &[]);
        let [error] = found.as_slice() else {
            panic!("{key}: {mode}")
        };
        assert!(
            error.starts_with(&format!("`{key}: {mode}` of `web` is not allowed")),
            "{error}"
        );
    }
    assert_eq!(
        errors("services: { a: { image: x, network_mode: none } }", &[]),
        [""; 0]
    );
}

#[test]
fn raw_file_keeps_quotes_and_variables() {
    let text = "services: { a: { image: x, env_file: [{ path: raw.env, format: raw }] } }";
    let found = translated(text, &[("raw.env", "# note\nA=\"1\" # $TAG\nB\nC=\n")]).contents;
    assert!(found.diagnostics.is_empty(), "{:?}", found.diagnostics);
    let services = found.spec.unwrap().services;
    let variables = &services[0].container.as_ref().unwrap().environment;
    let lines: Vec<_> = variables
        .iter()
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    assert_eq!(lines, ["A=\"1\" # $TAG", "C="]);
    let other = "services: { a: { image: x, env_file: [{ path: raw.env, format: json }] } }";
    assert!(errors(other, &[("raw.env", "")])[0].contains("the format `json`"));
}

#[test]
fn variable_without_a_value_removes_that_of_a_file() {
    let text = "services: { a: { image: x, env_file: a.env, environment: [NONE, TAG] } }";
    let found = translated(text, &[("a.env", "NONE=1\nTAG=1\nOTHER=1\n")]).contents;
    let services = found.spec.unwrap().services;
    let variables = &services[0].container.as_ref().unwrap().environment;
    assert_eq!(variables.keys().collect::<Vec<_>>(), ["OTHER", "TAG"]);
}

#[test]
fn commands_at_a_start_are_errors() {
    for key in ["pre_start", "post_start"] {
        let text = format!("services:\n  a:\n    image: x\n    {key}: [{{ command: y }}]\n");
        let found = errors(&text, &[]);
        let [error] = found.as_slice() else {
            panic!("{key}")
        };
        assert!(
            error.starts_with(&format!("`{key}` of `a` is not allowed")),
            "{error}"
        );
    }
    assert_eq!(
        errors("services: { a: { image: x, pre_stop: [{ command: y }] } }", &[]),
        [""; 0]
    );
}

#[test]
fn number_of_containers_is_translated() {
    for (keys, expected) in [
        ("scale: 2", Some(2)),
        ("deploy: { replicas: \"${TAG}\" }", Some(7)),
        ("deploy: { replicas: 1 }", None),
    ] {
        let found = translated(&format!("services: {{ a: {{ image: x, {keys} }} }}"), &[]).contents;
        assert!(found.diagnostics.is_empty(), "{keys}: {:?}", found.diagnostics);
        assert_eq!(found.spec.unwrap().services[0].replicas, expected, "{keys}");
    }
}

#[test]
fn restart_with_a_dependency_is_translated() {
    let text = "services: { db: { image: x }, web: { image: y, depends_on: { db: { condition: service_started, restart: true } } } }";
    let found = translated(text, &[]).contents;
    assert!(found.diagnostics.is_empty(), "{:?}", found.diagnostics);
    let services = found.spec.unwrap().services;
    assert!(services[1].depends_on[0].restart);
}

#[test]
fn numbers_have_the_values_of_variables() {
    let variables = "services: { a: { image: x, mem_limit: \"${TAG}m\", healthcheck: { test: y, retries: \"${TAG:-3}\" } } }";
    let text = translated(variables, &[]).text;
    assert!(
        text.contains("memory: 7MiB") && text.contains("retries: 7"),
        "{text}"
    );
}

#[test]
fn values_in_settings_are_limited() {
    let entries = "\"${B}\", ".repeat(1_000);
    let text = format!("services: {{ a: {{ image: x, tmpfs: [{entries}], mem_limit: \"${{B}}\" }} }}");
    let source = ComposeSource {
        name: "compose.yaml",
        file: Path::new("/shop/compose.yaml"),
        bytes: text.as_bytes(),
        read: &|_: &Path| Err("no such file".to_owned()),
        variables: &BTreeMap::from([("B".to_owned(), "1".repeat(200_000))]),
    };
    let found = translate(&source).unwrap();
    assert!(found.text.len() < 2 << 20, "{} bytes", found.text.len());
    let errors = found.contents.diagnostics.into_iter();
    let errors: Vec<_> = errors.map(|error| error.message).collect();
    let limit = "the values of variables are longer than 1048576 bytes in total, and the first left out is that of `B`";
    assert!(errors.iter().any(|error| error.starts_with(limit)), "{errors:?}");
}

#[test]
fn deep_and_long_input_ends_in_time() {
    let nested = "${A:-".repeat(20_000);
    let mut chain = String::new();
    for n in 1..400 {
        writeln!(chain, "  s{n}: {{ extends: s{} }}", n - 1).unwrap();
    }
    let one = "services:\n  s0: { image: x }\n";
    for text in [
        format!("services: {{ a: {{ image: x, command: \"{nested}\" }} }}"),
        format!("{one}{chain}"),
        format!("include: [{}]\n{one}", "loop.yaml, ".repeat(500)),
    ] {
        drop(translated(
            &text,
            &[("loop.yaml", "include: [loop.yaml, ./loop.yaml]")],
        ));
    }
}

#[test]
fn missing_env_file_has_a_hint() {
    let read = translated("services: { a: { image: x, env_file: gone.env } }", &[]);
    let found = read.contents.diagnostics.iter().find(|it| it.is_error()).unwrap();
    assert!(
        found
            .message
            .starts_with("`a`: `env_file`: cannot read `gone.env`"),
        "{found:?}"
    );
    let hint =
        "create `gone.env`, or write `{ path: gone.env, required: false }` for a file that can be absent";
    assert_eq!(found.hint.as_deref(), Some(hint));
}
