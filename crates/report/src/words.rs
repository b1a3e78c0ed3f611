// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What names mean and which colour they have, as it stands in every document.

use crate::document::{CategoryWords, CpuWords, KindWords, LayerWords, Roles, Words};
use crate::palette::{Kind, PAINTS};
use plumb_model::{Category, CATEGORIES};

/// Time on a CPU: a timeline has no functions, so the colour of code is free for it.
const ON_CPU: (&str, Kind) = ("on CPU", Kind::User);

/// Layers of a block request in blktrace's letters, in the order that it passes them.
const LAYERS: [(&str, &str, Category); 5] = [
    ("Q2G", "waiting for a request (tag)", Category::BlockQueued),
    ("G2F", "plugged", Category::BlockPlugged),
    ("F2I", "waiting for a device cache flush before it", Category::BlockFlush),
    ("I2D", "in the I/O scheduler", Category::BlockInserted),
    ("D2C", "in flight: device service time", Category::BlockIssued),
];

fn color([r, g, b]: [u8; 3]) -> String {
    format!("#{r:02x}{g:02x}{b:02x}")
}

/// The words of this version.
pub fn words() -> Words {
    let (word, like) = ON_CPU;
    let own = KindWords { word: word.into(), color: color(like.paint().rgb) };
    let kinds = PAINTS.iter().map(|p| KindWords { word: p.word.into(), color: color(p.rgb) }).chain([own]);
    let categories = CATEGORIES.iter().map(|(category, name, about)| CategoryWords {
        name: (*name).into(),
        about: (*about).into(),
        kind: match category {
            Category::Running => PAINTS.len() as u32,
            other => Kind::of_state(*other) as u32,
        },
        step: step(*category),
        alone: alone(*category),
        on_cpu: category.on_cpu(),
    });
    let layers = LAYERS.iter().map(|(name, about, category)| LayerWords {
        name: (*name).into(),
        about: (*about).into(),
        category: category.name().into(),
    });
    Words {
        categories: categories.collect(),
        kinds: kinds.collect(),
        layers: layers.collect(),
        cpus: CPUS
            .iter()
            .map(|(name, about)| CpuWords { name: (*name).into(), about: (*about).into() })
            .collect(),
        roles: roles(),
    }
}

/// States of a CPU, as the timeline numbers them.
const CPUS: [(&str, &str); 4] = [
    ("idle", "idle"),
    ("busy", "busy"),
    ("not seen", "not seen yet: no event of this CPU so far"),
    ("lost", "lost: events are missing"),
];

fn roles() -> Roles {
    let name = |category: Category| category.name().to_string();
    Roles {
        running: name(Category::Running),
        interrupted: name(Category::Interrupted),
        in_flight: name(Category::BlockIssued),
        user_lock: name(Category::UserLock),
        kernel_lock: name(Category::KernelLock),
        unexplained: name(Category::Unexplained),
        lost: name(Category::Lost),
    }
}

/// A category's words in a chain of what a wait was for, with whose or which it was.
fn step(category: Category) -> String {
    match category {
        Category::BlockIssued => "{who} serving {request}".into(),
        Category::OtherRunning => "{who} was running".into(),
        Category::OtherRunnable => "{who} was runnable".into(),
        Category::OtherWaiting => "{who} was blocked".into(),
        other => format!("{} ({{who}})", alone(other)),
    }
}

/// The same where nobody in particular is known.
fn alone(category: Category) -> String {
    let about = CATEGORIES[category as usize].2;
    match category {
        Category::BlockIssued => "a device serving {request}".into(),
        other if other.is_block() => match about.split_once(": ") {
            Some((_, what)) => format!("{{request}} {what}"),
            None => about.into(),
        },
        _ => about.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_has_a_colour_and_a_meaning() {
        let words = words();
        assert_eq!(words.categories.len(), CATEGORIES.len());
        for c in &words.categories {
            assert!((c.kind as usize) < words.kinds.len() && !c.about.is_empty(), "{c:?}");
        }
        for k in &words.kinds {
            assert!(k.color.len() == 7 && k.color.starts_with('#'), "{k:?}");
        }
        let kind = |name: &str| {
            let c = words.categories.iter().find(|c| c.name == name).expect(name);
            words.kinds[c.kind as usize].word.as_str()
        };
        assert_eq!(kind("running"), "on CPU");
        assert_eq!(kind("block.device"), "waiting for I/O");
        assert_eq!(kind("unexplained"), "unknown");
        let chain = |name: &str| {
            let c = words.categories.iter().find(|c| c.name == name).expect(name);
            (c.step.as_str(), c.alone.as_str())
        };
        assert_eq!(chain("block.device"), ("{who} serving {request}", "a device serving {request}"));
        assert_eq!(chain("block.schedule").1, "{request} in the I/O scheduler (I2D)");
        assert_eq!(chain("lock.kernel").0, "waiting for a kernel lock ({who})");
        let layers: Vec<&str> = words.layers.iter().map(|l| l.category.as_str()).collect();
        assert_eq!(layers, ["block.queue", "block.plug", "block.flush", "block.schedule", "block.device"]);
    }
}
