//! Completeness of the error table, and of the calls in remedies.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

use std::collections::BTreeSet;

use argus_crds::error::{Category, Reason};
use argus_crds::{ActionId, Class, Code, Confidence, SpecEdit, StructuredError};
use serde_json::json;

#[test]
fn every_code_has_a_complete_table_entry() {
    let mut seen = BTreeSet::new();
    assert_eq!(Code::ALL.len(), 47);
    for code in Code::ALL {
        let entry = code.explanation();
        assert!(
            seen.insert(entry.summary),
            "{code} has the summary of another code"
        );
        assert!(
            entry.summary.starts_with(char::is_lowercase) || entry.summary.starts_with("Argus"),
            "{code}"
        );
        assert!(
            !entry.summary.ends_with('.') && entry.explanation.ends_with('.'),
            "{code}"
        );
        assert!(entry.explanation.len() > 60, "{code} has a short explanation");
        assert!(!entry.actions.is_empty(), "{code} has no actions");
        assert_eq!(serde_json::to_value(code).unwrap(), json!(code.as_str()));
        assert_eq!(code.as_str().parse::<Code>().unwrap(), *code);
    }
}

/// Requirements of user story 1. Above the threshold, a nearly full disk has the severity `warning`.
const DEMANDED: &[(&str, &str, &str)] = &[
    ("DOCKER_UNAVAILABLE", "infrastructure", "fatal"),
    ("DISK_SPACE_LOW", "infrastructure", "fatal"),
    ("PORT_CONFLICT", "network", "recoverable"),
    ("PORT_EXHAUSTION", "network", "fatal"),
    ("CONTAINER_OOM", "container", "recoverable"),
    ("CONTAINER_CRASH", "container", "recoverable"),
    ("CONTAINER_RESTART_EXHAUSTED", "container", "fatal"),
    ("HEALTH_CHECK_TIMEOUT", "container", "recoverable"),
    ("NETWORK_UNREACHABLE", "network", "recoverable"),
    ("DNS_RESOLUTION_FAILED", "network", "recoverable"),
    ("CIRCUIT_OPEN", "system", "recoverable"),
    ("ORPHAN_DETECTED", "system", "warning"),
    ("CLEANUP_FAILED", "system", "warning"),
];

#[test]
fn required_codes_have_their_category_and_severity() {
    for (code, category, severity) in DEMANDED {
        let error = StructuredError::new(code.parse().unwrap(), "x").details(json!({}));
        let json = serde_json::to_value(error).unwrap();
        assert_eq!(
            (&json["code"], &json["category"], &json["severity"]),
            (&json!(code), &json!(category), &json!(severity))
        );
        for field in ["message", "details", "suggestedActions"] {
            assert!(!json[field].is_null(), "{code}: {field}");
        }
    }
}

/// Pages that define the classes, and the folders with all pages.
const CLASS_PAGES: [&str; 3] = ["agents.md", "errors.md", "interfaces.md"];
const DOCS: [&str; 2] = [
    concat!(env!("CARGO_MANIFEST_DIR"), "/../docs"),
    concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/reference"),
];

/// Meaning of the class that this line of a page defines, as a list item or as a row of a table.
fn defined_meaning(line: &str, class: Class) -> Option<&str> {
    let line = line.trim();
    let item = format!("- `{}`: ", class.name());
    let row = format!("| `{}` | ", class.name());
    line.strip_prefix(&item)
        .or_else(|| line.strip_prefix(&row)?.strip_suffix(" |"))
}

#[test]
fn every_page_gives_a_class_the_meaning_of_the_table() {
    let mut definitions = BTreeSet::new();
    let folders = DOCS.map(|folder| std::fs::read_dir(folder).expect("the pages"));
    for entry in folders.into_iter().flatten() {
        let path = entry.expect("a page").path();
        if path.extension().is_none_or(|extension| extension != "md") {
            continue;
        }
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        let page = std::fs::read_to_string(&path).expect("a page");
        for class in Class::ALL {
            assert_eq!(serde_json::to_value(class).unwrap(), json!(class.name()));
            for meaning in page.lines().filter_map(|line| defined_meaning(line, class)) {
                assert_eq!(meaning, class.meaning(), "{name}: {}", class.name());
                definitions.insert((name.clone(), class.name()));
            }
        }
    }
    let expected = CLASS_PAGES.iter().flat_map(|page| {
        let names = Class::ALL.map(Class::name);
        names.map(|class| ((*page).to_owned(), class))
    });
    assert_eq!(definitions, expected.collect());
}

#[test]
fn port_codes_share_one_category() {
    for code in [
        Code::PortConflict,
        Code::PortExhaustion,
        Code::PortStaleAllocation,
    ] {
        assert_eq!(code.explanation().category, Category::Network, "{code}");
    }
}

#[test]
fn misspelt_code_names_the_nearest() {
    assert_eq!("port-conflict".parse::<Code>().unwrap(), Code::PortConflict);
    let error = "PORT_CONFLCT".parse::<Code>().unwrap_err();
    assert_eq!(error.nearest, Some(Code::PortConflict));
    assert_eq!(
        error.to_string(),
        "`PORT_CONFLCT` is not a valid error code; the nearest is `PORT_CONFLICT`"
    );
}

#[test]
fn remedies_contain_no_placeholders() {
    for action in ActionId::ALL {
        for (environment, service) in [(None, None), (Some("shop"), None), (Some("shop"), Some("api"))] {
            let remedy = action.remedy(environment, service);
            let text = serde_json::to_string(&remedy).unwrap();
            assert!(!text.contains("{env}") && !text.contains("{service}"), "{text}");
            assert!(!remedy.summary.is_empty());
            assert!(remedy.command.is_some() && remedy.mcp.is_some(), "{text}");
        }
        assert!(
            Code::ALL
                .iter()
                .any(|code| code.explanation().actions.contains(action)),
            "no code suggests {action:?}"
        );
    }
}

#[test]
fn first_remedy_harms_no_foreign_object() {
    let never_first = [
        // They remove, stop or rename an object of another owner.
        ActionId::ResolveNameConflict,
        ActionId::FreePort,
        ActionId::FreeNetworks,
        ActionId::StopOtherController,
        // It ends the hold of another person.
        ActionId::Resume,
        // Without a change, it fails again.
        ActionId::Retry,
        ActionId::FixContainer,
    ];
    for code in Code::ALL {
        let first = code.explanation().actions[0];
        assert!(!never_first.contains(&first), "{code}: {first:?}");
    }
}

#[test]
fn remedies_of_a_held_name_fit_the_file_and_the_holder() {
    let details = |is_compose| serde_json::json!({ "ofCompose": is_compose, "holder": { "stop": "cd /srv/shop2 && argus stop" } });
    for (is_compose, expected) in [(true, "`name`"), (false, "`isolation.namespace`")] {
        let error = StructuredError::new(Code::LeaseHeld, "it is held")
            .details(details(is_compose))
            .suggest(&[ActionId::SetNamespace, ActionId::StopOtherController]);
        let [name, stop] = &error.remedies[..] else {
            panic!("two remedies: {:?}", error.remedies)
        };
        assert!(name.summary.contains(expected), "{}", name.summary);
        assert_eq!(stop.command.as_deref(), Some("cd /srv/shop2 && argus stop"));
        assert_eq!(stop.verify, None);
    }
}

#[test]
fn remedy_of_a_missing_volume_creates_it() {
    let error = StructuredError::new(Code::VolumeNotFound, "the volume does not exist")
        .details(serde_json::json!({ "volume": "shop_data" }))
        .environment("shop");
    assert_eq!(
        error.remedies[0].command.as_deref(),
        Some("docker volume create shop_data")
    );
}

#[test]
fn edit_is_the_first_remedy_and_stays_it() {
    let edit = SpecEdit::new("e2e.yaml", "services.web.memory", "it used 90MiB")
        .line(7)
        .now("64m")
        .suggest("128MiB");
    let error = StructuredError::new(Code::ContainerOom, "out of memory")
        .edit(edit.clone())
        .environment("shop")
        .service("web");
    assert_eq!(
        error.suggested_actions,
        [
            ActionId::FixSpec,
            ActionId::RaiseMemoryLimit,
            ActionId::InspectLogs
        ]
    );
    let json = serde_json::to_value(&error).unwrap();
    let remedy = &json["remedies"][0];
    assert_eq!(
        remedy["summary"],
        "change `memory` from `64m` to `128MiB` in e2e.yaml:7 (it used 90MiB)"
    );
    assert_eq!(
        (
            &remedy["file"],
            &remedy["line"],
            &remedy["key"],
            &remedy["now"],
            &remedy["suggest"],
            &remedy["reason"]
        ),
        (
            &json!("e2e.yaml"),
            &json!(7),
            &json!("services.web.memory"),
            &json!("64m"),
            &json!("128MiB"),
            &json!("it used 90MiB")
        )
    );
    assert_eq!(remedy["confidence"], "certain");
    let read: StructuredError = serde_json::from_value(json.clone()).unwrap();
    assert_eq!(read.remedies[0].edit, Some(edit));
    assert_eq!(read.remedies[1].edit, None);

    // An earlier version wrote no confidence.
    let mut earlier = json;
    let remedy = earlier["remedies"][0].as_object_mut().unwrap();
    remedy.remove("confidence");
    let read: StructuredError = serde_json::from_value(earlier).unwrap();
    let edit = read.remedies[0].edit.as_ref().unwrap();
    assert_eq!(edit.confidence, Confidence::Likely);
}

#[test]
fn remedies_name_environment_and_service() {
    let error = StructuredError::new(Code::ContainerCrash, "exit 1")
        .environment("my shop")
        .service("api");
    let logs = error
        .remedies
        .iter()
        .find(|remedy| remedy.action == ActionId::InspectLogs)
        .unwrap();
    assert_eq!(logs.command.as_deref(), Some("argus logs 'my shop' api"));
}

#[test]
fn reason_suggests_its_actions() {
    let actions = |reason| StructuredError::missing(reason, "x").suggested_actions;
    assert_eq!(actions(Reason::NotReady), [ActionId::Wait]);
    assert_eq!(
        actions(Reason::MissingPrerequisite),
        [ActionId::InstallPrerequisite, ActionId::RunPreflight]
    );
    assert_eq!(actions(Reason::NotFound), []);
}

#[test]
fn remedy_without_environment_lists_environments() {
    let retry = ActionId::Retry.remedy(None, None);
    assert_eq!(retry.summary, "retry with the same inputs");
    assert_eq!(retry.verify.as_deref(), Some("list the environments"));
    assert_eq!(retry.command.as_deref(), Some("argus get"));
    assert_eq!(retry.mcp.map(|call| call.tool).as_deref(), Some("argus_status"));
}

#[test]
fn change_of_another_file_has_the_calls_of_a_retry() {
    let first = |key: &str, environment: Option<&str>| {
        let error = StructuredError::new(Code::ContainerCrash, "x").edit(SpecEdit::new("a", key, "b"));
        let error = match environment {
            Some(environment) => error.environment(environment),
            None => error,
        };
        let remedy = error.remedies.into_iter().next().unwrap();
        let call = remedy.mcp.unwrap();
        assert_eq!(call.verify, remedy.verify);
        (remedy.command.unwrap(), call.tool, remedy.verify.unwrap())
    };
    for (key, environment, expected) in [
        ("", Some("shop"), ["argus retry shop", "argus_retry", "retry"]),
        ("", None, ["argus get", "argus_status", "list the environments"]),
        (
            "name",
            Some("shop"),
            ["argus validate", "argus_validate", "check the file"],
        ),
    ] {
        let (command, tool, verify) = first(key, environment);
        assert_eq!([command, tool, verify], expected);
    }
}

#[test]
fn error_is_camel_case_and_omits_unknown_fields() {
    let error = StructuredError::new(Code::HealthCheckTimeout, "no response")
        .retry_after(5)
        .error_id("01J");
    let json = serde_json::to_value(&error).unwrap();
    assert_eq!(json["code"], "HEALTH_CHECK_TIMEOUT");
    assert_eq!(
        (&json["category"], &json["class"]),
        (&json!("container"), &json!("transient"))
    );
    assert_eq!(
        (&json["severity"], &json["retryable"]),
        (&json!("recoverable"), &json!(true))
    );
    assert_eq!(
        (&json["retryAfter"], &json["errorId"]),
        (&json!(5), &json!("01J"))
    );
    assert_eq!(json["suggestedActions"][0], "inspect_logs");
    for absent in [
        "environment",
        "containerId",
        "exitCode",
        "stdoutTail",
        "debug",
        "timestamp",
    ] {
        assert!(json.get(absent).is_none(), "{absent}");
    }
    assert_eq!(serde_json::from_value::<StructuredError>(json).unwrap(), error);
}

#[test]
fn details_are_an_object_even_from_earlier_versions() {
    let error = StructuredError::new(Code::Internal, "x");
    let json = serde_json::to_value(&error).unwrap();
    assert_eq!(json["details"], json!({}));
    let more = error
        .clone()
        .details(json!({ "a": 1 }))
        .details(json!({ "b": 2 }));
    assert_eq!(serde_json::Value::Object(more.details), json!({ "a": 1, "b": 2 }));
    let mut earlier = json;
    for written in [None, Some(json!(null))] {
        let fields = earlier.as_object_mut().unwrap();
        fields.remove("details");
        fields.extend(written.map(|written| ("details".to_owned(), written)));
        assert_eq!(
            serde_json::from_value::<StructuredError>(earlier.clone()).unwrap(),
            error
        );
    }
}

#[test]
fn tails_keep_their_end_and_whole_characters() {
    let error = StructuredError::new(Code::ContainerCrash, "x").tails("", &"ü".repeat(4000));
    assert_eq!(error.stdout_tail, None);
    let tail = error.stderr_tail.unwrap();
    assert!(tail.len() <= 4096 && tail.len() > 4090);
    let cut = StructuredError::new(Code::ContainerCrash, "x").tails(&format!("{}end", "a".repeat(5000)), "");
    assert!(cut.stdout_tail.unwrap().ends_with("end"));
}

#[test]
fn full_disk_suggests_only_what_frees_enough() {
    let remedy = |details: serde_json::Value| {
        let error = StructuredError::new(Code::DiskSpaceLow, "full").details(details);
        error.remedies.into_iter().next().unwrap()
    };
    let prune = remedy(json!({
        "dataRoot": "/data", "freeBytes": 9_900_000, "thresholdBytes": 20_000_000,
        "reclaimable": { "imagesBytes": 10_000_000, "buildCacheBytes": 100_000 },
    }));
    assert_eq!(
        (prune.summary.as_str(), prune.command.as_deref()),
        ("remove replaced images and the build cache", Some("argus prune"))
    );
    let files = remedy(json!({
        "dataRoot": "/data", "freeBytes": 9_900_000, "thresholdBytes": 20_000_000,
        "reclaimable": { "imagesBytes": 10_000_000, "buildCacheBytes": 99_999 },
    }));
    assert_eq!(
        (
            files.summary.as_str(),
            files.command.as_deref(),
            files.verify.as_deref()
        ),
        (
            "remove 11MB of files from the disk of `/data` (`argus prune` can free only 10MB)",
            Some("argus preflight"),
            Some("check the disk")
        )
    );
    let unknown = remedy(json!({ "dataRoot": "/data" }));
    assert!(
        unknown
            .summary
            .ends_with(", or other files on the disk of `/data`"),
        "{unknown:?}"
    );
}
