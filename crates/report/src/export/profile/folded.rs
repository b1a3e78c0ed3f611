// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Folded stacks: a line a stack, as `flamegraph.pl` and its kin read them.

use super::labels::{round, Paths};
use anyhow::Result;
use plumb_model::profile::Profile;
use std::io::Write;

/// ns in the unit of the values.
const UNIT: u64 = 1_000;

/// Writes `process;thread;outer;...;inner;[state] MICROSECONDS`; of two profiles the first's
/// and then the second's, as `difffolded.pl` does.
///
/// # Errors
/// The writer's.
pub fn write(profile: &Profile, before: Option<&Profile>, out: &mut dyn Write) -> Result<()> {
    let mut paths = Paths::default();
    if let Some(before) = before {
        paths.add(before, 0);
    }
    paths.add(profile, 1);
    let lines = paths.lines();
    let values = |side: usize| {
        let times: Vec<u64> = lines.iter().map(|l| l.time[side]).collect();
        round(&times, UNIT)
    };
    let (first, second) = (values(0), values(1));
    for (i, line) in lines.iter().enumerate() {
        write!(out, "{}", paths.text(&line.path))?;
        if before.is_some() {
            write!(out, " {}", first[i])?;
        }
        writeln!(out, " {}", second[i])?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;

    fn text(profile: &Profile, before: Option<&Profile>) -> String {
        let mut out = Vec::new();
        write(profile, before, &mut out).expect("written");
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn lines() {
        assert_eq!(
            text(&sample::small(), None),
            "\
app;[not sampled] 4
app;main;fast_[i] 30
app;main;read;sys_read_[k];[block.device sda] 50
app;worker;[outer frames missing];hot_[j] 8
app;worker;[timer] 6
"
        );
    }

    #[test]
    fn two_profiles_have_two_values() {
        let (mut before, after) = (sample::small(), sample::small());
        before.entries.remove(0);
        let text = text(&after, Some(&before));
        assert!(text.contains("app;main;read;sys_read_[k];[block.device sda] 0 50\n"), "{text}");
        assert!(text.contains("app;worker;[timer] 6 6\n"), "{text}");
    }

    #[test]
    fn sums_are_kept() {
        let profile = sample::random(7, 3_000);
        let sum: u64 =
            text(&profile, None).lines().filter_map(|l| l.rsplit(' ').next()?.parse::<u64>().ok()).sum();
        assert_eq!(sum, (profile.time() + 500) / 1_000);
    }
}
