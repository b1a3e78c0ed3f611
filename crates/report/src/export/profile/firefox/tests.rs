// SPDX-License-Identifier: Apache-2.0 OR MIT
use super::super::sample;
use super::*;

fn numbers(v: &Value) -> Vec<i64> {
    v.as_array().expect("column").iter().map(|n| n.as_i64().unwrap_or(i64::MIN)).collect()
}

fn names(thread: &Value, stack: &Value) -> Vec<String> {
    let at = |v: &Value, i: i64| v[i as usize].clone();
    let (mut next, mut out) = (stack.clone(), Vec::new());
    while let Some(s) = next.as_i64() {
        let frame = at(&thread["stackTable"]["frame"], s).as_i64().expect("frame");
        let func = at(&thread["frameTable"]["func"], frame).as_i64().expect("function");
        let name = at(&thread["funcTable"]["name"], func).as_i64().expect("name");
        out.insert(0, at(&thread["stringArray"], name).as_str().expect("text").to_string());
        next = at(&thread["stackTable"]["prefix"], s);
    }
    out
}

/// The rules that the viewer's own tests hold an import to: columns as long as they say, places within
/// their tables, prefixes before their stacks, each thread's number once.
fn check(v: &Value) {
    let categories = v["meta"]["categories"].as_array().expect("categories").len() as i64;
    let within = |column: &Value, end: i64, low: i64| {
        assert!(
            numbers(column).iter().all(|n| (low..end).contains(n) || (*n == i64::MIN && low < 0)),
            "{column}"
        );
    };
    let mut tids = HashSet::new();
    for t in v["threads"].as_array().expect("threads") {
        assert!(tids.insert(t["tid"].clone()), "{} twice", t["tid"]);
        assert!(t["pid"].is_string());
        let length = |table: &str| t[table]["length"].as_i64().expect("length");
        for table in
            ["samples", "stackTable", "frameTable", "funcTable", "resourceTable", "nativeSymbols", "markers"]
        {
            for (name, column) in t[table].as_object().expect("table") {
                if let Value::Array(column) = column {
                    assert_eq!(column.len() as i64, length(table), "{table}.{name}");
                }
            }
        }
        let strings = t["stringArray"].as_array().expect("strings").len() as i64;
        within(&t["samples"]["stack"], length("stackTable"), 0);
        within(&t["stackTable"]["frame"], length("frameTable"), 0);
        within(&t["stackTable"]["category"], categories, 0);
        within(&t["frameTable"]["func"], length("funcTable"), 0);
        within(&t["frameTable"]["category"], categories, 0);
        within(&t["funcTable"]["name"], strings, 0);
        within(&t["funcTable"]["resource"], length("resourceTable"), -1);
        within(&t["funcTable"]["fileName"], strings, -1);
        within(&t["resourceTable"]["lib"], v["libs"].as_array().expect("libs").len() as i64, 0);
        for (i, prefix) in numbers(&t["stackTable"]["prefix"]).into_iter().enumerate() {
            assert!(prefix == i64::MIN || (0..i as i64).contains(&prefix));
        }
        let times: Vec<f64> =
            t["samples"]["time"].as_array().expect("times").iter().filter_map(Value::as_f64).collect();
        assert!(times.windows(2).all(|w| w[0] <= w[1]));
    }
}

fn sum(v: &Value) -> u64 {
    let threads = v["threads"].as_array().expect("threads").iter();
    let weights = threads.flat_map(|t| t["samples"]["weight"].as_array().expect("weights"));
    weights.map(|w| (w.as_f64().expect("weight") * 1e6).round() as u64).sum()
}

#[test]
fn small() {
    let v = file(&sample::small());
    check(&v);
    let t = &v["threads"][0];
    assert_eq!((&t["name"], &t["pid"], &t["tid"]), (&json!("app"), &json!("10"), &json!("10")));
    assert_eq!((&t["isMainThread"], &v["threads"][1]["isMainThread"]), (&json!(true), &json!(false)));
    assert_eq!(t["samples"]["weight"], json!([0.05, 0.03, 0.004]));
    assert_eq!(t["samples"]["time"], json!([0.0, 0.05, 0.08]));
    assert_eq!(t["samples"]["weightType"], "tracing-ms");
    let stacks = t["samples"]["stack"].as_array().expect("stacks");
    assert_eq!(names(t, &stacks[0]), ["main", "read", "sys_read", "[block.device sda]"]);
    assert_eq!(names(t, &stacks[1]), ["main", "fast"]);
    assert_eq!(names(t, &stacks[2]), ["[not sampled]"]);
    let last = stacks[0].as_i64().expect("stack") as usize;
    assert_eq!(t["stackTable"]["category"][last], json!(Kind::Device as u32));
    assert_eq!(v["meta"]["categories"][Kind::Device as usize]["color"], "lightblue");
    assert_eq!(
        names(&v["threads"][1], &v["threads"][1]["samples"]["stack"][0]),
        ["[outer frames missing]", "hot"]
    );
    assert_eq!(sum(&v), 98_000);
}

#[test]
fn many_stacks() {
    let mut profile = sample::random(2, 800);
    // A row for several threads, and a number that was given twice.
    profile.threads[1].tid = 0;
    profile.threads.push(profile.threads[0].clone());
    profile.entries[0].thread = 2;
    let v = file(&profile);
    check(&v);
    assert_eq!(v["threads"].as_array().map(Vec::len), Some(3));
    assert_eq!(sum(&v), profile.time());
    assert_eq!(v, file(&profile.clone()));
}

#[test]
fn ids_of_symbol_servers() {
    // Three little-endian fields, then bytes as they are; a short id is filled up.
    assert_eq!(
        breakpad("8e7b9b3f00112233445566778899aabbccddeeff"),
        "3F9B7B8E110033224455667788".to_string() + "99AABB0"
    );
    assert_eq!(breakpad("ab"), "000000AB0000000000000000000000000");
}
