//! The configuration file, in TOML.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::Environment;
use crate::exit::Failure;

/// The fields of the file. All are optional.
#[derive(Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    #[serde(default)]
    pub(super) nodes: Vec<String>,
    pub(super) previous_nodes: Option<Vec<String>>,
    pub(super) user: Option<String>,
    pub(super) password: Option<String>,
    pub(super) password_file: Option<PathBuf>,
    pub(super) ca_file: Option<PathBuf>,
    pub(super) cert_file: Option<PathBuf>,
    pub(super) key_file: Option<PathBuf>,
    pub(super) key_prefix: Option<String>,
    pub(super) node_timeout: Option<String>,
    pub(super) longest_ttl: Option<String>,
    pub(super) clock_drift_factor: Option<f64>,
    pub(super) node_lists_must_agree: Option<bool>,
}

/// The fields that are strings.
const TEXTS: [&str; 9] = [
    "user",
    "password",
    "password_file",
    "ca_file",
    "cert_file",
    "key_file",
    "key_prefix",
    "node_timeout",
    "longest_ttl",
];

impl File {
    /// Reads the named file, or else the first default file that exists.
    pub(super) fn find(
        named: Option<&Path>,
        environment: &Environment,
        warnings: &mut Vec<String>,
    ) -> Result<Self, Failure> {
        let named = named.map(Path::to_owned).or(environment.get("REDLOCK_CONFIG").map(Into::into));
        if let Some(path) = named {
            let text = fs::read_to_string(&path);
            let text = text.map_err(|error| cannot_read(&path, &error.to_string()))?;
            return Self::parse(&text, &path, warnings);
        }
        for path in usual_places(environment) {
            match fs::read_to_string(&path) {
                Ok(text) => return Self::parse(&text, &path, warnings),
                Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {}
                Err(error) => return Err(cannot_read(&path, &error.to_string())),
            }
        }
        Ok(Self::default())
    }

    fn parse(text: &str, path: &Path, warnings: &mut Vec<String>) -> Result<Self, Failure> {
        // Only the message is used, because the text of the error repeats the line, which may be a password.
        let file: Self = toml::from_str(text).map_err(|error| {
            let line = error.span().map_or(1, |span| 1 + text[..span.start].matches('\n').count());
            cannot_read(path, &format!("line {line}: {}", harmless(error.message(), text)))
        })?;
        if file.has_secret() && is_readable_by_others(path) {
            warnings
                .push(format!("{} contains a password and is readable by others; chmod 600", path.display()));
        }
        Ok(file)
    }

    fn has_secret(&self) -> bool {
        let mut urls = self.nodes.iter().chain(self.previous_nodes.iter().flatten());
        self.password.is_some() || urls.any(|url| url.contains('@'))
    }
}

/// Returns the message of a parser if it cannot repeat a value, or else a message without any value.
fn harmless(message: &str, text: &str) -> String {
    if message.starts_with("unknown field") || message.starts_with("missing field") {
        return message.to_owned();
    }
    wrong_type(text).unwrap_or_else(|| "the file is not valid".to_owned())
}

/// Returns which field has a value of the wrong type.
fn wrong_type(text: &str) -> Option<String> {
    let table: toml::Table = toml::from_str(text).ok()?;
    let is_list =
        |value: &toml::Value| value.as_array().is_some_and(|all| all.iter().all(toml::Value::is_str));
    let is_no_list = |field: &&&str| table.get(**field).is_some_and(|nodes| !is_list(nodes));
    if let Some(field) = ["nodes", "previous_nodes"].iter().find(is_no_list) {
        let example = r#"["redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3"]"#;
        return Some(format!("`{field}` must be a list of strings: {field} = {example}"));
    }
    let field = "node_lists_must_agree";
    if table.get(field).is_some_and(|value| !value.is_bool()) {
        return Some(format!("`{field}` must be true or false"));
    }
    let field = "clock_drift_factor";
    if table.get(field).is_some_and(|value| !value.is_float()) {
        return Some(format!("`{field}` must be a number such as 0.01"));
    }
    let field = TEXTS.iter().find(|field| table.get(**field).is_some_and(|value| !value.is_str()))?;
    Some(format!("`{field}` must be a string in quotes"))
}

fn cannot_read(path: &Path, why: &str) -> Failure {
    Failure::config(format!("cannot read {}: {why}", path.display()))
}

fn usual_places(environment: &Environment) -> Vec<PathBuf> {
    let home = environment.get("XDG_CONFIG_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let home = home.or(environment.get("HOME").map(|home| Path::new(&home).join(".config")));
    let own = home.map(|home| home.join("redlock/config.toml"));
    own.into_iter().chain([PathBuf::from("/etc/redlock/config.toml")]).collect()
}

#[cfg(unix)]
pub(super) fn is_readable_by_others(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;

    fs::metadata(path).is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o004 != 0)
}

#[cfg(not(unix))]
pub(super) fn is_readable_by_others(_: &Path) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<File, String> {
        File::parse(text, Path::new("/x.toml"), &mut Vec::new()).map_err(|failure| failure.message)
    }

    #[test]
    fn all_fields_are_optional_and_unknown_ones_are_errors() {
        assert!(parse("").unwrap().nodes.is_empty());
        assert_eq!(["redis://a", "redis://b"], *parse("nodes = ['redis://a', 'redis://b']").unwrap().nodes);
        let error = parse("user = 'x'\nnode = []").err().unwrap();
        assert!(
            error.contains("/x.toml") && error.contains("line 2") && error.contains("unknown field"),
            "{error}"
        );
    }

    #[test]
    fn a_value_of_the_wrong_type_is_named_by_its_field() {
        for nodes in ["'redis://:hunter2@a'", "['redis://a', 1]", "[\n  1,\n]", "{ a = 'redis://a' }"] {
            let error = parse(&format!("user = 'x'\nnodes = {nodes}")).err().unwrap();
            let expected = "`nodes` must be a list of strings: nodes = [\"redis://10.0.0.1\", ";
            assert!(error.contains(expected) && !error.contains("hunter2"), "{error}");
        }
        let error = parse("previous_nodes = 'redis://a'").err().unwrap();
        assert!(error.contains("`previous_nodes` must be a list of strings: previous_nodes = ["), "{error}");
        let error = parse("user = 'x'\nnodes = 'redis://a'").err().unwrap();
        assert!(error.starts_with("cannot read /x.toml: line 2: "), "{error}");
        let error = parse("node_lists_must_agree = 'yes'").err().unwrap();
        assert!(error.ends_with("line 1: `node_lists_must_agree` must be true or false"), "{error}");
        assert_eq!(Some(true), parse("node_lists_must_agree = true").unwrap().node_lists_must_agree);
        let error = parse("clock_drift_factor = '1 %'").err().unwrap();
        assert!(error.ends_with("line 1: `clock_drift_factor` must be a number such as 0.01"), "{error}");
        assert_eq!(Some(0.05), parse("clock_drift_factor = 0.05").unwrap().clock_drift_factor);
        for field in TEXTS {
            assert!(parse(&format!("{field} = '1'")).is_ok(), "{field}");
            let error = parse(&format!("{field} = 1")).err().unwrap();
            assert!(error.ends_with(&format!("line 1: `{field}` must be a string in quotes")), "{error}");
        }
    }

    #[test]
    fn an_error_never_repeats_a_password() {
        for text in ["password = 'hunter2", "password = ['hunter2']", "hunter2", "password = hunter2"] {
            let error = parse(text).err().unwrap();
            assert!(!error.contains("hunter2"), "{error}");
        }
    }
}
