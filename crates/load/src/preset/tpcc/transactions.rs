// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The five transactions: their mix, and the stored procedures that they are.

use crate::database::Dialect;
use plumb_stats::random::{shuffle, SplitMix64};

/// Name of a transaction, and its cards of a deck of 100.
pub(super) const MIX: [(&str, usize); 5] =
    [("new_order", 45), ("payment", 43), ("order_status", 4), ("delivery", 4), ("stock_level", 4)];

/// Share of new orders.
pub(super) const NEW_ORDERS: f64 = MIX[0].1 as f64 / 100.0;

/// Parts of last names.
const SYLLABLES: &str = "'BAR', 'OUGHT', 'ABLE', 'PRI', 'PRES', 'ESE', 'ANTI', 'CALLY', 'ATION', 'EING'";

/// Where the hot customers, items and names are; that of names is another one than in the rows.
const OF_CUSTOMERS: u64 = 259;
const OF_ITEMS: u64 = 7911;
const OF_NAMES: u64 = super::tables::OF_NAMES + 80;

/// The transactions as a worker sends them: 100, shuffled.
pub(super) fn deck(seed: u32) -> Vec<String> {
    let mut cards: Vec<usize> =
        MIX.iter().enumerate().flat_map(|(card, (_, count))| vec![card; *count]).collect();
    shuffle(&mut cards, &mut SplitMix64::new(u64::from(seed)));
    cards.into_iter().map(|card| text(MIX[card].0)).collect()
}

fn text(name: &str) -> String {
    format!("/* {name} */\ncall tpcc_{name}()")
}

/// The procedures, with semicolons between.
pub(super) fn procedures(dialect: Dialect, warehouses: u32) -> String {
    let (text, random, name) = match dialect {
        Dialect::Postgresql => (
            include_str!("postgresql.sql"),
            "random()",
            [
                format!("(array[{SYLLABLES}])[v_number / 100 + 1]"),
                format!("(array[{SYLLABLES}])[v_number / 10 % 10 + 1]"),
                format!("(array[{SYLLABLES}])[v_number % 10 + 1]"),
            ],
        ),
        Dialect::Mariadb => (
            include_str!("mariadb.sql"),
            "rand()",
            [
                format!("elt(v_number div 100 + 1, {SYLLABLES})"),
                format!("elt(v_number div 10 % 10 + 1, {SYLLABLES})"),
                format!("elt(v_number % 10 + 1, {SYLLABLES})"),
            ],
        ),
    };
    let w = u64::from(warehouses);
    let uniform =
        |low: u64, high: u64| format!("cast(floor({random} * {n}) + {low} as integer)", n = high - low + 1);
    // TPC-C's non-uniform random numbers.
    let nurand = |a: u64, low: u64, high: u64, c: u64| {
        let n = high - low + 1;
        format!("cast(((({}) | ({})) + {c}) % {n} + {low} as integer)", uniform(0, a), uniform(low, high))
    };
    let other = match w {
        1 => "v_w".to_string(),
        _ => format!("(v_w - 1 + {}) % {w} + 1", uniform(1, w - 1)),
    };
    let values = [
        ("warehouse", uniform(1, w)),
        ("district", uniform(1, 10)),
        ("customer", nurand(1023, 1, 3000, OF_CUSTOMERS)),
        ("item", nurand(8191, 1, 100_000, OF_ITEMS)),
        ("name number", nurand(255, 0, 999, OF_NAMES)),
        ("name", format!("concat({})", name.join(", "))),
        ("lines", uniform(5, 15)),
        ("percent", uniform(1, 100)),
        ("quantity", uniform(1, 10)),
        ("cents", uniform(100, 500_000)),
        ("carrier", uniform(1, 10)),
        ("least", uniform(10, 20)),
        ("supply", format!("case when {} = 1 then {other} else v_w end", uniform(1, 100))),
        ("other", other),
    ];
    values.iter().fold(text.to_string(), |text, (name, value)| text.replace(&format!("{{{name}}}"), value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    fn name(text: &str) -> Option<&str> {
        text.strip_prefix("/* ")?.split_once(" */").map(|(name, _)| name)
    }

    fn counts(deck: &[String]) -> HashMap<&str, usize> {
        let mut counts = HashMap::new();
        deck.iter().for_each(|text| *counts.entry(name(text).expect("a name")).or_default() += 1);
        counts
    }

    #[test]
    fn a_deck_has_the_mix_in_an_order_of_its_seed() {
        let one = deck(1);
        assert_eq!(counts(&one), HashMap::from(MIX));
        assert_eq!(MIX.iter().map(|(_, cards)| cards).sum::<usize>(), 100);
        assert_eq!(one, deck(1));
        assert_ne!(one, deck(2));
        // A quarter, which is where the second of four workers begins, has some of both frequent ones.
        for part in one.chunks(25) {
            let counts = counts(part);
            assert!(counts["new_order"] > 4 && counts["payment"] > 4, "{counts:?}");
        }
    }

    #[test]
    fn every_card_is_a_procedure_of_both_databases() {
        for dialect in [Dialect::Postgresql, Dialect::Mariadb] {
            for warehouses in [1, 3] {
                let text = procedures(dialect, warehouses);
                assert!(!text.contains('{') && !text.contains('}'), "{text}");
                for (name, _) in MIX {
                    assert!(text.contains(&format!("create or replace procedure tpcc_{name}(")), "{name}");
                }
                assert_eq!(text.contains("(v_w - 1 + "), warehouses > 1, "others than the own");
                // A worker's text ends with no semicolon, behind which MariaDB sees an empty statement.
                assert!(!text.trim_end().ends_with(';'));
            }
        }
    }
}
