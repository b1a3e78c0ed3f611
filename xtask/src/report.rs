// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The types that plumb writes as JSON, read from their Rust sources: the report document's as TypeScript (a file for each of
//! [`MODULES`]) and as tables for docs/report.md; those of all formats as JSON Schemas. The sources are parsed, not compiled, so
//! this is there before anything is built.

mod json_schema;
mod sources;
mod write;

pub use json_schema::SCHEMAS;

use anyhow::{anyhow, bail, Context, Result};
use sources::{Enum, Is, Sources};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use syn::punctuated::Punctuated;
use syn::{
    Attribute, Expr, ExprLit, Fields, GenericArgument, Lit, Meta, PathArguments, Token, Type, Variant,
};

/// The manual with a table of every field of the document itself.
pub const MANUAL: &str = "docs/report.md";
/// The manual with a table of the formats.
pub const FORMATS_MANUAL: &str = "docs/json.md";

/// Crates whose types lie in one file of web/src/generated, those that the report document reaches.
struct Module {
    name: &'static str,
    crates: &'static [&'static str],
}

const MODULES: &[Module] = &[
    Module { name: DOCUMENT, crates: &["report", "analysis", "diagnose", "model"] },
    Module { name: "load", crates: &["load"] },
    Module { name: "plan", crates: &["plan"] },
    Module { name: "compare", crates: &["compare"] },
    Module { name: "machine", crates: &["machine"] },
    Module { name: "stats", crates: &["stats"] },
    Module { name: "undo", crates: &["undo"] },
];
/// The module of the document itself.
const DOCUMENT: &str = "report";
/// The document's format, in [`sources::FORMATS`].
const REPORT: &str = "REPORT";

/// A type as it stands in JSON.
#[derive(Debug, Clone, PartialEq)]
enum Ty {
    Integer {
        unsigned: bool,
    },
    Number,
    Boolean,
    String,
    /// Anything.
    Unknown,
    /// `std::time::Duration`.
    Duration,
    List(Box<Ty>),
    Tuple(Vec<Ty>),
    Map(Box<Ty>),
    Nullable(Box<Ty>),
    /// A type of ours, by its number in the sources.
    Named(usize),
}

/// A field as it stands in JSON.
#[derive(Debug, PartialEq)]
struct Field {
    name: String,
    doc: String,
    ty: Ty,
    optional: bool,
}

#[derive(Debug, Default, PartialEq)]
struct Object {
    /// Types whose fields stand among its own.
    flattened: Vec<Ty>,
    fields: Vec<Field>,
}

/// How an enum's variants are told apart.
#[derive(Debug, PartialEq)]
enum Tag {
    /// By the only key.
    External,
    /// By this key among the variant's own.
    Internal(String),
    /// By the first key, beside the second with what the variant has.
    Beside(String, String),
    Untagged,
}

#[derive(Debug, PartialEq)]
enum Has {
    Nothing,
    One(Ty),
    Fields(Object),
}

/// A variant: its word, what it means, what it has.
#[derive(Debug, PartialEq)]
struct Alternative {
    word: String,
    doc: String,
    has: Has,
}

#[derive(Debug, PartialEq)]
enum Body {
    Struct(Object),
    /// Variants that have nothing.
    Words(Vec<(String, String)>),
    Variants(Tag, Vec<Alternative>),
    /// Its JSON is that of another type.
    Alias(Ty),
}

#[derive(Debug, PartialEq)]
struct Named {
    krate: String,
    /// Modules that it is in, in its crate.
    path: Vec<String>,
    name: String,
    doc: String,
    body: Body,
    /// Types that it is made of.
    uses: BTreeSet<usize>,
}

/// A format of [`sources::FORMATS`].
#[derive(Debug, PartialEq)]
struct Format {
    id: String,
    name: String,
    version: u64,
    about: String,
    /// A stream.
    lines: bool,
    /// The type that is written as it.
    root: usize,
}

/// Every type of every format.
#[derive(Debug)]
pub struct Types {
    formats: Vec<Format>,
    types: BTreeMap<usize, Named>,
}

/// Reads them.
///
/// # Errors
/// A source is missing, or has what is not understood here: named.
pub fn read(root: &Path) -> Result<Types> {
    let sources = Sources::read(root)?;
    let formats = sources.formats()?;
    let types = reached(&sources, formats.iter().map(|f| f.root).collect())?;
    Ok(Types { formats, types })
}

impl Types {
    /// A type, and those that it is made of, in the order of the sources.
    fn below(&self, root: usize) -> BTreeSet<usize> {
        let (mut seen, mut open) = (BTreeSet::new(), vec![root]);
        while let Some(number) = open.pop() {
            if seen.insert(number) {
                open.extend(&self.types[&number].uses);
            }
        }
        seen
    }
}

/// The file of web/src/generated that a crate's types lie in.
fn module_of(krate: &str) -> Option<&'static str> {
    MODULES.iter().find(|m| m.crates.contains(&krate)).map(|m| m.name)
}

fn number(expr: &Expr) -> Result<u64> {
    match expr {
        Expr::Lit(ExprLit { lit: Lit::Int(n), .. }) => Ok(n.base10_parse()?),
        _ => bail!("is not a number"),
    }
}

/// Types, and those that they are made of.
fn reached(sources: &Sources, mut open: Vec<usize>) -> Result<BTreeMap<usize, Named>> {
    let mut all = BTreeMap::new();
    while let Some(number) = open.pop() {
        if let std::collections::btree_map::Entry::Vacant(place) = all.entry(number) {
            let named = named(sources, number)?;
            open.extend(&named.uses);
            place.insert(named);
        }
    }
    Ok(all)
}

#[derive(Default)]
struct Serde {
    rename: Option<String>,
    rename_all: Option<String>,
    flatten: bool,
    skipped: bool,
    optional: bool,
    /// Type that it is written as.
    into: Option<Type>,
    tag: Option<String>,
    content: Option<String>,
    untagged: bool,
    /// Written by a function: a mark must tell as what.
    by_hand: bool,
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
                "tag" => out.tag = Some(text(&meta)?),
                "content" => out.content = Some(text(&meta)?),
                "untagged" => out.untagged = true,
                "serialize_with" => {
                    text(&meta)?;
                    out.by_hand = true;
                }
                // A struct of one field without a name is written as that anyway.
                "transparent" => {}
                // What documents of earlier versions say; who writes never does.
                "alias" => drop(text(&meta)?),
                "into" => out.into = Some(meta.value()?.parse::<syn::LitStr>()?.parse()?),
                // How it is read, which is another matter.
                "try_from" | "expecting" => drop(text(&meta)?),
                "deny_unknown_fields" => {}
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

/// The type in `#[cfg_attr(any(), json(TYPE))]`, which the compiler drops: what stands there is written as the
/// JSON of TYPE. On a field with a [`serde_json::Value`] it names that one's type, also of a crate that this one must not depend on.
fn marked(attributes: &[Attribute]) -> Result<Option<Type>> {
    for attribute in attributes.iter().filter(|a| a.path().is_ident("cfg_attr")) {
        let parts = attribute.parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated)?;
        let json = parts.iter().skip(1).find(|m| m.path().is_ident("json"));
        if let Some(Meta::List(json)) = json {
            return Ok(Some(json.parse_args()?));
        }
    }
    Ok(None)
}

/// A type of the sources, as JSON.
fn named(sources: &Sources, number: usize) -> Result<Named> {
    let item = &sources.items[number];
    let mut reader = Reader { sources, file: item.file, uses: BTreeSet::new() };
    let body = match &item.is {
        Is::Struct(s) => reader.structure(&s.attrs, &s.fields),
        Is::Enum(e) => reader.variants(e),
        Is::Alias(ty) => reader.ty(ty, None).map(Body::Alias),
    };
    let body = body.with_context(|| item.name.clone())?;
    let file = &sources.files[item.file];
    let (krate, path, doc) = (file.krate.clone(), file.path.clone(), doc(item.attributes()));
    Ok(Named { krate, path, name: item.name.clone(), doc, body, uses: reader.uses })
}

/// Reads a type of a file.
struct Reader<'a> {
    sources: &'a Sources,
    file: usize,
    uses: BTreeSet<usize>,
}

impl Reader<'_> {
    fn structure(&mut self, attributes: &[Attribute], fields: &Fields) -> Result<Body> {
        let of_type = serde(attributes)?;
        if let Some(ty) = marked(attributes)?.or(of_type.into) {
            return Ok(Body::Alias(self.ty(&ty, None)?));
        }
        match fields {
            Fields::Named(_) => Ok(Body::Struct(self.object(fields, of_type.rename_all.as_deref())?)),
            Fields::Unnamed(f) if f.unnamed.len() == 1 => Ok(Body::Alias(self.ty(&f.unnamed[0].ty, None)?)),
            _ => bail!("a struct without names that xtask/src/report.rs has no word for"),
        }
    }

    fn object(&mut self, fields: &Fields, rename_all: Option<&str>) -> Result<Object> {
        let mut out = Object::default();
        for member in fields {
            let own = member.ident.as_ref().map(|i| i.to_string().replace("r#", "")).unwrap_or_default();
            let place = || own.clone();
            let said = serde(&member.attrs).with_context(place)?;
            if said.skipped {
                continue;
            }
            let option = argument(&member.ty, "Option");
            let inner = if said.optional { option.unwrap_or(&member.ty) } else { &member.ty };
            let mark = marked(&member.attrs).with_context(place)?;
            let ty = match &mark {
                Some(mark) if !mentions(inner, "Value") => self.ty(mark, None),
                None if said.by_hand => Err(anyhow!("serialize_with needs cfg_attr(any(), json(TYPE))")),
                mark => self.ty(inner, mark.as_ref()),
            };
            let ty = ty.with_context(place)?;
            if said.flatten {
                out.flattened.push(ty);
                continue;
            }
            let name = match said.rename {
                Some(new) => new,
                None => cased(&own, rename_all).with_context(place)?,
            };
            out.fields.push(Field { name, doc: doc(&member.attrs), ty, optional: said.optional });
        }
        Ok(out)
    }

    fn variants(&mut self, of: &Enum) -> Result<Body> {
        let of_type = serde(&of.attributes)?;
        if let Some(ty) = marked(&of.attributes)?.or(of_type.into) {
            return Ok(Body::Alias(self.ty(&ty, None)?));
        }
        let rename_all = of_type.rename_all.as_deref().or(of.rename_all);
        let mut all = Vec::new();
        for variant in &of.variants {
            let alternative = self.alternative(variant, rename_all);
            all.push(alternative.with_context(|| variant.ident.to_string())?);
        }
        let tag = match (of_type.tag, of_type.content) {
            _ if of_type.untagged => Tag::Untagged,
            (Some(tag), Some(content)) => Tag::Beside(tag, content),
            (Some(tag), None) => Tag::Internal(tag),
            (None, _) => Tag::External,
        };
        if tag == Tag::External && all.iter().all(|a| a.has == Has::Nothing) {
            return Ok(Body::Words(all.into_iter().map(|a| (a.word, a.doc)).collect()));
        }
        Ok(Body::Variants(tag, all))
    }

    fn alternative(&mut self, variant: &Variant, rename_all: Option<&str>) -> Result<Alternative> {
        let said = serde(&variant.attrs)?;
        let word = match said.rename {
            Some(new) => new,
            None => cased(&variant.ident.to_string(), rename_all)?,
        };
        let has = match &variant.fields {
            Fields::Unit => Has::Nothing,
            Fields::Named(_) => Has::Fields(self.object(&variant.fields, said.rename_all.as_deref())?),
            Fields::Unnamed(f) => {
                let parts: Result<Vec<Ty>> = f.unnamed.iter().map(|p| self.ty(&p.ty, None)).collect();
                let mut parts = parts?;
                Has::One(if parts.len() == 1 { parts.remove(0) } else { Ty::Tuple(parts) })
            }
        };
        Ok(Alternative { word, doc: doc(&variant.attrs), has })
    }

    /// A type; `value` is that of a `Value`.
    fn ty(&mut self, ty: &Type, value: Option<&Type>) -> Result<Ty> {
        match ty {
            Type::Reference(r) => self.ty(&r.elem, value),
            Type::Tuple(t) => {
                Ok(Ty::Tuple(t.elems.iter().map(|e| self.ty(e, value)).collect::<Result<_>>()?))
            }
            Type::Slice(s) => Ok(Ty::List(Box::new(self.ty(&s.elem, value)?))),
            Type::Array(a) => {
                let one = self.ty(&a.elem, value)?;
                // A length that has a name is not looked up.
                Ok(match number(&a.len) {
                    Ok(n) => Ty::Tuple(vec![one; usize::try_from(n)?]),
                    Err(_) => Ty::List(Box::new(one)),
                })
            }
            Type::Path(path) => self.path(&path.path, value),
            _ => bail!("a type that xtask/src/report.rs has no word for"),
        }
    }

    fn path(&mut self, path: &syn::Path, value: Option<&Type>) -> Result<Ty> {
        let last = path.segments.last().ok_or_else(|| anyhow!("a type without a name"))?;
        let inner: Result<Vec<Ty>> = arguments(&last.arguments).iter().map(|t| self.ty(t, value)).collect();
        let mut inner = inner?;
        let name = last.ident.to_string();
        Ok(match (name.as_str(), inner.len()) {
            ("u8" | "u16" | "u32" | "u64" | "u128" | "usize", 0) => Ty::Integer { unsigned: true },
            ("i8" | "i16" | "i32" | "i64" | "i128" | "isize", 0) => Ty::Integer { unsigned: false },
            ("f32" | "f64", 0) => Ty::Number,
            ("bool", 0) => Ty::Boolean,
            ("String" | "str" | "char" | "Path" | "PathBuf" | "SocketAddr", 0) => Ty::String,
            ("Duration", 0) => Ty::Duration,
            // Its text is its name.
            ("Category", 0) => Ty::String,
            ("Value", 0) if !self.sources.has_own(self.file, "Value") => match value {
                Some(ty) => self.ty(ty, None)?,
                None => Ty::Unknown,
            },
            ("Vec" | "VecDeque" | "BTreeSet" | "HashSet", 1) => Ty::List(Box::new(inner.remove(0))),
            ("Option", 1) => Ty::Nullable(Box::new(inner.remove(0))),
            ("Box" | "Cow" | "Rc" | "Arc", 1) => inner.remove(0),
            ("BTreeMap" | "HashMap" | "IndexMap" | "Map", 2) => Ty::Map(Box::new(inner.remove(1))),
            (_, 0) => {
                let number = self.sources.find(self.file, path)?;
                self.uses.insert(number);
                Ty::Named(number)
            }
            _ => bail!("{name}<...>: a type that xtask/src/report.rs has no word for"),
        })
    }
}

/// Whether a type has this name somewhere.
fn mentions(ty: &Type, name: &str) -> bool {
    match ty {
        Type::Reference(r) => mentions(&r.elem, name),
        Type::Path(p) => p.path.segments.last().is_some_and(|s| {
            s.ident == name || arguments(&s.arguments).iter().any(|inner| mentions(inner, name))
        }),
        _ => false,
    }
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

#[cfg(test)]
mod tests;
