//! One case file: its title, its specs, the script of its world, and the expected plan.

/// A case as written in its file.
#[derive(Debug, Default)]
pub(crate) struct Case {
    /// Everything before the plan, as written.
    head: String,
    /// The specs, each one environment.
    pub(crate) specs: Vec<String>,
    /// The lines of the world, without comments.
    pub(crate) store: Vec<String>,
    /// The expected plan.
    pub(crate) plan: String,
}

impl Case {
    pub(crate) fn read(text: &str) -> Self {
        let mut case = Self::default();
        let mut section = "";
        for line in text.lines() {
            if let Some(name) = line.strip_prefix("--- ") {
                section = name.trim();
                if section == "spec" {
                    case.specs.push(String::new());
                }
            } else if section == "plan" {
                case.plan.push_str(line);
                case.plan.push('\n');
            } else if section == "spec" {
                if let Some(spec) = case.specs.last_mut() {
                    spec.push_str(line);
                    spec.push('\n');
                }
            } else if section == "world" && !line.trim().is_empty() && !line.starts_with('#') {
                case.store.push(line.trim().to_owned());
            }
            if section != "plan" {
                case.head.push_str(line);
                case.head.push('\n');
            }
        }
        case
    }

    /// The file with another plan.
    pub(crate) fn with_plan(&self, plan: &str) -> String {
        format!("{}--- plan\n{plan}", self.head)
    }
}
