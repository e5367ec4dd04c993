//! What a command can end with: the one error of this crate and the exit codes.
//!
//! Separate so that every command reports in the same way: one clear line on standard error, and
//! the exit code of the contract. It must never carry a token or a panic.

use std::path::{Path, PathBuf};

use crate::output;

/// Exit codes of every command.
pub(crate) mod exit {
    pub(crate) const FINE: u8 = 0;
    /// Errors in a policy, a difference, a refusal, or anything else that did not work.
    pub(crate) const TROUBLE: u8 = 1;
    /// A wrong command line or setting, and for `check` and `diff` a file that cannot be read.
    pub(crate) const USAGE: u8 = 2;
    /// Nothing was stored: a change was opened that waits for another person's approval.
    pub(crate) const WAITS: u8 = 3;
}

/// Why a command could not do what it was asked for.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// A flag, a variable or a line of the settings file.
    #[error("{0}")]
    Setting(String),
    /// A file that could not be read.
    #[error("cannot read {}", path.display())]
    Unreadable {
        path: PathBuf,
        source: std::io::Error,
    },
    /// A file or folder that could not be written.
    #[error("cannot write {}", path.display())]
    Unwritable {
        path: PathBuf,
        source: std::io::Error,
    },
    /// A policy that does not parse or does not keep the rules; one line per fault.
    #[error("{} is not a policy\n{faults}", path.display())]
    Refused { path: PathBuf, faults: String },
    /// The policy made of `--upstream` and `--limit`.
    #[error("--upstream does not make a policy\n{0}")]
    Quick(String),
    /// No token, or one that cannot be a token.
    #[error("{name} is not a token")]
    Token {
        name: &'static str,
        source: control_plane::SecretError,
    },
    /// The control plane did not start.
    #[error(transparent)]
    ControlPlane(#[from] control_plane::StartError),
    /// The gateway did not start.
    #[error(transparent)]
    Gateway(#[from] gateway::StartError),
    /// Telemetry was asked for and did not start.
    #[error(transparent)]
    Telemetry(#[from] telemetry::StartError),
    /// The system refused something that every process needs.
    #[error("cannot {what}")]
    System {
        what: &'static str,
        source: std::io::Error,
    },
    /// Nobody answered.
    #[error("no answer from {url}")]
    Unreachable {
        url: String,
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// No control plane answered.
    #[error("no control plane answers at {url}; --server or BULKHEAD_SERVER names another")]
    Away {
        url: String,
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// Somebody answered with something else than was asked for.
    #[error("{0}")]
    Answer(String),
    /// Everything is said already; only the exit code is left.
    #[error("")]
    Said(u8),
}

impl Failure {
    /// A file that could not be read.
    pub(crate) fn unreadable(path: &Path, source: std::io::Error) -> Self {
        Self::Unreadable {
            path: path.to_owned(),
            source,
        }
    }

    /// The same of a control plane, which another flag may name.
    pub(crate) fn of_control_plane(self) -> Self {
        let Self::Unreachable { url, source } = self else {
            return self;
        };
        Self::Away { url, source }
    }

    /// The code this process ends with.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::Setting(_) | Self::Token { .. } | Self::Quick(_) => exit::USAGE,
            Self::Said(code) => *code,
            Self::Unreadable { .. }
            | Self::Unwritable { .. }
            | Self::Refused { .. }
            | Self::ControlPlane(_)
            | Self::Gateway(_)
            | Self::Telemetry(_)
            | Self::System { .. }
            | Self::Unreachable { .. }
            | Self::Away { .. }
            | Self::Answer(_) => exit::TROUBLE,
        }
    }

    /// Says it once on standard error, causes included.
    pub(crate) fn report(&self) {
        let text = self.to_string();
        if text.is_empty() {
            return;
        }
        let mut line = format!("bulkhead: {text}");
        let mut cause = std::error::Error::source(self);
        while let Some(next) = cause {
            let said = next.to_string();
            // Some libraries repeat the cause in their own text; once is enough.
            if !line.contains(&said) {
                line.push_str(": ");
                line.push_str(&said);
            }
            cause = next.source();
        }
        output::complain(&output::printable_lines(&line));
    }
}
