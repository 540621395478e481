//! Variables in values.

use std::ops::Range;

use super::escapes::Unquoted;
use super::{Fault, MAX_INSERTED, Reader};

/// Maximum nesting depth of operands.
const MAX_DEPTH: usize = 16;
/// Hint for a dollar sign that begins no variable.
const DOLLAR_HINT: &str = "write `$$` for a dollar sign, or put the value into single quotes";

impl Reader<'_> {
    /// Replaces the variables in a part of a value.
    pub(super) fn interpolate(
        &mut self,
        value: &Unquoted,
        part: Range<usize>,
        depth: usize,
    ) -> Result<String, Fault> {
        let (mut result, mut at) = (String::new(), part.start);
        if depth > MAX_DEPTH {
            return Err(Fault::new(
                value.offset(at),
                format!("variables are nested more than {MAX_DEPTH} times"),
            ));
        }
        while let Some(dollar) = value.text[at..part.end].find('$').map(|index| at + index) {
            result.push_str(&value.text[at..dollar]);
            let rest = &value.text[dollar + 1..part.end];
            let fault = |message: String| Fault::new(value.offset(dollar), message).hint(DOLLAR_HINT);
            if rest.starts_with('$') {
                result.push('$');
                at = dollar + 2;
            } else if let Some(inner) = rest.strip_prefix('{') {
                let end =
                    find_closing_brace(inner).ok_or_else(|| fault("`${` has no closing brace".to_owned()))?;
                let inner = dollar + 2..dollar + 2 + end;
                at = inner.end + 1;
                result.push_str(&self.resolve_braced(value, dollar, inner, depth)?);
            } else {
                let name = leading_name(rest);
                at = dollar + 1 + name.len();
                if name.is_empty() {
                    result.push('$');
                } else {
                    let found = self.find(name, value.offset(dollar))?;
                    result.push_str(&found.ok_or_else(|| self.without_value(name, value.offset(dollar)))?);
                }
            }
        }
        Ok(result + &value.text[at..part.end])
    }

    /// Resolves `NAME`, with an operator and its operand.
    fn resolve_braced(
        &mut self,
        value: &Unquoted,
        dollar: usize,
        inner: Range<usize>,
        depth: usize,
    ) -> Result<String, Fault> {
        let at = value.offset(dollar);
        let text = &value.text[inner.clone()];
        let name = leading_name(text);
        if name.is_empty() {
            return Err(Fault::new(at, "`${` is not followed by a name").hint(DOLLAR_HINT));
        }
        let after = &text[name.len()..];
        let (operator, ignores_empty) = match after.strip_prefix(':') {
            Some(operator) => (operator, true),
            None => (after, false),
        };
        let found = self.find(name, at)?;
        let set = found.filter(|found| !(ignores_empty && found.is_empty()));
        let operand = inner.end - operator.len() + 1..inner.end;
        match (operator.chars().next(), set) {
            (None, Some(set)) if !ignores_empty => Ok(set),
            (None, None) if !ignores_empty => Err(self.without_value(name, at)),
            (Some('-' | '?'), Some(set)) => Ok(set),
            (Some('-'), None) | (Some('+'), Some(_)) => self.interpolate(value, operand, depth + 1),
            (Some('+'), None) => Ok(String::new()),
            (Some('?'), None) => Err(self.without_value(name, at)),
            (None | Some(_), _) => {
                let message = format!("{} has an unknown operator", self.describe(name));
                Err(Fault::new(at, message).hint("use one of `:-`, `-`, `:?`, `?`, `:+` and `+`"))
            }
        }
    }

    /// Value of a variable; `None` without one.
    fn find(&mut self, name: &str, at: usize) -> Result<Option<String>, Fault> {
        let found = (self.outside)(name).or_else(|| self.found.variables.get(name).cloned());
        self.counted(found, at)
    }

    /// Counts the bytes of a value before it is inserted.
    pub(super) fn counted(&mut self, found: Option<String>, at: usize) -> Result<Option<String>, Fault> {
        let length = found.as_ref().map_or(0, String::len);
        match self.left.checked_sub(length) {
            Some(left) => self.left = left,
            None => {
                return Err(Fault::new(
                    at,
                    format!("variables insert more than {MAX_INSERTED} bytes"),
                ));
            }
        }
        Ok(found)
    }

    fn without_value(&self, name: &str, at: usize) -> Fault {
        let hint = if self.is_secret {
            DOLLAR_HINT.to_owned()
        } else {
            format!(
                "set `{name}` above this line, start the controller with `--env-allow {name}`, or write `$$` for a dollar sign"
            )
        };
        Fault::new(at, format!("{} has no value", self.describe(name))).hint(hint)
    }

    fn describe(&self, name: &str) -> String {
        if self.is_secret {
            "a variable in this value".to_owned()
        } else {
            format!("the variable `{name}`")
        }
    }
}

/// Position of the closing brace. Operands may contain pairs of braces.
fn find_closing_brace(inner: &str) -> Option<usize> {
    let mut depth = 0_u32;
    for (at, c) in inner.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => return Some(at),
            '}' => depth -= 1,
            _ => {}
        }
    }
    None
}

/// Name of a variable at the beginning of a text; empty without one.
fn leading_name(text: &str) -> &str {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let end = text.find(|c| !is_part(c)).unwrap_or(text.len());
    if text.starts_with(|c: char| c.is_ascii_digit()) {
        ""
    } else {
        &text[..end]
    }
}
