//! The serialized form of a lease: stable, mostly text, validated when it is read.
//!
//! Names and tokens are bytes, which JSON does not have. Percent-encoding keeps common names readable, and every
//! language can decode it. An unknown field is an error, because a version that does not know its meaning must not
//! ignore it.

use std::fmt::Write;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::DetachedLease;
use crate::types::error::Error;
use crate::types::fencing_token::FencingToken;
use crate::types::resource::{Resource, Resources};

/// The serialized fields.
#[derive(Serialize, Deserialize)]
#[serde(rename = "DetachedLease", deny_unknown_fields)]
struct Fields {
    resources: Vec<String>,
    token: String,
    ttl_ms: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    fencing_token: Option<FencingToken>,
}

impl Serialize for DetachedLease {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Fields {
            resources: self.resources().iter().map(|resource| encode(resource.as_bytes())).collect(),
            token: encode(self.token().as_bytes()),
            ttl_ms: self.ttl.as_millis(),
            fencing_token: self.fencing_token,
        }
        .serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for DetachedLease {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Fields::deserialize(deserializer)?.check().map_err(de::Error::custom)
    }
}

impl Fields {
    fn check(&self) -> Result<DetachedLease, Error> {
        let wrong = |what| Error::invalid(format!("invalid percent-encoding in {what}"));
        let resource = |name: &String| Resource::new(decode(name).ok_or_else(|| wrong("a resource name"))?);
        let resources = self.resources.iter().map(resource).collect::<Result<Vec<_>, _>>()?;
        let token = decode(&self.token).ok_or_else(|| wrong("the token"))?;
        let lease =
            DetachedLease::new(Resources::new(resources)?, token, Duration::from_millis(self.ttl_ms))?;
        Ok(DetachedLease { fencing_token: self.fencing_token, ..lease })
    }
}

fn encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for byte in bytes {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b':' => {
                text.push(char::from(*byte));
            }
            _ => write!(text, "%{byte:02X}").expect("writing to a String succeeds"),
        }
    }
    text
}

fn decode(text: &str) -> Option<Vec<u8>> {
    let digit = |digit: u8| char::from(digit).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => (digit(rest.next()?)? << 4) | digit(rest.next()?)?,
            b' '..=b'~' => byte,
            _ => return None,
        });
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TTL: Duration = Duration::from_secs(10);

    fn read(json: &str) -> Result<DetachedLease, String> {
        serde_json::from_str(json).map_err(|error: serde_json::Error| error.to_string())
    }

    #[test]
    fn the_format_is_stable() {
        let names = vec![b"invoice:42".to_vec(), b"\x00\xff /\"%".to_vec()];
        let lease = DetachedLease::new(names, "host-1#85d6", TTL).unwrap();
        let written =
            r#"{"resources":["%00%FF%20%2F%22%25","invoice:42"],"token":"host-1%2385d6","ttl_ms":10000}"#;
        assert_eq!(written, serde_json::to_string(&lease).unwrap());
        assert_eq!(lease, read(written).unwrap());
        let by_hand = r#"{"ttl_ms":10000,"token":"host-1#85d6","resources":["invoice:42","%00%ff /%22%25"]}"#;
        assert_eq!(lease, read(by_hand).unwrap());
        let fenced = lease.with_fencing_token(FencingToken::new(1_799_999_996_919_809).unwrap());
        let written = written.replace('}', r#","fencing_token":1799999996919809}"#);
        assert_eq!(written, serde_json::to_string(&fenced).unwrap());
        assert_eq!(fenced, read(&written).unwrap());
    }

    #[test]
    fn deserialized_leases_are_validated() {
        let with = |resources: &str, token: &str, rest: &str| {
            read(&format!(r#"{{"resources":{resources},"token":"{token}","ttl_ms":{rest}}}"#)).unwrap_err()
        };
        let many =
            serde_json::to_string(&(0..1001).map(|number| number.to_string()).collect::<Vec<_>>()).unwrap();
        for (error, expected) in [
            (with("[]", "t", "10000"), "no resource"),
            (with(&many, "t", "10000"), "more than 1000 resources"),
            (with(r#"["a","a"]"#, "t", "10000"), "named twice"),
            (with(r#"["%61","a"]"#, "t", "10000"), "named twice"),
            (with(r#"[""]"#, "t", "10000"), "resource name is empty"),
            (with(r#"["a"]"#, "", "10000"), "token is empty"),
            (with(r#"["a"]"#, "t", "9"), "too short"),
            (with(r#"["a"]"#, "t", "18446744073709551615"), "too long"),
            (with(r#"["a"]"#, "t", "10000,\"deadline\":7"), "unknown field"),
            (with(r#"["a"]"#, "t", "10000,\"fencing_token\":0"), "invalid fencing token 0"),
            (with(r#"["a"]"#, "t", "10000,\"fencing_token\":\"7\""), "invalid type"),
            (read(r#"{"resources":["a"],"token":"t"}"#).unwrap_err(), "missing field"),
        ] {
            assert!(error.contains(expected), "{error}");
        }
        for bad in ["hunter2%", "hunter2%4", "hunter2%+1", "hunter2%x1", "hunter2\u{fc}"] {
            assert!(
                with(&format!(r#"["{bad}"]"#), "t", "10000")
                    .contains("invalid percent-encoding in a resource name")
            );
            let error = with(r#"["a"]"#, bad, "10000");
            assert!(error.contains("invalid percent-encoding in the token"), "{error}");
            assert!(!error.contains("hunter2"), "{error}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_survive_a_round_trip(
            name in prop::collection::vec(any::<u8>(), 1..40),
            token in prop::collection::vec(any::<u8>(), 1..40),
            millis in 10_u64..2_073_600_000,
        ) {
            let lease = DetachedLease::new(name, token, Duration::from_millis(millis)).unwrap();
            let json = serde_json::to_string(&lease).unwrap();
            prop_assert!(json.is_ascii());
            prop_assert_eq!(lease, read(&json).unwrap());
        }
    }
}
