// SPDX-License-Identifier: Apache-2.0 OR MIT
use super::write::between;
use super::*;

fn one(source: &str) -> Result<Named> {
    let item: Item = syn::parse_str(source)?;
    let mut all = named(&item, &Scope { module: DOCUMENT, ..Scope::default() })?;
    Ok(all.pop().expect("a type of JSON"))
}

#[test]
fn serde_is_followed() {
    let t = one(r#"
        /// One thing.
        ///
        /// See [`Other`].
        #[derive(Debug, Serialize)]
        pub struct Thing {
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
            pub base: Base,
            #[serde(skip)]
            pub hidden: std::sync::Mutex<u8>,
            pub map: BTreeMap<String, [f64; 2]>,
            pub any: Vec<Value>,
        }"#)
    .expect("a struct");
    assert_eq!(t.doc, "One thing.\n\nSee `Other`.");
    let Body::Struct { flattened, fields } = t.body else { panic!("{:?}", t.body) };
    assert_eq!(flattened, ["Base"]);
    let seen: Vec<(&str, &str, bool)> =
        fields.iter().map(|f| (f.name.as_str(), f.ty.as_str(), f.optional)).collect();
    assert_eq!(
        seen,
        [
            ("length", "number", false),
            ("end", "Other", true),
            ("more", "number", true),
            ("maybe", "number | null", false),
            ("type", "[number, string][]", false),
            ("map", "Record<string, [number, number]>", false),
            ("any", "unknown[]", false),
        ]
    );
    assert_eq!(fields[1].doc, "Ends here.");
    assert_eq!(t.uses.iter().collect::<Vec<_>>(), ["Base", "Other"]);
}

#[test]
fn a_value_has_the_type_that_its_mark_names() {
    let file = syn::parse_file(
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
        }

        #[cfg_attr(any(), json(String))]
        struct Bytes(u64);"#,
    )
    .expect("Rust");
    let scope = Scope::of(DOCUMENT, &file.items);
    let all: Result<Vec<Vec<Named>>> = file.items.iter().map(|item| named(item, &scope)).collect();
    let [thing, bytes] =
        <[Named; 2]>::try_from(all.expect("types").into_iter().flatten().collect::<Vec<_>>())
            .expect("two types");
    let Body::Struct { fields, .. } = thing.body else { panic!("{:?}", thing.body) };
    let seen: Vec<(&str, &str, bool)> =
        fields.iter().map(|f| (f.name.as_str(), f.ty.as_str(), f.optional)).collect();
    assert_eq!(
        seen,
        [
            ("plan", "plan.Report", true),
            ("loads", "load.Document[]", false),
            ("other", "unknown", false),
            ("times", "stats.Summary[]", false),
            ("range", "stats.Interval | null", false),
            ("origin", "Origin", false),
            ("line", "Row", false),
        ]
    );
    let uses: Vec<&str> = thing.uses.iter().map(String::as_str).collect();
    assert_eq!(uses, ["Origin", "Row", "load.Document", "plan.Report", "stats.Interval", "stats.Summary"]);
    assert_eq!(bytes.body, Body::Alias("string".into()));
}

#[test]
fn a_type_of_a_crate_without_sources_is_an_error() {
    let file =
        syn::parse_file("use plumb_trace::Kind; #[derive(Serialize)] struct A { a: Kind }").expect("Rust");
    let error = named(&file.items[1], &Scope::of(DOCUMENT, &file.items)).expect_err("no sources");
    assert!(format!("{error:#}").starts_with("A.a: plumb_trace::Kind: add its file to MODULES"), "{error:#}");
}

#[test]
fn words_of_a_macro_are_types() {
    let item: Item =
        syn::parse_str("words! { /// A.\n What { #[default] Read, BackwardsRead } Lock { Mutex } }")
            .expect("Rust");
    let all = named(&item, &Scope { module: "load", ..Scope::default() }).expect("words");
    let told = all.iter().map(|t| match &t.body {
        Body::Words(words) => (t.name.as_str(), words.iter().map(|(w, _)| w.as_str()).collect::<Vec<_>>()),
        other => panic!("{other:?}"),
    });
    let want = [("What", vec!["read", "backwards-read"]), ("Lock", vec!["mutex"])];
    assert_eq!(told.collect::<Vec<_>>(), want);
}

#[test]
fn words_get_their_case() {
    let t = one(r#"#[derive(Serialize)] #[serde(rename_all = "kebab-case")]
        enum E { Jit, UserCode, #[serde(rename = "x")] Kernel }"#)
    .expect("an enum");
    let Body::Words(words) = t.body else { panic!("{:?}", t.body) };
    assert_eq!(words.iter().map(|(w, _)| w.as_str()).collect::<Vec<_>>(), ["jit", "user-code", "x"]);
}

#[test]
fn what_is_not_understood_is_an_error() {
    for source in [
        "#[derive(Serialize)] struct A { #[serde(with = \"x\")] a: u32 }",
        "#[derive(Serialize)] struct A { a: HashMap<u32, u32> }",
        "#[derive(Serialize)] struct A { a: Mutex<u32> }",
        "#[derive(Serialize)] #[serde(rename_all = \"UPPERCASE\")] struct A { a: u32 }",
    ] {
        let error = format!("{:#}", one(source).expect_err(source));
        assert!(error.starts_with("A.a: "), "{error}");
    }
    let unknown = one("#[derive(Serialize)] struct Document { a: Elsewhere }").expect("a struct");
    let error = reached(vec![unknown]).expect_err("it is nowhere").to_string();
    assert!(error.starts_with("Elsewhere: not found"), "{error}");
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
    let files = types.typescript();
    let names: Vec<&str> = files.iter().filter_map(|(name, _)| name.rsplit('/').next()).collect();
    assert_eq!(names, ["report.ts", "load.ts", "plan.ts", "compare.ts", "machine.ts", "stats.ts", "undo.ts"]);
    for (name, text) in &files {
        assert!(!text.contains(": unknown"), "{name} has a type that nobody knows");
    }
    let text = &files.iter().find(|(name, _)| name.ends_with("/report.ts")).expect("the document's").1;
    for part in ["export const FORMAT = 2;", "interface ProcessRow extends Use {", "  run?: Run;"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!text.contains("interface Case"), "only what the document reaches");
}
