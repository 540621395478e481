//! Top-level modules of each crate form a directed acyclic graph.

use std::collections::{BTreeMap, BTreeSet};

use crate::{code, modules, none, read};

/// Source folders of the crates, from the workspace. The tests have binaries and no architecture.
fn crates() -> Vec<String> {
    let manifest = read("Cargo.toml");
    let (_, members) = manifest.split_once("members = [").expect("members");
    let members = members.split(']').next().unwrap_or_default();
    let names = members.split('"').skip(1).step_by(2);
    names
        .filter(|name| *name != "tests")
        .map(|name| format!("{name}/src/"))
        .collect()
}

type Graph = BTreeMap<String, BTreeSet<String>>;

/// Module path of a file, such as `["plan", "service"]`; empty for the root of the crate.
fn module_path(file: &str) -> Vec<&str> {
    match file.trim_end_matches(".rs") {
        "lib" | "main" => Vec::new(),
        path => path.split('/').collect(),
    }
}

/// Code without string literals and comments at the end of a line.
fn without_texts(code: &str) -> String {
    let mut out = String::with_capacity(code.len());
    let mut chars = code.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '"' => loop {
                match chars.next() {
                    Some('\\') => drop(chars.next()),
                    Some('"') | None => break,
                    Some(_) => {}
                }
            },
            '/' if chars.peek() == Some(&'/') => {
                while chars.peek().is_some_and(|next| *next != '\n') {
                    chars.next();
                }
            }
            // The character literal of a quotation mark.
            '\'' if chars.peek() == Some(&'"') => drop(chars.next()),
            c => out.push(c),
        }
    }
    out
}

/// First names after a path prefix: one, or those of a brace group.
fn first_names(rest: &str) -> Vec<&str> {
    let name = |text: &str| {
        text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_')
            .unwrap_or(text.len())
    };
    let Some(group) = rest.strip_prefix('{') else {
        return vec![&rest[..name(rest)]];
    };
    let (mut names, mut depth, mut start) = (Vec::new(), 0_usize, true);
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => start = true,
            c if start && !c.is_whitespace() => {
                names.push(&group[at..at + name(&group[at..])]);
                start = false;
            }
            _ => {}
        }
    }
    names
}

/// Top-level modules that a file names with a path from the root of the crate.
fn named_modules(code: &str, depth: usize) -> BTreeSet<String> {
    let code = without_texts(code);
    let to_root = "super::".repeat(depth);
    let mut names = BTreeSet::new();
    for prefix in ["crate::", to_root.as_str()] {
        for (at, _) in code.match_indices(prefix).filter(|_| !prefix.is_empty()) {
            let before = code[..at].chars().next_back();
            let is_whole = before.is_none_or(|c| !c.is_ascii_alphanumeric() && c != '_' && c != ':');
            if is_whole {
                let found = first_names(code[at + prefix.len()..].trim_start());
                names.extend(found.into_iter().map(str::to_owned));
            }
        }
    }
    names
}

fn graph(source: &str, all: &[String]) -> Graph {
    // The sources of the other crates are below `controller/`, but not below `controller/src/`.
    let files: Vec<&str> = all.iter().filter_map(|path| path.strip_prefix(source)).collect();
    let tops: BTreeSet<&str> = files
        .iter()
        .filter_map(|file| module_path(file).first().copied())
        .collect();
    let mut graph = Graph::new();
    for file in files {
        let path = module_path(file);
        let Some(top) = path.first() else { continue };
        let named = named_modules(&code(&format!("{source}{file}")), path.len());
        let edges = named
            .into_iter()
            .filter(|name| name != top && tops.contains(name.as_str()));
        graph.entry((*top).to_owned()).or_default().extend(edges);
    }
    graph
}

/// Removes modules without remaining dependencies until none is left. The rest is in a cycle, or depends on one.
fn modules_in_cycles(mut graph: Graph) -> Graph {
    loop {
        let free: Vec<String> = graph
            .iter()
            .filter(|(_, named)| named.iter().all(|name| !graph.contains_key(name)))
            .map(|(module, _)| module.clone())
            .collect();
        if free.is_empty() {
            let left: BTreeSet<String> = graph.keys().cloned().collect();
            for named in graph.values_mut() {
                named.retain(|name| left.contains(name));
            }
            return graph;
        }
        graph.retain(|module, _| !free.contains(module));
    }
}

#[test]
fn top_level_modules_of_each_crate_form_a_dag() {
    let all = modules();
    let mut offences = Vec::new();
    let crates = crates();
    assert!(crates.len() > 7, "{crates:?}");
    for source in crates {
        let graph = graph(&source, &all);
        assert!(graph.len() > 2, "{source} has modules");
        let cycles = modules_in_cycles(graph);
        let edge = |(module, named): (&String, &BTreeSet<String>)| format!("{source}{module} -> {named:?}");
        offences.extend(cycles.iter().map(edge));
    }
    none("modules in cycles", &offences);
}

#[test]
fn cycle_is_found_and_a_dag_is_not() {
    let graph = |edges: &[(&str, &str)]| -> Graph {
        let mut graph = Graph::new();
        for (from, to) in edges {
            graph
                .entry((*from).to_owned())
                .or_default()
                .insert((*to).to_owned());
            graph.entry((*to).to_owned()).or_default();
        }
        graph
    };
    assert!(modules_in_cycles(graph(&[("a", "b"), ("a", "c"), ("b", "c")])).is_empty());
    let cycle = modules_in_cycles(graph(&[("a", "b"), ("b", "c"), ("c", "b")]));
    assert_eq!(cycle.keys().collect::<Vec<_>>(), ["a", "b", "c"]);
}

#[test]
fn modules_are_named_by_crate_paths_and_super_paths() {
    let code = "use crate::{plan::{Plan, state}, wait};\nuse super::super::time::At;\nlet x = crate::lease::of(\"crate::no\"); // crate::never\nuse argus_crate::other;";
    let names: Vec<String> = named_modules(code, 2).into_iter().collect();
    assert_eq!(names, ["lease", "plan", "time", "wait"]);
}
