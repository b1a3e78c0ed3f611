// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The Rust sources of all crates: types that serde writes, which formats they are written as, and what names mean.

use super::{marked, serialized, Format};
use anyhow::{bail, ensure, Context, Result};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;
use syn::{
    Attribute, Expr, Ident, ImplItem, Item, ItemImpl, ItemStruct, LitInt, LitStr, Token, Type, UseTree,
    Variant,
};

/// The list of formats.
pub const FORMATS: &str = "crates/machine/src/json/formats.rs";

/// A source file.
#[derive(Debug, Default)]
pub struct SourceFile {
    pub krate: String,
    /// Its module in the crate.
    pub path: Vec<String>,
    /// Names that `use` brings or gives: where from.
    imported: HashMap<String, Vec<String>>,
}

/// An item that is JSON, or a name for one.
pub struct SourceItem {
    pub file: usize,
    pub name: String,
    pub is: Is,
}

pub enum Is {
    Struct(ItemStruct),
    Enum(Enum),
    Alias(Type),
}

pub struct Enum {
    pub attributes: Vec<Attribute>,
    name: Ident,
    pub variants: Punctuated<Variant, Token![,]>,
    /// Where no attribute says it.
    pub rename_all: Option<&'static str>,
}

impl SourceItem {
    pub fn attributes(&self) -> &[Attribute] {
        match &self.is {
            Is::Struct(s) => &s.attrs,
            Is::Enum(e) => &e.attributes,
            Is::Alias(_) => &[],
        }
    }
}

/// `impl Output for TYPE`: file, type, the format's name in the list.
struct Output {
    file: usize,
    of: syn::Path,
    format: String,
}

#[derive(Default)]
pub struct Sources {
    pub files: Vec<SourceFile>,
    pub items: Vec<SourceItem>,
    outputs: Vec<Output>,
    listed: Vec<Listed>,
}

impl Sources {
    /// Reads what is written as JSON in all crates.
    ///
    /// # Errors
    /// A file cannot be read or is no Rust; named.
    pub fn read(root: &Path) -> Result<Sources> {
        let mut sources = Sources::default();
        let mut files = Vec::new();
        for krate in std::fs::read_dir(root.join("crates")).context("crates")? {
            walk(&krate?.path().join("src"), &mut files)?;
        }
        files.sort();
        for path in files {
            let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
            // Most files have no such type, and parsing takes its time.
            if ["Serialize", "json(", "\npub type ", "\ntype ", "\npub(crate) type "]
                .iter()
                .any(|p| text.contains(p))
            {
                let name = path.strip_prefix(root).unwrap_or(&path).display().to_string();
                sources.add(&name, &text).with_context(|| name.clone())?;
            }
        }
        let text = std::fs::read_to_string(root.join(FORMATS)).context(FORMATS)?;
        sources.listed = listed(&text).context(FORMATS)?;
        Ok(sources)
    }

    /// Adds a file, `crates/CRATE/src/...`.
    pub fn add(&mut self, name: &str, text: &str) -> Result<()> {
        let parsed = syn::parse_file(text)?;
        let mut parts = name.trim_start_matches("crates/").trim_end_matches(".rs").split('/');
        let krate = parts.next().unwrap_or_default().to_string();
        let mut path: Vec<String> = parts.skip(1).map(String::from).collect();
        if path.last().is_some_and(|last| ["lib", "main", "mod"].contains(&last.as_str())) {
            path.pop();
        }
        let mut file = SourceFile { krate, path, ..SourceFile::default() };
        let number = self.files.len();
        for item in parsed.items {
            match item {
                Item::Use(u) => take(&mut file.imported, &u.tree, &mut Vec::new()),
                Item::Impl(i) => self.outputs.extend(output(number, i)),
                item => {
                    let own = items(item)?.into_iter();
                    self.items.extend(own.map(|(name, is)| SourceItem { file: number, name, is }));
                }
            }
        }
        self.files.push(file);
        Ok(())
    }

    /// The formats, each with its type.
    ///
    /// # Errors
    /// One has no type, or two; named.
    pub fn formats(&self) -> Result<Vec<Format>> {
        let mut out = Vec::new();
        for Listed { id, name, version, about, lines } in &self.listed {
            let mut roots = self.outputs.iter().filter(|o| o.format == *id);
            let (Some(output), None) = (roots.next(), roots.next()) else {
                bail!("{id}: there must be one 'impl Output' with this format");
            };
            let root = self.find(output.file, &output.of).with_context(|| id.clone())?;
            let (id, name, about) = (id.clone(), name.clone(), about.clone());
            out.push(Format { id, name, version: *version, about, lines: *lines, root });
        }
        Ok(out)
    }

    /// Whether a name in a file is a type of ours.
    pub fn has_own(&self, file: usize, name: &str) -> bool {
        match self.files[file].imported.get(name) {
            Some(from) => from.first().is_some_and(|first| {
                first.starts_with("plumb_") || ["crate", "super", "self"].contains(&first.as_str())
            }),
            None => self.items.iter().any(|i| i.file == file && i.name == name),
        }
    }

    /// The type that a path in a file means.
    ///
    /// # Errors
    /// None of ours, or several.
    pub fn find(&self, file: usize, path: &syn::Path) -> Result<usize> {
        let here = &self.files[file];
        let mut words: Vec<String> = path.segments.iter().map(|s| s.ident.to_string()).collect();
        let shown = words.join("::");
        let first = words.first().cloned().unwrap_or_default();
        let imported = here.imported.get(&first);
        if let Some(from) = imported {
            words.splice(..1, from.iter().cloned());
        }
        let name = words.pop().unwrap_or_default();
        let of = |number: &usize, krate: &str| {
            let item = &self.items[*number];
            item.name == name && self.files[item.file].krate == krate
        };
        let in_file = |number: &usize| self.items[*number].file == file;
        if words.is_empty() {
            if let Some(own) = (0..self.items.len()).find(|n| of(n, &here.krate) && in_file(n)) {
                return Ok(own);
            }
        }
        // The module that the words lead to.
        let (mut krate, mut module) = (here.krate.clone(), here.path.clone());
        for word in words {
            match word.strip_prefix("plumb_") {
                Some(other) => (krate, module) = (other.into(), Vec::new()),
                None if word == "crate" => module.clear(),
                None if word == "super" => drop(module.pop()),
                None if word == "self" => {}
                None => module.push(word),
            }
        }
        let all: Vec<usize> = (0..self.items.len()).filter(|n| of(n, &krate)).collect();
        let path_of = |number: &&usize| &self.files[self.items[**number].file].path;
        // Some module gives on what those below it have.
        let exact: Vec<&usize> = all.iter().filter(|n| *path_of(n) == module).collect();
        let below: Vec<&usize> = all.iter().filter(|n| path_of(n).starts_with(&module)).collect();
        match (exact.as_slice(), below.as_slice(), all.as_slice()) {
            ([one], ..) | (_, [one], _) => Ok(**one),
            (_, _, [one]) => Ok(*one),
            (_, _, []) => bail!("{shown}: no type of crate {krate} that is written as JSON"),
            _ => bail!("{shown}: several types of crate {krate} have this name; name its module"),
        }
    }
}

fn walk(dir: &Path, out: &mut Vec<PathBuf>) -> Result<()> {
    for entry in std::fs::read_dir(dir).with_context(|| dir.display().to_string())? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if name == "tests" || name == "tests.rs" {
            continue;
        }
        if path.is_dir() {
            walk(&path, out)?;
        } else if name.ends_with(".rs") {
            out.push(path);
        }
    }
    Ok(())
}

fn take(imported: &mut HashMap<String, Vec<String>>, tree: &UseTree, before: &mut Vec<String>) {
    let mut put = |name: &Ident, there: &Ident, before: &[String]| {
        let mut from = before.to_vec();
        // `self` in braces is the module itself, which is no type.
        from.push(there.to_string());
        imported.insert(name.to_string(), from);
    };
    match tree {
        UseTree::Path(p) => {
            before.push(p.ident.to_string());
            take(imported, &p.tree, before);
            before.pop();
        }
        UseTree::Group(g) => g.items.iter().for_each(|t| take(imported, t, before)),
        UseTree::Name(n) if n.ident == "self" => {
            if let Some(module) = before.last().cloned() {
                imported.insert(module, before.clone());
            }
        }
        UseTree::Name(n) => put(&n.ident, &n.ident, before),
        UseTree::Rename(r) => put(&r.rename, &r.ident, before),
        UseTree::Glob(_) => {}
    }
}

/// What of an item is JSON, or a name for it.
fn items(item: Item) -> Result<Vec<(String, Is)>> {
    Ok(match item {
        // What does not go to JSON may have what this cannot read.
        Item::Struct(s) if serialized(&s.attrs) || marked(&s.attrs)?.is_some() => {
            vec![(s.ident.to_string(), Is::Struct(s))]
        }
        Item::Enum(e) if serialized(&e.attrs) || marked(&e.attrs)?.is_some() => {
            let (attributes, name, variants) = (e.attrs, e.ident, e.variants);
            let one = Enum { attributes, name, variants, rename_all: None };
            vec![(one.name.to_string(), Is::Enum(one))]
        }
        Item::Type(t) if t.generics.params.is_empty() => vec![(t.ident.to_string(), Is::Alias(*t.ty))],
        // Enums whose derives stand in the macro, in crates/load/src/job/words.rs.
        Item::Macro(m) if m.mac.path.is_ident("words") => {
            let enums = m.mac.parse_body::<Enums>()?.0;
            enums.into_iter().map(|e| (e.name.to_string(), Is::Enum(e))).collect()
        }
        _ => Vec::new(),
    })
}

/// Enums, as the body of a macro has them.
struct Enums(Vec<Enum>);

impl Parse for Enums {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let mut all = Vec::new();
        while !input.is_empty() {
            let (attributes, name, body);
            attributes = input.call(Attribute::parse_outer)?;
            name = input.parse()?;
            syn::braced!(body in input);
            let variants = body.parse_terminated(Variant::parse, Token![,])?;
            all.push(Enum { attributes, name, variants, rename_all: Some("kebab-case") });
        }
        Ok(Self(all))
    }
}

fn output(file: usize, of: ItemImpl) -> Option<Output> {
    let (_, name, _) = of.trait_.as_ref()?;
    if name.segments.last()?.ident != "Output" {
        return None;
    }
    let Type::Path(ty) = *of.self_ty else { return None };
    let format = of.items.iter().find_map(|item| {
        let ImplItem::Const(c) = item else { return None };
        let Expr::Reference(to) = &c.expr else { return None };
        let Expr::Path(format) = &*to.expr else { return None };
        Some(format.path.segments.last()?.ident.to_string())
    })?;
    Some(Output { file, of: ty.path, format })
}

/// A line of the list of formats.
#[derive(Debug)]
struct Listed {
    id: String,
    name: String,
    version: u64,
    about: String,
    lines: bool,
}

impl Parse for Listed {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let about = super::doc(&input.call(Attribute::parse_outer)?);
        let id = input.parse::<Ident>()?.to_string();
        input.parse::<Token![=]>()?;
        let name = input.parse::<LitStr>()?.value();
        input.parse::<Token![,]>()?;
        input.parse::<Ident>()?;
        let version = input.parse::<LitInt>()?.base10_parse()?;
        let lines = input.parse::<Option<Ident>>()?.is_some();
        Ok(Self { id, name, version, about, lines })
    }
}

fn listed(text: &str) -> Result<Vec<Listed>> {
    for item in syn::parse_file(text)?.items {
        if let Item::Macro(m) = item {
            if m.mac.path.is_ident("formats") {
                let all = m.mac.parse_body_with(Punctuated::<Listed, Token![;]>::parse_terminated)?;
                ensure!(!all.is_empty(), "lists nothing");
                return Ok(all.into_iter().collect());
            }
        }
    }
    bail!("has no formats! {{ ... }}")
}
