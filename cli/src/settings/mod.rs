//! Settings of the long-running commands: flag over environment over file over default.
//!
//! Separate so that precedence and error texts are the same for every setting of every command.
//! It must never print the value of a variable: one of them could be a secret in the wrong place.

mod environment;
mod file;
mod table;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

pub(crate) use environment::{
    Secrets, audit_key, client, of_telemetry, of_this_process, server_ca,
};

use crate::duration;
use crate::error::Failure;

/// What the flags of one command say: the key and its texts, absent when not given.
pub(crate) type Flags = Vec<(&'static str, Vec<String>)>;

/// Where a value comes from.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Origin {
    Flag,
    Environment,
    File { name: String, line: usize },
}

#[derive(Clone, PartialEq, Eq, Debug)]
struct Entry {
    texts: Vec<String>,
    origin: Origin,
}

/// Everything that was set, each by its strongest source, all checked against their kinds.
#[derive(Debug, Default)]
pub(crate) struct Settings {
    entries: BTreeMap<&'static str, Entry>,
    /// What to tell the operator once the log is there.
    pub(crate) warnings: Vec<String>,
}

impl Settings {
    /// Reads all sources. `config` is the flag; its variable is asked here.
    pub(crate) fn gather(
        flags: Flags,
        config: Option<PathBuf>,
        variables: &[(String, String)],
    ) -> Result<Self, Failure> {
        let mut settings = Self::default();
        let config = config.or_else(|| environment::config(variables));
        if let Some(path) = config {
            settings.entries.extend(file::read(&path)?);
        }
        let (entries, warnings) = environment::read(variables);
        settings.entries.extend(entries);
        settings.warnings = warnings;
        for (key, texts) in flags {
            settings.entries.insert(
                key,
                Entry {
                    texts,
                    origin: Origin::Flag,
                },
            );
        }
        settings.check()?;
        Ok(settings)
    }

    fn check(&self) -> Result<(), Failure> {
        for setting in table::SETTINGS {
            let Some(entry) = self.entries.get(setting.key) else {
                continue;
            };
            for text in &entry.texts {
                if !setting.kind.accepts(text) {
                    return Err(wrong(setting, entry, text));
                }
            }
        }
        Ok(())
    }

    fn texts(&self, key: &'static str) -> &[String] {
        self.entries
            .get(key)
            .map_or(&[], |entry| entry.texts.as_slice())
    }

    /// The one text of a setting.
    pub(crate) fn text(&self, key: &'static str) -> Option<&str> {
        self.texts(key).last().map(String::as_str)
    }

    /// All texts of a setting that may be given several times.
    pub(crate) fn all(&self, key: &'static str) -> &[String] {
        self.texts(key)
    }

    /// A switch; off unless set.
    pub(crate) fn switch(&self, key: &'static str) -> bool {
        self.text(key).and_then(table::switch).unwrap_or(false)
    }

    /// A folder or file.
    pub(crate) fn path(&self, key: &'static str) -> Option<PathBuf> {
        self.text(key).map(PathBuf::from)
    }

    /// An address, or the default.
    pub(crate) fn address(&self, key: &'static str, default: SocketAddr) -> SocketAddr {
        self.text(key)
            .and_then(|text| text.parse().ok())
            .unwrap_or(default)
    }

    /// Several addresses, or the one default.
    pub(crate) fn addresses(&self, key: &'static str, default: SocketAddr) -> Vec<SocketAddr> {
        let found: Vec<_> = self
            .texts(key)
            .iter()
            .filter_map(|text| text.parse().ok())
            .collect();
        if found.is_empty() {
            vec![default]
        } else {
            found
        }
    }

    /// A span of time, or the default.
    pub(crate) fn span(&self, key: &'static str, default: Duration) -> Duration {
        self.text(key).and_then(duration::parse).unwrap_or(default)
    }

    /// The window of the alerts in milliseconds.
    pub(crate) fn window_ms(&self, key: &'static str) -> Option<u64> {
        self.text(key).and_then(table::window_ms)
    }

    /// A percentage in millionths.
    pub(crate) fn ppm(&self, key: &'static str) -> Option<u64> {
        self.text(key).and_then(table::ppm)
    }

    /// A share in millionths, or the whole.
    pub(crate) fn share(&self, key: &'static str) -> u32 {
        self.text(key)
            .and_then(table::millionths)
            .unwrap_or(1_000_000)
    }

    /// A count.
    pub(crate) fn count(&self, key: &'static str) -> Option<usize> {
        self.text(key).and_then(|text| text.parse().ok())
    }
}

/// `bulkhead.toml line 3: workers = many: must be …`; of a variable, never the value.
fn wrong(setting: &table::Setting, entry: &Entry, text: &str) -> Failure {
    let rule = setting.kind.rule();
    let key = setting.key;
    // The path of a webhook may be a secret.
    let text = if setting.kind.is_secret() { ".." } else { text };
    Failure::Setting(match &entry.origin {
        Origin::Flag => format!("--{} = {text:?}: must be {rule}", table::flag(key)),
        Origin::Environment => format!("the variable {}: must be {rule}", table::variable(key)),
        Origin::File { name, line } => {
            format!("{name} line {line}: {key} = {text:?}: must be {rule}")
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variables(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs
            .iter()
            .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
            .collect()
    }

    fn config(text: &str) -> (tempfile::TempDir, Option<PathBuf>) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("bulkhead.toml");
        std::fs::write(&path, text).unwrap();
        (folder, Some(path))
    }

    fn complaint(file: &str, flags: Flags, vars: &[(&str, &str)]) -> String {
        let (_folder, path) = config(file);
        Settings::gather(flags, path, &variables(vars))
            .unwrap_err()
            .to_string()
    }

    /// For every setting: flag over variable over file.
    #[test]
    fn stronger_sources_win() {
        for setting in table::SETTINGS {
            let [a, b, c] = setting.kind.samples();
            let (_folder, path) = config(&format!("{} = {}\n", setting.key, setting.kind.toml(a)));
            let vars = variables(&[(&table::variable(setting.key), b)]);
            let flags = vec![(setting.key, vec![c.to_owned()])];
            let all = Settings::gather(flags, path.clone(), &vars).unwrap();
            assert_eq!(all.text(setting.key), Some(c), "{}", setting.key);
            let two = Settings::gather(vec![], path.clone(), &vars).unwrap();
            assert_eq!(two.text(setting.key), Some(b), "{}", setting.key);
            let one = Settings::gather(vec![], path, &[]).unwrap();
            assert_eq!(one.text(setting.key), Some(a), "{}", setting.key);
            let none = Settings::gather(vec![], None, &[]).unwrap();
            assert_eq!(none.text(setting.key), None, "{}", setting.key);
        }
    }

    #[test]
    fn unknown_key_names_line_and_nearest() {
        let text = complaint("# settings\n\ndrain_timeoutt = \"5s\"\n", vec![], &[]);
        assert!(text.ends_with(
            "bulkhead.toml line 3: unknown setting drain_timeoutt; did you mean drain_timeout?"
        ));
        let text = complaint("[server]\nlisten = 1\n", vec![], &[]);
        assert!(text.contains("line 1: unknown setting server"), "{text}");
    }

    #[test]
    fn wrong_types_name_line_value_and_rule() {
        for (file, want) in [
            (
                "\nworkers = \"many\"\n",
                "line 2: workers = \"many\": must be a whole number",
            ),
            (
                "drain_timeout = 5\n",
                "line 1: drain_timeout = \"5\": must be a span of time",
            ),
            (
                "no_login = \"maybe\"\n",
                "line 1: no_login = \"maybe\": must be true or false",
            ),
            (
                "listen = [\"127.0.0.1:0\", \"x\"]\n",
                "line 1: listen = \"x\": must be an address",
            ),
            (
                "data_dir = { a = 1 }\n",
                "line 1: data_dir: must be a path, not a table",
            ),
            ("x = [\n", "line"),
        ] {
            let text = complaint(file, vec![], &[]);
            assert!(text.contains(want), "{file}: {text}");
        }
        let text = complaint("", vec![("dashboard", vec!["here".into()])], &[]);
        assert_eq!(
            text,
            "--dashboard = \"here\": must be an address and port, like \"127.0.0.1:8080\""
        );
    }

    #[test]
    fn variables_are_never_printed() {
        let text = complaint("", vec![], &[("BULKHEAD_WORKERS", "s3cret")]);
        assert!(
            text.contains("BULKHEAD_WORKERS") && !text.contains("s3cret"),
            "{text}"
        );
        let vars = variables(&[("BULKHEAD_ADMIN_TOKN", "s3cret"), ("PATH", "/bin")]);
        let settings = Settings::gather(vec![], None, &vars).unwrap();
        assert_eq!(settings.warnings.len(), 1);
        assert!(settings.warnings[0].contains("did you mean BULKHEAD_ADMIN_TOKEN?"));
        assert!(!settings.warnings[0].contains("s3cret"));
    }

    #[test]
    fn the_file_is_named_by_flag_or_variable() {
        let (_folder, path) = config("workers = 3\n");
        let path = path.unwrap().display().to_string();
        let vars = variables(&[("BULKHEAD_CONFIG", &path)]);
        assert_eq!(
            Settings::gather(vec![], None, &vars)
                .unwrap()
                .count("workers"),
            Some(3)
        );
        let missing = Settings::gather(vec![], Some("none.toml".into()), &vars).unwrap_err();
        assert!(missing.to_string().contains("none.toml"));
    }

    #[test]
    fn lists_in_variables_are_split() {
        let vars = variables(&[("BULKHEAD_LISTEN", "127.0.0.1:1, 127.0.0.1:2")]);
        let settings = Settings::gather(vec![], None, &vars).unwrap();
        let default = "127.0.0.1:8080".parse().unwrap();
        assert_eq!(settings.addresses("listen", default).len(), 2);
        assert_eq!(settings.addresses("admin", default), [default]);
    }
}
