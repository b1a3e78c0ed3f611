// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The report document's types, read from their Rust sources, as TypeScript and as tables for
//! docs/report.md. The sources are parsed, not compiled, so this is there before anything is built.

mod write;

use anyhow::{anyhow, bail, Context, Result};
use std::collections::{BTreeSet, HashMap};
use std::path::Path;
use syn::{Attribute, Expr, ExprLit, Fields, GenericArgument, Item, Lit, Meta, PathArguments, Type};

/// The types for the page.
pub const TYPESCRIPT: &str = "web/src/generated/report.ts";
/// The manual with a table of every field.
pub const MANUAL: &str = "docs/report.md";

/// Where the types are defined; those that [`ROOT`] does not reach are left out.
const SOURCES: &[&str] = &[
    "crates/report/src/document.rs",
    "crates/report/src/export/profile/json.rs",
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

#[cfg(test)]
mod tests;
