//! `argus graph`: prints services, dependencies and states as a graph for Mermaid or Graphviz, with the chain of causes highlighted.

use std::collections::{BTreeMap, BTreeSet};

use argus_crds::status::EnvironmentStatus;
use argus_reconciler::specs::source::SpecSource;
use clap::{Args, ValueEnum};
use tokio_util::sync::CancellationToken;

use super::{call, notes};
use crate::api::environments::GetEnvironment;
use crate::api::target;
use crate::process::exit::{Exit, Failure};
use crate::render::output;
use crate::render::status_text::is_good;
use crate::settings::{Options, SpecOptions};
use crate::spec_files;

#[derive(Debug, Args)]
pub(crate) struct Graph {
    /// Environment name [default: the only environment]
    environment: Option<String>,
    /// Language of the graph
    #[arg(short, long, value_enum, value_name = "LANGUAGE", default_value = "mermaid")]
    output: Language,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Language {
    #[value(help = "Mermaid, for Markdown pages")]
    Mermaid,
    #[value(help = "Graphviz")]
    Dot,
}

impl Graph {
    pub(crate) fn execute(self, options: &Options) -> Result<Exit, Failure> {
        let context = call::create_context(options, &SpecOptions::default())?;
        let client = &context.client;
        let environment = match self.environment {
            Some(environment) => environment,
            None => target::find_only_environment(client.state())?,
        };
        notes::note_if_not_running(client.state());
        let status = call::run(&context, &GetEnvironment { environment })?;
        let source = SpecSource::new(&client.specs_folder(), client.state().root());
        let path = source.folder.join(&status.spec_path);
        // A file that is rejected or gone names no dependencies. The waits of the status remain.
        let file = spec_files::read_file(&client.query_settings(), &path, &CancellationToken::new());
        let services = file.desired.iter().flat_map(|desired| desired.services.values());
        let conditions = services.flat_map(|service| {
            let named = move |on: &argus_core::desired::Dependency| {
                let condition = format!("{:?}", on.condition).to_lowercase();
                ((service.name.to_string(), on.service.to_string()), condition)
            };
            service.depends_on.iter().map(named)
        });
        output::print(&Drawing::new(&status, conditions.collect()).format(self.output))?;
        Ok(Exit::Done)
    }
}

/// A service and another one that it needs.
type Edge = (String, String);

/// Services with their states, and edges between them.
struct Drawing {
    title: String,
    /// Label and colour of each service.
    nodes: BTreeMap<String, (String, Option<&'static str>)>,
    /// Condition of each dependency; empty for a wait without one.
    edges: BTreeMap<Edge, String>,
    /// Edges in the chain of causes.
    waits: BTreeSet<Edge>,
}

impl Drawing {
    fn new(status: &EnvironmentStatus, mut edges: BTreeMap<Edge, String>) -> Self {
        let wait = |row: &argus_crds::status::ServiceStatus| {
            let on = row.waiting_on.as_ref().and_then(|on| on.service.clone());
            Some((row.name.clone(), on.filter(|_| !is_good(row))?))
        };
        let waits: BTreeSet<Edge> = status.services.iter().filter_map(wait).collect();
        for edge in &waits {
            edges.entry(edge.clone()).or_default();
        }
        let named = edges.keys().flat_map(|(from, to)| [from, to]);
        let mut nodes: BTreeMap<String, (String, Option<&'static str>)> = named
            .map(|name| (name.clone(), (format!("{name}: Unknown"), None)))
            .collect();
        for row in &status.services {
            let code = row.last_error.as_ref().filter(|_| !is_good(row));
            let code = code.map(|error| format!(", {}", error.code)).unwrap_or_default();
            let is_waiting = waits.iter().any(|(from, _)| *from == row.name);
            let colour = match (is_good(row), is_waiting) {
                (true, _) => None,
                (false, true) => Some("orange"),
                (false, false) => Some("red"),
            };
            let label = format!("{}: {:?}{code}", row.name, row.state);
            nodes.insert(row.name.clone(), (label, colour));
        }
        Self {
            title: status.environment.clone(),
            nodes,
            edges,
            waits,
        }
    }

    fn format(&self, language: Language) -> String {
        match language {
            Language::Mermaid => self.format_mermaid(),
            Language::Dot => self.format_dot(),
        }
    }

    fn format_mermaid(&self) -> String {
        // Some names, such as `end`, are words of the language.
        let id = |name: &str| {
            let place = self.nodes.keys().position(|other| other == name);
            format!("n{}", place.unwrap_or_default())
        };
        let nodes = self.nodes.iter().map(|(name, (label, colour))| {
            let style =
                colour.map(|colour| format!("\n  style {} stroke:{colour},stroke-width:3px", id(name)));
            format!("  {}[\"{label}\"]{}", id(name), style.unwrap_or_default())
        });
        let edges = self.edges.iter().enumerate().map(|(place, (edge, condition))| {
            let label = if condition.is_empty() {
                String::new()
            } else {
                format!("|{condition}|")
            };
            let style = self
                .waits
                .contains(edge)
                .then(|| format!("\n  linkStyle {place} stroke:red"));
            format!(
                "  {} -->{label} {}{}",
                id(&edge.0),
                id(&edge.1),
                style.unwrap_or_default()
            )
        });
        output::join_lines(["flowchart TD".to_owned()].into_iter().chain(nodes).chain(edges))
    }

    fn format_dot(&self) -> String {
        let coloured = |label: &str, colour: Option<&str>| {
            let colour = colour
                .map(|colour| format!(", color={colour}"))
                .unwrap_or_default();
            format!("[label=\"{label}\"{colour}]")
        };
        let nodes = self
            .nodes
            .iter()
            .map(|(name, (label, colour))| format!("  \"{name}\" {};", coloured(label, *colour)));
        let edges = self.edges.iter().map(|(edge, condition)| {
            let colour = self.waits.contains(edge).then_some("red");
            format!(
                "  \"{}\" -> \"{}\" {};",
                edge.0,
                edge.1,
                coloured(condition, colour)
            )
        });
        let head = [
            format!("digraph \"{}\" {{", self.title),
            "  node [shape=box];".to_owned(),
        ];
        output::join_lines(head.into_iter().chain(nodes).chain(edges).chain(["}".to_owned()]))
    }
}

#[cfg(test)]
mod tests {
    use argus_crds::error::{Code, StructuredError};
    use argus_crds::status::{ServiceState, ServiceStatus, WaitingOn};

    use super::*;

    /// `web` needs `db`, which crashes, and `cache`, which is ready.
    fn drawing() -> Drawing {
        let row = |name: &str, state| ServiceStatus {
            name: name.to_owned(),
            state,
            ..ServiceStatus::default()
        };
        let waiting = WaitingOn {
            service: Some("db".to_owned()),
            ..WaitingOn::default()
        };
        let status = EnvironmentStatus {
            environment: "shop".to_owned(),
            services: vec![
                ServiceStatus {
                    waiting_on: Some(waiting),
                    ..row("web", ServiceState::Waiting)
                },
                ServiceStatus {
                    last_error: Some(StructuredError::new(Code::ContainerCrash, "why")),
                    ..row("db", ServiceState::Failed)
                },
                row("cache", ServiceState::Ready),
            ],
            ..EnvironmentStatus::default()
        };
        let needs = |to: &str, condition: &str| (("web".to_owned(), to.to_owned()), condition.to_owned());
        Drawing::new(
            &status,
            [needs("cache", "started"), needs("db", "healthy")].into(),
        )
    }

    #[test]
    fn chain_of_causes_is_highlighted_in_mermaid() {
        let expected = r#"flowchart TD
  n0["cache: Ready"]
  n1["db: Failed, CONTAINER_CRASH"]
  style n1 stroke:red,stroke-width:3px
  n2["web: Waiting"]
  style n2 stroke:orange,stroke-width:3px
  n2 -->|started| n0
  n2 -->|healthy| n1
  linkStyle 1 stroke:red
"#;
        assert_eq!(drawing().format(Language::Mermaid), expected);
    }

    #[test]
    fn chain_of_causes_is_highlighted_in_dot() {
        let expected = r#"digraph "shop" {
  node [shape=box];
  "cache" [label="cache: Ready"];
  "db" [label="db: Failed, CONTAINER_CRASH", color=red];
  "web" [label="web: Waiting", color=orange];
  "web" -> "cache" [label="started"];
  "web" -> "db" [label="healthy", color=red];
}
"#;
        assert_eq!(drawing().format(Language::Dot), expected);
    }
}
