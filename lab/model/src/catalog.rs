//! The scopes and the broken variants of a rule, as every model has them.

use std::fmt::{Debug, Display};

use crate::explore::{Exploration, Model, explore_for};

/// Declares the variants of a model. Each broken one has a description, the property that detects it, and a scope.
///
/// Other variants have none. In brackets at the end are scopes in which the rule as it is violates a property.
macro_rules! variants {
    (
        $model:ty;
        $($variant:ident $(: $($does:literal => $property:ident in $scope:expr),+)?;)+
        $([Sound: $($assumption:literal => $violated:ident in $hole:expr),+])?
    ) => {
        /// The sound rule, or a rule with one change.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[allow(missing_docs)] // the catalog describes each
        pub enum Variant {
            Sound,
            $($variant,)+
        }

        /// Every broken variant.
        pub const CATALOG: &[$crate::catalog::Broken<$model>] = &[
            $($($($crate::catalog::Broken::new(Variant::$variant, $does, Property::$property, $scope),)+)?)+
            $($($crate::catalog::Broken::new(Variant::Sound, $assumption, Property::$violated, $hole),)+)?
        ];
    };
}

/// Declares an enum whose values have a name each.
macro_rules! named {
    ($(#[$about:meta])* $vis:vis enum $name:ident { $($(#[$doc:meta])* $value:ident = $text:literal,)+ }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        $vis enum $name {
            $($(#[$doc])* $value,)+
        }

        impl $name {
            /// All values.
            pub(crate) const ALL: &'static [Self] = &[$(Self::$value,)+];
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(match self {
                    $(Self::$value => $text,)+
                })
            }
        }
    };
}

/// A model of a rule within bounds, either sound or with one change.
pub trait Rule: Model<Step: Debug + Display, Property: Debug + Display> + Debug {
    /// The bounds.
    type Scope: Copy + Debug + Display + PartialEq + 'static;
    /// The rule as it is, and its changes.
    type Variant: Copy + Debug + PartialEq + 'static;

    /// The rule as it is.
    const SOUND: Self::Variant;

    /// True if states with one key have the same futures for each variant as well. The numbers of a broken variant are the
    /// same in every exploration then.
    const EXACT: bool = true;

    /// Creates the rule with one change.
    ///
    /// # Panics
    ///
    /// Panics if the scope is larger than a state can store.
    fn broken(scope: Self::Scope, variant: Self::Variant) -> Self;

    /// Creates the sound rule.
    ///
    /// # Panics
    ///
    /// Same as [`broken`](Rule::broken).
    fn new(scope: Self::Scope) -> Self {
        Self::broken(scope, Self::SOUND)
    }

    /// Returns a trace in words: each step, and its consequences.
    fn describe(&self, trace: &[Self::Step]) -> Vec<String> {
        let mut before = self.first();
        let line = |step: &Self::Step| {
            let after = self.next(&before, *step);
            let text = format!("{step}{}", self.consequences(&before, *step, &after));
            before = after;
            text
        };
        trace.iter().map(line).collect()
    }

    /// Returns the state that a trace leads to.
    ///
    /// # Panics
    ///
    /// Panics if one of its steps is not possible.
    fn after(&self, trace: &[Self::Step]) -> Self::State {
        trace.iter().fold(self.first(), |state, step| {
            let mut steps = Vec::new();
            self.steps(&state, &mut steps);
            assert!(steps.contains(step), "an impossible step in the trace: {step}");
            self.next(&state, *step)
        })
    }

    /// Returns the consequences of a step in words, if the step does not state them.
    fn consequences(&self, _before: &Self::State, _step: Self::Step, _after: &Self::State) -> String {
        String::new()
    }
}

/// A broken variant, and the property that detects it.
#[derive(Clone, Copy, Debug)]
pub struct Broken<M: Rule> {
    /// The variant.
    pub variant: M::Variant,
    /// A description of the change.
    pub does: &'static str,
    /// The property that the shortest trace violates.
    pub violates: M::Property,
    /// A scope that is large enough to detect it.
    pub scope: M::Scope,
}

/// The detection of a broken variant.
#[derive(Clone, Debug)]
pub struct Detected<S> {
    /// The number of states until the violation.
    pub states: usize,
    /// A shortest trace to it.
    pub trace: Vec<S>,
}

/// A variant that violates nothing in a scope, with the reason why the rule differs.
#[derive(Clone, Copy, Debug)]
pub struct Harmless<M: Rule> {
    /// The variant.
    pub variant: M::Variant,
    /// A description of the change, and the reason.
    pub does: &'static str,
    /// The scope.
    pub scope: M::Scope,
}

/// The explorations of a model.
#[derive(Clone, Copy, Debug)]
pub struct Explored<M: Rule + 'static> {
    /// The title of the model.
    pub title: &'static str,
    /// The scopes in which nothing is violated.
    pub scopes: &'static [M::Scope],
    /// The broken variants.
    pub broken: &'static [Broken<M>],
    /// Scopes in which the rule itself violates a property.
    pub holes: &'static [Broken<M>],
    /// Other rules, which hold.
    pub harmless: &'static [Harmless<M>],
}

impl<M: Rule> Broken<M> {
    /// Creates an entry.
    pub const fn new(
        variant: M::Variant,
        does: &'static str,
        violates: M::Property,
        scope: M::Scope,
    ) -> Self {
        Self { variant, does, violates, scope }
    }

    /// Returns the broken rule.
    pub fn model(&self) -> M {
        M::broken(self.scope, self.variant)
    }

    /// Explores the broken rule until it violates the property.
    ///
    /// # Panics
    ///
    /// Same as [`explore_for`].
    pub fn explore(&self) -> Exploration<M::Property, M::Step> {
        explore_for(self.model(), &[self.violates])
    }

    /// Explores the broken rule, and checks that the trace leads to the violation.
    ///
    /// # Panics
    ///
    /// Panics if it does not, or if nothing is violated.
    pub fn detect(&self) -> Detected<M::Step> {
        let Exploration { states, violation, .. } = self.explore();
        let trace = violation.unwrap_or_else(|| panic!("{:?} survives: {}", self.variant, self.does)).trace;
        let holds = self.model().holds(self.violates, &self.model().after(&trace));
        assert!(!holds, "{:?}: the trace does not lead to a violation", self.variant);
        Detected { states, trace }
    }
}

impl<M: Rule> Harmless<M> {
    /// Creates an entry.
    pub(crate) const fn new(variant: M::Variant, does: &'static str, scope: M::Scope) -> Self {
        Self { variant, does, scope }
    }

    /// Returns the other rule.
    pub fn model(&self) -> M {
        M::broken(self.scope, self.variant)
    }
}

/// Returns the name of a client or an attempt: A, B, C, and so on.
pub(crate) fn name(client: usize) -> char {
    char::from(b'A' + u8::try_from(client).unwrap_or(25))
}
