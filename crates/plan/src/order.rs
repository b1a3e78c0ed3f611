// SPDX-License-Identifier: Apache-2.0 OR MIT
//! In which order cells run, so that what drifts with time does not fall on one of them.

use super::file::{Order, PlanFile};
use super::state::Cell;
use plumb_stats::random::{generator, shuffle, shuffled, SplitMix64};

/// What is to run, in this order: cell and repetition (from 1). Cells that are skipped are not in it.
///
/// Every repetition has all cells before the next one begins, in a blocked order too: a
/// run that is cut short then has about as many repetitions of each cell.
pub fn schedule(plan: &PlanFile, cells: &[Cell]) -> Vec<(usize, u32)> {
    let live: Vec<usize> = (0..cells.len()).filter(|&c| cells[c].skipped.is_none()).collect();
    let blocks: Vec<usize> =
        plan.blocks.iter().filter_map(|name| plan.factors.iter().position(|f| f.name == *name)).collect();
    let mut all = Vec::with_capacity(live.len() * plan.repeat as usize);
    for repetition in 1..=plan.repeat {
        let round = repetition as usize - 1;
        let order = match plan.order {
            Order::Given => live.clone(),
            Order::Random => {
                shuffled(live.len(), u64::from(plan.seed), round).iter().map(|&i| live[i]).collect()
            }
            Order::Blocked => {
                blocked(live.clone(), cells, &blocks, &mut generator(u64::from(plan.seed), round))
            }
        };
        all.extend(order.into_iter().map(|cell| (cell, repetition)));
    }
    all
}

/// Cells with the same level of the first block factor together, those levels in shuffled order; within each
/// the same for the next one; within the last one shuffled.
fn blocked(mut members: Vec<usize>, cells: &[Cell], blocks: &[usize], random: &mut SplitMix64) -> Vec<usize> {
    let Some((&factor, inner)) = blocks.split_first() else {
        shuffle(&mut members, random);
        return members;
    };
    let level = |cell: usize| cells[cell].levels.get(factor).copied().unwrap_or_default();
    let mut levels: Vec<usize> = members.iter().map(|&c| level(c)).collect();
    levels.sort_unstable();
    levels.dedup();
    shuffle(&mut levels, random);
    let group = |wanted: usize| members.iter().copied().filter(|&c| level(c) == wanted).collect();
    levels.into_iter().flat_map(|l| blocked(group(l), cells, inner, random)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cells;
    use crate::program::testing::TestProgram;

    fn plan(order: &str) -> PlanFile {
        let factor = |name: &str, n: usize| {
            let levels: String = (0..n)
                .map(|i| format!("[[factor.level]]\nname = \"{name}{i}\"\nload.block = {}\n", 512 << i))
                .collect();
            format!("[[factor]]\nname = \"{name}\"\n{levels}")
        };
        let text = format!(
            "name = \"p\"\ntitle = \"t\"\npurpose = \"p\"\nhypothesis = \"h\"\ntakes = \"1s\"\nrepeat = 5\n\
             {order}\nseed = 7\n[device.d]\ndirectory = \"/\"\n[cell]\ndevice = \"d\"\nload.what = \"write\"\n{}{}{}",
            factor("a", 3),
            factor("b", 2),
            factor("c", 4)
        );
        PlanFile::parse(&text).expect(&text)
    }

    #[test]
    fn a_schedule_is_a_permutation_without_the_skipped() {
        for order in
            ["order = \"random\"", "order = \"blocked\"\nblocks = [\"b\", \"a\"]", "order = \"given\""]
        {
            for seed in 0..20 {
                let plan = PlanFile { seed, ..plan(order) };
                let mut cells = cells::of(&plan, &TestProgram).expect("cells");
                cells[5].skipped = Some("not here".into());
                let all = schedule(&plan, &cells);
                for (i, part) in all.chunks(23).enumerate() {
                    assert!(part.iter().all(|(_, repetition)| *repetition == i as u32 + 1), "{order}");
                    let mut sorted: Vec<usize> = part.iter().map(|(cell, _)| *cell).collect();
                    sorted.sort_unstable();
                    let wanted: Vec<usize> = (0..24).filter(|c| *c != 5).collect();
                    assert_eq!(sorted, wanted, "{order}");
                }
                assert_eq!(all, schedule(&plan, &cells), "the seed decides");
            }
        }
    }

    #[test]
    fn another_seed_is_another_order_and_the_given_one_is_the_files() {
        let of = |plan: &PlanFile| schedule(plan, &cells::of(plan, &TestProgram).expect("cells"));
        let random = plan("order = \"random\"");
        assert_ne!(of(&random), of(&PlanFile { seed: 8, ..random.clone() }));
        let given = of(&plan("order = \"given\""));
        assert_eq!(given[..24], (0..24).map(|c| (c, 1)).collect::<Vec<_>>());
    }

    #[test]
    fn levels_of_block_factors_stay_together() {
        let plan = plan("order = \"blocked\"\nblocks = [\"b\", \"a\"]");
        let cells = cells::of(&plan, &TestProgram).expect("cells");
        let all = schedule(&plan, &cells);
        let changes = |factors: &[usize]| {
            let key = |cell: usize| factors.iter().map(|&f| cells[cell].levels[f]).collect::<Vec<_>>();
            all[..24].windows(2).filter(|w| key(w[0].0) != key(w[1].0)).count()
        };
        assert_eq!((changes(&[1]), changes(&[1, 0])), (1, 5));
        let first = |round: usize| cells[all[round * 24].0].levels.clone();
        let firsts: std::collections::HashSet<_> = (0..5).map(first).collect();
        assert!(firsts.len() > 1, "blocks are shuffled");
    }
}
