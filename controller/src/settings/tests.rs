//! Settings of flags, files and variables.

use super::*;

#[test]
fn each_flag_takes_one_value() {
    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        options: AdmissionOptions,
        files: Vec<PathBuf>,
    }
    let line = [
        "argus",
        "--env-allow",
        "A",
        "--env-allow",
        "B",
        "--allow-mount",
        "/x",
        "e2e.yaml",
    ];
    let line = <Line as clap::Parser>::try_parse_from(line).unwrap();
    assert_eq!(line.options.env_allow, ["A", "B"]);
    assert_eq!(line.options.allow_mount, [Path::new("/x")]);
    assert_eq!(line.files, [Path::new("e2e.yaml")]);
}

#[test]
fn flag_overrides_file_and_file_overrides_default() {
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("argus.toml");
    std::fs::write(
        &config,
        "specs = \"from-file\"\nstrict = true\nlog-format = \"json\"\n",
    )
    .unwrap();
    let options = Options {
        config: Some(config.clone()),
        state: Some("flag".into()),
        ..Options::default()
    };
    let settings = Settings::resolve(&options, &SpecOptions::default()).unwrap();
    assert_eq!(settings.specs, Path::new("from-file"));
    assert_eq!(settings.state, StateDir::at("flag"));
    assert!(settings.strict && settings.helpers && settings.log_format == LogFormat::Json);
    assert_eq!(settings.publish_address, IpAddr::V4(Ipv4Addr::LOCALHOST));
    let flags = SpecOptions {
        specs: Some("flag".into()),
        ..SpecOptions::default()
    };
    assert_eq!(
        Settings::resolve(&options, &flags).unwrap().specs,
        Path::new("flag")
    );
    std::fs::write(
        &config,
        "debug = true\ncolor = \"never\"\ntimeout-long = \"5m\"\nbreaker-threshold = 9\n",
    )
    .unwrap();
    let settings = Settings::resolve(&options, &flags).unwrap();
    assert!(settings.debug && settings.color == Colour::Never && settings.times.breaker_threshold == 9);
    assert_eq!(settings.times.deadlines.long, Duration::from_secs(300));
    for bad in ["spec = \"typo\"\n", "timeout-short = \"2m\"\n"] {
        std::fs::write(&config, bad).unwrap();
        assert!(Settings::resolve(&options, &flags).is_err(), "{bad}");
    }
}

#[test]
fn project_cannot_raise_a_ceiling_of_the_user() {
    let file = |text: &str| toml::from_str::<File>(text).unwrap();
    let user = "ceiling = { max-pids = 100, min-port = 1024, no-new-privileges = true }";
    let project = "ceiling = { max-pids = 4000000, min-port = 1, max-log-size = '1GB' }";
    let both = file(project).over(file(user)).ceiling;
    assert_eq!((both.max_pids, both.min_port), (Some(100), Some(1_024)));
    assert!(both.no_new_privileges && both.max_log_size.is_some());
    assert!(toml::from_str::<File>("ceiling = { pids = 1 }").is_err());
    // A ceiling widens nothing, so it also counts in a project that is not allowed.
    assert_eq!(trust::list_widening(project, std::path::Path::new(".")), [""; 0]);
}

#[test]
fn page_lists_every_settings_key_with_its_default() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/cli.md");
    let page = std::fs::read_to_string(page).unwrap();
    let (_, from) = page.split_once("```toml\n").expect("a block");
    let (example, _) = from.split_once("```").expect("its end");
    // The error of an unknown key lists all known keys.
    let known = toml::from_str::<File>("no-key = 1").unwrap_err().to_string();
    let (_, known) = known.split_once("expected one of ").expect("the keys");
    let known: Vec<_> = known.split('`').skip(1).step_by(2).collect();
    let table: toml::Table = toml::from_str(example).unwrap();
    for key in &known {
        assert!(table.contains_key(*key), "{key} is not on the page");
    }
    assert_eq!(table.len(), known.len());
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("argus.toml");
    // For settings without a default, the page shows an example.
    let unset = [
        "state",
        "docker-host",
        "status-group",
        "env-allow",
        "allow-mount",
        "namespace-from",
        "ceiling",
        "build-cache-limit",
        "breaker-cooldown",
    ];
    let set: Vec<_> = example
        .lines()
        .filter(|line| !unset.iter().any(|key| line.starts_with(key)))
        .collect();
    let resolved = |text: &str| {
        std::fs::write(&config, text).unwrap();
        let options = Options {
            config: Some(config.clone()),
            ..Options::default()
        };
        let mut settings = Settings::resolve(&options, &SpecOptions::default()).unwrap();
        settings.specs_given = false;
        settings
    };
    assert_eq!(
        format!("{:?}", resolved(&set.join("\n"))),
        format!("{:?}", resolved(""))
    );
}
