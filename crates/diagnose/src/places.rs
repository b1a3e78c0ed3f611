// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The functions in which the time of a finding was spent.

use crate::case::Case;
use crate::{Evidence, LEAST};
use plumb_model::profile::{short, Origin, PROBES};
use plumb_model::{Category, HotRow};
use plumb_trace::units;
use std::collections::BTreeMap;

/// Functions in a fact, and lines of evidence.
const WORDS: usize = 2;
const LINES: usize = 4;
const CALLERS: usize = 4;
/// A function has most of the time from this share on.
pub const MOST: f64 = 0.5;
/// Below this one it is one of many: the next run has another one in its place.
const GOOD_PART: f64 = 0.1;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Of {
    Kernel,
    /// The program's and its libraries'.
    User,
    All,
}

impl Of {
    fn has(self, row: &HotRow) -> bool {
        match self {
            Self::Kernel => row.origin == Origin::Kernel,
            Self::User => row.origin != Origin::Kernel,
            Self::All => true,
        }
    }
}

/// A function, all causes together.
#[derive(Debug, Clone, Default)]
pub struct Place {
    pub function: String,
    /// See [`HotRow::under`]; of its largest row.
    pub under: Vec<String>,
    /// See [`HotRow::call`]; of its largest row.
    pub call: String,
    /// See [`HotRow::instruction`]; of its largest row.
    instruction: Option<String>,
    time: u64,
    count: u64,
}

impl Case<'_> {
    /// Functions that had time of some categories, most time first.
    pub fn places(&self, categories: &[Category], of: Of) -> Vec<Place> {
        let mut rows: Vec<&HotRow> = self.result.hot.iter().collect();
        rows.retain(|r| categories.contains(&r.category) && of.has(r) && r.function != PROBES);
        rows.sort_by_key(|r| std::cmp::Reverse(r.time));
        let mut sums: BTreeMap<(&str, &str), Place> = BTreeMap::new();
        for row in rows {
            let sum = sums.entry((&row.module, &row.function)).or_insert_with(|| Place {
                function: row.function.clone(),
                under: row.under.clone(),
                call: row.call.clone(),
                instruction: row.instruction.clone(),
                ..Place::default()
            });
            sum.time += row.time;
            sum.count += row.count;
        }
        let mut places: Vec<Place> = sums.into_values().collect();
        places.sort_by(|a, b| b.time.cmp(&a.time).then_with(|| a.function.cmp(&b.function)));
        places
    }

    /// Share that a function has of the target's time in some categories, 0 to 1.
    pub fn place_share(&self, place: &Place, categories: &[Category]) -> f64 {
        let processes = &self.result.processes;
        let all: u64 = processes.iter().flat_map(|p| categories.iter().map(|c| p.part(*c))).sum();
        place.time as f64 / all.max(place.time).max(1) as f64
    }

    /// Of the target's running time in user code or in the kernel, whose share is `part`: `, mostly in f()` where a function has half
    /// of it, `, 34 % of it in f()` where it has a good part, and nothing where none stands out.
    pub fn mostly(&self, place: Option<&Place>, part: f64) -> String {
        let Some(place) = place else { return String::new() };
        let name = short(&place.function);
        match self.share_of(place, part) {
            s if s >= MOST => format!(", mostly in {name}()"),
            s if s >= GOOD_PART => format!(", {:.0} % of it in {name}()", s * 100.0),
            _ => String::new(),
        }
    }

    /// Share that a function has of the target's running time in user code or in the kernel, whose own share is `part`.
    pub fn share_of(&self, place: &Place, part: f64) -> f64 {
        // The account of running time has the recording's own part in it.
        self.place_share(place, &[Category::Running]) / (part * (1.0 - self.probed)).max(f64::EPSILON)
    }

    /// The first functions with their share as one fact: `parse_row 61 %, called from main; hash 20 %`.
    pub fn place_fact(&self, label: &str, places: &[Place], categories: &[Category]) -> Vec<Evidence> {
        let shares = places.iter().map(|p| (p, self.place_share(p, categories)));
        let worth = shares.filter(|(_, share)| *share >= LEAST).take(WORDS);
        let words: Vec<String> = worth
            .map(|(p, share)| {
                let caller = p.under.first().map_or(String::new(), |c| format!(", called from {}", short(c)));
                format!("{} {:.0} %{caller}", short(&p.function), share * 100.0)
            })
            .collect();
        if words.is_empty() {
            return Vec::new();
        }
        vec![Evidence::new(label, words.join("; "))]
    }

    /// The first functions with their callers, as evidence.
    pub fn place_lines(&self, places: &[Place], categories: &[Category]) -> Vec<Evidence> {
        let unit = if categories == [Category::Running] { "sample" } else { "wait" };
        let worth = places.iter().filter(|p| self.place_share(p, categories) >= LEAST);
        let line = |p: &Place| {
            let callers: Vec<String> =
                std::iter::once(&p.function).chain(p.under.iter().take(CALLERS)).map(|f| short(f)).collect();
            let call = if p.call.is_empty() { String::new() } else { format!(", {}", p.call) };
            let (n, s) = (units::count(p.count), if p.count == 1 { "" } else { "s" });
            Evidence {
                label: "stack".into(),
                words: format!("{} ({n} {unit}{s}{call})  {}", units::brief(p.time), callers.join(" < ")),
                time: Some(p.time),
                ..Evidence::default()
            }
        };
        let instruction = |p: &Place| {
            let words = p.instruction.clone()?;
            Some(Evidence { time: Some(p.time), ..Evidence::new("instruction", words) })
        };
        worth.take(LINES).flat_map(|p| std::iter::once(line(p)).chain(instruction(p))).collect()
    }
}

#[cfg(test)]
mod tests {
    use crate::{diagnose, Diagnosis, Trust};
    use plumb_model::profile::{Origin, PROBES};
    use plumb_model::{BlameRow, Category, HotRow, PathResult, ProcessRow, RunResult, SampleResult};
    use std::collections::BTreeMap;

    fn row(category: &str, origin: Origin, function: &str, under: &[&str], call: &str, time: u64) -> HotRow {
        HotRow {
            category: category.parse().expect("a category"),
            who: String::new(),
            function: function.into(),
            module: if origin == Origin::Kernel { "kernel" } else { "me" }.into(),
            origin,
            under: under.iter().map(ToString::to_string).collect(),
            call: call.into(),
            count: 3,
            time,
            instruction: None,
        }
    }

    /// A command whose only thread spent its time so.
    fn found(parts: &[(&str, u64)], hot: Vec<HotRow>) -> Diagnosis {
        found_with(parts, hot, &[])
    }

    /// With samples at these calls, of 40 in the kernel.
    fn found_with(parts: &[(&str, u64)], hot: Vec<HotRow>, calls: &[(&str, u64)]) -> Diagnosis {
        found_at(parts, hot, calls, &[("user code", 60), ("system calls", 40)])
    }

    /// With these samples, of 100.
    fn found_at(
        parts: &[(&str, u64)],
        hot: Vec<HotRow>,
        calls: &[(&str, u64)],
        at: &[(&str, u64)],
    ) -> Diagnosis {
        let account: BTreeMap<Category, u64> =
            parts.iter().map(|(c, ns)| (c.parse().expect("a category"), *ns)).collect();
        let time = account.values().sum();
        let blame = |(category, ns): &(&str, u64)| BlameRow {
            category: category.parse().expect("a category"),
            who: "me".into(),
            time: *ns,
        };
        let at = at.iter().map(|(at, n)| (at.to_string(), *n)).collect();
        let calls = calls.iter().map(|(call, n)| (call.to_string(), *n)).collect();
        let syncs = 4;
        let result = RunResult {
            end: time,
            path: PathResult {
                of: "command".into(),
                time,
                parts: parts.iter().map(blame).collect(),
                ..PathResult::default()
            },
            processes: vec![ProcessRow { synced: account.clone(), account, syncs, ..ProcessRow::default() }],
            samples: SampleResult { samples: 100, at, calls, ..SampleResult::default() },
            hot,
            ..RunResult::default()
        };
        diagnose(&result, &Trust::default())
    }

    fn facts(d: &Diagnosis, id: &str) -> (String, Vec<String>) {
        let f = d.findings.iter().find(|f| f.id == id).unwrap_or_else(|| panic!("no {id}: {d:?}"));
        (f.headline.clone(), f.evidence.iter().map(|e| format!("{}: {}", e.label, e.words)).collect())
    }

    #[test]
    fn cpu_time_has_its_functions() {
        let hot = vec![
            row(
                "running",
                Origin::Kernel,
                "copy_folio",
                &["ext4_write", "vfs_write", "main"],
                "write(2)",
                300,
            ),
            row("running", Origin::User, "parse_row", &["main"], "", 450),
            row("running", Origin::User, "hash", &[], "", 100),
            row("running", Origin::User, "rest", &[], "", 10),
        ];
        let d = found(&[("running", 1000), ("timer", 200)], hot);
        let (kernel, lines) = facts(&d, "cpu.kernel");
        assert_eq!(kernel, "CPU time in the kernel, mostly write(2) in copy_folio()");
        assert_eq!(
            lines,
            [
                "function: copy_folio 30 %, called from ext4_write",
                ": user and kernel time split by 100 CPU samples",
                "stack: 300 ns (3 samples, write(2))  copy_folio < ext4_write < vfs_write < main"
            ]
        );
        let (user, lines) = facts(&d, "cpu.user");
        assert_eq!(user, "CPU time in user code, mostly in parse_row()");
        assert_eq!(lines[0], "function: parse_row 45 %, called from main; hash 10 %");
        assert_eq!(lines.iter().filter(|l| l.starts_with("stack: ")).count(), 2, "{lines:?}");
    }

    #[test]
    fn a_call_is_named_where_most_samples_are_in_it() {
        let headline = |hot: &[HotRow], calls| {
            facts(&found_with(&[("running", 1000)], hot.to_vec(), calls), "cpu.kernel").0
        };
        let entry = [row("running", Origin::Kernel, "syscall_trace_enter", &[], "", 300)];
        assert_eq!(
            headline(&entry, &[("execve", 1)]),
            "CPU time in the kernel, mostly in syscall_trace_enter()"
        );
        assert!(!headline(&[], &[("execve", 1)]).contains("execve"));
        assert_eq!(headline(&[], &[("execve", 1), ("read", 30)]), "CPU time in the kernel, mostly read(2)");
        let of = |ns| headline(&[row("running", Origin::Kernel, "f", &[], "write(2)", ns)], &[("read", 30)]);
        assert_eq!(of(200), "CPU time in the kernel, mostly write(2) in f()");
        assert_eq!(of(100), "CPU time in the kernel, mostly read(2), 25 % of it in f()");
        assert_eq!(of(30), "CPU time in the kernel, mostly read(2)");
    }

    #[test]
    fn what_the_recording_takes_is_no_finding() {
        let hot = vec![
            row("running", Origin::Kernel, PROBES, &[], "", 600),
            row("running", Origin::Kernel, "copy_folio", &[], "write(2)", 200),
        ];
        let at = [("user code", 10), ("system calls", 30), ("tracepoints of the recording", 60)];
        let d = found_at(&[("running", 1000)], hot, &[], &at);
        let (kernel, lines) = facts(&d, "cpu.kernel");
        assert_eq!(kernel, "CPU time in the kernel, mostly write(2) in copy_folio()");
        assert!(!lines.iter().any(|l| l.contains(PROBES)), "{lines:?}");
        let hot = vec![row("running", Origin::Kernel, "copy_folio", &[], "", 100)];
        let (kernel, _) = facts(&found_at(&[("running", 1000)], hot, &[], &at), "cpu.kernel");
        assert_eq!(kernel, "CPU time in the kernel, 33 % of it in copy_folio()", "of 300 ns");
        let share = |id: &str| d.findings.iter().find(|f| f.id == id).map_or(0.0, |f| f.share);
        // Of the time that it would take by itself.
        assert!((share("cpu.kernel") - 0.75).abs() < 0.001 && (share("cpu.user") - 0.25).abs() < 0.001);
        let told = d.verdict.join(" ");
        assert!(told.contains("75 % of 400 ns wall time without measurement overhead"), "{told}");
        assert!(told.contains("60.0 % measurement overhead"), "{told}");
    }

    #[test]
    fn waits_have_their_call_sites() {
        let hot = vec![
            row("lock.user", Origin::User, "update_table", &["main"], "futex(2)", 600),
            row("lock.user", Origin::User, "flush", &[], "futex(2)", 60),
        ];
        let d = found(&[("lock.user", 1000)], hot);
        let (lock, lines) = facts(&d, "lock.user");
        assert_eq!(lock, "contention on a user-space mutex");
        assert_eq!(lines[0], "acquired in: update_table 60 %, called from main; flush 6 %");
        assert_eq!(lines[1], "stack: 600 ns (3 waits, futex(2))  update_table < main");

        let hot = vec![row("lock.kernel", Origin::Kernel, "ext4_rename", &["swap"], "rename(2)", 900)];
        let d = found(&[("lock.kernel", 1000)], hot);
        let (lock, lines) = facts(&d, "lock.kernel");
        assert_eq!(lock, "contention on a kernel lock in ext4_rename()");
        assert_eq!(lines[0], "acquired in: ext4_rename 90 %, called from swap");
        assert_eq!(lines[2], "stack: 900 ns (3 waits, rename(2))  ext4_rename < swap");

        let hot = vec![
            row("block.device", Origin::User, "read_table", &[], "pread64(2)", 100),
            row("block.device", Origin::User, "commit_tx", &["main"], "fsync(2)", 700),
        ];
        let d = found(&[("block.device", 1000)], hot);
        let (sync, lines) = facts(&d, "sync.write");
        assert_eq!(sync, "synchronous writes by fsync(2)");
        assert_eq!(lines[0], "called in: commit_tx 70 %, called from main");
        assert!(lines.iter().any(|l| l.ends_with("fsync(2))  commit_tx < main")), "{lines:?}");
    }
}
