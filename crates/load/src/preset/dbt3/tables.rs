// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The tables: columns, keys, indexes, and where their rows come from.

use crate::database::{Dialect, Lines};
use crate::preset::fill::Fill;
use std::fmt::Display;
use std::io::Write;
use tpchgen::generators as rows;

pub(super) struct Table {
    pub name: &'static str,
    columns: &'static str,
    key: &'static str,
    /// Columns of the other indexes.
    indexes: &'static [&'static str],
    /// Rows at scale 1, about.
    rows: u64,
}

/// In the order in which they are made.
pub(super) const TABLES: [Table; 8] = [
    Table {
        name: "region",
        columns: "r_regionkey integer not null, r_name char(25) not null, r_comment varchar(152)",
        key: "r_regionkey",
        indexes: &[],
        rows: 5,
    },
    Table {
        name: "nation",
        columns: "n_nationkey integer not null, n_name char(25) not null, n_regionkey integer not null, \
                  n_comment varchar(152)",
        key: "n_nationkey",
        indexes: &["n_regionkey"],
        rows: 25,
    },
    Table {
        name: "supplier",
        columns: "s_suppkey integer not null, s_name char(25) not null, s_address varchar(40) not null, \
                  s_nationkey integer not null, s_phone char(15) not null, s_acctbal decimal(15,2) not null, \
                  s_comment varchar(101) not null",
        key: "s_suppkey",
        indexes: &["s_nationkey"],
        rows: 10_000,
    },
    Table {
        name: "customer",
        columns: "c_custkey integer not null, c_name varchar(25) not null, c_address varchar(40) not null, \
                  c_nationkey integer not null, c_phone char(15) not null, c_acctbal decimal(15,2) not null, \
                  c_mktsegment char(10) not null, c_comment varchar(117) not null",
        key: "c_custkey",
        indexes: &["c_nationkey"],
        rows: 150_000,
    },
    Table {
        name: "part",
        columns: "p_partkey integer not null, p_name varchar(55) not null, p_mfgr char(25) not null, \
                  p_brand char(10) not null, p_type varchar(25) not null, p_size integer not null, \
                  p_container char(10) not null, p_retailprice decimal(15,2) not null, \
                  p_comment varchar(23) not null",
        key: "p_partkey",
        indexes: &[],
        rows: 200_000,
    },
    Table {
        name: "partsupp",
        columns: "ps_partkey integer not null, ps_suppkey integer not null, ps_availqty integer not null, \
                  ps_supplycost decimal(15,2) not null, ps_comment varchar(199) not null",
        key: "ps_partkey, ps_suppkey",
        indexes: &["ps_suppkey"],
        rows: 800_000,
    },
    Table {
        name: "orders",
        columns: "o_orderkey bigint not null, o_custkey integer not null, o_orderstatus char(1) not null, \
                  o_totalprice decimal(15,2) not null, o_orderdate date not null, \
                  o_orderpriority char(15) not null, o_clerk char(15) not null, \
                  o_shippriority integer not null, o_comment varchar(79) not null",
        key: "o_orderkey",
        indexes: &["o_custkey", "o_orderdate"],
        rows: 1_500_000,
    },
    Table {
        name: "lineitem",
        columns: "l_orderkey bigint not null, l_partkey integer not null, l_suppkey integer not null, \
                  l_linenumber integer not null, l_quantity decimal(15,2) not null, \
                  l_extendedprice decimal(15,2) not null, l_discount decimal(15,2) not null, \
                  l_tax decimal(15,2) not null, l_returnflag char(1) not null, l_linestatus char(1) not null, \
                  l_shipdate date not null, l_commitdate date not null, l_receiptdate date not null, \
                  l_shipinstruct char(25) not null, l_shipmode char(10) not null, l_comment varchar(44) not null",
        key: "l_orderkey, l_linenumber",
        indexes: &["l_partkey, l_suppkey", "l_suppkey", "l_shipdate"],
        rows: 6_001_215,
    },
];

impl Table {
    /// What is made when the rows are there.
    fn index(&self, dialect: Dialect) -> Option<String> {
        let Table { name, key, indexes, .. } = self;
        let numbered = || indexes.iter().enumerate().map(|(i, columns)| (i + 1, columns));
        match dialect {
            Dialect::Postgresql => {
                let mut all = format!("alter table {name} add primary key ({key})");
                all.extend(numbered().map(|(i, c)| format!("; create index {name}_{i} on {name} ({c})")));
                Some(all)
            }
            // One statement reads the table once.
            Dialect::Mariadb if indexes.is_empty() => None,
            Dialect::Mariadb => {
                let all: Vec<_> = numbered().map(|(i, c)| format!("add index {name}_{i} ({c})")).collect();
                Some(format!("alter table {name} {}", all.join(", ")))
            }
        }
    }
}

impl Fill<f64> for Table {
    fn name(&self) -> &'static str {
        self.name
    }

    /// Rows at a scale, about.
    fn expected(&self, scale: f64) -> u64 {
        if self.rows < 100 {
            return self.rows;
        }
        (self.rows as f64 * scale) as u64
    }

    /// MariaDB keeps rows in the order of the primary key, which is the one in which they come.
    fn create(&self, dialect: Dialect) -> String {
        let Table { name, columns, key, .. } = self;
        match dialect {
            Dialect::Postgresql => format!("create table {name} ({columns})"),
            // As PostgreSQL compares: by case, and with trailing spaces of char ignored.
            Dialect::Mariadb => format!(
                "create table {name} ({columns}, primary key ({key})) engine=innodb \
                 default character set utf8mb4 collate utf8mb4_bin"
            ),
        }
    }

    fn indexes(&self, dialect: Dialect) -> Vec<String> {
        self.index(dialect).into_iter().collect()
    }

    fn lines(&self, scale: f64) -> Box<Lines<'static>> {
        match self.name {
            "region" => lines(rows::RegionGenerator::new(scale, 1, 1).iter()),
            "nation" => lines(rows::NationGenerator::new(scale, 1, 1).iter()),
            "supplier" => lines(rows::SupplierGenerator::new(scale, 1, 1).iter()),
            "customer" => lines(rows::CustomerGenerator::new(scale, 1, 1).iter()),
            "part" => lines(rows::PartGenerator::new(scale, 1, 1).iter()),
            "partsupp" => lines(rows::PartSuppGenerator::new(scale, 1, 1).iter()),
            "orders" => lines(rows::OrderGenerator::new(scale, 1, 1).iter()),
            _ => lines(rows::LineItemGenerator::new(scale, 1, 1).iter()),
        }
    }
}

/// Rows are displayed as `1|a|b|`: without the last bar they are what COPY and LOAD DATA read.
fn lines<R: Display>(mut rows: impl Iterator<Item = R> + 'static) -> Box<Lines<'static>> {
    Box::new(move |out| {
        let Some(row) = rows.next() else { return false };
        let written = write!(out, "{row}");
        debug_assert!(written.is_ok(), "memory takes what is written");
        out.pop();
        out.push(b'\n');
        true
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_have_as_many_fields_as_the_table_has_columns() {
        for table in TABLES {
            let mut next = table.lines(0.001);
            let mut out = Vec::new();
            let mut count = 0;
            while next(&mut out) {
                count += 1;
            }
            let text = String::from_utf8(out).expect("text");
            assert_eq!(text.lines().count(), count, "{}: a row is a line", table.name);
            let columns = table.columns.replace("(15,2)", "").split(',').count();
            assert!(text.lines().all(|line| line.split('|').count() == columns), "{}", table.name);
            // COPY and LOAD DATA would take it for an escape.
            assert!(!text.contains('\\'), "{}", table.name);
            let expected = table.expected(0.001);
            assert!(count.abs_diff(expected as usize) <= 200, "{}: {count} of {expected}", table.name);
        }
    }

    #[test]
    fn statements_are_of_their_database() {
        let [.., orders, _] = TABLES;
        assert!(!orders.create(Dialect::Postgresql).contains("primary key"));
        assert!(orders.create(Dialect::Mariadb).contains("primary key (o_orderkey)"));
        let index = orders.index(Dialect::Postgresql).expect("a key");
        assert!(index.ends_with("; create index orders_2 on orders (o_orderdate)"), "{index}");
        assert_eq!(
            orders.index(Dialect::Mariadb).as_deref(),
            Some("alter table orders add index orders_1 (o_custkey), add index orders_2 (o_orderdate)")
        );
        assert_eq!(crate::preset::fill::names(&TABLES, "'").matches('\'').count(), 16);
    }
}
