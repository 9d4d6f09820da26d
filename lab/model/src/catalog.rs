//! The scopes and the broken variants of a rule, as every model has them.

use std::fmt::{Debug, Display};

use crate::explore::{Exploration, Model, explore_for};

/// A model of a rule within bounds, either sound or with one change.
pub trait Rule: Model<Step: Debug + Display, Property: Debug + Display> + Debug {
    /// The bounds.
    type Scope: Copy + Debug + Display + PartialEq + 'static;
    /// The rule as it is, and its changes.
    type Variant: Copy + Debug + PartialEq + 'static;

    /// The rule as it is.
    const SOUND: Self::Variant;

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

    /// Returns a trace in words.
    fn describe(&self, trace: &[Self::Step]) -> Vec<String> {
        trace.iter().map(ToString::to_string).collect()
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
    pub(crate) const fn new(
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
