//! `{{…}}` in texts: what can be said at admission is filled in, what depends on ports is left for the renderer.

use std::collections::BTreeMap;

use argus_crds::Diagnostic;

use crate::desired::admit::SpecContext;
use crate::desired::peers::Peers;
use crate::desired::suggest::did_you_mean;

/// A part of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Piece<'a> {
    /// Stands for itself.
    Text(&'a str),
    /// What stands between `{{` and `}}` without blanks around it, and the whole as written.
    Slot(&'a str, &'a str),
}

/// A text cut at its `{{…}}`. A pair of braces without its partner, or with nothing or a line break inside, is text.
pub fn pieces(text: &str) -> Vec<Piece<'_>> {
    let mut pieces = Vec::new();
    let mut rest = text;
    let mut from = 0;
    while let Some(open) = rest[from..].find("{{").map(|at| from + at) {
        let Some(close) = rest[open..].find("}}").map(|at| open + at) else {
            break;
        };
        let inner = rest[open + 2..close].trim();
        if inner.is_empty() || inner.contains('\n') {
            from = open + 2;
            continue;
        }
        if open > 0 {
            pieces.push(Piece::Text(&rest[..open]));
        }
        pieces.push(Piece::Slot(inner, &rest[open..close + 2]));
        rest = &rest[close + 2..];
        from = 0;
    }
    if !rest.is_empty() {
        pieces.push(Piece::Text(rest));
    }
    pieces
}

/// Whether the text holds any `{{…}}`.
pub fn has_slots(text: &str) -> bool {
    pieces(text).iter().any(|piece| matches!(piece, Piece::Slot(..)))
}

/// The same text without blanks inside the braces that mean something here, so that a slot is one word.
pub(super) fn tight(text: &str) -> String {
    let piece = |piece: Piece<'_>| match piece {
        Piece::Text(text) => text.to_owned(),
        Piece::Slot(slot, _) if is_ours(slot) => format!("{{{{{slot}}}}}"),
        Piece::Slot(_, raw) => raw.to_owned(),
    };
    pieces(text).into_iter().map(piece).collect()
}

/// The longest text that a process takes as one argument or variable on Linux.
const LONGEST: usize = 128 * 1024;

/// Whether a text is rendered again once ports are assigned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Deferral {
    /// `{{ports…}}` and `{{services…}}` are kept for the renderer.
    Rendered,
    /// Nothing comes after admission.
    Final,
}

/// What the slots of one service's texts stand for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Filler<'a> {
    pub(super) context: &'a SpecContext,
    pub(super) peers: &'a Peers,
    /// `vars`, themselves already filled.
    pub(super) vars: &'a BTreeMap<String, String>,
}

impl Filler<'_> {
    /// The text with everything filled in that is known now; complains about the rest, which stays as written.
    pub(super) fn fill(&self, text: &str, path: &str, later: Deferral, to: &mut Vec<Diagnostic>) -> String {
        self.fill_with(text, path, later, to, &mut |name| self.vars.get(name).cloned())
    }

    fn fill_with(
        &self,
        text: &str,
        path: &str,
        later: Deferral,
        to: &mut Vec<Diagnostic>,
        var: &mut dyn FnMut(&str) -> Option<String>,
    ) -> String {
        let mut filled = String::with_capacity(text.len());
        for piece in pieces(text) {
            match piece {
                Piece::Text(text) => filled.push_str(text),
                Piece::Slot(slot, raw) => {
                    let value = match slot.strip_prefix("config.") {
                        Some(name) => var(name),
                        None => self.value(slot, later, path, to),
                    };
                    if value.is_none() && !is_for_later(slot) {
                        to.push(self.unresolved(slot, path));
                    }
                    // The renderer looks for references without blanks.
                    let value = value.unwrap_or_else(|| {
                        if is_for_later(slot) {
                            format!("{{{{{slot}}}}}")
                        } else {
                            raw.to_owned()
                        }
                    });
                    if filled.len() + value.len() > LONGEST {
                        let message = "the text grows beyond 128 KiB once its templates are filled in";
                        to.push(
                            Diagnostic::error(path, message)
                                .hint("no process takes a longer one; shorten it"),
                        );
                        return filled;
                    }
                    filled.push_str(&value);
                }
            }
        }
        filled
    }

    fn value(&self, slot: &str, later: Deferral, path: &str, to: &mut Vec<Diagnostic>) -> Option<String> {
        match slot {
            // As the Node tool: milliseconds since the epoch, a UUID, a day.
            "timestamp" => return Some(self.context.now.0.to_string()),
            "uuid" => return Some(self.context.uuid.clone()),
            "date" => return Some(self.context.now.to_string().chars().take(10).collect()),
            _ => {}
        }
        if let Some(name) = slot.strip_prefix("env.") {
            return self.context.env_vars.get(name).cloned();
        }
        if is_for_later(slot) {
            match (later, self.wrong_reference(slot)) {
                (_, Some((message, hint))) => to.push(Diagnostic::error(path, message).hint(hint)),
                (Deferral::Rendered, None) => {}
                (Deferral::Final, None) => to.push(
                    Diagnostic::warning(
                        path,
                        format!("`{{{{{slot}}}}}` is not known here and stays as written"),
                    )
                    .hint("ports are known in `environment`, `command` and `entrypoint` only"),
                ),
            }
        }
        None
    }

    /// Why a reference to another service's port leads nowhere, with what to do.
    fn wrong_reference(&self, slot: &str) -> Option<(String, String)> {
        let (service, port) = if let Some(rest) = slot.strip_prefix("ports.") {
            let Some((service, port)) = rest.rsplit_once('.') else {
                let message = format!("`{{{{{slot}}}}}` names no container port");
                return Some((message, "write `{{ports.SERVICE.CONTAINERPORT}}`".to_owned()));
            };
            (service, Some(port))
        } else {
            (service_of_url(slot)?, None)
        };
        let Some(peer) = self.peers.get(service) else {
            let message = format!("`{{{{{slot}}}}}` names `{service}`, which is no service of this file");
            return Some((message, did_you_mean(service, self.peers.names())));
        };
        let known: Vec<String> = peer.ports.iter().map(|port| port.container.to_string()).collect();
        let wrong = match port {
            Some(port) => !known.iter().any(|known| known == port),
            None => known.is_empty(),
        };
        let what = port.map_or("a port".to_owned(), |port| format!("container port `{port}`"));
        wrong.then(|| {
            let message = format!("`{{{{{slot}}}}}` needs {what} of `{service}`, which it does not publish");
            let hint = if known.is_empty() {
                format!("add `ports` to the container of `{service}`")
            } else {
                format!("it publishes {}", known.join(", "))
            };
            (message, hint)
        })
    }

    fn unresolved(&self, slot: &str, path: &str) -> Diagnostic {
        let hint = if let Some(name) = slot.strip_prefix("env.") {
            format!(
                "put `{name}` into the `.env` beside the file, or let the controller pass it with `--env-allow {name}`"
            )
        } else if let Some(name) = slot.strip_prefix("config.") {
            let vars = self.vars.keys().map(String::as_str);
            if self.vars.contains_key(name) {
                format!("`{name}` names itself in the end: give it a value of its own")
            } else if self.vars.is_empty() {
                format!("add `{name}` to the `vars` of this service")
            } else {
                did_you_mean(name, vars)
            }
        } else {
            "known are `env.NAME`, `config.NAME`, `ports.SERVICE.PORT`, `services.NAME.url`, `timestamp`, `uuid`, `date`"
                .to_owned()
        };
        let message = format!("`{{{{{slot}}}}}` does not resolve and stays as written");
        Diagnostic::warning(path, message).hint(hint)
    }
}

/// Whether a slot has a meaning in this format at all.
fn is_ours(slot: &str) -> bool {
    let plain = matches!(slot, "timestamp" | "uuid" | "date");
    plain || slot.starts_with("env.") || slot.starts_with("config.") || is_for_later(slot)
}

/// Whether a slot is about ports, which are known to the renderer only.
fn is_for_later(slot: &str) -> bool {
    slot.starts_with("ports.") || service_of_url(slot).is_some()
}

fn service_of_url(slot: &str) -> Option<&str> {
    slot.strip_prefix("services.")?.strip_suffix(".url")
}

/// The `vars` of a service with their own slots filled: one may name another, and none may name itself in the end.
pub(super) fn fill_vars(
    vars: &BTreeMap<String, String>,
    context: &SpecContext,
    peers: &Peers,
    path: &str,
    to: &mut Vec<Diagnostic>,
) -> BTreeMap<String, String> {
    let mut filling = Vars {
        filler: Filler { context, peers, vars },
        path,
        done: BTreeMap::new(),
    };
    for name in vars.keys() {
        filling.fill(name, &mut Vec::new(), to);
    }
    filling.done
}

/// How deep `vars` may name each other.
const DEEPEST: usize = 32;

struct Vars<'a> {
    filler: Filler<'a>,
    path: &'a str,
    done: BTreeMap<String, String>,
}

impl Vars<'_> {
    /// The value of one, and of those that it names; nothing for what names itself, which is said by whoever asked.
    fn fill(&mut self, name: &str, open: &mut Vec<String>, to: &mut Vec<Diagnostic>) -> Option<String> {
        if let Some(done) = self.done.get(name) {
            return Some(done.clone());
        }
        let filler = self.filler;
        let written = filler.vars.get(name)?;
        if open.len() >= DEEPEST || open.iter().any(|outer| outer == name) {
            return None;
        }
        open.push(name.to_owned());
        let path = format!("{}.{name}", self.path);
        let mut deeper = Vec::new();
        let inner = &mut |inner: &str| self.fill(inner, open, &mut deeper);
        let value = filler.fill_with(written, &path, Deferral::Rendered, to, inner);
        to.append(&mut deeper);
        open.pop();
        self.done.insert(name.to_owned(), value.clone());
        Some(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_at_its_braces() {
        use Piece::{Slot, Text};
        let cases: [(&str, &[Piece<'_>]); 9] = [
            ("", &[]),
            ("plain {x}", &[Text("plain {x}")]),
            ("{{env.X}}", &[Slot("env.X", "{{env.X}}")]),
            (
                "a{{ uuid }}b{{date}}",
                &[
                    Text("a"),
                    Slot("uuid", "{{ uuid }}"),
                    Text("b"),
                    Slot("date", "{{date}}"),
                ],
            ),
            ("{{open", &[Text("{{open")]),
            ("{{}}", &[Text("{{}}")]),
            ("{{}}{{x}}", &[Text("{{}}"), Slot("x", "{{x}}")]),
            ("{{a\nb}}", &[Text("{{a\nb}}")]),
            ("}}{{x}}", &[Text("}}"), Slot("x", "{{x}}")]),
        ];
        for (text, expected) in cases {
            assert_eq!(pieces(text), expected, "{text}");
        }
    }

    #[test]
    fn only_what_means_something_here_is_tightened() {
        assert_eq!(
            tight("a {{ env.X }} {{ .Go }} {{ ports.a.1 }}"),
            "a {{env.X}} {{ .Go }} {{ports.a.1}}"
        );
    }
}
