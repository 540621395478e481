//! Namespace of an environment whose file names none: from the git worktree, its branch, or a variable.

use std::fmt;

use argus_crds::Diagnostic;

use crate::desired::admit::SpecContext;
use crate::desired::identity::shown;
use crate::ident::EnvName;

/// Value of `isolation.namespace` that stands for the name of the git worktree.
pub(super) const AUTO: &str = "auto";

/// Source of the namespace of files that set none, or `auto`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum NamespaceFrom {
    /// The file: no namespace, and the git worktree for `auto`.
    #[default]
    File,
    /// The name of the git worktree.
    Worktree,
    /// The branch of the git worktree, or its commit without a branch.
    Branch,
    /// A variable of Argus.
    Variable {
        /// Name of the variable.
        name: String,
        /// Its value; `None` if it is not set.
        value: Option<String>,
    },
}

/// Formats the source as on the command line.
impl fmt::Display for NamespaceFrom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File => f.write_str("file"),
            Self::Worktree => f.write_str("worktree"),
            Self::Branch => f.write_str("branch"),
            Self::Variable { name, .. } => write!(f, "env:{name}"),
        }
    }
}

impl NamespaceFrom {
    /// Value of its variable.
    pub fn value(&self) -> Option<&str> {
        match self {
            Self::Variable { value, .. } => value.as_deref(),
            Self::File | Self::Worktree | Self::Branch => None,
        }
    }

    /// Replaces the value of its variable by that of another process.
    #[must_use]
    pub fn with_value(self, value: Option<String>) -> Self {
        match self {
            Self::Variable { name, .. } => Self::Variable { name, value },
            other => other,
        }
    }

    /// Returns the namespace. Reports a source without one, and returns `None` then.
    pub(super) fn resolve(
        &self,
        context: &SpecContext,
        diagnostics: &mut Vec<Diagnostic>,
    ) -> Option<EnvName> {
        let (message, hint) = match self.find(context) {
            Ok(name) => return Some(name),
            Err(mistake) => mistake,
        };
        diagnostics.push(Diagnostic::error("isolation.namespace", message).hint(hint));
        None
    }

    /// Returns the namespace, or a message and a hint.
    fn find(&self, context: &SpecContext) -> Result<EnvName, (String, String)> {
        let other =
            || "write a name such as `namespace: feature-x`, or use `--namespace-from env:NAME`".to_owned();
        let worktree = || {
            let found = context.host.worktree.as_ref();
            found.ok_or_else(|| {
                let message =
                    "the namespace depends on the git worktree, and the file is in none of its owner";
                (message.to_owned(), other())
            })
        };
        match self {
            Self::File | Self::Worktree => {
                let tree = worktree()?;
                let message = || {
                    format!(
                        "the name of the git worktree `{}` contains no letter and no digit",
                        shown(&tree.path)
                    )
                };
                tree.name().ok_or_else(|| (message(), other()))
            }
            Self::Branch => {
                let tree = worktree()?;
                let message = || {
                    format!(
                        "the git worktree `{}` has no branch that can be a name",
                        shown(&tree.path)
                    )
                };
                tree.branch().ok_or_else(|| (message(), other()))
            }
            Self::Variable { name, value: None } => Err((
                format!("the namespace is the variable `{name}`, which is not set"),
                format!("set it where Argus starts, such as with `export {name}=feature-x`"),
            )),
            // The value is from outside the file, so it is not shown.
            Self::Variable {
                name,
                value: Some(value),
            } => EnvName::new(value.clone()).map_err(|_| {
                (
                    format!("the value of the variable `{name}` is not a valid environment name"),
                    "use lower case letters, digits and `-`, at most 63, with a letter or digit first"
                        .to_owned(),
                )
            }),
        }
    }
}
