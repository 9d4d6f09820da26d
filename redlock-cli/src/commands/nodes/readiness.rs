//! The decision whether step 3 of a change may begin, in which programs list only the new servers.

use std::fmt;
use std::time::Duration;

use redlock_redis_rs::{AnnouncedList, AnnouncedLists};

/// The state of the change, according to the announcements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Readiness {
    Ready,
    /// Lists differ from those of the change.
    OtherLists,
    /// Programs with only the previous servers run.
    FirstStepRuns,
    /// They do not renew their announcement any more, which expires after this time.
    FirstStepEnded(Duration),
    /// Not all servers have replied.
    Unreached,
    /// A program has announced a part of its list only.
    UnknownList,
    /// A program has found other lists. Its announcement expires after this time, unless it finds them again.
    FoundOtherLists(Duration),
    /// No program has announced both lists.
    NotBegun,
}

/// The step of a program, and the time left of its announcement.
type Announcement = (Option<u8>, Option<Duration>);

/// A running program renews its announcement before less time is left.
const RENEWED: Duration = Duration::from_secs(18);

impl Readiness {
    /// Returns the state of the change, as a program with both lists sees it.
    pub(super) fn of(nodes: &[AnnouncedLists]) -> Self {
        let lists = || nodes.iter().flat_map(AnnouncedLists::lists);
        if lists().any(AnnouncedList::differs) {
            return Self::OtherLists;
        }
        let announced: Vec<Announcement> = lists().map(|list| (list.step(), list.expires_in())).collect();
        let found = lists().filter(|list| list.found_difference());
        let found = found.map(|list| list.expires_in().unwrap_or_default()).max();
        Self::of_steps(&announced, nodes.iter().all(|node| node.error().is_none())).unless_found(found)
    }

    fn of_steps(announced: &[Announcement], is_complete: bool) -> Self {
        let of_step = |step| announced.iter().filter(move |(of, _)| *of == step);
        let left = of_step(Some(1)).map(|(_, left)| left.unwrap_or_default()).max();
        match left {
            Some(left) if left > RENEWED => Self::FirstStepRuns,
            Some(left) => Self::FirstStepEnded(left),
            None if !is_complete => Self::Unreached,
            None if of_step(None).next().is_some() => Self::UnknownList,
            None if of_step(Some(2)).chain(of_step(Some(3))).next().is_none() => Self::NotBegun,
            None => Self::Ready,
        }
    }

    /// Returns the state if a program has found other lists, whose announcement expires after `found`.
    fn unless_found(self, found: Option<Duration>) -> Self {
        found.filter(|_| self.is_ready()).map_or(self, Self::FoundOtherLists)
    }

    pub(super) fn is_ready(self) -> bool {
        self == Self::Ready
    }
}

impl fmt::Display for Readiness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let reason = match self {
            Self::Ready => {
                return f.write_str(
                    "Ready for step 3 once the longest TTL is over: no program of step 1 has announced its list.",
                );
            }
            Self::OtherLists => "programs list other servers.",
            Self::FirstStepRuns => "programs of step 1 run.",
            Self::FirstStepEnded(left) => {
                let seconds = left.as_secs() + 1;
                return write!(
                    f,
                    "Not ready for step 3: programs of step 1 ran less than 30 s ago. Check again in {seconds} s."
                );
            }
            Self::FoundOtherLists(left) => {
                let seconds = left.as_secs() + 1;
                return write!(
                    f,
                    "Not ready for step 3: a program has found other lists. Check again in {seconds} s."
                );
            }
            Self::Unreached => "not all servers have replied.",
            Self::UnknownList => "a program has announced only a part of its list.",
            Self::NotBegun => "no program of step 2 has announced its lists.",
        };
        write!(f, "Not ready for step 3: {reason}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRESH: Option<Duration> = Some(Duration::from_secs(25));
    const OLD: Option<Duration> = Some(Duration::from_secs(7));

    fn readiness(announced: &[Announcement]) -> Readiness {
        Readiness::of_steps(announced, true)
    }

    #[test]
    fn step_3_begins_when_no_program_of_step_1_is_announced() {
        let (one, two, three) = ((Some(1), FRESH), (Some(2), FRESH), (Some(3), FRESH));
        assert_eq!(Readiness::FirstStepRuns, readiness(&[two, one]));
        assert_eq!(Readiness::FirstStepRuns, readiness(&[(Some(1), OLD), one]), "one server is not reached");
        assert_eq!(
            Readiness::FirstStepEnded(Duration::from_secs(7)),
            readiness(&[two, (Some(1), OLD), (Some(1), None)])
        );
        assert_eq!(Readiness::NotBegun, readiness(&[]));
        assert_eq!([Readiness::Ready; 3], [&[two][..], &[two, three], &[three]].map(readiness));
    }

    #[test]
    fn what_is_unknown_may_be_a_program_of_step_1() {
        let two = (Some(2), FRESH);
        assert_eq!(Readiness::UnknownList, readiness(&[two, (None, FRESH)]));
        assert_eq!(Readiness::Unreached, Readiness::of_steps(&[two], false));
        assert_eq!(Readiness::FirstStepRuns, Readiness::of_steps(&[(Some(1), FRESH)], false));
    }

    #[test]
    fn a_program_that_has_found_other_lists_may_be_right() {
        let left = Duration::from_secs(12);
        assert_eq!(Readiness::FoundOtherLists(left), Readiness::Ready.unless_found(Some(left)));
        assert_eq!(Readiness::Ready, Readiness::Ready.unless_found(None));
        assert_eq!(Readiness::FirstStepRuns, Readiness::FirstStepRuns.unless_found(Some(left)));
    }

    #[test]
    fn the_line_states_what_to_do() {
        let ended = Readiness::FirstStepEnded(Duration::from_millis(7_300)).to_string();
        assert_eq!(
            "Not ready for step 3: programs of step 1 ran less than 30 s ago. Check again in 8 s.",
            ended
        );
        assert!(Readiness::Ready.to_string().starts_with("Ready for step 3 "));
    }
}
