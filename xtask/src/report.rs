// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The report document's types, read from their Rust sources, as TypeScript and as tables for
//! docs/report.md. The sources are parsed, not compiled, so this is there before anything is built.

use anyhow::{anyhow, bail, Context, Result};
use std::collections::{BTreeSet, HashMap};
use std::fmt::Write;
use std::path::Path;
use syn::{Attribute, Expr, ExprLit, Fields, GenericArgument, Item, Lit, Meta, PathArguments, Type};

/// The types for the page.
pub const TYPESCRIPT: &str = "web/src/generated/report.ts";
/// The manual with a table of every field.
pub const MANUAL: &str = "docs/report.md";

/// Where the types are defined; those that [`ROOT`] does not reach are left out.
const SOURCES: &[&str] = &[
    "crates/report/src/document.rs",
    "crates/analysis/src/quality.rs",
    "crates/diagnose/src/lib.rs",
    "crates/diagnose/src/case.rs",
    "crates/diagnose/src/verdict.rs",
    "crates/model/src/result.rs",
    "crates/model/src/profile.rs",
];
const ROOT: &str = "Document";

/// A field as it stands in JSON.
#[derive(Debug, PartialEq)]
struct Field {
    name: String,
    doc: String,
    ty: String,
    optional: bool,
}

#[derive(Debug, PartialEq)]
enum Body {
    Struct {
        /// Types whose fields stand among its own.
        flattened: Vec<String>,
        fields: Vec<Field>,
    },
    Words(Vec<(String, String)>),
}

#[derive(Debug, PartialEq)]
struct Named {
    name: String,
    doc: String,
    body: Body,
    /// Types that it is made of.
    uses: BTreeSet<String>,
}

/// Every type of the document.
#[derive(Debug)]
pub struct Types {
    format: u64,
    types: Vec<Named>,
}

/// Reads them.
///
/// # Errors
/// A source is missing, or has what is not understood here: named.
pub fn read(root: &Path) -> Result<Types> {
    let mut all = Vec::new();
    let mut format = None;
    for source in SOURCES {
        let text = std::fs::read_to_string(root.join(source)).with_context(|| (*source).to_string())?;
        let file = syn::parse_file(&text).with_context(|| (*source).to_string())?;
        for item in &file.items {
            if let Item::Const(c) = item {
                if c.ident == "FORMAT" {
                    format = Some(number(&c.expr).with_context(|| format!("{source}: FORMAT"))?);
                }
            }
            if let Some(named) = named(item).with_context(|| (*source).to_string())? {
                all.push(named);
            }
        }
    }
    let format = format.context("no FORMAT in the sources of the report document")?;
    Ok(Types { format, types: reached(all)? })
}

fn number(expr: &Expr) -> Result<u64> {
    match expr {
        Expr::Lit(ExprLit { lit: Lit::Int(n), .. }) => Ok(n.base10_parse()?),
        _ => bail!("is not a number"),
    }
}

/// Those that the root is made of, in the order of the sources.
fn reached(all: Vec<Named>) -> Result<Vec<Named>> {
    let mut by_name: HashMap<&str, Vec<&Named>> = HashMap::new();
    all.iter().for_each(|t| by_name.entry(&t.name).or_default().push(t));
    let mut seen = BTreeSet::new();
    let mut open = vec![ROOT.to_string()];
    while let Some(name) = open.pop() {
        if !seen.insert(name.clone()) {
            continue;
        }
        match by_name.get(name.as_str()).map(Vec::as_slice) {
            Some([one]) => open.extend(one.uses.iter().cloned()),
            Some(_) => bail!("{name}: two types of the report document have this name; rename one"),
            None => bail!(
                "{name}: not found; add its file to SOURCES in xtask/src/report.rs (looked in {})",
                SOURCES.join(", ")
            ),
        }
    }
    Ok(all.into_iter().filter(|t| seen.contains(&t.name)).collect())
}

#[derive(Debug, Default)]
struct Serde {
    rename: Option<String>,
    rename_all: Option<String>,
    flatten: bool,
    skipped: bool,
    optional: bool,
}

fn serde(attributes: &[Attribute]) -> Result<Serde> {
    let mut out = Serde::default();
    for attribute in attributes.iter().filter(|a| a.path().is_ident("serde")) {
        attribute.parse_nested_meta(|meta| {
            let text = |meta: &syn::meta::ParseNestedMeta| -> syn::Result<String> {
                Ok(meta.value()?.parse::<syn::LitStr>()?.value())
            };
            let word = meta.path.get_ident().map(ToString::to_string).unwrap_or_default();
            match word.as_str() {
                "rename" => out.rename = Some(text(&meta)?),
                "rename_all" => out.rename_all = Some(text(&meta)?),
                "flatten" => out.flatten = true,
                "skip" => out.skipped = true,
                // What documents of earlier versions say; who writes never does.
                "alias" => drop(text(&meta)?),
                // Who reads may find it absent; who writes always writes it.
                "default" => {
                    if meta.input.peek(syn::Token![=]) {
                        text(&meta)?;
                    }
                }
                "skip_serializing_if" => {
                    text(&meta)?;
                    out.optional = true;
                }
                _ => return Err(meta.error(format!("serde({word}) is not known to xtask/src/report.rs"))),
            }
            Ok(())
        })?;
    }
    Ok(out)
}

/// Changes of case that the document's types ask for.
fn cased(name: &str, rule: Option<&str>) -> Result<String> {
    match rule {
        None => Ok(name.into()),
        Some("lowercase") => Ok(name.to_lowercase()),
        Some("snake_case" | "kebab-case") => {
            let between = if rule == Some("snake_case") { '_' } else { '-' };
            let mut out = String::new();
            for (i, c) in name.chars().enumerate() {
                if i > 0 && c.is_uppercase() {
                    out.push(between);
                }
                out.extend(if c == '_' { between } else { c }.to_lowercase());
            }
            Ok(out)
        }
        Some(other) => bail!("rename_all = {other:?} is not known to xtask/src/report.rs"),
    }
}

/// Words of a doc comment; blank lines stay.
fn doc(attributes: &[Attribute]) -> String {
    let mut text = String::new();
    for attribute in attributes.iter().filter(|a| a.path().is_ident("doc")) {
        if let Meta::NameValue(m) = &attribute.meta {
            if let Expr::Lit(ExprLit { lit: Lit::Str(line), .. }) = &m.value {
                let line = line.value();
                let line = line.trim();
                let between = match (text.is_empty() || text.ends_with('\n'), line.is_empty()) {
                    (false, true) => "\n\n",
                    (false, false) => " ",
                    _ => "",
                };
                text += between;
                text += line;
            }
        }
    }
    // Links that only rustdoc follows.
    text.replace("[`", "`").replace("`]", "`").trim().to_string()
}

fn named(item: &Item) -> Result<Option<Named>> {
    let (name, attributes) = match item {
        Item::Struct(s) => (s.ident.to_string(), &s.attrs),
        Item::Enum(e) => (e.ident.to_string(), &e.attrs),
        _ => return Ok(None),
    };
    // What does not go to JSON may have what this cannot read.
    if !serialized(attributes) {
        return Ok(None);
    }
    let of_type = serde(attributes).with_context(|| name.clone())?;
    let mut uses = BTreeSet::new();
    let body = match item {
        Item::Struct(s) => {
            let Fields::Named(members) = &s.fields else { return Ok(None) };
            let (mut flattened, mut fields) = (Vec::new(), Vec::new());
            for member in &members.named {
                let own = member.ident.as_ref().map(|i| i.to_string().replace("r#", "")).unwrap_or_default();
                let place = || format!("{name}.{own}");
                let said = serde(&member.attrs).with_context(place)?;
                if said.skipped {
                    continue;
                }
                let option = argument(&member.ty, "Option");
                let inner = if said.optional { option.unwrap_or(&member.ty) } else { &member.ty };
                let ty = typescript(inner, &mut uses).with_context(place)?;
                if said.flatten {
                    flattened.push(ty);
                    continue;
                }
                let renamed = match said.rename {
                    Some(new) => new,
                    None => cased(&own, of_type.rename_all.as_deref()).with_context(place)?,
                };
                fields.push(Field { name: renamed, doc: doc(&member.attrs), ty, optional: said.optional });
            }
            Body::Struct { flattened, fields }
        }
        Item::Enum(e) => {
            let mut words = Vec::new();
            for variant in &e.variants {
                let place = || format!("{name}::{}", variant.ident);
                if !matches!(variant.fields, Fields::Unit) {
                    return Ok(None);
                }
                let said = serde(&variant.attrs).with_context(place)?;
                let word = match said.rename {
                    Some(new) => new,
                    None => cased(&variant.ident.to_string(), of_type.rename_all.as_deref())
                        .with_context(place)?,
                };
                words.push((word, doc(&variant.attrs)));
            }
            Body::Words(words)
        }
        _ => return Ok(None),
    };
    Ok(Some(Named { name, doc: doc(attributes), body, uses }))
}

fn serialized(attributes: &[Attribute]) -> bool {
    attributes.iter().filter(|a| a.path().is_ident("derive")).any(|a| {
        let mut found = false;
        // What a derive that cannot be parsed says is the compiler's to tell.
        let _ = a.parse_nested_meta(|meta| {
            found |= meta.path.segments.last().is_some_and(|s| s.ident == "Serialize");
            Ok(())
        });
        found
    })
}

/// `T` of `name<T>`.
fn argument<'a>(ty: &'a Type, name: &str) -> Option<&'a Type> {
    let Type::Path(path) = ty else { return None };
    let last = path.path.segments.last().filter(|s| s.ident == name)?;
    arguments(&last.arguments).into_iter().next()
}

fn arguments(of: &PathArguments) -> Vec<&Type> {
    let PathArguments::AngleBracketed(list) = of else { return Vec::new() };
    let types = list.args.iter().filter_map(|a| match a {
        GenericArgument::Type(t) => Some(t),
        _ => None,
    });
    types.collect()
}

/// A type in TypeScript's words; `uses` gets the names of those that are the document's own.
fn typescript(ty: &Type, uses: &mut BTreeSet<String>) -> Result<String> {
    match ty {
        Type::Reference(r) => typescript(&r.elem, uses),
        Type::Tuple(t) => {
            let parts: Result<Vec<String>> = t.elems.iter().map(|e| typescript(e, uses)).collect();
            Ok(format!("[{}]", parts?.join(", ")))
        }
        Type::Array(a) => {
            let one = typescript(&a.elem, uses)?;
            let n = usize::try_from(number(&a.len)?)?;
            Ok(format!("[{}]", vec![one; n].join(", ")))
        }
        Type::Path(path) => {
            let last = path.path.segments.last().ok_or_else(|| anyhow!("a type without a name"))?;
            let inner: Result<Vec<String>> =
                arguments(&last.arguments).iter().map(|t| typescript(t, uses)).collect();
            let inner = inner?;
            let name = last.ident.to_string();
            Ok(match (name.as_str(), inner.as_slice()) {
                ("u8" | "u16" | "u32" | "u64" | "usize", []) => "number".into(),
                ("i8" | "i16" | "i32" | "i64" | "isize", []) => "number".into(),
                ("f32" | "f64", []) => "number".into(),
                ("bool", []) => "boolean".into(),
                ("String" | "str", []) => "string".into(),
                ("Value", []) => "unknown".into(),
                // Its text is its name.
                ("Category", []) => "string".into(),
                ("Vec", [one]) if one.contains('|') => format!("({one})[]"),
                ("Vec", [one]) => format!("{one}[]"),
                ("Option", [one]) => format!("{one} | null"),
                ("Box", [one]) => one.clone(),
                ("BTreeMap" | "HashMap", [key, one]) if key == "string" => format!("Record<string, {one}>"),
                (_, []) => {
                    uses.insert(name.clone());
                    name
                }
                _ => bail!("{name}<...>: a type that xtask/src/report.rs has no word for"),
            })
        }
        _ => bail!("a type that xtask/src/report.rs has no word for"),
    }
}

/// A comment of one line or more.
fn comment(out: &mut String, indent: &str, text: &str) {
    if text.is_empty() {
        return;
    }
    // `*/` would end it.
    let text = text.replace("*/", "* /");
    if !text.contains('\n') {
        let _ = writeln!(out, "{indent}/** {text} */");
        return;
    }
    let _ = writeln!(out, "{indent}/**");
    for line in text.lines() {
        let _ = writeln!(out, "{}", format!("{indent} * {line}").trim_end());
    }
    let _ = writeln!(out, "{indent} */");
}

impl Types {
    /// The types for the page.
    pub fn typescript(&self) -> String {
        let mut o = String::from(
            "// SPDX-License-Identifier: Apache-2.0 OR MIT\n\
             // Generated by 'cargo xtask gen' from the Rust types of the report document; do not edit.\n\n\
             // Times are ns. Moments of the monotonic clock (RunResult.begin and end, begin of processes and\n\
             // threads, Quality.gaps) pass 2^53 after 104 days of uptime and are then rounded to 2 ns and more;\n\
             // take RunResult.begin off before a unit is chosen. All other numbers stay below 2^53.\n\n",
        );
        let _ = writeln!(o, "/** Format of report.json that these types describe. */");
        let _ = writeln!(o, "export const FORMAT = {};", self.format);
        for t in &self.types {
            o.push('\n');
            comment(&mut o, "", &t.doc);
            match &t.body {
                Body::Struct { flattened, fields } => {
                    let extends = match flattened.as_slice() {
                        [] => String::new(),
                        bases => format!(" extends {}", bases.join(", ")),
                    };
                    let _ = writeln!(o, "export interface {}{extends} {{", t.name);
                    for f in fields {
                        comment(&mut o, "  ", &f.doc);
                        let _ = writeln!(o, "  {}{}: {};", f.name, if f.optional { "?" } else { "" }, f.ty);
                    }
                    let _ = writeln!(o, "}}");
                }
                Body::Words(words) => {
                    let list: Vec<String> = words.iter().map(|(w, _)| format!("{w:?}")).collect();
                    let _ = writeln!(o, "export type {} = {};", t.name, list.join(" | "));
                }
            }
        }
        o
    }

    fn markdown(&self) -> String {
        let names: BTreeSet<&str> = self.types.iter().map(|t| t.name.as_str()).collect();
        let mut o = String::new();
        for t in &self.types {
            let _ = writeln!(o, "\n### {}\n\n{}", t.name, t.doc);
            match &t.body {
                Body::Struct { flattened, fields } => {
                    for base in flattened {
                        let link = linked(base, &names);
                        let _ = writeln!(o, "\nThe fields of {link} stand among its own.");
                    }
                    let _ = writeln!(o, "\n| field | type | meaning |\n|---|---|---|");
                    for f in fields {
                        let mark = if f.optional { ", may be absent" } else { "" };
                        let ty = linked(&f.ty, &names);
                        let _ = writeln!(o, "| {} | {ty}{mark} | {} |", f.name, cell(&f.doc));
                    }
                }
                Body::Words(words) => {
                    let _ = writeln!(o, "\n| word | meaning |\n|---|---|");
                    for (word, doc) in words {
                        let _ = writeln!(o, "| {word} | {} |", cell(doc));
                    }
                }
            }
        }
        o
    }

    /// docs/report.md as it should be: what stands between its marks is ours.
    ///
    /// # Errors
    /// The file or a mark is missing.
    pub fn manual(&self, root: &Path) -> Result<String> {
        let text = std::fs::read_to_string(root.join(MANUAL)).with_context(|| MANUAL.to_string())?;
        between(&text, "fields", &self.markdown()).with_context(|| MANUAL.to_string())
    }
}

/// Puts `part` between the marks `name: generated` and `name: end`.
fn between(text: &str, name: &str, part: &str) -> Result<String> {
    let (begin, end) = (format!("<!-- {name}: generated -->\n"), format!("\n<!-- {name}: end -->"));
    let from = text.find(&begin).with_context(|| format!("lacks the line {begin}"))? + begin.len();
    let to = text[from..].find(&end).with_context(|| format!("lacks the line {end}"))?;
    Ok(format!("{}{part}{}", &text[..from], &text[from + to..]))
}

fn cell(doc: &str) -> String {
    doc.replace("\n\n", " ").replace('|', "\\|")
}

/// A type's words; those of the document lead to their table.
fn linked(ty: &str, names: &BTreeSet<&str>) -> String {
    let mut out = String::new();
    let mut word = String::new();
    let flush = |word: &mut String, out: &mut String| {
        if names.contains(word.as_str()) {
            let _ = write!(out, "[{word}](#{})", word.to_lowercase());
        } else {
            out.push_str(word);
        }
        word.clear();
    };
    for c in ty.chars() {
        if c.is_alphanumeric() || c == '_' {
            word.push(c);
            continue;
        }
        flush(&mut word, &mut out);
        match c {
            '|' => out.push_str("\\|"),
            '[' => out.push_str("\\["),
            ']' => out.push_str("\\]"),
            '<' => out.push_str("&lt;"),
            c => out.push(c),
        }
    }
    flush(&mut word, &mut out);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(source: &str) -> Result<Named> {
        let item: Item = syn::parse_str(source)?;
        Ok(named(&item)?.expect("a type of JSON"))
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
        let text = types.typescript();
        for part in ["export const FORMAT = 2;", "interface ProcessRow extends Use {", "  run?: Run;"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(!text.contains("interface Case"), "only what the document reaches");
    }
}
