// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The texts of the queries: one text for both databases.

use std::ops::RangeInclusive;

pub(super) const ALL: RangeInclusive<u8> = 1..=22;

/// The specification's parameters for validation, :1, :2 and so on. The second one of Q11 depends on the scale.
const PARAMETERS: [&[&str]; 22] = [
    &["90"],
    &["15", "BRASS", "EUROPE"],
    &["BUILDING", "1995-03-15"],
    &["1993-07-01"],
    &["ASIA", "1994-01-01"],
    &["1994-01-01", "0.06", "24"],
    &["FRANCE", "GERMANY"],
    &["BRAZIL", "AMERICA", "ECONOMY ANODIZED STEEL"],
    &["green"],
    &["1993-10-01"],
    &["GERMANY"],
    &["MAIL", "SHIP", "1994-01-01"],
    &["special", "requests"],
    &["1995-09-01"],
    &["1996-01-01"],
    &["Brand#45", "MEDIUM POLISHED", "49", "14", "23", "45", "19", "3", "36", "9"],
    &["Brand#23", "MED BOX"],
    &["300"],
    &["Brand#12", "Brand#23", "Brand#34", "1", "10", "20"],
    &["forest", "1994-01-01", "CANADA"],
    &["SAUDI ARABIA"],
    &["13", "31", "23", "29", "30", "18", "17"],
];

/// The variant with a common table expression: a view must be dropped again, which a run that is killed does not do.
const Q15: &str = "\
with revenue (supplier_no, total_revenue) as (
	select
		l_suppkey,
		sum(l_extendedprice * (1 - l_discount))
	from
		lineitem
	where
		l_shipdate >= date ':1'
		and l_shipdate < date ':1' + interval '3' month
	group by
		l_suppkey
)
select
	s_suppkey,
	s_name,
	s_address,
	s_phone,
	total_revenue
from
	supplier,
	revenue
where
	s_suppkey = supplier_no
	and total_revenue = (
		select
			max(total_revenue)
		from
			revenue
	)
order by
	s_suppkey;";

/// Rows of the answer, where the specification limits them.
fn limit(number: u8) -> Option<u32> {
    match number {
        2 | 18 | 21 => Some(100),
        3 => Some(10),
        10 => Some(20),
        _ => None,
    }
}

/// Whether two rows may have the same keys of ORDER BY.
pub(super) fn has_ties(number: u8) -> bool {
    matches!(number, 3 | 5 | 10 | 11 | 18)
}

/// A query's number of `Q6`, `q6` or `6`.
pub(super) fn number(word: &str) -> Result<u8, String> {
    let digits = word.strip_prefix(['Q', 'q']).unwrap_or(word);
    match digits.parse() {
        Ok(number) if ALL.contains(&number) => Ok(number),
        _ => Err("is no query; give Q1 to Q22".into()),
    }
}

pub(super) fn label(number: u8) -> String {
    format!("Q{number}")
}

/// The text, whose first line is a comment with its label: servers show it in logs and lists of statements.
pub(super) fn text(number: u8, scale: f64) -> String {
    let template = match number {
        15 => Q15,
        _ => tpchgen::q_and_a::queries::query(i32::from(number)).unwrap_or_default(),
    };
    let mut parameters: Vec<String> =
        PARAMETERS[usize::from(number) - 1].iter().map(ToString::to_string).collect();
    if number == 11 {
        parameters.push(format!("{:.10}", 0.0001 / scale));
    }
    let mut text = match number {
        // Neither database takes the precision.
        1 => template.replace(" day (3)", " day"),
        // Names of columns behind an alias are unknown to MariaDB.
        13 => template
            .replace("count(o_orderkey)", "count(o_orderkey) as c_count")
            .replace("c_orders (c_custkey, c_count)", "c_orders"),
        _ => template.to_string(),
    };
    // The last one first: :10 is not :1 and a zero.
    for (i, value) in parameters.iter().enumerate().rev() {
        text = text.replace(&format!(":{}", i + 1), value);
    }
    let text = text.trim().trim_end_matches(';');
    let limit = limit(number).map_or(String::new(), |rows| format!("\nlimit {rows}"));
    format!("/* {} */\n{text}{limit}", label(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_text_is_one_statement_without_parameters() {
        for number in ALL {
            let text = text(number, 1.0);
            assert!(text.starts_with(&format!("/* Q{number} */\n")), "{text}");
            assert!(text.contains("select") && !text.contains([':', ';']), "{text}");
        }
    }

    #[test]
    fn texts_are_those_that_both_databases_read() {
        assert!(text(1, 1.0).contains("date '1998-12-01' - interval '90' day\n"), "{}", text(1, 1.0));
        let q13 = text(13, 1.0);
        assert!(q13.contains("count(o_orderkey) as c_count") && q13.contains("as c_orders\n"), "{q13}");
        assert!(q13.contains("not like '%special%requests%'"));
        assert!(!text(15, 1.0).contains("view"));
        assert!(text(16, 1.0).contains("in (49, 14, 23, 45, 19, 3, 36, 9)"));
        assert!(text(11, 1.0).contains("* 0.0001000000\n") && text(11, 0.1).contains("* 0.0010000000\n"));
        assert!(text(3, 1.0).ends_with("o_orderdate\nlimit 10"));
    }

    #[test]
    fn queries_are_named_with_or_without_their_letter() {
        assert_eq!((number("Q22"), number("q1"), number("7")), (Ok(22), Ok(1), Ok(7)));
        for word in ["Q0", "Q23", "", "QQ1", "all"] {
            assert!(number(word).is_err(), "{word}");
        }
    }
}
