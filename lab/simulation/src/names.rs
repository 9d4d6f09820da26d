//! Enums whose values have a name each.

/// Declares an enum, the name of each value, and the list of all names.
macro_rules! named {
    (
        $(#[$about:meta])*
        pub enum $enum:ident { $($(#[$doc:meta])* $value:ident $(($of:ty))? = $name:literal,)+ }
    ) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $enum {
            $($(#[$doc])* $value $(($of))?,)+
        }

        impl $enum {
            /// All names.
            pub const NAMES: &'static [&'static str] = &[$($name),+];

            /// Returns the name.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$value { .. } => $name,)+
                }
            }
        }
    };
}
