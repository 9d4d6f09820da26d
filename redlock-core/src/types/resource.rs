//! Resource names, validated once.
//!
//! A [`Resource`] is always valid, because its length is checked when it is created. [`Resources`] are those that one
//! claim locks together. They are sorted, so the order in which a caller names them has no effect.

use std::fmt;
use std::sync::Arc;

use crate::types::error::Error;

/// The name of a lockable resource: 1 to 1,024 bytes, not necessarily text.
///
/// The bytes are the key on every node; an adapter may add a prefix. Clones share them.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Resource(Arc<[u8]>);

impl Resource {
    /// The maximum length of a name: 1,024 bytes.
    ///
    /// That is long enough for any sensible key, and short enough for an error message and a log line.
    pub const MAX_LEN: usize = 1024;

    /// Creates a resource from a name.
    ///
    /// ```
    /// # use redlock_core::Resource;
    /// // Checks a name that a user has entered.
    /// let order = "42";
    /// let resource = Resource::new(format!("orders:{order}"))?;
    /// assert_eq!("orders:42", resource.to_string());
    /// assert!(Resource::new("x".repeat(Resource::MAX_LEN + 1)).is_err());
    /// # Ok::<_, redlock_core::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) if the name is empty or longer than [`Resource::MAX_LEN`].
    pub fn new(name: impl AsRef<[u8]>) -> Result<Self, Error> {
        let name = name.as_ref();
        match name.len() {
            0 => Err(Error::invalid("a resource name is empty; it needs 1 to 1024 bytes")),
            1..=Self::MAX_LEN => Ok(Self(name.into())),
            long => Err(Error::invalid(format!(
                "the resource name \"{}...\" is {long} bytes long; the limit is 1024",
                name[..32].escape_ascii()
            ))),
        }
    }

    /// Returns the bytes of the name.
    ///
    /// ```
    /// # use redlock_core::Resource;
    /// // Names need not be text: this one is the number of an order.
    /// let resource = Resource::new(42_u64.to_be_bytes())?;
    /// let bytes = resource.as_bytes().try_into().expect("eight bytes");
    /// assert_eq!(42, u64::from_be_bytes(bytes));
    /// # Ok::<_, redlock_core::Error>(())
    /// ```
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// Escapes all bytes that are not printable ASCII, as in a Rust byte string.
impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.escape_ascii().fmt(f)
    }
}

impl fmt::Debug for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{self}\"")
    }
}

/// A list of 1 to 1,000 different resources, locked all or none.
///
/// It is sorted, and clones share it.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Resources(Arc<[Resource]>);

impl Resources {
    /// The maximum number of resources of one lock: 1,000.
    ///
    /// A server does nothing else while it locks them: 1,000 resources take a few milliseconds.
    pub const MAX_COUNT: usize = 1000;

    /// The number of resources that a message shows.
    const SHOWN: usize = 10;

    /// Creates the list of resources that are locked together.
    ///
    /// ```
    /// # use redlock_core::{Resource, Resources};
    /// let [one, other] = [Resource::new("stock:7")?, Resource::new("orders:42")?];
    /// let resources = Resources::new([one.clone(), other])?;
    /// assert_eq!(r#""orders:42", "stock:7""#, resources.to_string());
    /// assert!(Resources::new([one.clone(), one]).is_err());
    /// # Ok::<_, redlock_core::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) in each of these cases:
    ///
    /// - There are no resources.
    /// - There are more than [`Resources::MAX_COUNT`].
    /// - A resource is named twice.
    pub fn new(resources: impl IntoIterator<Item = Resource>) -> Result<Self, Error> {
        let mut resources: Vec<_> = resources.into_iter().take(Self::MAX_COUNT + 1).collect();
        resources.sort_unstable();
        if resources.is_empty() {
            return Err(Error::invalid("no resource was named; a lock needs at least one"));
        }
        if resources.len() > Self::MAX_COUNT {
            return Err(Error::invalid("one lock names more than 1000 resources; the limit is 1000"));
        }
        match resources.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(pair) => {
                Err(Error::invalid(format!("the resource {:?} is named twice in one lock", pair[0])))
            }
            None => Ok(Self(resources.into())),
        }
    }

    /// Returns the list with the gate of a reader, if there is one.
    pub(crate) fn with_gate(&self, gate: Option<&Resource>) -> Self {
        let Some(gate) = gate else { return self.clone() };
        let mut resources = self.0.to_vec();
        if let Err(position) = resources.binary_search(gate) {
            resources.insert(position, gate.clone());
        }
        Self(resources.into())
    }

    /// Creates a list of one resource, the most frequent case.
    pub(crate) fn single(resource: Resource) -> Self {
        Self(Arc::new([resource]))
    }
}

impl std::ops::Deref for Resources {
    type Target = [Resource];

    fn deref(&self) -> &[Resource] {
        &self.0
    }
}

/// Formats as `"a"`, or `"a", "b"` for several.
///
/// After the first ten resources, it shows the number of the others.
impl fmt::Display for Resources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, resource) in self.iter().take(Self::SHOWN).enumerate() {
            let comma = if position == 0 { "" } else { ", " };
            write!(f, "{comma}{resource:?}")?;
        }
        match self.len().saturating_sub(Self::SHOWN) {
            0 => Ok(()),
            more => write!(f, ", ... and {more} more"),
        }
    }
}

/// Same as `Display`, in brackets.
impl fmt::Debug for Resources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{self}]")
    }
}

/// One resource, or several in an array, a slice or a vector.
///
/// ```
/// use redlock_core::{IntoResources, Resource};
///
/// assert_eq!(1, "invoice:42".into_resources()?.len());
/// assert_eq!(1, b"\x00\xff".into_resources()?.len());
/// assert_eq!(2, ["from", "to"].into_resources()?.len());
/// assert_eq!(2, (&["from", "to"][..]).into_resources()?.len());
/// assert_eq!(2, (&vec!["from", "to"]).into_resources()?.len());
/// assert_eq!(2, vec![Resource::new("from")?, Resource::new("to")?].into_resources()?.len());
/// # Ok::<(), redlock_core::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not name resources",
    label = "expected text, bytes, a `Resource`, or an array, a slice or a vector of these"
)]
pub trait IntoResources {
    /// Validates the names.
    ///
    /// # Errors
    ///
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) in the cases of [`Resource::new`] and [`Resources::new`].
    fn into_resources(self) -> Result<Resources, Error>;
}

/// One resource: text, bytes, or a [`Resource`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not name a resource",
    label = "expected text, bytes or a `Resource`"
)]
pub trait IntoResource {
    /// Validates the name.
    ///
    /// # Errors
    ///
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) in the cases of [`Resource::new`].
    fn into_resource(self) -> Result<Resource, Error>;
}

impl IntoResource for Resource {
    fn into_resource(self) -> Result<Resource, Error> {
        Ok(self)
    }
}

impl IntoResource for &Resource {
    fn into_resource(self) -> Result<Resource, Error> {
        Ok(self.clone())
    }
}

macro_rules! names {
    ($($name:ty),*) => {$(
        impl IntoResource for $name {
            fn into_resource(self) -> Result<Resource, Error> {
                Resource::new(self)
            }
        }
    )*};
}
names!(&str, &String, String, &[u8], &Vec<u8>, Vec<u8>);

impl<const N: usize> IntoResource for &[u8; N] {
    fn into_resource(self) -> Result<Resource, Error> {
        Resource::new(self)
    }
}

macro_rules! single {
    ($($name:ty),*) => {$(
        impl IntoResources for $name {
            fn into_resources(self) -> Result<Resources, Error> {
                Ok(Resources::single(self.into_resource()?))
            }
        }
    )*};
}
single!(&str, &String, String, &[u8], &Vec<u8>, Vec<u8>, Resource, &Resource);

impl<const N: usize> IntoResources for &[u8; N] {
    fn into_resources(self) -> Result<Resources, Error> {
        Ok(Resources::single(self.into_resource()?))
    }
}

impl IntoResources for Resources {
    fn into_resources(self) -> Result<Resources, Error> {
        Ok(self)
    }
}

impl IntoResources for &Resources {
    fn into_resources(self) -> Result<Resources, Error> {
        Ok(self.clone())
    }
}

impl<T: IntoResource, const N: usize> IntoResources for [T; N] {
    fn into_resources(self) -> Result<Resources, Error> {
        several(self)
    }
}

impl<T: IntoResource> IntoResources for Vec<T> {
    fn into_resources(self) -> Result<Resources, Error> {
        several(self)
    }
}

impl<T: IntoResource + Clone> IntoResources for &Vec<T> {
    fn into_resources(self) -> Result<Resources, Error> {
        several(self.iter().cloned())
    }
}

impl<T: IntoResource + Clone> IntoResources for &[T] {
    fn into_resources(self) -> Result<Resources, Error> {
        several(self.iter().cloned())
    }
}

impl<T: IntoResource + Clone, const N: usize> IntoResources for &[T; N] {
    fn into_resources(self) -> Result<Resources, Error> {
        several(self.iter().cloned())
    }
}

fn several<T: IntoResource>(names: impl IntoIterator<Item = T>) -> Result<Resources, Error> {
    let names = names.into_iter().take(Resources::MAX_COUNT + 1);
    let parsed: Vec<_> = names.map(T::into_resource).collect::<Result<_, _>>()?;
    Resources::new(parsed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(result: Result<Resources, Error>) -> String {
        result.unwrap_err().to_string()
    }

    #[test]
    fn order_does_not_matter() {
        assert_eq!(["b", "a"].into_resources().unwrap(), ["a", "b"].into_resources().unwrap());
    }

    #[test]
    fn different_splits_of_the_same_bytes_differ() {
        assert_ne!(["ab", "c"].into_resources().unwrap(), ["a", "bc"].into_resources().unwrap());
    }

    #[test]
    fn errors_of_invalid_names_state_the_limit() {
        assert!(message("".into_resources()).contains("1 to 1024 bytes"));
        assert!(message("x".repeat(1025).into_resources()).contains("1025 bytes long; the limit is 1024"));
        assert!(message(["a", "b", "a"].into_resources()).contains("\"a\" is named twice"));
        assert!(message(Vec::<Resource>::new().into_resources()).contains("no resource"));
        assert!("x".repeat(1024).into_resources().is_ok());
    }

    #[test]
    fn a_lock_has_at_most_a_thousand_names() {
        let names = |count: usize| (0..count).map(|number| format!("name-{number:04}")).collect::<Vec<_>>();
        assert_eq!(1000, names(1000).into_resources().unwrap().len());
        let many = Resources::new(names(1001).into_iter().map(|name| Resource::new(name).unwrap()));
        for many in [names(1001).into_resources(), many, (&names(1001)[..]).into_resources()] {
            assert!(message(many).contains("more than 1000 resources"));
        }
        let endless = std::iter::repeat_with(|| Resource::new("a").unwrap());
        assert!(message(Resources::new(endless)).contains("more than 1000 resources"));
    }

    #[test]
    fn a_long_list_of_names_is_shortened() {
        let names =
            |count: usize| (0..count).collect::<Vec<_>>().iter().map(ToString::to_string).collect::<Vec<_>>();
        let ten = r#""0", "1", "2", "3", "4", "5", "6", "7", "8", "9""#;
        assert_eq!(ten, names(10).into_resources().unwrap().to_string());
        assert_eq!(format!("[{ten}]"), format!("{:?}", names(10).into_resources().unwrap()));
        let shown = names(1000).into_resources().unwrap();
        assert!(shown.to_string().ends_with(", ... and 990 more"), "{shown}");
        assert!(format!("{shown:?} {shown:#?}").len() < 400, "{shown:?}");
    }

    #[test]
    fn binary_names_are_printed_escaped() {
        assert_eq!("\"\\x00\\xff\\\"a\"", format!("{:?}", Resource::new(b"\x00\xff\"a").unwrap()));
    }
}
