//! Names of Compose files, and the names of keys in them.

/// File names under which Compose finds its file, in its order.
pub const COMPOSE_NAMES: [&str; 4] = [
    "compose.yaml",
    "compose.yml",
    "docker-compose.yaml",
    "docker-compose.yml",
];

/// Returns true if a file of this name is a Compose file: `compose.yaml`, `docker-compose.yml`, or one with a word in between, such as
/// `compose.test.yaml`.
pub fn is_compose_name(name: &str) -> bool {
    let stem = name.strip_suffix(".yaml").or_else(|| name.strip_suffix(".yml"));
    stem.is_some_and(|stem| {
        let rest = stem
            .strip_prefix("compose")
            .or_else(|| stem.strip_prefix("docker-compose"));
        rest.is_some_and(|rest| {
            rest.is_empty() || (rest.starts_with('.') && rest.rsplit('.').next() != Some("e2e"))
        })
    })
}

/// Returns the key of a service in a Compose file for a key of a service in a spec file; both are relative to the service.
///
/// ```rust
/// use argus_crds::compose::compose_key;
///
/// assert_eq!(compose_key("container.healthcheck.startPeriod"), "healthcheck.start_period");
/// assert_eq!(compose_key("dependsOn[0].condition"), "depends_on[0].condition");
/// ```
pub fn compose_key(key: &str) -> String {
    if key == "container.name" {
        return "container_name".to_owned();
    }
    let key = key.strip_prefix("container.").unwrap_or(key);
    let end = key.find(['.', '[']).unwrap_or(key.len());
    let (first, rest) = key.split_at(end);
    let first = match first {
        "container" => "",
        "aliases" => "networks",
        "dependsOn" => "depends_on",
        "networkMode" => "network_mode",
        "workingDir" => "working_dir",
        "stopSignal" => "stop_signal",
        "readOnly" => "read_only",
        "noNewPrivileges" => "security_opt",
        "stdinOpen" => "stdin_open",
        "capDrop" => "cap_drop",
        "capAdd" => "cap_add",
        "extraHosts" => "extra_hosts",
        "pullPolicy" => "pull_policy",
        "stopGrace" => "stop_grace_period",
        "memory" => "mem_limit",
        "canComplete" => "restart",
        "replicas" => "scale",
        other => other,
    };
    let rest = match (first, rest) {
        ("healthcheck", ".command" | ".type") => ".test",
        ("healthcheck", ".startPeriod") => ".start_period",
        ("build", ".platform") => ".platforms",
        ("build", ".cacheFrom") => ".cache_from",
        ("build", ".cacheTo") => ".cache_to",
        ("build", ".additionalContexts") => ".additional_contexts",
        ("build", ".dockerfileInline") => ".dockerfile_inline",
        (_, rest) => rest,
    };
    match (first, rest) {
        ("build", ".image") => "image".to_owned(),
        (first, rest) => format!("{first}{rest}"),
    }
}

/// Returns a value of a key of a spec file as a Compose file writes it.
pub fn compose_value(key: &str, value: &str) -> String {
    if key == "noNewPrivileges" {
        return format!("[\"no-new-privileges:{value}\"]");
    }
    match (key.ends_with("].condition"), value) {
        (true, "started") => "service_started".to_owned(),
        (true, "healthy") => "service_healthy".to_owned(),
        (true, "completed") => "service_completed_successfully".to_owned(),
        _ => value.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compose_files_have_known_names() {
        for name in COMPOSE_NAMES {
            assert!(is_compose_name(name), "{name}");
        }
        for (name, expected) in [
            ("compose.test.yaml", true),
            ("docker-compose.ci.yml", true),
            ("compose.e2e.yaml", false),
            ("composer.yaml", false),
            ("compose.json", false),
            ("my-compose.yaml", false),
            ("e2e.yaml", false),
        ] {
            assert_eq!(is_compose_name(name), expected, "{name}");
        }
    }

    #[test]
    fn keys_have_the_names_of_compose() {
        for (key, expected) in [
            ("", ""),
            ("image", "image"),
            ("memory", "mem_limit"),
            ("container", ""),
            ("container.name", "container_name"),
            ("container.ports[1]", "ports[1]"),
            ("container.environment.DB.URL", "environment.DB.URL"),
            ("container.healthcheck.command", "healthcheck.test"),
            ("build.cacheFrom", "build.cache_from"),
            ("build.additionalContexts", "build.additional_contexts"),
            ("build.dockerfileInline", "build.dockerfile_inline"),
            ("build.image", "image"),
            ("build.args.A", "build.args.A"),
        ] {
            assert_eq!(compose_key(key), expected, "{key}");
        }
        assert_eq!(
            compose_value("dependsOn[0].condition", "healthy"),
            "service_healthy"
        );
        assert_eq!(compose_value("container.environment.A", "healthy"), "healthy");
    }
}
