// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The nine tables: columns, keys, indexes, and their rows, which are the same in both databases.

use crate::database::{Dialect, Lines};
use crate::preset::fill::Fill;
use plumb_stats::random::{Scatter, SplitMix64};
use std::io::Write;

const DISTRICTS: u64 = 10;
/// Of a district.
const CUSTOMERS: u64 = 3_000;
/// Of a district, one of each customer.
const ORDERS: u64 = CUSTOMERS;
/// Orders that are delivered.
const DELIVERED: u64 = 2_100;
const ITEMS: u64 = 100_000;
/// When everything was entered.
const THEN: &str = "2000-01-01 00:00:00";
/// Where the hot last names are.
pub(super) const OF_NAMES: u64 = 123;
const SYLLABLES: [&str; 10] =
    ["BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING"];

pub(super) struct Table {
    pub name: &'static str,
    columns: &'static str,
    /// Empty: the table has none.
    key: &'static str,
    /// Columns of another index; empty: there is none.
    index: &'static str,
    /// Rows of a warehouse, about, where they grow with warehouses.
    rows: u64,
}

/// In the order in which they are made.
pub(super) const TABLES: [Table; 9] = [
    Table {
        name: "item",
        columns: "i_id integer not null, i_im_id integer not null, i_name varchar(24) not null, \
                  i_price decimal(5,2) not null, i_data varchar(50) not null",
        key: "i_id",
        index: "",
        rows: ITEMS,
    },
    Table {
        name: "warehouse",
        columns: "w_id integer not null, w_name varchar(10) not null, w_street_1 varchar(20) not null, \
                  w_street_2 varchar(20) not null, w_city varchar(20) not null, w_state char(2) not null, \
                  w_zip char(9) not null, w_tax decimal(4,4) not null, w_ytd decimal(12,2) not null",
        key: "w_id",
        index: "",
        rows: 1,
    },
    Table {
        name: "stock",
        columns: "s_w_id integer not null, s_i_id integer not null, s_quantity integer not null, \
                  s_dist_01 char(24) not null, s_dist_02 char(24) not null, s_dist_03 char(24) not null, \
                  s_dist_04 char(24) not null, s_dist_05 char(24) not null, s_dist_06 char(24) not null, \
                  s_dist_07 char(24) not null, s_dist_08 char(24) not null, s_dist_09 char(24) not null, \
                  s_dist_10 char(24) not null, s_ytd integer not null, s_order_cnt integer not null, \
                  s_remote_cnt integer not null, s_data varchar(50) not null",
        key: "s_w_id, s_i_id",
        index: "",
        rows: ITEMS,
    },
    Table {
        name: "district",
        columns: "d_w_id integer not null, d_id integer not null, d_name varchar(10) not null, \
                  d_street_1 varchar(20) not null, d_street_2 varchar(20) not null, d_city varchar(20) not null, \
                  d_state char(2) not null, d_zip char(9) not null, d_tax decimal(4,4) not null, \
                  d_ytd decimal(12,2) not null, d_next_o_id integer not null",
        key: "d_w_id, d_id",
        index: "",
        rows: DISTRICTS,
    },
    Table {
        name: "customer",
        columns: "c_w_id integer not null, c_d_id integer not null, c_id integer not null, \
                  c_first varchar(16) not null, c_middle char(2) not null, c_last varchar(16) not null, \
                  c_street_1 varchar(20) not null, c_street_2 varchar(20) not null, c_city varchar(20) not null, \
                  c_state char(2) not null, c_zip char(9) not null, c_phone char(16) not null, \
                  c_since timestamp not null, c_credit char(2) not null, c_credit_lim decimal(12,2) not null, \
                  c_discount decimal(4,4) not null, c_balance decimal(12,2) not null, \
                  c_ytd_payment decimal(12,2) not null, c_payment_cnt integer not null, \
                  c_delivery_cnt integer not null, c_data varchar(500) not null",
        key: "c_w_id, c_d_id, c_id",
        index: "c_w_id, c_d_id, c_last, c_first",
        rows: DISTRICTS * CUSTOMERS,
    },
    Table {
        name: "history",
        columns: "h_c_id integer not null, h_c_d_id integer not null, h_c_w_id integer not null, \
                  h_d_id integer not null, h_w_id integer not null, h_date timestamp not null, \
                  h_amount decimal(6,2) not null, h_data varchar(24) not null",
        key: "",
        index: "",
        rows: DISTRICTS * CUSTOMERS,
    },
    Table {
        name: "orders",
        columns: "o_w_id integer not null, o_d_id integer not null, o_id integer not null, o_c_id integer not null, \
                  o_entry_d timestamp not null, o_carrier_id integer, o_ol_cnt integer not null, \
                  o_all_local integer not null",
        key: "o_w_id, o_d_id, o_id",
        index: "o_w_id, o_d_id, o_c_id, o_id",
        rows: DISTRICTS * ORDERS,
    },
    Table {
        name: "new_order",
        columns: "no_w_id integer not null, no_d_id integer not null, no_o_id integer not null",
        key: "no_w_id, no_d_id, no_o_id",
        index: "",
        rows: DISTRICTS * (ORDERS - DELIVERED),
    },
    Table {
        name: "order_line",
        columns: "ol_w_id integer not null, ol_d_id integer not null, ol_o_id integer not null, \
                  ol_number integer not null, ol_i_id integer not null, ol_supply_w_id integer not null, \
                  ol_delivery_d timestamp null, ol_quantity integer not null, ol_amount decimal(6,2) not null, \
                  ol_dist_info char(24) not null",
        key: "ol_w_id, ol_d_id, ol_o_id, ol_number",
        index: "",
        rows: DISTRICTS * ORDERS * 10,
    },
];

impl Fill<u32> for Table {
    fn name(&self) -> &'static str {
        self.name
    }

    /// Rows of so many warehouses, about.
    fn expected(&self, warehouses: u32) -> u64 {
        match self.name {
            "item" => self.rows,
            _ => self.rows * u64::from(warehouses),
        }
    }

    /// MariaDB keeps rows in the order of the primary key, which is the one in which they come.
    fn create(&self, dialect: Dialect) -> String {
        let Table { name, columns, key, .. } = self;
        match dialect {
            Dialect::Postgresql => format!("create table {name} ({columns})"),
            Dialect::Mariadb => {
                // A timestamp there changes by itself, and ends in 2038.
                let columns = columns.replace(" timestamp", " datetime");
                let key = if key.is_empty() { String::new() } else { format!(", primary key ({key})") };
                format!(
                    "create table {name} ({columns}{key}) engine=innodb \
                     default character set utf8mb4 collate utf8mb4_bin"
                )
            }
        }
    }

    fn indexes(&self, dialect: Dialect) -> Vec<String> {
        let Table { name, key, index, .. } = self;
        let mut all = Vec::new();
        if dialect == Dialect::Postgresql && !key.is_empty() {
            all.push(format!("alter table {name} add primary key ({key})"));
        }
        if !index.is_empty() {
            all.push(format!("create index {name}_1 on {name} ({index})"));
        }
        all
    }

    fn lines(&self, warehouses: u32) -> Box<Lines<'static>> {
        let w = u64::from(warehouses);
        let districts = w * DISTRICTS;
        match self.name {
            "item" => lines(ITEMS, item),
            "warehouse" => lines(w, warehouse),
            "stock" => lines(w * ITEMS, stock),
            "district" => lines(districts, district),
            "customer" => lines(districts * CUSTOMERS, customer),
            "history" => lines(districts * CUSTOMERS, history),
            "orders" => lines(districts * ORDERS, orders),
            "new_order" => lines(districts * (ORDERS - DELIVERED), new_order),
            _ => {
                let (all, mut order, mut number) = (districts * ORDERS, 0, 0);
                Box::new(move |out| {
                    if order == all {
                        return false;
                    }
                    number += 1;
                    order_line(order, number, out);
                    if number == lines_of(order) {
                        (order, number) = (order + 1, 0);
                    }
                    true
                })
            }
        }
    }
}

/// Rows number 0 to `all`, each by itself.
fn lines(all: u64, row: impl Fn(u64, &mut Vec<u8>) + 'static) -> Box<Lines<'static>> {
    let mut number = 0;
    Box::new(move |out| {
        if number == all {
            return false;
        }
        row(number, out);
        number += 1;
        true
    })
}

/// Writes a row. Memory takes what is written, so that there is no error to hand on.
macro_rules! row {
    ($out:expr, $($text:tt)*) => {{
        let written = writeln!($out, $($text)*);
        debug_assert!(written.is_ok());
    }};
}

/// What is random in row `number` of a table.
struct Random(SplitMix64);

impl Random {
    fn of(table: u64, number: u64) -> Self {
        // Twice, so that neighbours of one table are not those of the next.
        Random(SplitMix64::new(SplitMix64::new((table << 48) + number).next_u64()))
    }

    fn from(&mut self, low: u64, high: u64) -> u64 {
        low + self.0.below(high - low + 1)
    }

    /// Characters of an alphabet, `low` to `high` of them.
    fn text(&mut self, alphabet: &[u8], low: u64, high: u64) -> String {
        let length = self.from(low, high);
        let mut text = String::with_capacity(length as usize);
        let (mut bits, mut left) = (0, 0);
        for _ in 0..length {
            if left == 0 {
                (bits, left) = (self.0.next_u64(), 8);
            }
            text.push(char::from(alphabet[(bits & 0xff) as usize % alphabet.len()]));
            bits >>= 8;
            left -= 1;
        }
        text
    }

    fn letters(&mut self, low: u64, high: u64) -> String {
        self.text(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789", low, high)
    }

    /// Of items and stock; a tenth is of ORIGINAL make.
    fn data(&mut self) -> String {
        let mut data = self.letters(26, 50);
        if self.from(1, 10) == 1 {
            let at = self.from(0, data.len() as u64 - 8) as usize;
            data.replace_range(at..at + 8, "ORIGINAL");
        }
        data
    }

    /// Street (two lines), city, state and zip code.
    fn address(&mut self) -> String {
        let (one, two, city) = (self.letters(10, 20), self.letters(10, 20), self.letters(10, 20));
        let state = self.text(b"ABCDEFGHIJKLMNOPQRSTUVWXYZ", 2, 2);
        format!("{one}|{two}|{city}|{state}|{}11111", self.text(b"0123456789", 4, 4))
    }

    /// Taxes and discounts.
    fn share(&mut self, most: u64) -> String {
        format!("0.{:04}", self.from(0, most))
    }
}

/// A last name of three syllables.
fn last_name(number: u64) -> String {
    [number / 100, number / 10 % 10, number % 10].map(|syllable| SYLLABLES[syllable as usize]).concat()
}

/// Warehouse and district of a row, from 1, and its number in the district, from 0.
fn place(number: u64, each: u64) -> (u64, u64, u64) {
    let district = number / each;
    (district / DISTRICTS + 1, district % DISTRICTS + 1, number % each)
}

fn item(number: u64, out: &mut Vec<u8>) {
    let mut r = Random::of(1, number);
    let (image, name, cents) = (r.from(1, 10_000), r.letters(14, 24), r.from(100, 10_000));
    row!(out, "{}|{image}|{name}|{}.{:02}|{}", number + 1, cents / 100, cents % 100, r.data());
}

fn warehouse(number: u64, out: &mut Vec<u8>) {
    let mut r = Random::of(2, number);
    let (name, address) = (r.letters(6, 10), r.address());
    row!(out, "{}|{name}|{address}|{}|300000.00", number + 1, r.share(2_000));
}

fn stock(number: u64, out: &mut Vec<u8>) {
    let mut r = Random::of(3, number);
    let quantity = r.from(10, 100);
    let of_districts = [(); DISTRICTS as usize].map(|()| r.letters(24, 24)).join("|");
    let (w, i) = (number / ITEMS + 1, number % ITEMS + 1);
    row!(out, "{w}|{i}|{quantity}|{of_districts}|0|0|0|{}", r.data());
}

fn district(number: u64, out: &mut Vec<u8>) {
    let mut r = Random::of(4, number);
    let (w, d, _) = place(number, 1);
    let (name, address) = (r.letters(6, 10), r.address());
    row!(out, "{w}|{d}|{name}|{address}|{}|30000.00|{}", r.share(2_000), ORDERS + 1);
}

fn customer(number: u64, out: &mut Vec<u8>) {
    let mut r = Random::of(5, number);
    let (w, d, c) = place(number, CUSTOMERS);
    // Each name once, then some more often: TPC-C's NURand(255, 0, 999).
    let name = if c < 1_000 { c } else { ((r.from(0, 255) | r.from(0, 999)) + OF_NAMES) % 1_000 };
    let (first, address) = (r.letters(8, 16), r.address());
    let phone = r.text(b"0123456789", 16, 16);
    let credit = if r.from(1, 10) == 1 { "BC" } else { "GC" };
    let discount = r.share(5_000);
    row!(
        out,
        "{w}|{d}|{}|{first}|OE|{}|{address}|{phone}|{THEN}|{credit}|50000.00|{discount}|-10.00|10.00|1|0|{}",
        c + 1,
        last_name(name),
        r.letters(300, 500)
    );
}

fn history(number: u64, out: &mut Vec<u8>) {
    let mut r = Random::of(6, number);
    let (w, d, c) = place(number, CUSTOMERS);
    row!(out, "{}|{d}|{w}|{d}|{w}|{THEN}|10.00|{}", c + 1, r.letters(12, 24));
}

/// Lines of an order, by its number over all districts.
fn lines_of(order: u64) -> u64 {
    Random::of(7, order).from(5, 15)
}

fn orders(number: u64, out: &mut Vec<u8>) {
    let mut r = Random::of(8, number);
    let (w, d, o) = place(number, ORDERS);
    // Each customer once.
    let customer = Scatter::new(CUSTOMERS, number / ORDERS).place(o) + 1;
    let carrier = if o < DELIVERED { r.from(1, 10).to_string() } else { "\\N".into() };
    row!(out, "{w}|{d}|{}|{customer}|{THEN}|{carrier}|{}|1", o + 1, lines_of(number));
}

fn new_order(number: u64, out: &mut Vec<u8>) {
    let (w, d, o) = place(number, ORDERS - DELIVERED);
    row!(out, "{w}|{d}|{}", DELIVERED + o + 1);
}

fn order_line(order: u64, line: u64, out: &mut Vec<u8>) {
    let mut r = Random::of(9, order * 16 + line);
    let (w, d, o) = place(order, ORDERS);
    let (item, dist) = (r.from(1, ITEMS), r.letters(24, 24));
    // What was delivered was paid for before.
    let (when, cents) = if o < DELIVERED { (THEN, 0) } else { ("\\N", r.from(1, 999_999)) };
    row!(out, "{w}|{d}|{}|{line}|{item}|{w}|{when}|5|{}.{:02}|{dist}", o + 1, cents / 100, cents % 100);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::{HashMap, HashSet};

    /// All rows of a table.
    fn rows(name: &str, warehouses: u32) -> Vec<Vec<String>> {
        let table = TABLES.into_iter().find(|table| table.name == name).expect("a table");
        let (mut next, mut out, mut count) = (table.lines(warehouses), Vec::new(), 0);
        while next(&mut out) {
            count += 1;
        }
        let text = String::from_utf8(out).expect("text");
        assert_eq!(text.lines().count(), count, "{name}: a row is a line");
        text.lines().map(|line| line.split('|').map(String::from).collect()).collect()
    }

    #[test]
    fn each_table_has_its_rows_of_as_many_fields_as_columns() {
        let counts = [
            ("item", 100_000),
            ("warehouse", 1),
            ("stock", 100_000),
            ("district", 10),
            ("customer", 30_000),
            ("history", 30_000),
            ("orders", 30_000),
            ("new_order", 9_000),
        ];
        for (name, count) in counts {
            let rows = rows(name, 1);
            assert_eq!(rows.len(), count, "{name}");
            let table = TABLES.into_iter().find(|table| table.name == name).expect("a table");
            assert_eq!(table.expected(1), count as u64);
            let mut columns = table.columns.to_string();
            ["(4,4)", "(5,2)", "(6,2)", "(12,2)"].iter().for_each(|of| columns = columns.replace(of, ""));
            let columns = columns.split(',').count();
            assert!(rows.iter().all(|row| row.len() == columns), "{name}: {columns} columns");
            // COPY and LOAD DATA take it for an escape, but for NULL.
            let escapes = rows.iter().flatten().filter(|field| field.contains('\\') && *field != "\\N");
            assert_eq!(escapes.count(), 0, "{name}");
        }
    }

    #[test]
    fn orders_have_the_lines_that_they_count() {
        let mut counted: HashMap<[String; 3], usize> = HashMap::new();
        let lines = rows("order_line", 1);
        assert!((280_000..320_000).contains(&lines.len()), "{}", lines.len());
        for line in &lines {
            *counted.entry([line[0].clone(), line[1].clone(), line[2].clone()]).or_default() += 1;
        }
        let orders = rows("orders", 1);
        for order in &orders {
            let lines = counted[&[order[0].clone(), order[1].clone(), order[2].clone()]];
            assert_eq!(order[6], lines.to_string(), "{order:?}");
            assert!((5..=15).contains(&lines));
            assert_eq!(order[5] == "\\N", order[2].parse::<u64>().expect("a number") > DELIVERED);
        }
        for district in orders.chunks(ORDERS as usize) {
            let customers: HashSet<&String> = district.iter().map(|order| &order[3]).collect();
            assert_eq!(customers.len(), CUSTOMERS as usize, "an order of each customer");
        }
    }

    #[test]
    fn warehouses_have_rows_of_their_own_and_items_are_shared() {
        let (one, two) = (rows("stock", 1), rows("stock", 2));
        assert_eq!((two.len(), &two[..one.len()]), (200_000, &one[..]));
        assert_eq!((two[100_000][0].as_str(), two[100_000][1].as_str()), ("2", "1"));
        assert_ne!(two[100_000][3], two[0][3]);
        assert_eq!(rows("item", 2), rows("item", 1));
        let districts: HashSet<_> =
            rows("district", 2).iter().map(|d| (d[0].clone(), d[1].clone())).collect();
        assert_eq!(districts.len(), 20);
        let names: HashSet<String> = rows("customer", 1)[..1_000].iter().map(|c| c[5].clone()).collect();
        assert_eq!((names.len(), last_name(371).as_str()), (1_000, "PRICALLYOUGHT"));
    }

    #[test]
    fn statements_are_of_their_database() {
        let of = |name| TABLES.into_iter().find(|table| table.name == name).expect("a table");
        assert!(!of("orders").create(Dialect::Postgresql).contains("primary key"));
        let made = of("orders").create(Dialect::Mariadb);
        assert!(made.contains("primary key (o_w_id, o_d_id, o_id)") && made.contains("datetime"), "{made}");
        assert!(!of("history").create(Dialect::Mariadb).contains("primary key"));
        assert_eq!(of("customer").indexes(Dialect::Postgresql).len(), 2);
        assert_eq!(
            of("customer").indexes(Dialect::Mariadb),
            ["create index customer_1 on customer (c_w_id, c_d_id, c_last, c_first)"]
        );
        assert_eq!(of("history").indexes(Dialect::Postgresql), [""; 0]);
    }
}
