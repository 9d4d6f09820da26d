//! User and password for servers whose URL has none.

use std::fs;
use std::path::{Path, PathBuf};

use redlock_redis_rs::{Address, Error};

use super::Environment;
use super::file::{File, is_readable_by_others};
use crate::args::Shared;
use crate::exit::Failure;

/// The name of the credential of systemd with the password.
const CREDENTIAL: &str = "redlock-password";

pub(super) struct Login {
    pub(super) user: Option<String>,
    pub(super) password: Option<String>,
}

/// Finds the password.
///
/// The sources are a named file, the environment, a credential of systemd, and the configuration file.
pub(super) fn password(
    args: &Shared,
    environment: &Environment,
    file: &File,
    warnings: &mut Vec<String>,
) -> Result<Option<String>, Failure> {
    let from_file = |path: &Path, warnings: &mut Vec<String>| {
        if is_readable_by_others(path) {
            warnings.push(format!("{} is readable by others; chmod 600", path.display()));
        }
        let text = fs::read_to_string(path);
        let text =
            text.map_err(|error| Failure::config(format!("cannot read {}: {error}", path.display())))?;
        Ok(Some(text.trim_end_matches(['\r', '\n']).to_owned()))
    };
    if let Some(path) = &args.password_file {
        return from_file(path, warnings);
    }
    if let Some(password) = environment.text("REDLOCK_PASSWORD")? {
        return Ok(Some(password));
    }
    if let Some(path) = environment.get("REDLOCK_PASSWORD_FILE") {
        return from_file(Path::new(&path), warnings);
    }
    let credential =
        environment.get("CREDENTIALS_DIRECTORY").map(|path| PathBuf::from(path).join(CREDENTIAL));
    if let Some(path) = credential.filter(|path| path.exists()) {
        return from_file(&path, warnings);
    }
    match &file.password_file {
        Some(path) => from_file(path, warnings),
        None => Ok(file.password.clone()),
    }
}

impl Login {
    /// Adds user and password to a URL that has no password.
    pub(super) fn complete(&self, url: &str) -> Result<String, Error> {
        let Some(password) = &self.password else { return checked(url) };
        let has_login = url.contains('@') || url.contains("pass=");
        let Some((scheme, rest)) = url.split_once("://").filter(|_| !has_login) else { return checked(url) };
        let (user, password) = (encoded(self.user.as_deref().unwrap_or_default()), encoded(password));
        let url = if scheme == "unix" {
            let separator = if rest.contains('?') { '&' } else { '?' };
            let user = if user.is_empty() { String::new() } else { format!("user={user}&") };
            format!("{scheme}://{rest}{separator}{user}pass={password}")
        } else {
            format!("{scheme}://{user}:{password}@{rest}")
        };
        checked(&url)
    }
}

fn checked(url: &str) -> Result<String, Error> {
    Address::parse(url).map(|_| url.to_owned())
}

/// Percent-encodes all bytes except letters and digits.
fn encoded(text: &str) -> String {
    let encode = |byte: u8| match byte {
        byte if byte.is_ascii_alphanumeric() => char::from(byte).to_string(),
        byte => format!("%{byte:02X}"),
    };
    text.bytes().map(encode).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complete(user: Option<&str>, password: Option<&str>, url: &str) -> Address {
        let login = Login { user: user.map(Into::into), password: password.map(Into::into) };
        Address::parse(&login.complete(url).unwrap()).unwrap()
    }

    #[test]
    fn the_login_is_added_to_a_url_without_one() {
        let password = "p@ss/w\u{f6}rd&?#%";
        for url in
            ["redis://a:7000/3", "rediss://[::1]", "unix:///run/redis.sock", "unix:///run/redis.sock?db=3"]
        {
            let address = complete(Some("me"), Some(password), url);
            assert_eq!((Some("me"), Some(password)), (address.user(), address.password()), "{url}");
            assert_eq!(Address::parse(url).unwrap().to_string(), address.to_string());
            assert_eq!(None, complete(None, Some(password), url).user());
        }
    }

    #[test]
    fn a_login_in_a_url_is_kept() {
        let address = complete(Some("me"), Some("x"), "redis://you:y@a");
        assert_eq!((Some("you"), Some("y")), (address.user(), address.password()));
        assert_eq!(None, complete(None, None, "redis://a").password());
    }
}
