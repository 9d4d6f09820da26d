//! Experiments as options of `scripts/simulate`, which repeat exactly the same run.

use std::fmt::Display;
use std::str::FromStr;
use std::time::Duration;

use super::{Activity, Experiment, Script};
use crate::duration::duration;
use crate::plan::{Faults, Plan};

/// The values of `--activity`.
const ACTIVITIES: [(&str, Activity); 4] = [
    ("locking", Activity::Locking),
    ("waiting", Activity::Waiting),
    ("sharing", Activity::Sharing),
    ("keeping", Activity::Keeping),
];

/// The values of options with two values.
const LOCKS: [&str; 2] = ["plain", "mixed"];
const SWITCH: [&str; 2] = ["off", "on"];

impl Experiment {
    /// Reads the options of a command. A later one replaces an earlier one of the same name, except scripts, which add up.
    ///
    /// ```
    /// use redlock_simulation::experiment::Experiment;
    ///
    /// let experiment = Experiment::new(7).servers(3).waiting();
    /// assert_eq!(Ok(experiment.clone()), Experiment::parse(experiment.options()));
    /// ```
    ///
    /// # Errors
    ///
    /// A sentence about the first option that is unknown or not readable.
    pub fn parse(options: impl IntoIterator<Item = String>) -> Result<Self, String> {
        let (mut experiment, mut options) = (Self::new(0), options.into_iter());
        while let Some(name) = options.next() {
            experiment = match name.as_str() {
                "--whole" => experiment.whole(),
                "--counters-without-time" => experiment.counters_without_time(),
                "--without-initial-token-write" => experiment.without_initial_token_write(),
                "--without-middle-step" => experiment.without_middle_step(),
                "--lists-must-agree" => experiment.agreeing(),
                _ => {
                    let value = options.next().ok_or_else(|| format!("{name} needs a value"))?;
                    experiment.set(&name, &value)?
                }
            };
        }
        Ok(experiment)
    }

    fn set(mut self, name: &str, value: &str) -> Result<Self, String> {
        let unreadable = || format!("{name} {value}: not readable");
        Ok(match name {
            "--nodes" => self.servers(number(name, value)?),
            "--clients" => self.clients(number(name, value)?),
            "--resources" => self.resources(number(name, value)?),
            "--seed" => self.seed(number(name, value)?),
            "--lasts" => self.lasts(time(name, value)?),
            "--drift" => self.clock_drift(number(name, value)?),
            "--drift-factor" => {
                let factor = number(name, value)?;
                if !(0.0..1.0).contains(&factor) {
                    return Err(format!("{name} {value}: must be at least 0 and less than 1"));
                }
                self.clock_drift_factor(factor)
            }
            "--shortest-ttl" => self.shortest_ttl(time(name, value)?),
            "--delays" => {
                let (least, most) = value.split_once('-').ok_or_else(unreadable)?;
                self.delays(time(name, least)?, time(name, most)?)
            }
            "--notifies" => self.notifies(choice(name, value, SWITCH)?),
            "--locks" => self.fenced(choice(name, value, LOCKS)?),
            "--admission" if choice(name, value, SWITCH)? => self.with_admission(),
            "--admission" => self.without_admission(),
            "--faults" => self.faults(Faults::named(value).ok_or_else(unreadable)?),
            "--incidents" => self.plan(value.parse::<Plan>()?),
            "--change" => {
                let (old, new) = value.split_once('-').ok_or_else(unreadable)?;
                self.changing(&numbers(name, old)?, &numbers(name, new)?)
            }
            "--script" => {
                let mut scripts = self.scripts.take().unwrap_or_default();
                scripts.push(script(value).ok_or_else(unreadable)?);
                self.scripts(scripts)
            }
            "--activity" => match ACTIVITIES.iter().find(|(name, _)| *name == value) {
                None => return Err(unreadable()),
                Some((_, Activity::Locking)) => Self { activity: Activity::Locking, ..self },
                Some((_, Activity::Waiting)) => self.waiting(),
                Some((_, Activity::Sharing)) => self.sharing(),
                Some((_, Activity::Keeping)) => self.keeping(),
            },
            _ => return Err(format!("unknown option: {name}")),
        })
    }

    /// Returns the options of `scripts/simulate` for this experiment: those that differ from the defaults, and the seed.
    pub fn options(&self) -> Vec<String> {
        let mut options = self.settings();
        options.extend(["--seed".to_owned(), self.seed.to_string()]);
        options
    }

    /// Returns the options without the seed.
    fn settings(&self) -> Vec<String> {
        let mut options = Options(Vec::new());
        let usual = Self::new(self.seed);
        if let Some((activity, _)) = ACTIVITIES.iter().find(|(_, other)| *other == self.activity) {
            options.add_if(self.activity != usual.activity, "--activity", activity);
        }
        for script in self.scripts.iter().flatten() {
            options.add("--script", script_text(script));
        }
        match &self.change {
            Some(change) => options.add("--change", format!("{}-{}", list(&change.old), list(&change.new))),
            None => options.add("--nodes", self.servers),
        }
        options.add("--clients", self.clients);
        let has_one =
            self.scripts.is_some() || matches!(self.activity, Activity::Waiting | Activity::Sharing);
        let resources = if has_one { 1 } else { usual.resources };
        options.add_if(self.resources != resources, "--resources", self.resources);
        options.add_if(self.faults != usual.faults, "--faults", self.faults);
        options.add_some("--locks", self.fenced.map(|is| LOCKS[usize::from(is)]));
        options.add_some("--admission", self.admission.map(|is| SWITCH[usize::from(is)]));
        options.add_if(self.lasts != usual.lasts, "--lasts", format!("{:?}", self.lasts));
        let is_usual = self.drift_factor.to_bits() == usual.drift_factor.to_bits();
        options.add_if(!is_usual, "--drift-factor", self.drift_factor);
        options.add_some("--drift", self.drift_ppm);
        options.add_some("--delays", self.delays.map(|(least, most)| format!("{least:?}-{most:?}")));
        options.add_some("--notifies", self.notifies.map(|is| SWITCH[usize::from(is)]));
        options.add_some("--shortest-ttl", self.shortest_ttl.map(|ttl| format!("{ttl:?}")));
        for (is, name) in [
            (self.timeless, "--counters-without-time"),
            (self.reads_first, "--without-initial-token-write"),
            (self.change.as_ref().is_some_and(|change| change.is_direct), "--without-middle-step"),
            (self.change.as_ref().is_some_and(|change| change.must_agree), "--lists-must-agree"),
            (self.whole, "--whole"),
        ] {
            options.0.extend(is.then(|| name.to_owned()));
        }
        let plan = self.plan.as_ref().map(|plan| plan.to_string().trim_end().replace('\n', "; "));
        options.add_some("--incidents", plan);
        options.0
    }

    /// Returns the command that repeats this run and shows it.
    ///
    /// It contains all settings that differ from the defaults.
    pub fn command(&self) -> String {
        command(&self.options())
    }

    /// Returns the command for the same experiment with many seeds.
    pub fn command_for_seeds(&self, from: u64, seeds: u64) -> String {
        let mut options = self.settings();
        options.extend(["--from".to_owned(), from.to_string(), "--seeds".to_owned(), seeds.to_string()]);
        command(&options)
    }
}

/// Returns a command of a shell. Options that contain spaces are quoted; none contains a quote.
fn command(options: &[String]) -> String {
    let is_plain = |option: &str| {
        !option.is_empty() && option.chars().all(|char| char.is_ascii_alphanumeric() || "-.".contains(char))
    };
    let quoted = |option: &String| if is_plain(option) { option.clone() } else { format!("'{option}'") };
    let words = ["scripts/simulate".to_owned()].into_iter().chain(options.iter().map(quoted));
    words.collect::<Vec<_>>().join(" ")
}

struct Options(Vec<String>);

impl Options {
    fn add(&mut self, name: &str, value: impl Display) {
        self.0.extend([name.to_owned(), value.to_string()]);
    }

    fn add_if(&mut self, is: bool, name: &str, value: impl Display) {
        self.add_some(name, is.then_some(value));
    }

    fn add_some(&mut self, name: &str, value: Option<impl Display>) {
        if let Some(value) = value {
            self.add(name, value);
        }
    }
}

fn number<T: FromStr>(name: &str, value: &str) -> Result<T, String> {
    value.parse().map_err(|_| format!("{name} {value}: not a number"))
}

/// Reads numbers, such as `0,1,2`.
fn numbers(name: &str, value: &str) -> Result<Vec<usize>, String> {
    value.split(',').map(|word| number(name, word)).collect()
}

fn list(numbers: &[usize]) -> String {
    numbers.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

fn time(name: &str, value: &str) -> Result<Duration, String> {
    duration(value).ok_or_else(|| format!("{name} {value}: not a time, such as 1.5s or 20ms"))
}

/// Returns whether the value is the second of the two.
fn choice(name: &str, value: &str, values: [&str; 2]) -> Result<bool, String> {
    let found = values.iter().position(|other| *other == value);
    found.map(|found| found == 1).ok_or_else(|| format!("{name} {value}: must be {}", values.join(" or ")))
}

/// Reads a script, such as `starts 500ms, ttl 3s, works 1.5s, waits 6s, checks`.
fn script(text: &str) -> Option<Script> {
    let zero = Duration::ZERO;
    let (renews, fenced, checks) = (false, false, false);
    let mut script =
        Script { starts: zero, ttl: zero, waits: None, works: zero, rests: None, renews, fenced, checks };
    for part in text.split(',').map(str::trim) {
        match part.split_once(' ') {
            Some(("starts", time)) => script.starts = duration(time)?,
            Some(("ttl", time)) => script.ttl = duration(time)?,
            Some(("works", time)) => script.works = duration(time)?,
            Some(("waits", time)) => script.waits = Some(duration(time)?),
            Some(("rests", time)) => script.rests = Some(duration(time)?),
            None if part == "renews" => script.renews = true,
            None if part == "fenced" => script.fenced = true,
            None if part == "checks" => script.checks = true,
            _ => return None,
        }
    }
    Some(script)
}

fn script_text(script: &Script) -> String {
    let Script { starts, ttl, waits, works, rests, renews, fenced, checks } = *script;
    let times = [
        ("starts", Some(starts)),
        ("ttl", Some(ttl)),
        ("works", Some(works)),
        ("waits", waits),
        ("rests", rests),
    ];
    let flags = [("renews", renews), ("fenced", fenced), ("checks", checks)];
    let times = times.iter().filter_map(|(name, time)| time.map(|time| format!("{name} {time:?}")));
    let flags = flags.iter().filter(|(_, is)| *is).map(|(name, _)| (*name).to_owned());
    times.chain(flags).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Incident;

    #[test]
    fn every_setting_is_read_again() {
        let millis = Duration::from_millis;
        let script = Script {
            starts: millis(500),
            ttl: millis(3_000),
            waits: Some(millis(6)),
            works: millis(1_500),
            rests: Some(millis(1)),
            renews: true,
            fenced: true,
            checks: true,
        };
        let careless =
            Script { waits: None, rests: None, renews: false, fenced: false, checks: false, ..script };
        let plan = Plan::new().at(millis(1_500), Incident::Flush { server: 0 });
        let usual = || Experiment::new(u64::MAX);
        for experiment in [
            usual(),
            usual().servers(3).clients(9).resources(4),
            usual().lasts(millis(6_500)),
            usual().plan(Plan::new()),
            usual().plan(plan.at(millis(2_000), Incident::Storm { lasts: millis(20) })),
            usual().clock_drift_factor(0.0).clock_drift(900_000),
            usual().clock_drift_factor(0.012_345_678_9).clock_drift(0),
            usual().sharing(),
            usual().keeping().resources(1),
            usual().waiting().resources(3),
            usual().fenced(true).with_admission(),
            usual().fenced(false).without_admission(),
            usual().counters_without_time().without_initial_token_write(),
            usual().scripts(vec![script, careless]),
            usual().scripts(vec![careless]).clients(3).resources(2).fenced(true),
            usual().delays(Duration::ZERO, Duration::from_micros(1_500)).notifies(true),
            usual().notifies(false).shortest_ttl(millis(1_500)),
            usual().whole(),
            usual().changing(&[0, 1, 2], &[2, 3, 4, 5, 6]).clients(4),
            usual().changing(&[0], &[1]).without_middle_step().servers(3),
            usual().changing(&[0], &[0, 1, 2]).without_middle_step().agreeing(),
        ] {
            assert_eq!(Ok(&experiment), Experiment::parse(experiment.options()).as_ref(), "{experiment:?}");
        }
        for (_, faults) in Faults::ALL {
            let experiment = usual().faults(faults);
            assert_eq!(Ok(&experiment), Experiment::parse(experiment.options()).as_ref());
        }
    }

    #[test]
    fn options_that_are_not_readable_are_named() {
        let wrong = |option: &str| {
            let options = option.split(' ').map(str::to_owned);
            Experiment::parse(options).expect_err("it is not readable")
        };
        assert_eq!("unknown option: --what", wrong("--what 3"));
        assert_eq!("--nodes needs a value", wrong("--nodes"));
        assert_eq!("--nodes three: not a number", wrong("--nodes three"));
        assert_eq!("--lasts 3: not a time, such as 1.5s or 20ms", wrong("--lasts 3"));
        assert_eq!("--locks some: must be plain or mixed", wrong("--locks some"));
        assert_eq!("--faults all: not readable", wrong("--faults all"));
        assert_eq!("--change 0: not readable", wrong("--change 0"));
        assert_eq!("--change x: not a number", wrong("--change 0-x"));
        assert_eq!("--drift-factor 1: must be at least 0 and less than 1", wrong("--drift-factor 1"));
        assert_eq!("the incident \"now\" is not readable", wrong("--incidents now"));
    }
}
