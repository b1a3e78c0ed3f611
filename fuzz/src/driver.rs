// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs targets: regressions and seeds first, then mutants. The input of a failure is made small and written,
//! and the command that runs it again is printed.

use crate::minimize::minimize;
use crate::mutate::{pick, Random};
use crate::targets::{Target, TARGETS};
use crate::watch::{self, Watch};
use std::collections::HashSet;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Seed of the fixed count.
const SEED: u64 = 20_261_126;
/// Mutants that joined the corpus are kept up to this count and length.
const MOST: usize = 4000;
const LONGEST_KEPT: usize = 128 << 10;
/// Failures of one target that are told; more are most often the same ones.
const FAILURES: usize = 8;

/// Place and text of the last panic.
static PANIC: Mutex<String> = Mutex::new(String::new());

fn start() {
    watch::start();
    std::panic::set_hook(Box::new(|info| {
        let place = info.location().map_or_else(String::new, |l| format!("{}:{}", l.file(), l.line()));
        let text = info.payload();
        let text = text.downcast_ref::<String>().map(String::as_str).or(text.downcast_ref().copied());
        if let Ok(mut last) = PANIC.lock() {
            *last = format!("{place}: {}", text.unwrap_or("panic").lines().next().unwrap_or_default());
        }
    }));
}

/// Where a failure lies, without its figures.
fn place(failure: &str) -> &str {
    failure.split(": ").next().unwrap_or_default()
}

/// One try: how the input was read, or why it failed.
fn attempt(target: &Target, input: &[u8]) -> Result<u64, String> {
    let watch = Watch::begin(input);
    let result = catch_unwind(AssertUnwindSafe(|| (target.read)(input)));
    let ended = watch.end(input);
    match result {
        Ok(read) => ended.map(|()| read),
        Err(_) => Err(PANIC.lock().map_or_else(|_| "panic".into(), |p| p.clone())),
    }
}

/// Output of long runs, and failures of all.
fn made() -> PathBuf {
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| crate::root().join("target"), PathBuf::from);
    target.join("fuzz")
}

fn again(target: &Target, file: &Path) -> String {
    format!("again: cargo run -p plumb-fuzz -- run {} {}", target.name, file.display())
}

struct Run<'a> {
    target: &'a Target,
    random: Random,
    corpus: Vec<Vec<u8>>,
    seeds: usize,
    known: HashSet<u64>,
    tries: u64,
    /// By place.
    failures: Vec<(String, String)>,
    /// Where the corpus is kept between runs.
    kept: Option<PathBuf>,
}

impl<'a> Run<'a> {
    fn new(target: &'a Target, seed: u64, kept: Option<PathBuf>) -> Self {
        let name: u64 = target.name.bytes().fold(seed, |n, b| n.wrapping_mul(257).wrapping_add(b.into()));
        let ends = made().join(format!("{}-ended", target.name));
        let _ = std::fs::create_dir_all(made());
        watch::name(&ends, &again(target, &ends));
        let random = Random::new(name);
        let (corpus, known, failures) = (Vec::new(), HashSet::new(), Vec::new());
        Self { target, random, corpus, seeds: 0, known, tries: 0, failures, kept }
    }

    /// Regressions, seeds, and what earlier runs kept.
    fn begin(&mut self) {
        let mut all = (self.target.seeds)();
        assert!(!all.is_empty(), "{} has no seeds", self.target.name);
        let regressions = files(&crate::root().join("fuzz/regressions").join(self.target.name));
        all.extend(regressions);
        self.seeds = all.len();
        all.extend(self.kept.as_deref().map(files).unwrap_or_default());
        for input in all {
            self.once(&input);
            self.corpus.push(input);
        }
    }

    /// A mutant.
    fn mutant(&mut self) {
        // Half of them of a seed: what joins the corpus is often shorter, and says less.
        let most = if self.random.below(2) == 0 { self.seeds } else { self.corpus.len() };
        let mut input = pick(&self.corpus[..most], &mut self.random).clone();
        let other = pick(&self.corpus, &mut self.random);
        (self.target.mutate)(&mut input, other, &mut self.random);
        if self.once(&input) && self.corpus.len() < MOST && input.len() < LONGEST_KEPT {
            if let Some(dir) = &self.kept {
                let _ = std::fs::write(dir.join(format!("{:016x}", hash(&input))), &input);
            }
            self.corpus.push(input);
        }
    }

    /// Whether it was read as no other one.
    fn once(&mut self, input: &[u8]) -> bool {
        self.tries += 1;
        match attempt(self.target, input) {
            Ok(read) => self.known.insert(read),
            Err(why) => {
                if self.failures.len() < FAILURES && !self.failures.iter().any(|(at, _)| at == place(&why)) {
                    self.failed(input, &why);
                }
                false
            }
        }
    }

    fn failed(&mut self, input: &[u8], why: &str) {
        let target = self.target;
        let mut same = |input: &[u8]| attempt(target, input).is_err_and(|e| place(&e) == place(why));
        let small = minimize(input, target.parts, &mut same);
        let file = made().join(format!("{}-{:016x}", target.name, hash(place(why).as_bytes())));
        if let Err(e) = std::fs::write(&file, &small) {
            println!("{}: {e}", file.display());
        }
        println!("FAILED {}: {why}\n  {} bytes; {}", target.name, small.len(), again(target, &file));
        self.failures.push((place(why).to_owned(), why.to_owned()));
    }
}

/// FNV-1a.
pub fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |h, b| (h ^ u64::from(*b)).wrapping_mul(0x100_0000_01b3))
}

/// All files of a directory, by name.
fn files(dir: &Path) -> Vec<Vec<u8>> {
    let mut paths: Vec<PathBuf> =
        std::fs::read_dir(dir).into_iter().flatten().filter_map(|e| Some(e.ok()?.path())).collect();
    paths.sort();
    paths.iter().filter_map(|p| std::fs::read(p).ok()).collect()
}

/// Each target's fixed count of mutants; all targets where none is named. False: one failed.
pub fn fixed(names: &[String]) -> bool {
    start();
    let targets = TARGETS.iter().filter(|t| names.is_empty() || names.iter().any(|n| n == t.name));
    let (mut passed, mut failed) = (0, 0);
    for target in targets {
        let began = Instant::now();
        let mut run = Run::new(target, SEED, None);
        run.begin();
        (0..target.count).for_each(|_| run.mutant());
        let word = if run.failures.is_empty() { "ok" } else { "FAILED" };
        println!("{} tries, {:.1} s", run.tries, began.elapsed().as_secs_f64());
        println!("test {} ... {word}", target.name);
        if run.failures.is_empty() {
            passed += 1;
        } else {
            failed += 1;
        }
    }
    let word = if failed == 0 { "ok" } else { "FAILED" };
    println!("test result: {word}. {passed} passed; {failed} failed; 0 ignored; 0 measured; 0 filtered out");
    failed == 0
}

/// Mutates for a time that the named targets share; keeps their corpora. False: one failed.
pub fn long(time: Duration, seed: u64, names: &[&str]) -> bool {
    start();
    let chosen: Vec<&Target> =
        TARGETS.iter().filter(|t| names.is_empty() || names.contains(&t.name)).collect();
    let each = time / chosen.len().max(1) as u32;
    println!("seed {seed}");
    let mut failures = 0;
    for target in chosen {
        let kept = made().join("corpus").join(target.name);
        if let Err(e) = std::fs::create_dir_all(&kept) {
            println!("{}: {e}: nothing is kept", kept.display());
        }
        let began = Instant::now();
        let mut run = Run::new(target, seed, Some(kept));
        run.begin();
        let before = run.corpus.len();
        while began.elapsed() < each {
            run.mutant();
        }
        println!(
            "{:<9} {:>9} tries, {:>7.0}/s, {} failures; corpus: {} seeds, {} kept before, {} new",
            target.name,
            run.tries,
            run.tries as f64 / began.elapsed().as_secs_f64(),
            run.failures.len(),
            run.seeds,
            before - run.seeds,
            run.corpus.len() - before
        );
        failures += run.failures.len();
    }
    failures == 0
}

/// One input again, with the whole message and backtrace of its panic. False: it failed.
pub fn reproduce(name: &str, file: &Path) -> bool {
    watch::start();
    let Some(target) = TARGETS.iter().find(|t| t.name == name) else { return false };
    let input = match std::fs::read(file) {
        Ok(input) => input,
        Err(e) => {
            println!("{}: {e}", file.display());
            return false;
        }
    };
    // Not over the file that it is read from.
    let ends = made().join(format!("{name}-again"));
    watch::name(&ends, &again(target, &ends));
    let began = Instant::now();
    let result = attempt(target, &input);
    println!("{} bytes, {:.3} s: {result:?}", input.len(), began.elapsed().as_secs_f64());
    result.is_ok()
}
