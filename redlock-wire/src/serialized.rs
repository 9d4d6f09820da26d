//! Addresses and options in a configuration file.

#[cfg(feature = "tokio")]
use std::time::Duration;

use redlock_core::Error;
use serde::{Deserialize, Deserializer, de};

use crate::address::Address;
#[cfg(feature = "tokio")]
use crate::options::Options;

/// A string with the URL. Errors contain neither the string nor its password.
impl<'de> Deserialize<'de> for Address {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let url = String::deserialize(deserializer)?;
        Self::parse(&url).map_err(|error: Error| de::Error::custom(error))
    }
}

/// The fields of options in a configuration file. All of them are optional.
#[cfg(feature = "tokio")]
#[derive(Deserialize)]
#[serde(rename = "Options", deny_unknown_fields)]
struct OptionsFields {
    key_prefix: Option<String>,
    connect_timeout_ms: Option<u64>,
    reconnect_delay_ms: Option<u64>,
    native_commands: Option<bool>,
    longest_ttl_ms: Option<u64>,
    strict_clocks: Option<bool>,
    fence_prefix: Option<String>,
    fence_retention_ms: Option<u64>,
    root_certificates: Option<String>,
    client_identity: Option<IdentityFields>,
}

#[cfg(feature = "tokio")]
#[derive(Deserialize)]
#[serde(rename = "ClientIdentity", deny_unknown_fields)]
struct IdentityFields {
    certificate: String,
    key: String,
}

/// Each field is optional and has the name, the default and the bounds of its method; durations are milliseconds, and
/// the names of their fields end in `_ms`. Certificates and keys are PEM texts. The runtime is tokio.
#[cfg(feature = "tokio")]
impl<'de> Deserialize<'de> for Options {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let fields = OptionsFields::deserialize(deserializer)?;
        let set = |options: Self, millis: Option<u64>, method: fn(Self, Duration) -> Self| match millis {
            Some(millis) => method(options, Duration::from_millis(millis)),
            None => options,
        };
        let mut options = Self::tokio();
        options = set(options, fields.connect_timeout_ms, Self::connect_timeout);
        options = set(options, fields.reconnect_delay_ms, Self::reconnect_delay);
        options = set(options, fields.longest_ttl_ms, Self::longest_ttl);
        options = set(options, fields.fence_retention_ms, Self::fence_retention);
        if let Some(prefix) = fields.key_prefix {
            options = options.key_prefix(prefix);
        }
        if let Some(prefix) = fields.fence_prefix {
            options = options.fence_prefix(prefix);
        }
        if let Some(native) = fields.native_commands {
            options = options.native_commands(native);
        }
        if let Some(strict) = fields.strict_clocks {
            options = options.strict_clocks(strict);
        }
        if let Some(pem) = fields.root_certificates {
            options = options.root_certificates(pem);
        }
        if let Some(IdentityFields { certificate, key }) = fields.client_identity {
            options = options.client_identity(certificate, key);
        }
        Ok(options)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_url_and_its_error_has_no_password() {
        let address: Address = serde_json::from_str(r#""rediss://user:secret@10.0.0.1:6380/2""#).unwrap();
        assert_eq!(
            (Some("user"), Some("secret"), 2),
            (address.user(), address.password(), address.database())
        );
        let error = serde_json::from_str::<Address>(r#""redis://user:secret@10.0.0.1:port""#).unwrap_err();
        assert!(!error.to_string().contains("secret"), "{error}");
    }

    #[cfg(feature = "tokio")]
    #[test]
    fn options_have_the_names_defaults_and_bounds_of_their_methods() {
        let options: Options = serde_json::from_str("{}").unwrap();
        let default = Options::tokio();
        assert!(options.keys == default.keys && !options.native_commands && !options.has_longest_ttl());
        assert!(!options.strict_clocks);
        assert_eq!(default.connect_timeout.get(), options.connect_timeout.get());

        let text = r#"{
            "key_prefix": "lock:", "connect_timeout_ms": 500, "reconnect_delay_ms": 1, "native_commands": true,
            "longest_ttl_ms": 60000, "strict_clocks": true, "fence_prefix": "fence:", "fence_retention_ms": 3600000,
            "root_certificates": "PEM", "client_identity": { "certificate": "PEM", "key": "PEM" }
        }"#;
        let options: Options = serde_json::from_str(text).unwrap();
        assert_eq!((&b"lock:"[..], &b"fence:"[..]), (&*options.keys.prefix, &*options.keys.fence_prefix));
        assert_eq!(Duration::from_secs(3600), options.keys.fence_retention);
        assert_eq!(Duration::from_millis(500), options.connect_timeout.get());
        assert_eq!(Duration::from_millis(10), options.reconnect_delay, "the shortest");
        assert!(options.native_commands && options.has_longest_ttl() && options.strict_clocks);
    }

    #[cfg(feature = "tokio")]
    #[test]
    fn an_unknown_field_and_a_wrong_type_are_errors_that_name_the_field() {
        let error = |text| serde_json::from_str::<Options>(text).err().unwrap().to_string();
        assert!(error(r#"{ "connect_timeout": 500 }"#).contains("unknown field `connect_timeout`"));
        assert!(
            error(r#"{ "connect_timeout_ms": -1 }"#).contains("invalid value: integer `-1`, expected u64")
        );
        assert!(error(r#"{ "client_identity": { "key": "PEM" } }"#).contains("missing field `certificate`"));
    }
}
