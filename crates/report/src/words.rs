// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What names mean and which colour they have, as it stands in every document.

use crate::document::{CategoryWords, KindWords, LayerWords, Words};
use crate::palette::{Kind, PAINTS};
use plumb_model::{Category, CATEGORIES};

/// Time on a CPU: a timeline has no functions, so the colour of code is free for it.
const ON_CPU: (&str, Kind) = ("on a CPU", Kind::User);

/// Layers of a block request in blktrace's letters, in the order that it passes them.
const LAYERS: [(&str, &str, Category); 5] = [
    ("Q2G", "waits for a request slot", Category::BlockQueued),
    ("G2F", "has a slot, and is not yet in the scheduler's queue", Category::BlockPlugged),
    ("F2I", "waits while the device flushes what it was sent before", Category::BlockFlush),
    ("I2D", "in the scheduler's queue", Category::BlockInserted),
    ("D2C", "with the device", Category::BlockIssued),
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
    });
    let layers = LAYERS.iter().map(|(name, about, category)| LayerWords {
        name: (*name).into(),
        about: (*about).into(),
        category: category.name().into(),
    });
    Words { categories: categories.collect(), kinds: kinds.collect(), layers: layers.collect() }
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
        assert_eq!(kind("running"), "on a CPU");
        assert_eq!(kind("block.device"), "waiting for a device");
        assert_eq!(kind("unexplained"), "not known");
        let layers: Vec<&str> = words.layers.iter().map(|l| l.category.as_str()).collect();
        assert_eq!(layers, ["block.queue", "block.plug", "block.flush", "block.schedule", "block.device"]);
    }
}
