//! The document forms of a policy: TOML in files, JSON over the API, YAML where it is given.
//!
//! Separate from the policy itself, which knows no syntax. What is read here is text that anybody
//! wrote: every form is bounded in size and depth, and an error names the line where one is known.
//! This module must never read a file or repair what it reads.

mod diff;
mod json;
mod lines;
mod toml_read;
mod toml_write;
mod yaml;

use std::fmt;
use std::path::Path as FilePath;

use compartment::policy::{self, Fault, Path, Policy, Value};

pub use diff::{Difference, diff};
pub use json::{digest, to_json};
pub use toml_write::to_toml;

/// The largest document, in bytes.
pub const DOCUMENT_BYTES_MAX: usize = 32 << 20;

/// The most bytes that can set one value or key apart from the next: a few for each entry of the
/// largest policy. Memory for a document follows their number rather than its size.
pub const SEPARATORS_MAX: usize = 6_000_000;

/// The deepest nesting that is read; a policy needs less than ten.
pub const DEPTH_MAX: usize = 64;

/// How a text is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Syntax {
    /// TOML.
    Toml,
    /// JSON.
    Json,
    /// YAML.
    Yaml,
}

impl Syntax {
    /// The syntax that the name of a file promises; TOML unless it says otherwise.
    pub fn of_path(path: &FilePath) -> Self {
        let extension = path.extension().and_then(|extension| extension.to_str());
        match extension.map(str::to_ascii_lowercase).as_deref() {
            Some("json") => Self::Json,
            Some("yaml" | "yml") => Self::Yaml,
            _ => Self::Toml,
        }
    }
}

/// A document and the policy that it says.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// As it stands.
    pub document: Value,
    /// Checked.
    pub policy: Policy,
}

/// A broken rule and the line where it is broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Located {
    /// The broken rule.
    pub fault: Fault,
    /// Counted from 1; that of the table around it when the value is missing.
    pub line: Option<u32>,
}

impl fmt::Display for Located {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(line) = self.line {
            write!(f, "line {line}: ")?;
        }
        write!(f, "{}", self.fault)
    }
}

/// Why a text is no policy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LoadError {
    /// Larger than [`DOCUMENT_BYTES_MAX`].
    #[error("the document has {bytes} bytes; at most {DOCUMENT_BYTES_MAX} are read")]
    TooLarge {
        /// Its size.
        bytes: usize,
    },
    /// Not what its syntax asks for.
    #[error("{}", syntax_error(*line, *column, message))]
    Syntax {
        /// Counted from 1.
        line: Option<u32>,
        /// Counted from 1, in characters.
        column: Option<u32>,
        /// What is wrong.
        message: String,
    },
    /// Rules are broken: all of them, one a line.
    #[error("{}", one_a_line(.0))]
    Refused(Vec<Located>),
}

fn syntax_error(line: Option<u32>, column: Option<u32>, message: &str) -> String {
    match (line, column) {
        (Some(line), Some(column)) => format!("line {line}, column {column}: {message}"),
        (Some(line), None) => format!("line {line}: {message}"),
        (None, _) => message.to_owned(),
    }
}

fn one_a_line(faults: &[Located]) -> String {
    let lines: Vec<String> = faults.iter().map(Located::to_string).collect();
    lines.join("\n")
}

/// Reads and checks a policy.
pub fn load(text: &str, syntax: Syntax) -> Result<Loaded, LoadError> {
    let document = value_of(text, syntax)?;
    match policy::check(&document) {
        Ok(policy) => Ok(Loaded { document, policy }),
        Err(faults) => Err(LoadError::Refused(locate_all(text, syntax, faults))),
    }
}

/// Whether a text is within the bounds of a document: what one end stores the other must read.
pub fn fits(text: &str) -> Result<(), LoadError> {
    if text.len() > DOCUMENT_BYTES_MAX {
        return Err(LoadError::TooLarge { bytes: text.len() });
    }
    let separates = |byte: &u8| matches!(byte, b',' | b'=' | b'[' | b'{' | b'.' | b'\n');
    if text
        .as_bytes()
        .iter()
        .filter(|byte| separates(byte))
        .count()
        > SEPARATORS_MAX
    {
        let message = format!("the document has more than {SEPARATORS_MAX} separators");
        return Err(LoadError::Syntax {
            line: None,
            column: None,
            message,
        });
    }
    Ok(())
}

/// Reads a document without checking its rules.
pub fn value_of(text: &str, syntax: Syntax) -> Result<Value, LoadError> {
    fits(text)?;
    // A byte order mark says nothing in UTF-8; editors leave it.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    match syntax {
        Syntax::Toml => toml_read::read(text),
        Syntax::Json => json::read(text),
        Syntax::Yaml => yaml::read(text),
    }
}

/// Finds the lines of broken rules. Reads the text once more, which a sound document never pays.
fn locate_all(text: &str, syntax: Syntax, faults: Vec<Fault>) -> Vec<Located> {
    let paths: Vec<&Path> = faults.iter().map(|fault| &fault.path).collect();
    let lines = lines_of(text, syntax, &paths);
    faults
        .into_iter()
        .zip(lines)
        .map(|(fault, line)| Located { fault, line })
        .collect()
}

/// The line of each place, counted from 1; that of the table around it when nothing stands there.
pub fn lines_of(text: &str, syntax: Syntax, paths: &[&Path]) -> Vec<Option<u32>> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut lines = match syntax {
        Syntax::Toml => toml_read::lines_of(text, paths),
        Syntax::Json => json::lines_of(text, paths),
        Syntax::Yaml => yaml::lines_of(text, paths),
    };
    lines.resize(paths.len(), None);
    lines
}
