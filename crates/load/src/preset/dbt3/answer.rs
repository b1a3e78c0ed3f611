// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Answers that can be compared: between databases, and with the published ones of scale 1.

use super::queries::has_ties;
use crate::database::Field;

/// Of a number that the published answer has with decimals.
const WITHIN: f64 = 0.01;
/// The published answers are rounded to two decimals.
const ROUNDED: f64 = 0.005;
/// The published answer of Q11 lacks so many digits at the end of the key.
const Q11_LACKS: usize = 2;

/// A number of digits with or without decimals, in hundredths, rounded half away from zero.
fn hundredths(text: &str) -> Option<i128> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text),
    };
    let (whole, decimals) = digits.split_once('.').unwrap_or((digits, ""));
    let is_number = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
    if whole.is_empty() || whole.len() > 30 || !is_number(whole) || !is_number(decimals) {
        return None;
    }
    let mut two = decimals.bytes().chain(*b"000").map(|b| i128::from(b - b'0'));
    let mut next = || two.next().unwrap_or_default();
    let (tenths, hundredths, thousandths) = (next(), next(), next());
    let value = whole.parse::<i128>().ok()? * 100 + tenths * 10 + hundredths + i128::from(thousandths >= 5);
    Some(if negative { -value } else { value })
}

/// A field as both databases have it: no padding, numbers with two decimals.
fn canonical(field: &[u8]) -> String {
    let text = String::from_utf8_lossy(field);
    let text = text.trim();
    match hundredths(text) {
        Some(n) => format!("{}{}.{:02}", if n < 0 { "-" } else { "" }, n.abs() / 100, n.abs() % 100),
        None => text.to_string(),
    }
}

/// FNV-1a, 64 bits.
fn hash(seed: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(seed, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

const BASIS: u64 = 0xcbf2_9ce4_8422_2325;

/// An answer's rows, its checksum, and where it first differs from the published one.
#[derive(Debug)]
pub(super) struct Answer {
    number: u8,
    pub rows: u64,
    checksum: u64,
    expected: Option<Vec<Vec<&'static str>>>,
    wrong: Option<String>,
}

impl Answer {
    /// Of a query; at scale 1 it is compared.
    pub(super) fn new(number: u8, compared: bool) -> Self {
        let text = tpchgen::q_and_a::answers_sf1::answer(i32::from(number)).filter(|_| compared);
        let lines = text.map(|text| text.lines().filter(|line| !line.trim().is_empty()).skip(1));
        let expected =
            lines.map(|lines| lines.map(|line| line.split('|').map(str::trim).collect()).collect());
        Answer { number, rows: 0, checksum: BASIS, expected, wrong: None }
    }

    pub(super) fn add(&mut self, row: &[Field<'_>]) {
        let fields: Vec<Option<String>> = row.iter().map(|field| field.map(canonical)).collect();
        let mut of_row = BASIS;
        for field in &fields {
            // No text has these bytes.
            of_row = hash(of_row, field.as_ref().map_or(&[0][..], |text| text.as_bytes()));
            of_row = hash(of_row, &[0x1f]);
        }
        // Rows with equal keys come in any order.
        self.checksum = match has_ties(self.number) {
            true => self.checksum.wrapping_add(of_row),
            false => hash(self.checksum, &of_row.to_le_bytes()),
        };
        self.compare(row);
        self.rows += 1;
    }

    fn compare(&mut self, row: &[Field<'_>]) {
        let Some(expected) = &self.expected else { return };
        let Some(published) = expected.get(self.rows as usize).filter(|_| self.wrong.is_none()) else {
            return;
        };
        let texts =
            row.iter().map(|field| String::from_utf8_lossy(field.unwrap_or(b"NULL")).trim().to_string());
        for (column, (is, published)) in texts.zip(published).enumerate() {
            let key = self.number == 11 && column == 0;
            let cut = key && is.len() <= published.len() + Q11_LACKS && is.starts_with(published);
            if !(cut || same(&is, published)) {
                let (row, column) = (self.rows + 1, column + 1);
                self.wrong = Some(format!("row {row}, column {column}: {is:?}, published {published:?}"));
                return;
            }
        }
    }

    pub(super) fn checksum(&self) -> String {
        format!("{:016x}", self.checksum)
    }

    /// What is wrong with it, once all rows are there.
    pub(super) fn wrong(self) -> Option<String> {
        let published = self.expected.map(|rows| rows.len() as u64)?;
        if self.rows != published {
            return Some(format!("{} rows, published {published}", self.rows));
        }
        self.wrong
    }
}

/// Text and whole numbers must be equal, others nearly.
fn same(is: &str, published: &str) -> bool {
    match (hundredths(is), hundredths(published), published.parse::<f64>()) {
        (Some(n), Some(exact), _) if !published.contains('.') => n == exact,
        (Some(n), Some(_), Ok(wanted)) => {
            (n as f64 / 100.0 - wanted).abs() <= WITHIN * wanted.abs() + ROUNDED
        }
        _ => is == published,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_two_decimals_and_text_no_padding() {
        for (field, wanted) in [
            ("25.5375871168549970", "25.54"),
            ("25.537587", "25.54"),
            ("0.005", "0.01"),
            ("-0.005", "-0.01"),
            ("-0.001", "0.00"),
            ("1995", "1995.00"),
            ("37734107.00", "37734107.00"),
            ("123456789012345678901.999", "123456789012345678902.00"),
            ("Brand#45  ", "Brand#45"),
            ("1995-03-05", "1995-03-05"),
            ("33-429-790-6131", "33-429-790-6131"),
            ("1.2.3", "1.2.3"),
            ("-", "-"),
            (".5", ".5"),
            ("", ""),
        ] {
            assert_eq!(canonical(field.as_bytes()), wanted);
        }
    }

    fn checksum(number: u8, rows: &[&[Field<'_>]]) -> String {
        let mut answer = Answer::new(number, false);
        rows.iter().for_each(|row| answer.add(row));
        assert_eq!((answer.rows, answer.expected.is_none()), (rows.len() as u64, true));
        answer.checksum()
    }

    #[test]
    fn a_checksum_is_that_of_the_values() {
        let of = |rows: &[&[Field<'_>]]| checksum(1, rows);
        let (a, b): ([Field<'_>; 2], [Field<'_>; 2]) = ([Some(b"A"), Some(b"1.5")], [Some(b"B"), None]);
        let padded: [Field<'_>; 2] = [Some(b"A   "), Some(b"1.5000")];
        assert_eq!(of(&[&a, &b]), of(&[&padded, &b]));
        assert_ne!(of(&[&a, &b]), of(&[&b, &a]), "Q1 has an order");
        assert_eq!(checksum(3, &[&a, &b]), checksum(3, &[&b, &a]), "Q3 may have ties");
        assert_ne!(of(&[&a]), of(&[&a, &a]));
        assert_ne!(checksum(3, &[&a]), checksum(3, &[&a, &a]));
        assert_ne!(of(&[&[Some(b"AB"), Some(b"C")]]), of(&[&[Some(b"A"), Some(b"BC")]]));
        assert_ne!(of(&[&[None]]), of(&[&[Some(b"")]]));
    }

    #[test]
    fn the_published_answer_is_right_and_another_is_not() {
        let told = |number: u8, change: &dyn Fn(usize, usize, &str) -> String| {
            let rows = Answer::new(number, true).expected.expect("a published answer");
            let mut answer = Answer::new(number, true);
            for (r, row) in rows.iter().enumerate() {
                let texts: Vec<String> = row.iter().enumerate().map(|(c, text)| change(r, c, text)).collect();
                let fields: Vec<Field<'_>> = texts.iter().map(|text| Some(text.as_bytes())).collect();
                answer.add(&fields);
            }
            answer.wrong()
        };
        for number in super::super::queries::ALL {
            assert_eq!(told(number, &|_, _, text| text.into()), None, "Q{number}");
        }
        assert_eq!(
            told(11, &|_, column, text| if column == 0 { format!("{text}60") } else { text.into() }),
            None
        );
        let wrong =
            told(4, &|row, column, text| if (row, column) == (1, 1) { "10475".into() } else { text.into() });
        assert_eq!(wrong.as_deref(), Some("row 2, column 2: \"10475\", published \"10476\""));
        let near =
            |_: usize, _: usize, text: &str| format!("{:.4}", text.parse::<f64>().expect("a number") * 1.005);
        assert_eq!(told(6, &near), None, "within 1 %");
        let far =
            |_: usize, _: usize, text: &str| format!("{:.4}", text.parse::<f64>().expect("a number") * 1.02);
        assert!(told(6, &far).is_some());
        let mut short = Answer::new(12, true);
        short.add(&[Some(b"MAIL"), Some(b"6202"), Some(b"9324")]);
        assert_eq!(short.wrong().as_deref(), Some("1 rows, published 2"));
    }
}
