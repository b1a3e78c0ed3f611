// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The search: build, run, ask for the next version, until one is found.

use super::answer::{self, Answer};
use super::measure::{self, Outcome};
use super::metric::{self, Metric};
use super::options::Options;
use super::state::{Run, Skipped, State, STATE};
use super::{repository, versions};
use crate::progress::Progress;
use anyhow::{bail, Context, Result};
use plumb_machine::signals::{self, stopped};
use plumb_machine::{output, utc};
use plumb_stats::changepoint::posterior::Posterior;
use plumb_stats::changepoint::search::Next;
use plumb_undo::lock::Locks;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Searches, or goes on with a search.
///
/// # Errors
/// Nothing can be searched: a sentence that names the commit, option or file. An end of the versions cannot be measured.
pub fn main(options: &Options) -> Result<ExitCode> {
    signals::catch_and_wake()?;
    let progress = Progress::new(options.quiet);
    let dir = options.output.clone();
    let dir = dir.unwrap_or_else(|| PathBuf::from(format!("plumb-bisect-{}", options.stamp)));
    let mut state = state(options, &dir)?;
    state.most = options.most.unwrap_or(state.most);
    state.limit = options.limit.or(state.limit);
    let metric = Metric::new(&state.asked.figure)?;
    output::directory(&dir)?;
    let dir = dir.canonicalize().with_context(|| dir.display().to_string())?;
    let mut locks = Locks::default();
    locks.search(&dir)?;
    // It may lie in the checkout, whose status it is not to change.
    std::fs::write(dir.join(".gitignore"), "*\n")
        .with_context(|| format!("cannot write {}", dir.display()))?;
    output::directory(&dir.join("logs"))?;
    state.write(&dir)?;
    if !state.runs.is_empty() {
        progress.say(&format!(
            "resuming: {} runs of {} versions",
            state.runs.len(),
            answer::measured(&state)
        ));
    }
    let mut under_way = UnderWay { state, dir, metric, progress };
    let next = under_way.search();
    let UnderWay { mut state, dir, progress, .. } = under_way;
    let Some(next) = next? else {
        progress.must(&format!("stopped by the user after {} runs", state.runs.len()));
        progress.must(&format!("to go on: plumb bisect -o {0}; to give up: rm -r {0}", dir.display()));
        return Ok(ExitCode::from(plumb_analysis::NOT_VALID));
    };
    let answer = Answer::of(&state, next);
    state.answer = Some(answer.clone());
    state.write(&dir)?;
    answer::print(&answer, &state, options.json)?;
    if matches!(next, Next::Measure(_)) {
        progress.must(&format!("to go on: plumb bisect -o {} --most {}", dir.display(), 2 * state.most));
    } else {
        repository::remove(&dir.join("trees"))?;
        repository::remove(&dir.join("repository"))?;
        state.built.clear();
        state.write(&dir)?;
        progress.say(&format!("every run: {}", dir.join(STATE).display()));
    }
    Ok(answer.exit_code())
}

/// What was begun in the directory, if it is what is asked; else what is asked.
fn state(options: &Options, dir: &Path) -> Result<State> {
    let begun = State::read(dir)?;
    if options.command.is_empty() {
        return begun.with_context(|| {
            format!(
                "cannot search: no COMMAND is given, and {} holds no search that was begun",
                dir.display()
            )
        });
    }
    let asked = versions::asked(options)?;
    match begun {
        Some(state) if state.asked == asked => Ok(state),
        Some(_) => bail!(
            "cannot search in {0}: it holds another search\nhint: choose another directory with -o, or go on with that one: plumb bisect -o {0}",
            dir.display()
        ),
        None if dir.is_dir() && dir.read_dir().is_ok_and(|mut d| d.next().is_some()) => {
            bail!("cannot search in {}: it is not empty and holds no search; choose another directory with -o", dir.display())
        }
        None => Ok(State::new(asked)),
    }
}

struct UnderWay {
    state: State,
    dir: PathBuf,
    metric: Metric,
    progress: Progress,
}

/// What came of an attempt to measure.
enum Tried {
    Value(f64, u64),
    Failed(String),
    Stopped,
}

impl UnderWay {
    /// Measures until there is an answer: then what it is, or the version that would be next where `--most` runs were
    /// made. None when the user stopped it.
    fn search(&mut self) -> Result<Option<Next>> {
        loop {
            let search = self.state.search();
            let posterior = search.posterior();
            let next = search.next_after(posterior.as_ref());
            let Next::Measure(version) = next else { return Ok(Some(next)) };
            if self.state.runs.len() + self.state.other_runs >= self.state.most {
                return Ok(Some(next));
            }
            let begun = utc();
            match self.measure(version)? {
                Tried::Stopped => return Ok(None),
                Tried::Value(value, elapsed_ns) => {
                    self.state.runs.push(Run { version, value, elapsed_ns, begun });
                    self.tell(version, value, posterior.as_ref());
                }
                Tried::Failed(why) => self.skip(version, why)?,
            }
            self.state.write(&self.dir)?;
        }
    }

    fn tell(&self, version: usize, value: f64, posterior: Option<&Posterior>) {
        let asked = &self.state.asked;
        let short = |v: usize| asked.versions[v].short(asked.repository.is_some());
        let said = posterior.map_or(String::new(), |p| {
            let most = p.changed.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1));
            let (at, probability) = most.map_or((0, 0.0), |(i, p)| (i + 1, *p));
            match p.none > 0.5 {
                true => format!(", no change so far: {:.0} %", p.none * 100.0),
                false => format!(", most probable {} {:.0} %", short(at), probability * 100.0),
            }
        });
        let (number, value) = (self.state.runs.len(), metric::shown(&asked.figure, value));
        self.progress.say(&format!("[{number}] {} ({version}): {value}{said}", short(version)));
    }

    /// Leaves a version out.
    fn skip(&mut self, version: usize, why: String) -> Result<()> {
        let asked = &self.state.asked;
        let short = asked.versions[version].short(asked.repository.is_some());
        if [0, asked.versions.len() - 1].contains(&version) {
            let logs = self.dir.join("logs");
            bail!(
                "cannot measure {short}, an end of the search: {why}\nhint: what it printed is in {}",
                logs.display()
            );
        }
        self.progress.must(&format!("{short} is skipped: {why}"));
        self.state.skipped.push(Skipped { version, why });
        Ok(())
    }

    /// Builds a version if it is not built yet, warms it up, and runs it.
    fn measure(&mut self, version: usize) -> Result<Tried> {
        let is_built = self.state.built.contains(&version);
        let tree =
            versions::place(&self.state.asked, version, &self.dir, is_built && self.is_whole(version))?;
        if stopped() {
            return Ok(Tried::Stopped);
        }
        if !(is_built && self.is_whole(version)) {
            if let Some(build) = self.state.asked.build.clone() {
                let words = ["sh".to_string(), "-c".into(), build];
                self.state.builds += 1;
                match self.run(version, &words, &tree, "build")? {
                    Outcome::Stopped => return Ok(Tried::Stopped),
                    Outcome::Failed(why) => return Ok(Tried::Failed(format!("--build failed: {why}"))),
                    Outcome::Ran(_) => {}
                }
            }
            for _ in 0..self.state.asked.warm_up {
                self.state.other_runs += 1;
                match self.command(version, &tree)? {
                    Tried::Value(..) => {}
                    failed => return Ok(failed),
                }
            }
            self.state.built.retain(|v| *v != version);
            self.state.built.push(version);
            self.state.write(&self.dir)?;
        }
        let tried = self.command(version, &tree)?;
        if !matches!(tried, Tried::Failed(_)) {
            return Ok(tried);
        }
        // What worked before may fail by chance: once more.
        self.state.other_runs += 1;
        self.command(version, &tree)
    }

    /// Whether the tree of a version that was built is there.
    fn is_whole(&self, version: usize) -> bool {
        let asked = &self.state.asked;
        asked.repository.is_none() || self.dir.join("trees").join(&asked.versions[version].id).exists()
    }

    fn command(&self, version: usize, tree: &Path) -> Result<Tried> {
        let ran = match self.run(version, &self.state.asked.command, tree, "run")? {
            Outcome::Ran(ran) => ran,
            Outcome::Failed(why) => return Ok(Tried::Failed(format!("the command failed: {why}"))),
            Outcome::Stopped => return Ok(Tried::Stopped),
        };
        let printed = std::fs::read(self.log(version, "run")).unwrap_or_default();
        Ok(match self.metric.of(&ran, &String::from_utf8_lossy(&printed)) {
            Ok(value) => Tried::Value(value, ran.elapsed_ns),
            Err(why) => Tried::Failed(why),
        })
    }

    fn run(&self, version: usize, words: &[String], tree: &Path, what: &str) -> Result<Outcome> {
        let words = versions::filled(&self.state.asked, version, words);
        measure::run(&words, tree, &self.log(version, what), self.state.limit)
    }

    fn log(&self, version: usize, what: &str) -> PathBuf {
        self.dir.join("logs").join(format!("{}.{what}", versions::file_name(&self.state.asked, version)))
    }
}
