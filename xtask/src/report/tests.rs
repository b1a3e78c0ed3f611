// SPDX-License-Identifier: Apache-2.0 OR MIT
use super::write::between;
use super::*;

/// Sources of the crates report (`{}` in the path) and others.
fn sources(files: &[(&str, &str)]) -> Sources {
    let mut sources = Sources::default();
    files.iter().for_each(|(name, text)| sources.add(name, text).expect("Rust"));
    sources
}

/// The first type of a source, and all that it is made of.
fn all(files: &[(&str, &str)]) -> Result<Types> {
    let types = reached(&sources(files), vec![0])?;
    Ok(Types { formats: vec![format_of(0)], types })
}

fn format_of(root: usize) -> Format {
    let (id, name, about) = (REPORT.into(), "report".into(), "About it.".into());
    Format { id, name, version: 3, about, lines: false, root }
}

const FILE: &str = "crates/report/src/document.rs";

/// The fields of the first type: name, TypeScript, whether it may be absent.
fn fields(types: &Types) -> Vec<(String, String, bool)> {
    let Body::Struct(of) = &types.types[&0].body else { panic!("{:?}", types.types[&0].body) };
    of.fields.iter().map(|f| (f.name.clone(), types.word(&f.ty, DOCUMENT), f.optional)).collect()
}

fn owned(rows: &[(&str, &str, bool)]) -> Vec<(String, String, bool)> {
    rows.iter().map(|(a, b, c)| (a.to_string(), b.to_string(), *c)).collect()
}

#[test]
fn serde_is_followed() {
    let types = all(&[(
        FILE,
        r#"
        /// One thing.
        ///
        /// See [`Other`].
        #[derive(Debug, Serialize)]
        pub struct Thing<'a> {
            /// Its length, ns.
            pub length: u64,
            /// Ends
            /// here.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub end: Option<Other>,
            #[serde(skip_serializing_if = "is_zero")]
            pub more: u64,
            pub maybe: Option<u32>,
            #[serde(rename = "type")]
            pub kind: Vec<(u32, String)>,
            #[serde(flatten)]
            pub base: &'a Base,
            #[serde(skip)]
            pub hidden: std::sync::Mutex<u8>,
            pub map: BTreeMap<String, [f64; 2]>,
            pub any: Vec<Value>,
        }
        #[derive(Serialize)] struct Other(u8);
        #[derive(Serialize)] struct Base { x: bool }"#,
    )])
    .expect("a struct");
    let t = &types.types[&0];
    assert_eq!(t.doc, "One thing.\n\nSee `Other`.");
    let Body::Struct(of) = &t.body else { panic!("{:?}", t.body) };
    assert_eq!(of.flattened, [Ty::Named(2)]);
    assert_eq!(
        fields(&types),
        owned(&[
            ("length", "number", false),
            ("end", "Other", true),
            ("more", "number", true),
            ("maybe", "number | null", false),
            ("type", "[number, string][]", false),
            ("map", "Record<string, [number, number]>", false),
            ("any", "unknown[]", false),
        ])
    );
    assert_eq!(of.fields[1].doc, "Ends here.");
}

#[test]
fn a_value_has_the_type_that_its_mark_names() {
    let types = all(&[
        (
            FILE,
            r#"
        use plumb_stats::{histogram::Summary, repetitions::Interval as Range};
        use plumb_model::Origin;
        use super::Row as Line;

        #[derive(Serialize)]
        struct Thing<'a> {
            #[serde(default, skip_serializing_if = "Option::is_none")]
            #[cfg_attr(any(), json(plumb_plan::report::Report))]
            plan: Option<Value>,
            #[cfg_attr(any(), json(plumb_load::session::Document))]
            loads: Vec<Value>,
            other: Value,
            times: &'a [Summary],
            range: Option<Range>,
            origin: Origin,
            line: Line,
            #[cfg_attr(any(), json(Vec<String>))]
            strange: Mutex<u8>,
        }"#,
        ),
        ("crates/report/src/lib.rs", "#[cfg_attr(any(), json(String))] struct Row(u64);"),
        ("crates/stats/src/histogram.rs", "#[derive(Serialize)] struct Summary { n: u8 }"),
        ("crates/stats/src/repetitions.rs", "#[derive(Serialize)] struct Interval { n: u8 }"),
        ("crates/model/src/a/b.rs", "#[derive(Serialize)] enum Origin { User }"),
        ("crates/plan/src/report.rs", "#[derive(Serialize)] struct Report { n: u8 }"),
        ("crates/plan/src/other.rs", "#[derive(Serialize)] struct Report { m: u8 }"),
        ("crates/load/src/session/document.rs", "#[derive(Serialize)] struct Document { n: u8 }"),
    ])
    .expect("types");
    assert_eq!(
        fields(&types),
        owned(&[
            ("plan", "plan.Report", true),
            ("loads", "load.Document[]", false),
            ("other", "unknown", false),
            ("times", "stats.Summary[]", false),
            ("range", "stats.Interval | null", false),
            ("origin", "Origin", false),
            ("line", "Row", false),
            ("strange", "string[]", false),
        ])
    );
    let report = types.types.values().find(|t| t.name == "Report").expect("of the module that is named");
    assert_eq!(report.path, ["report"]);
    assert_eq!(types.types.values().find(|t| t.name == "Row").expect("marked").body, Body::Alias(Ty::String));
}

#[test]
fn words_of_a_macro_are_types() {
    let text = "words! { /// A.\n What { #[default] Read, BackwardsRead } Lock { Mutex } }";
    let sources = sources(&[("crates/load/src/job/words.rs", text)]);
    let told = [0, 1].map(|n| match named(&sources, n).expect("words").body {
        Body::Words(words) => words.into_iter().map(|(w, _)| w).collect::<Vec<_>>(),
        other => panic!("{other:?}"),
    });
    assert_eq!(told, [vec!["read", "backwards-read"], vec!["mutex"]]);
}

#[test]
fn words_get_their_case() {
    let types = all(&[(
        FILE,
        r#"#[derive(Serialize)] #[serde(rename_all = "kebab-case")]
        enum E { Jit, UserCode, #[serde(rename = "x")] Kernel }"#,
    )]);
    let types = types.expect("an enum");
    let Body::Words(words) = &types.types[&0].body else { panic!("{types:?}") };
    assert_eq!(words.iter().map(|(w, _)| w.as_str()).collect::<Vec<_>>(), ["jit", "user-code", "x"]);
}

#[test]
fn what_is_not_understood_is_an_error() {
    for (source, why) in [
        ("#[derive(Serialize)] struct A { #[serde(with = \"x\")] a: u32 }", "serde(with) is not known"),
        ("#[derive(Serialize)] struct A { #[serde(serialize_with = \"x\")] a: u32 }", "needs cfg_attr"),
        ("#[derive(Serialize)] struct A { a: Mutex<u32> }", "has no word for"),
        ("#[derive(Serialize)] #[serde(rename_all = \"UPPERCASE\")] struct A { a: u32 }", "is not known"),
        ("#[derive(Serialize)] struct A { a: Elsewhere }", "Elsewhere: no type of crate report"),
        ("use plumb_trace::Kind; #[derive(Serialize)] struct A { a: Kind }", "no type of crate trace"),
    ] {
        let error = format!("{:#}", all(&[(FILE, source)]).expect_err(source));
        assert!(error.starts_with("A: a: ") && error.contains(why), "{error}");
    }
    let same = "#[derive(Serialize)] struct Same { a: u8 }";
    let files = [
        (FILE, "#[derive(Serialize)] struct A { a: Same }"),
        ("crates/report/src/a.rs", same),
        ("crates/report/src/b.rs", same),
    ];
    let error = format!("{:#}", all(&files).expect_err("two"));
    assert!(error.contains("several types"), "{error}");
}

#[test]
fn a_schema_says_what_serde_writes() {
    let types = all(&[(
        FILE,
        r#"
        /// All.
        #[derive(Serialize)]
        struct All { #[serde(flatten)] base: Base, list: Vec<Kind>, how: How, none: Option<f64>,
            #[serde(skip_serializing_if = "Option::is_none")] maybe: Option<i64> }
        #[derive(Serialize)] struct Base { #[serde(rename = "is")] it: BTreeMap<String, bool> }
        #[derive(Serialize)] #[serde(tag = "kind", rename_all = "kebab-case")]
        enum Kind { One(Base), /// Two of it.
            TwoOfIt { x: (u8, String) }, Zero }
        #[derive(Serialize)] enum How { Well, Failed(String) }"#,
    )]);
    let schemas = types.expect("types").json_schemas().expect("schemas");
    let [(name, text)] = schemas.as_slice() else { panic!("{schemas:?}") };
    assert_eq!(name, "schemas/report.json");
    let schema: serde_json::Value = serde_json::from_str(text).expect("JSON");
    let defs = &schema["$defs"];
    assert_eq!(schema["properties"]["format"]["const"], "plumb.report");
    assert_eq!(schema["properties"]["version"]["const"], 3);
    assert_eq!(schema["allOf"][0]["$ref"], "#/$defs/All");
    let json = |text: &str| serde_json::from_str::<serde_json::Value>(text).expect("JSON");
    assert_eq!(defs["All"]["required"], json(r#"["list", "how", "none"]"#));
    assert_eq!(defs["All"]["allOf"], json(r##"[{"$ref": "#/$defs/Base"}]"##));
    assert_eq!(defs["All"]["description"], "All.");
    assert_eq!(
        defs["All"]["properties"]["none"],
        json(r#"{"anyOf": [{"type": "number"}, {"type": "null"}]}"#)
    );
    assert_eq!(defs["All"]["properties"]["maybe"], json(r#"{"type": "integer"}"#));
    let is = r#"{"type": "object", "additionalProperties": {"type": "boolean"}}"#;
    assert_eq!(defs["Base"]["properties"]["is"], json(is));
    assert_eq!(
        defs["Kind"]["anyOf"],
        json(
            r##"[
            {"type": "object", "properties": {"kind": {"const": "one"}}, "required": ["kind"],
             "allOf": [{"$ref": "#/$defs/Base"}]},
            {"description": "Two of it.", "type": "object", "properties": {"kind": {"const": "two-of-it"},
             "x": {"type": "array", "prefixItems": [{"type": "integer", "minimum": 0}, {"type": "string"}],
             "minItems": 2, "maxItems": 2}}, "required": ["kind", "x"]},
            {"type": "object", "properties": {"kind": {"const": "zero"}}, "required": ["kind"]}]"##
        )
    );
    assert_eq!(
        defs["How"]["anyOf"],
        json(
            r#"[{"const": "Well"},
            {"type": "object", "properties": {"Failed": {"type": "string"}}, "required": ["Failed"]}]"#
        )
    );
}

#[test]
fn a_key_that_is_written_twice_is_an_error() {
    for source in [
        "#[derive(Serialize)] struct A { x: u8, #[serde(flatten)] b: B } #[derive(Serialize)] struct B { x: u8 }",
        "#[derive(Serialize)] enum A { V { x: u8, #[serde(flatten)] b: B } } #[derive(Serialize)] struct B { x: u8 }",
        "#[derive(Serialize)] struct A { version: u8 }",
    ] {
        let types = all(&[(FILE, source)]).expect("types");
        let error = format!("{:#}", types.json_schemas().expect_err(source));
        assert!(error.contains("twice") || error.contains("field format or version"), "{error}");
    }
}

#[test]
fn marks_are_needed() {
    let text = "a\n<!-- x: generated -->\nold\n<!-- x: end -->\nb";
    assert_eq!(
        between(text, "x", "new").expect("marks"),
        "a\n<!-- x: generated -->\nnew\n<!-- x: end -->\nb"
    );
    assert!(between("a", "x", "new").is_err());
}

#[test]
fn the_repository_has_what_it_needs() {
    let types = read(&crate::root()).expect("the sources");
    let files = types.typescript().expect("TypeScript");
    let names: Vec<&str> = files.iter().filter_map(|(name, _)| name.rsplit('/').next()).collect();
    assert_eq!(names, ["report.ts", "load.ts", "plan.ts", "compare.ts", "machine.ts", "stats.ts", "undo.ts"]);
    for (name, text) in &files {
        assert!(!text.contains(": unknown"), "{name} has a type that nobody knows");
    }
    let text = &files.iter().find(|(name, _)| name.ends_with("/report.ts")).expect("the document's").1;
    for part in [
        "export const FORMAT = \"plumb.report\";",
        "export const VERSION = 3;",
        "interface ProcessRow extends Use {",
        "  run?: Run;",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!text.contains("interface Case"), "only what the document reaches");
    assert!(types.json_schemas().expect("schemas").len() > 40);
}
