// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The report document's types, read from their Rust sources, as TypeScript (a file for each of [`MODULES`]) and as
//! tables for docs/report.md. The sources are parsed, not compiled, so this is there before anything is built.

mod write;

use anyhow::{anyhow, bail, Context, Result};
use std::collections::{BTreeSet, HashMap};
use std::path::Path;
use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;
use syn::{
    Attribute, Expr, ExprLit, Fields, GenericArgument, Ident, Item, Lit, Meta, PathArguments, Token, Type,
    UseTree, Variant,
};

/// The manual with a table of every field of the document itself.
pub const MANUAL: &str = "docs/report.md";

/// Types of the page that lie in one file of web/src/generated, and where they are defined in Rust; those that
/// [`ROOT`] does not reach are left out. A crate has its types in one module.
struct Module {
    name: &'static str,
    sources: &'static [&'static str],
}

const MODULES: &[Module] = &[
    Module {
        name: DOCUMENT,
        sources: &[
            "crates/report/src/document.rs",
            "crates/report/src/export/profile/json.rs",
            "crates/analysis/src/quality.rs",
            "crates/analysis/src/hosts.rs",
            "crates/diagnose/src/lib.rs",
            "crates/diagnose/src/case.rs",
            "crates/diagnose/src/speedup.rs",
            "crates/diagnose/src/verdict.rs",
            "crates/model/src/result.rs",
            "crates/model/src/profile.rs",
        ],
    },
    Module {
        name: "load",
        sources: &[
            "crates/load/src/session/document.rs",
            "crates/load/src/session/preset_result.rs",
            "crates/load/src/session.rs",
            "crates/load/src/result.rs",
            "crates/load/src/job.rs",
            "crates/load/src/job/values.rs",
            "crates/load/src/job/words.rs",
            "crates/load/src/validity.rs",
            "crates/load/src/witness/attribution.rs",
            "crates/load/src/witness/counters.rs",
            "crates/load/src/witness/evidence.rs",
            "crates/load/src/witness/thread_counters.rs",
        ],
    },
    Module {
        name: "plan",
        sources: &[
            "crates/plan/src/report.rs",
            "crates/plan/src/table.rs",
            "crates/plan/src/analysis.rs",
            "crates/plan/src/analysis/cells.rs",
            "crates/plan/src/analysis/changes.rs",
            "crates/plan/src/analysis/drift.rs",
            "crates/plan/src/analysis/effects.rs",
            "crates/plan/src/analysis/environments.rs",
            "crates/plan/src/analysis/rank.rs",
            "crates/plan/src/analysis/together.rs",
            "crates/plan/src/analysis/variation.rs",
            "crates/plan/src/analysis/verdicts.rs",
        ],
    },
    Module {
        name: "compare",
        sources: &[
            "crates/compare/src/comparison.rs",
            "crates/compare/src/environment.rs",
            "crates/compare/src/gate.rs",
            "crates/compare/src/lines.rs",
            "crates/compare/src/measure.rs",
            "crates/compare/src/side.rs",
        ],
    },
    Module {
        name: "machine",
        sources: &[
            "crates/machine/src/environment.rs",
            "crates/machine/src/system.rs",
            "crates/machine/src/cgroup.rs",
            "crates/machine/src/device.rs",
            "crates/machine/src/device_number.rs",
        ],
    },
    Module {
        name: "stats",
        sources: &[
            "crates/stats/src/correlation.rs",
            "crates/stats/src/histogram.rs",
            "crates/stats/src/repetitions.rs",
        ],
    },
    Module { name: "undo", sources: &["crates/undo/src/pending_changes.rs"] },
];
/// The module of the document itself.
const DOCUMENT: &str = "report";
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
    /// Its JSON is that of another type.
    Alias(String),
}

#[derive(Debug, PartialEq)]
struct Named {
    module: &'static str,
    name: String,
    doc: String,
    body: Body,
    /// Types that it is made of; of another module `MODULE.NAME`.
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
    for (module, source) in MODULES.iter().flat_map(|m| m.sources.iter().map(|s| (m.name, *s))) {
        let text = std::fs::read_to_string(root.join(source)).with_context(|| source.to_string())?;
        let file = syn::parse_file(&text).with_context(|| source.to_string())?;
        let scope = Scope::of(module, &file.items);
        for item in &file.items {
            if let Item::Const(c) = item {
                if module == DOCUMENT && c.ident == "FORMAT" {
                    format = Some(number(&c.expr).with_context(|| format!("{source}: FORMAT"))?);
                }
            }
            all.extend(named(item, &scope).with_context(|| source.to_string())?);
        }
    }
    let format = format.context("no FORMAT in the sources of the report document")?;
    Ok(Types { format, types: reached(all)? })
}

/// The module of a crate's types; `None` of a crate whose types the document has not.
fn module_of(krate: &str) -> Option<&'static str> {
    let sources = format!("crates/{}/", krate.strip_prefix("plumb_")?);
    MODULES.iter().find(|m| m.sources.iter().any(|s| s.starts_with(&sources))).map(|m| m.name)
}

/// What names mean in a file.
#[derive(Debug, Default)]
struct Scope {
    module: &'static str,
    /// Names that `use` brings from another crate or gives: crate (empty: the file's own) and name there.
    imported: HashMap<String, (String, String)>,
}

impl Scope {
    fn of(module: &'static str, items: &[Item]) -> Self {
        let mut scope = Scope { module, ..Self::default() };
        for item in items {
            if let Item::Use(u) = item {
                scope.take(&u.tree, "");
            }
        }
        scope
    }

    /// `krate`: the crate that the tree lies in, where it is not the file's own.
    fn take(&mut self, tree: &UseTree, krate: &str) {
        let mut put = |name: &Ident, there: &Ident| {
            self.imported.insert(name.to_string(), (krate.to_string(), there.to_string()));
        };
        match tree {
            UseTree::Path(p) if krate.is_empty() && p.ident.to_string().starts_with("plumb_") => {
                self.take(&p.tree, &p.ident.to_string());
            }
            UseTree::Path(p) => self.take(&p.tree, krate),
            UseTree::Group(g) => g.items.iter().for_each(|t| self.take(t, krate)),
            UseTree::Name(n) => put(&n.ident, &n.ident),
            UseTree::Rename(r) => put(&r.rename, &r.ident),
            UseTree::Glob(_) => {}
        }
    }

    /// What a type of the document is called in TypeScript, seen from this file.
    fn name(&self, path: &syn::Path) -> Result<String> {
        let first = path.segments.first().map(|s| s.ident.to_string()).unwrap_or_default();
        let last = path.segments.last().map(|s| s.ident.to_string()).unwrap_or_default();
        let (krate, name) = match self.imported.get(&last) {
            _ if first.starts_with("plumb_") => (first, last),
            Some((krate, name)) if path.segments.len() == 1 => (krate.clone(), name.clone()),
            _ => (String::new(), last),
        };
        if krate.is_empty() {
            return Ok(name);
        }
        let module = module_of(&krate)
            .with_context(|| format!("{krate}::{name}: add its file to MODULES in xtask/src/report.rs"))?;
        Ok(if module == self.module { name } else { format!("{module}.{name}") })
    }
}

fn number(expr: &Expr) -> Result<u64> {
    match expr {
        Expr::Lit(ExprLit { lit: Lit::Int(n), .. }) => Ok(n.base10_parse()?),
        _ => bail!("is not a number"),
    }
}

/// Those that the root is made of, in the order of the sources.
fn reached(all: Vec<Named>) -> Result<Vec<Named>> {
    let mut by_name: HashMap<(&str, &str), Vec<&Named>> = HashMap::new();
    all.iter().for_each(|t| by_name.entry((t.module, &t.name)).or_default().push(t));
    let mut seen = BTreeSet::new();
    let mut open = vec![(DOCUMENT.to_string(), ROOT.to_string())];
    while let Some((module, name)) = open.pop() {
        if !seen.insert((module.clone(), name.clone())) {
            continue;
        }
        match by_name.get(&(module.as_str(), name.as_str())).map(Vec::as_slice) {
            Some([one]) => open.extend(one.uses.iter().map(|used| match used.split_once('.') {
                Some((module, name)) => (module.to_string(), name.to_string()),
                None => (module.clone(), used.clone()),
            })),
            Some(_) => bail!("{name}: two types of the module {module} have this name; rename one"),
            None => {
                let sources = MODULES.iter().filter(|m| m.name == module).flat_map(|m| m.sources);
                let looked = sources.copied().collect::<Vec<_>>().join(", ");
                bail!(
                    "{name}: not found; add its file to MODULES in xtask/src/report.rs (looked in {looked})"
                )
            }
        }
    }
    Ok(all.into_iter().filter(|t| seen.contains(&(t.module.to_string(), t.name.clone()))).collect())
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
                "into" => out.into = Some(meta.value()?.parse::<syn::LitStr>()?.parse()?),
                // How it is read, which is another matter.
                "try_from" => drop(text(&meta)?),
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
/// JSON of TYPE. On a field it names the type of a [`serde_json::Value`], also of a crate that this one must not depend on.
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

/// The types of an item that are JSON.
fn named(item: &Item, scope: &Scope) -> Result<Vec<Named>> {
    match item {
        Item::Struct(s) => Ok(structure(s, scope)?.into_iter().collect()),
        Item::Enum(e) if serialized(&e.attrs) => {
            Ok(words(&e.ident, &e.attrs, None, &e.variants, scope)?.into_iter().collect())
        }
        // Enums whose derives stand in the macro, in crates/load/src/job/words.rs.
        Item::Macro(m) if m.mac.path.is_ident("words") => {
            let enums = m.mac.parse_body::<Enums>()?.0;
            let kebab = Some("kebab-case");
            let one = |e: &Enum| words(&e.name, &e.attributes, kebab, &e.variants, scope).transpose();
            enums.iter().filter_map(one).collect()
        }
        _ => Ok(Vec::new()),
    }
}

/// Variants of enums, as the body of a macro has them.
struct Enums(Vec<Enum>);

struct Enum {
    attributes: Vec<Attribute>,
    name: Ident,
    variants: Punctuated<Variant, Token![,]>,
}

impl Parse for Enums {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let mut all = Vec::new();
        while !input.is_empty() {
            let (attributes, name, body);
            attributes = input.call(Attribute::parse_outer)?;
            name = input.parse()?;
            syn::braced!(body in input);
            all.push(Enum { attributes, name, variants: body.parse_terminated(Variant::parse, Token![,])? });
        }
        Ok(Self(all))
    }
}

fn structure(of: &syn::ItemStruct, scope: &Scope) -> Result<Option<Named>> {
    let name = of.ident.to_string();
    let mut uses = BTreeSet::new();
    let told = |body, uses| {
        let (name, doc) = (name.clone(), doc(&of.attrs));
        Ok(Some(Named { module: scope.module, name, doc, body, uses }))
    };
    let mark = marked(&of.attrs).with_context(|| name.clone())?;
    // What does not go to JSON may have what this cannot read.
    if mark.is_none() && !serialized(&of.attrs) {
        return Ok(None);
    }
    let of_type = serde(&of.attrs).with_context(|| name.clone())?;
    if let Some(ty) = mark.or(of_type.into) {
        let ty = typescript(&ty, scope, None, &mut uses).with_context(|| name.clone())?;
        return told(Body::Alias(ty), uses);
    }
    let Fields::Named(members) = &of.fields else { return Ok(None) };
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
        let value = marked(&member.attrs).with_context(place)?;
        let ty = typescript(inner, scope, value.as_ref(), &mut uses).with_context(place)?;
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
    told(Body::Struct { flattened, fields }, uses)
}

/// An enum whose variants are words; `None` where one has fields. `rename_all` where no attribute says it.
fn words(
    name: &Ident,
    attributes: &[Attribute],
    rename_all: Option<&str>,
    variants: &Punctuated<Variant, Token![,]>,
    scope: &Scope,
) -> Result<Option<Named>> {
    let name = name.to_string();
    let of_type = serde(attributes).with_context(|| name.clone())?;
    let rename_all = of_type.rename_all.as_deref().or(rename_all);
    let mut words = Vec::new();
    for variant in variants {
        let place = || format!("{name}::{}", variant.ident);
        if !matches!(variant.fields, Fields::Unit) {
            return Ok(None);
        }
        let said = serde(&variant.attrs).with_context(place)?;
        let word = match said.rename {
            Some(new) => new,
            None => cased(&variant.ident.to_string(), rename_all).with_context(place)?,
        };
        words.push((word, doc(&variant.attrs)));
    }
    let (doc, body) = (doc(attributes), Body::Words(words));
    Ok(Some(Named { module: scope.module, name, doc, body, uses: BTreeSet::new() }))
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

/// A type in TypeScript's words; `value` is that of a `Value`. `uses` gets the names of those that are the
/// document's own.
fn typescript(ty: &Type, scope: &Scope, value: Option<&Type>, uses: &mut BTreeSet<String>) -> Result<String> {
    match ty {
        Type::Reference(r) => typescript(&r.elem, scope, value, uses),
        Type::Tuple(t) => {
            let parts: Result<Vec<String>> =
                t.elems.iter().map(|e| typescript(e, scope, value, uses)).collect();
            Ok(format!("[{}]", parts?.join(", ")))
        }
        Type::Slice(s) => Ok(list(&typescript(&s.elem, scope, value, uses)?)),
        Type::Array(a) => {
            let one = typescript(&a.elem, scope, value, uses)?;
            let n = usize::try_from(number(&a.len)?)?;
            Ok(format!("[{}]", vec![one; n].join(", ")))
        }
        Type::Path(path) => {
            let last = path.path.segments.last().ok_or_else(|| anyhow!("a type without a name"))?;
            let inner: Result<Vec<String>> =
                arguments(&last.arguments).iter().map(|t| typescript(t, scope, value, uses)).collect();
            let inner = inner?;
            let name = last.ident.to_string();
            Ok(match (name.as_str(), inner.as_slice()) {
                ("u8" | "u16" | "u32" | "u64" | "usize", []) => "number".into(),
                ("i8" | "i16" | "i32" | "i64" | "isize", []) => "number".into(),
                ("f32" | "f64", []) => "number".into(),
                ("bool", []) => "boolean".into(),
                ("String" | "str" | "Path" | "PathBuf" | "SocketAddr", []) => "string".into(),
                ("Value", []) => match value {
                    Some(ty) => typescript(ty, scope, None, uses)?,
                    None => "unknown".into(),
                },
                // Its text is its name.
                ("Category", []) => "string".into(),
                ("Vec", [one]) => list(one),
                ("Option", [one]) => format!("{one} | null"),
                ("Box", [one]) => one.clone(),
                ("BTreeMap" | "HashMap", [key, one]) if key == "string" => format!("Record<string, {one}>"),
                (_, []) => {
                    let name = scope.name(&path.path)?;
                    uses.insert(name.clone());
                    name
                }
                _ => bail!("{name}<...>: a type that xtask/src/report.rs has no word for"),
            })
        }
        _ => bail!("a type that xtask/src/report.rs has no word for"),
    }
}

fn list(one: &str) -> String {
    if one.contains('|') {
        format!("({one})[]")
    } else {
        format!("{one}[]")
    }
}

#[cfg(test)]
mod tests;
