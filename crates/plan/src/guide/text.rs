// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sentences of a guide.

use super::effect::Effect;
use super::state::{End, Measured, Proposal, State, Step, Verdict};
use plumb_trace::units::brief;

/// `read_ahead_kb of loop3: 4 -> 512`.
pub fn change(proposal: &Proposal) -> String {
    let of = match proposal.of.as_str() {
        "system" | "command" => String::new(),
        of => format!(" of {of}"),
    };
    format!("{}{of}: {} -> {}", proposal.key, proposal.from, proposal.to)
}

/// The first line of a measurement's verdict.
pub fn judgement(measured: &Measured) -> String {
    measured.verdict.first().cloned().unwrap_or_else(|| "no verdict".into())
}

/// `8.03 s (7.98 to 8.11 s)`.
pub fn time(measured: &Measured) -> String {
    let [median, low, high] =
        [Some(measured.median), measured.low, measured.high].map(|v| v.map(|v| brief(v as u64)));
    let median = median.unwrap_or_default();
    match (low, high) {
        (Some(low), Some(high)) => format!("{median} ({low} to {high})"),
        _ => median,
    }
}

/// `-61.2 % (-62.0 to -60.1 %)`.
pub fn effect(effect: &Effect) -> String {
    let percent = |v: f64| format!("{:+.1}", v * 100.0);
    format!("{} % ({} to {} %)", percent(effect.relative), percent(effect.low), percent(effect.high))
}

pub fn verdict(verdict: &Verdict) -> String {
    match verdict {
        Verdict::First => "first measurement".into(),
        Verdict::Accepted => "accepted".into(),
        Verdict::Worse => "worse: undone".into(),
        Verdict::Noise => "not above the noise: undone".into(),
        Verdict::Failed(why) => format!("failed: {why}; undone"),
    }
}

/// What became of a step, on one line.
pub fn outcome(step: &Step) -> String {
    let measured = step.measured.as_ref().map(time);
    let by = step.effect.as_ref().map(effect);
    let again = step.confirmed.as_ref().map(|e| format!("without it again {}", effect(e)));
    let parts: Vec<String> =
        [Some(verdict(&step.verdict)), measured, by, again].into_iter().flatten().collect();
    parts.join(", ")
}

/// How it ended, in one sentence.
pub fn end(state: &State) -> String {
    let total = match (
        state.first().and_then(|s| s.measured.as_ref()),
        state.current().and_then(|s| s.measured.as_ref()),
    ) {
        (Some(first), Some(last)) => {
            let by = Effect::of(&first.elapsed, &last.elapsed);
            match by.filter(|_| state.accepted().next().is_some()) {
                Some(by) => format!(
                    "{} -> {}, {}",
                    brief(first.median as u64),
                    brief(last.median as u64),
                    effect(&by)
                ),
                None => format!("{}, as it was", brief(first.median as u64)),
            }
        }
        _ => "nothing was measured".into(),
    };
    let forbidden = state.untried.iter().any(|p| !p.allowed);
    match state.end {
        None => format!("Interrupted, changes tried: {}: {total}.", state.tried()),
        Some(End::GoalReached) if state.tried() == 0 => format!("Goal met before any change: {total}."),
        Some(End::GoalReached) => {
            let tried = state.tried();
            format!("Goal reached, {tried} change{} tried: {total}.", if tried == 1 { "" } else { "s" })
        }
        Some(End::StepsUsed) => format!("Goal not reached, all {} changes are used: {total}.", state.most),
        Some(End::NothingLeft) if forbidden => {
            format!("Goal not reached: {total}. The changes that the findings point to were not allowed.")
        }
        Some(End::NothingLeft) if state.tried() == 0 => {
            format!("Goal not reached: {total}. No tunable that plumb knows is for what limits the command.")
        }
        Some(End::NothingLeft) => {
            format!(
                "Goal not reached: {total}. No change that the findings point to is left above the noise."
            )
        }
    }
}

/// The options that the guide was begun with, as a shell takes them, but for goal and directory.
pub fn options(state: &State) -> String {
    let mut words: Vec<String> = Vec::new();
    let mut add = |option: &str, value: String| words.extend([option.to_string(), value]);
    for may in &state.may {
        add("--may", may.to_string());
    }
    for trial in &state.trials {
        let finding = trial.finding.as_ref().map_or(String::new(), |f| format!("@{f}"));
        add("--try", format!("{}{finding}: {} ; {}", trial.name, trial.apply, trial.undo));
    }
    if let Some(prepare) = &state.prepare {
        add("--prepare", prepare.clone());
    }
    quoted(&words)
}

/// Words as a shell reads them back.
pub fn quoted(words: &[String]) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_=./:,+%@".contains(c);
    let quote = |word: &String| match !word.is_empty() && word.chars().all(is_plain) {
        true => word.clone(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    };
    words.iter().map(quote).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_where_a_shell_would_change_them() {
        let words = ["sh", "-c", "echo $HOME", "it's", "", "if=/dev/x"].map(str::to_string);
        assert_eq!(quoted(&words), "sh -c 'echo $HOME' 'it'\\''s' '' if=/dev/x");
    }
}
