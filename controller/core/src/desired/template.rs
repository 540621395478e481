//! Templates: admission resolves `{{…}}` in texts, except references to ports, which the renderer resolves later.

use std::collections::BTreeMap;

use argus_crds::Diagnostic;

use crate::desired::admit::{MAX_DIAGNOSTICS, SpecContext};
use crate::desired::effective::env_hint;
use crate::desired::referenced_services::{ReferencedServices, TEMPLATES};
use crate::desired::suggest::did_you_mean;

/// Part of a text with templates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Segment<'a> {
    /// Literal text.
    Text(&'a str),
    /// Template: its content without surrounding blanks, and its full text with the braces.
    Template(&'a str, &'a str),
}

/// Splits a text at its `{{…}}`.
///
/// Unpaired braces, and braces with no content or with a line break inside, are literal text.
///
/// ```
/// use argus_core::desired::template::{Segment, segments};
///
/// let found = segments("http://{{ env.HOST }}/");
/// let expected = [Segment::Text("http://"), Segment::Template("env.HOST", "{{ env.HOST }}"), Segment::Text("/")];
/// assert_eq!(found, expected);
/// ```
pub fn segments(text: &str) -> Vec<Segment<'_>> {
    let mut segments = Vec::new();
    let (mut written, mut from) = (0, 0);
    let mut known: Option<Closing> = None;
    while let Some(open) = text[from..].find("{{").map(|at| from + at) {
        from = open + 2;
        // Many opening braces before one end read the text only once.
        let found = known.filter(|closing| closing.at >= from);
        let Some(closing) = found.or_else(|| Closing::find(text, from)) else {
            break;
        };
        known = Some(closing);
        let Some(inner) = closing.content(text, from) else {
            continue;
        };
        if open > written {
            segments.push(Segment::Text(&text[written..open]));
        }
        from = closing.at + 2;
        segments.push(Segment::Template(inner, &text[open..from]));
        written = from;
    }
    if written < text.len() {
        segments.push(Segment::Text(&text[written..]));
    }
    segments
}

/// Closing braces of a template.
#[derive(Debug, Clone, Copy)]
struct Closing {
    /// Position of the braces.
    at: usize,
    /// End of the content before them, without blanks.
    end: usize,
    /// Last line break in that content.
    line_break: Option<usize>,
}

impl Closing {
    /// Finds the first closing braces after a position.
    fn find(text: &str, from: usize) -> Option<Self> {
        let at = from + text[from..].find("}}")?;
        let content = text[from..at].trim_end();
        Some(Self {
            at,
            end: from + content.len(),
            line_break: content.rfind('\n').map(|index| from + index),
        })
    }

    /// Content of a template that begins here, without surrounding blanks; `None` if it is empty or has a line break inside.
    fn content<'a>(&self, text: &'a str, from: usize) -> Option<&'a str> {
        let inner = text.get(from..self.end)?.trim_start();
        let has_break = self.line_break.is_some_and(|at| at >= self.end - inner.len());
        (!inner.is_empty() && !has_break).then_some(inner)
    }
}

/// Returns whether the text contains a template.
pub fn has_placeholders(text: &str) -> bool {
    segments(text)
        .iter()
        .any(|segment| matches!(segment, Segment::Template(..)))
}

/// Removes the blanks inside the braces of known templates, so that each template is one word.
pub(super) fn trim_placeholders(text: &str) -> String {
    let segment = |segment: Segment<'_>| match segment {
        Segment::Text(text) => text.to_owned(),
        Segment::Template(placeholder, _) if is_known_placeholder(placeholder) => {
            format!("{{{{{placeholder}}}}}")
        }
        Segment::Template(_, raw) => raw.to_owned(),
    };
    segments(text).into_iter().map(segment).collect()
}

/// Resolves the templates of a text that Argus knows. Other braces belong to the format of the text, and stay without a warning.
pub(super) fn fill_known(
    resolver: &TemplateResolver<'_>,
    text: &str,
    path: &str,
    diagnostics: &mut Vec<Diagnostic>,
) -> String {
    let segment = |segment: Segment<'_>| match segment {
        Segment::Text(text) => text.to_owned(),
        Segment::Template(placeholder, raw) if is_known_placeholder(placeholder) => {
            resolver.fill(raw, path, PortReferences::Rendered, diagnostics)
        }
        Segment::Template(_, raw) => raw.to_owned(),
    };
    segments(text).into_iter().map(segment).collect()
}

/// Maximum length of one argument or variable of a Linux process, in bytes.
const MAX_TEXT: usize = 128 * 1024;

/// Treatment of references to ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PortReferences {
    /// The renderer resolves `{{ports…}}` and `{{services…}}` after the assignment of ports.
    Rendered,
    /// The text is not rendered after admission.
    Final,
}

/// Resolver of the templates in the texts of one service.
#[derive(Debug, Clone, Copy)]
pub(super) struct TemplateResolver<'a> {
    pub(super) context: &'a SpecContext,
    pub(super) referenced_services: &'a ReferencedServices,
    /// Values of `vars`, already resolved.
    pub(super) vars: &'a BTreeMap<String, String>,
}

impl TemplateResolver<'_> {
    /// Resolves the known templates of a text; reports the others, which stay as written.
    pub(super) fn fill(
        &self,
        text: &str,
        path: &str,
        port_references: PortReferences,
        diagnostics: &mut Vec<Diagnostic>,
    ) -> String {
        self.fill_with(text, path, port_references, diagnostics, &mut |name| {
            self.vars.get(name).cloned()
        })
    }

    fn fill_with(
        &self,
        text: &str,
        path: &str,
        port_references: PortReferences,
        diagnostics: &mut Vec<Diagnostic>,
        var: &mut dyn FnMut(&str) -> Option<String>,
    ) -> String {
        if self.referenced_services.excess().is_some() {
            return text.to_owned();
        }
        let mut result = String::with_capacity(text.len());
        for segment in segments(text) {
            match segment {
                Segment::Text(text) => result.push_str(text),
                Segment::Template(placeholder, raw) => {
                    let value = match placeholder.strip_prefix("config.") {
                        Some(name) => var(name),
                        None => self.value(placeholder, port_references, path, diagnostics),
                    };
                    if value.is_none() && !is_deferred(placeholder) && diagnostics.len() < MAX_DIAGNOSTICS {
                        diagnostics.push(self.unresolved_warning(placeholder, path));
                    }
                    // The renderer finds references without blanks only.
                    let value = value.unwrap_or_else(|| {
                        if is_deferred(placeholder) {
                            format!("{{{{{placeholder}}}}}")
                        } else {
                            raw.to_owned()
                        }
                    });
                    let resolved = self.referenced_services;
                    if !resolved.add_resolved(value.len(), path, TEMPLATES) {
                        return result;
                    }
                    if result.len() + value.len() > MAX_TEXT {
                        let message = "the text exceeds 128 KiB after the resolution of its templates";
                        diagnostics.push(Diagnostic::error(path, message).hint("shorten the text"));
                        return result;
                    }
                    result.push_str(&value);
                }
            }
        }
        result
    }

    fn value(
        &self,
        placeholder: &str,
        port_references: PortReferences,
        path: &str,
        diagnostics: &mut Vec<Diagnostic>,
    ) -> Option<String> {
        match placeholder {
            // As in the Node tool: milliseconds since the epoch, a UUID, a date.
            "timestamp" => return Some(self.context.now.0.to_string()),
            "uuid" => return Some(self.context.uuid.clone()),
            "date" => return Some(self.context.now.to_string().chars().take(10).collect()),
            _ => {}
        }
        if let Some(name) = placeholder.strip_prefix("env.") {
            let found = self.context.env_vars.get(name).cloned();
            if found.is_none() && self.context.is_compose && diagnostics.len() < MAX_DIAGNOSTICS {
                let message = format!("the variable `{name}` is not set and becomes an empty text");
                diagnostics.push(Diagnostic::warning(path, message).hint(env_hint(name)));
            }
            return found.or_else(|| self.context.is_compose.then(String::new));
        }
        if is_deferred(placeholder) && diagnostics.len() < MAX_DIAGNOSTICS {
            match (port_references, self.reference_error(placeholder)) {
                (_, Some((message, hint))) => diagnostics.push(Diagnostic::error(path, message).hint(hint)),
                (PortReferences::Rendered, None) => {}
                (PortReferences::Final, None) => diagnostics.push(
                    Diagnostic::warning(
                        path,
                        format!("`{{{{{placeholder}}}}}` cannot be resolved here and stays as written"),
                    )
                    .hint("use references to ports only in `environment`, `command` and `entrypoint`"),
                ),
            }
        }
        None
    }

    /// Returns message and hint for an invalid reference to a port of another service.
    fn reference_error(&self, placeholder: &str) -> Option<(String, String)> {
        let (service, port) = if let Some(rest) = placeholder.strip_prefix("ports.") {
            let Some((service, port)) = rest.rsplit_once('.') else {
                let message = format!("`{{{{{placeholder}}}}}` names no container port");
                return Some((message, "write `{{ports.SERVICE.CONTAINERPORT}}`".to_owned()));
            };
            (service, Some(port))
        } else {
            (service_of_url(placeholder)?, None)
        };
        let Some(referenced) = self.referenced_services.get(service) else {
            let message =
                format!("`{{{{{placeholder}}}}}` names `{service}`, which this file does not define");
            return Some((message, did_you_mean(service, self.referenced_services.names())));
        };
        let known: Vec<String> = referenced
            .ports
            .iter()
            .map(|port| port.container.to_string())
            .collect();
        let is_wrong = match port {
            Some(port) => !known.iter().any(|known| known == port),
            None => known.is_empty(),
        };
        let what = port.map_or("a port".to_owned(), |port| format!("container port `{port}`"));
        is_wrong.then(|| {
            let message =
                format!("`{{{{{placeholder}}}}}` requires {what} of `{service}`, which it does not publish");
            let hint = if known.is_empty() {
                format!("add `ports` to the container of `{service}`")
            } else {
                format!("use one of its published ports ({})", known.join(", "))
            };
            (message, hint)
        })
    }

    fn unresolved_warning(&self, placeholder: &str, path: &str) -> Diagnostic {
        let hint = if let Some(name) = placeholder.strip_prefix("env.") {
            env_hint(name)
        } else if let Some(name) = placeholder.strip_prefix("config.") {
            let vars = self.vars.keys().map(String::as_str);
            if self.vars.contains_key(name) {
                format!("give `{name}` a value that does not refer to itself")
            } else if self.vars.is_empty() {
                format!("add `{name}` to the `vars` of this service")
            } else {
                did_you_mean(name, vars)
            }
        } else {
            "use one of `env.NAME`, `config.NAME`, `ports.SERVICE.PORT`, `services.NAME.url`, `timestamp`, `uuid`, `date`"
                .to_owned()
        };
        let message = format!("`{{{{{placeholder}}}}}` does not resolve and stays as written");
        Diagnostic::warning(path, message).hint(hint)
    }
}

/// Returns whether the format defines the template.
fn is_known_placeholder(placeholder: &str) -> bool {
    let plain = matches!(placeholder, "timestamp" | "uuid" | "date");
    plain || placeholder.starts_with("env.") || placeholder.starts_with("config.") || is_deferred(placeholder)
}

/// Returns whether the template is a reference to a port, which only the renderer can resolve.
fn is_deferred(placeholder: &str) -> bool {
    placeholder.starts_with("ports.") || service_of_url(placeholder).is_some()
}

fn service_of_url(placeholder: &str) -> Option<&str> {
    placeholder.strip_prefix("services.")?.strip_suffix(".url")
}

/// Resolves the templates in the `vars` of a service. A variable can refer to another one, but not to itself.
pub(super) fn fill_vars(
    vars: &BTreeMap<String, String>,
    context: &SpecContext,
    referenced_services: &ReferencedServices,
    path: &str,
    diagnostics: &mut Vec<Diagnostic>,
) -> BTreeMap<String, String> {
    let mut resolver = VarsResolver {
        resolver: TemplateResolver {
            context,
            referenced_services,
            vars,
        },
        path,
        resolved: BTreeMap::new(),
    };
    for name in vars.keys() {
        resolver.fill(name, &mut Vec::new(), diagnostics);
    }
    resolver.resolved
}

/// Maximum depth of references between `vars`.
const MAX_DEPTH: usize = 32;

struct VarsResolver<'a> {
    resolver: TemplateResolver<'a>,
    path: &'a str,
    resolved: BTreeMap<String, String>,
}

impl VarsResolver<'_> {
    /// Resolves one variable and those that it refers to; returns `None` for a cycle, which the caller reports.
    fn fill(
        &mut self,
        name: &str,
        open: &mut Vec<String>,
        diagnostics: &mut Vec<Diagnostic>,
    ) -> Option<String> {
        if let Some(resolved) = self.resolved.get(name) {
            return Some(resolved.clone());
        }
        let resolver = self.resolver;
        let text = resolver.vars.get(name)?;
        if open.len() >= MAX_DEPTH || open.iter().any(|outer| outer == name) {
            return None;
        }
        open.push(name.to_owned());
        let path = format!("{}.{name}", self.path);
        let mut inner_diagnostics = Vec::new();
        let inner = &mut |inner: &str| self.fill(inner, open, &mut inner_diagnostics);
        let value = resolver.fill_with(text, &path, PortReferences::Rendered, diagnostics, inner);
        diagnostics.append(&mut inner_diagnostics);
        open.pop();
        self.resolved.insert(name.to_owned(), value.clone());
        Some(value)
    }
}

#[cfg(test)]
#[path = "template_tests.rs"]
mod tests;
