//! Normalization of values that differ between runs; the replacements have the same length, so that columns stay.

/// Patterns and their replacements.
const SAME: &[(&str, &str)] = &[
    (
        r"unix:///\s*tmp/argus-engines/\S*\s*\S*\s*engine\.sock",
        "unix:///var/run/docker.sock",
    ),
    (
        r"/tmp/argus-engines/\d+/t/ho+",
        "/home/engineer/projects/a/web/shop01",
    ),
    (
        r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z",
        "2026-01-01T00:00:00.000Z",
    ),
    (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", "2026-01-01T00:00:00Z"),
    (r"\b[0-9a-f]{32}\b", "00000000000000000000000000000000"),
    (r"\b[0-9a-f]{12}\b", "000000000000"),
    (r"\bengine (unix:\S+\s+)?\d+\.[^\s,]+", "engine ${1}20.10.24"),
    (r"\bAPI \d+\.\d+", "API 1.41"),
    (r"\bafter \d+(\s*)(?:ms|s)\b", "after 5 ms"),
    (r"tini \(\d+\)", "tini (7)"),
    // Ages of orphans.
    (
        r"(?m)^((?:container|network)\s+warehouse-\S+\s+warehouse\s+r\s+)(?:\d\d[smh]|\d[smh] )",
        "${1}45s",
    ),
    // The order of parallel actions differs.
    (r"(?m)^Events:\n(?:  .*\n)+", "Events:\n  …\n"),
];

/// The settings of all snapshots here.
pub(crate) fn settings() -> insta::Settings {
    let mut settings = insta::Settings::clone_current();
    for (pattern, same) in SAME {
        settings.add_filter(pattern, *same);
    }
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings
}
