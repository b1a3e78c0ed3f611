// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `plumb bisect` finds the commit of a real repository that changed a figure, and leaves the repository as it was.

mod common;

use common::scratch::{refuses, result, text, until, Running, Scratch};
use common::{must, plumb};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const COMMITS: usize = 64;
/// Its figure and those after it are 5 % larger.
const CHANGED: usize = 41;
/// It cannot be built: the middle, which every search meets.
const BROKEN: usize = 32;
const FIGURE: &str = "figure: ([0-9.]+)";

fn git(repository: &Path, words: &[&str]) -> String {
    let identity = ["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false"];
    must(Command::new("git").arg("-C").arg(repository).args(identity).args(words)).trim().to_string()
}

/// A repository of a program that prints a figure with 0.6 % of noise, and sleeps a little.
fn repository(scratch: &Scratch) -> PathBuf {
    let dir = scratch.path().join("repository");
    std::fs::create_dir(&dir).expect("a directory");
    git(&dir, &["init", "--quiet", "--initial-branch=main"]);
    std::fs::write(
        dir.join("program"),
        "sleep 0.02\nawk -v s=\"$(date +%N)$$\" -v base=\"$(cat built)\" \
         'BEGIN { srand(s); printf \"figure: %.3f\\n\", base * (0.99 + 0.02 * rand()) }'\n",
    )
    .expect("written");
    std::fs::write(dir.join(".gitignore"), "built\n").expect("written");
    for number in 0..=COMMITS {
        let base = if number >= CHANGED { 1050 } else { 1000 };
        let build = if number == BROKEN {
            "echo 'no such header'; exit 1".into()
        } else {
            format!("echo {base} > built")
        };
        std::fs::write(dir.join("build"), format!("# {number}\n{build}\n")).expect("written");
        git(&dir, &["add", "."]);
        git(&dir, &["commit", "--quiet", "-m", &format!("commit {number}")]);
    }
    dir
}

/// What of a repository a search must not change.
fn seen(repository: &Path) -> [String; 4] {
    ["status --porcelain", "rev-parse HEAD", "worktree list", "for-each-ref"]
        .map(|words| git(repository, &words.split(' ').collect::<Vec<_>>()))
}

fn words<'a>(more: &[&'a str]) -> Vec<&'a str> {
    let first = ["bisect", "--good", "HEAD~64", "--bad", "HEAD", "--build", "sh build", "--figure", FIGURE];
    [&first[..], more, &["--", "sh", "program"]].concat()
}

fn start(repository: &Path, words: &[&str]) -> Running {
    let mut command = plumb();
    command.args(words).current_dir(repository);
    Running::of(command)
}

/// The answer names the changed commit.
fn found(out: &Output) -> Value {
    let (code, all) = result(out);
    let answer = &all["answer"];
    assert_eq!((code, &answer["verdict"]), (0, &Value::from("found")), "{answer:#}\n{}", text(&out.stderr));
    assert_eq!(answer["candidates"], serde_json::json!([CHANGED]), "{answer:#}");
    let version = &all["asked"]["versions"][CHANGED];
    assert_eq!(version["subject"], format!("commit {CHANGED}"));
    let of = |field: &str| answer[field].as_f64().expect("a number");
    assert!(
        of("low") <= of("change") && of("change") <= of("high") && of("probability") >= 0.95,
        "{answer:#}"
    );
    assert!((0.03..0.07).contains(&of("change")), "{answer:#}");
    assert!(of("runs") < 64.0 && of("scan_runs") >= 65.0, "{answer:#}");
    let skipped = all["skipped"].as_array().expect("skipped");
    assert_eq!(skipped.len(), 1, "{skipped:?}");
    assert_eq!(skipped[0]["version"], BROKEN);
    assert!(skipped[0]["why"].as_str().is_some_and(|w| w.contains("no such header")), "{skipped:?}");
    all
}

#[test]
fn the_commit_is_found_and_the_repository_is_as_it_was() {
    let scratch = Scratch::new();
    let repository = repository(&scratch);
    // The directory of the search lies in the checkout, as it does by default.
    let before = seen(&repository);
    let out = start(&repository, &words(&["-o", "search", "--json"])).end();
    found(&out);
    assert_eq!(seen(&repository), before);
    let said = text(&out.stderr);
    assert!(said.contains("is skipped: --build failed: exit code 1: no such header"), "{said}");
    assert!(!repository.join("search/trees").exists() && !repository.join("search/repository").exists());
    // The answer is there again, without another run, as text.
    let again = start(&repository, &["bisect", "-o", "search"]).end();
    let shown = text(&again.stdout);
    assert_eq!(again.status.code(), Some(0), "{}", text(&again.stderr));
    assert!(shown.contains(&format!("commit {CHANGED}, commit {CHANGED} of {COMMITS}")), "{shown}");
    assert!(shown.contains("a full scan with this error") && shown.contains("Skipped: "), "{shown}");
    let other = words(&["-o", "search", "--least", "1%"]);
    refuses(&start(&repository, &other).end(), &["holds another search", "hint: "]);
}

#[test]
fn a_killed_search_goes_on() {
    let scratch = Scratch::new();
    let repository = repository(&scratch);
    let before = seen(&repository);
    let state = repository.join("search/bisect.json");
    let runs = || -> usize {
        let read = std::fs::read(&state).ok().and_then(|t| serde_json::from_slice::<Value>(&t).ok());
        read.and_then(|v| v["runs"].as_array().map(Vec::len)).unwrap_or(0)
    };
    let killed = start(&repository, &words(&["-o", "search"]));
    until("ten runs", || runs() >= 10);
    killed.signal(libc::SIGKILL);
    assert_eq!(killed.end().status.code(), None);
    assert_eq!(seen(&repository), before, "killed");
    let first: Value = serde_json::from_slice(&std::fs::read(&state).expect("a state")).expect("JSON");
    // Ctrl-C leaves it readable too, and says how to go on.
    let stopped = start(&repository, &["bisect", "-o", "search"]);
    let made = runs();
    until("more runs", || runs() > made);
    stopped.signal(libc::SIGINT);
    let out = stopped.end();
    let said = text(&out.stderr);
    assert_eq!(out.status.code(), Some(3), "{said}");
    assert!(said.contains("to go on: plumb bisect -o ") && said.contains("to give up: rm -r "), "{said}");
    let all = found(&start(&repository, &words(&["-o", "search", "--json"])).end());
    let kept = first["runs"].as_array().expect("runs");
    assert_eq!(&all["runs"].as_array().expect("runs")[..kept.len()], &kept[..], "what was measured is kept");
    assert_eq!(seen(&repository), before);
}

#[test]
fn words_are_searched_and_ends_that_are_alike_accuse_nobody() {
    let scratch = Scratch::new();
    let begin = ["bisect", "--among", "1,2,3,4,5,6,7,8", "--figure", FIGURE, "--json", "-o"];
    let of = |dir: &'static str, script: &'static str| {
        result(
            &start(scratch.path(), &[&begin[..], &[dir, "--", "sh", "-c", script, "sh", "{}"]].concat())
                .end(),
        )
    };
    let (code, all) = of("changed", "echo figure: $((100 + ($1 > 5) * 20))");
    assert_eq!((code, &all["answer"]["candidates"]), (0, &serde_json::json!([5])), "{:#}", all["answer"]);
    assert_eq!(all["asked"]["versions"][5]["id"], "6");
    let (code, all) = of("same", "echo figure: $((1000 + $(date +%N | tail -c 2)))");
    assert_eq!((code, &all["answer"]["verdict"]), (3, &Value::from("no-difference")), "{:#}", all["answer"]);
    assert_eq!(all["answer"]["candidates"], serde_json::json!([]));
    std::fs::write(scratch.path().join("here"), "1").expect("written");
    let most = ["--most", "5", "-o", "few", "--", "sh", "-c", "echo figure: $(cat here) $1", "sh", "{}"];
    let undecided = |words: &[&str], from: &Path| {
        let (code, all) = result(&start(from, words).end());
        assert_eq!((code, &all["answer"]["verdict"]), (3, &Value::from("undecided")), "{:#}", all["answer"]);
        all["runs"].as_array().map_or(0, Vec::len) + all["other_runs"].as_u64().unwrap_or(0) as usize
    };
    let few = scratch.path().join("few").display().to_string();
    let first = undecided(&[&begin[..6], &most].concat(), scratch.path());
    // From elsewhere it goes on where it was begun, and no further than was said.
    let again = ["bisect", "-o", &few, "--json"];
    assert_eq!(undecided(&again, Path::new("/")), first);
    assert!(undecided(&[&again[..], &["--most", "9"]].concat(), Path::new("/")) > first);
}

#[test]
fn what_cannot_be_searched_is_named() {
    let scratch = Scratch::new();
    let repository = repository(&scratch);
    let refused = |words: &[&str], said: &[&str]| {
        refuses(&start(&repository, words).end(), said);
        assert!(!repository.join("search").exists(), "{words:?}");
    };
    let git = |good: &'static str, bad: &'static str| {
        vec!["bisect", "--good", good, "--bad", bad, "-o", "search", "--", "true"]
    };
    refused(&git("nothing", "HEAD"), &["cannot find nothing"]);
    refused(&git("HEAD", "HEAD~3"), &["HEAD is no ancestor of HEAD~3", "hint: "]);
    refused(&["bisect", "-o", "search"], &["no COMMAND", "holds no search"]);
    refused(&["bisect", "--among", "a,b", "-o", "search", "--", "true"], &["{}"]);
    let figure = ["bisect", "--among", "a,b", "--figure", "none", "-o", "search", "--", "echo", "{}"];
    refused(&figure, &["0 groups", "'elapsed'"]);
    let fails = ["bisect", "--good", "HEAD~3", "--bad", "HEAD", "-o", "search", "--", "false"];
    refuses(&start(&repository, &fails).end(), &["an end of the search", "exit code 1", "hint: "]);
}
