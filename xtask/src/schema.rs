// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads `include/plumb/event.h`: a restricted C grammar, checked strictly, so
//! that a line which the generator does not understand is an error and never
//! silently left out.

use anyhow::{bail, ensure, Context, Result};

/// One field of an event.
#[derive(Debug, Clone, PartialEq)]
pub struct Field {
    pub name: String,
    pub ty: Type,
    pub unit: String,
    pub doc: String,
}

/// The C types that the schema may use.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Type {
    U8,
    U16,
    U32,
    S32,
    U64,
    S64,
    /// `char name[N]`: NUL-padded bytes.
    Bytes(usize),
    /// NUL-terminated, state events only.
    Str,
    /// u16 count and that many u64, state events only.
    Seq64,
}

impl Type {
    /// Size in bytes, 0 for the variable ones.
    pub fn size(self) -> usize {
        match self {
            Type::U8 => 1,
            Type::U16 => 2,
            Type::U32 | Type::S32 => 4,
            Type::U64 | Type::S64 => 8,
            Type::Bytes(n) => n,
            Type::Str | Type::Seq64 => 0,
        }
    }
    fn align(self) -> usize {
        match self {
            Type::Bytes(_) => 1,
            t => t.size().max(1),
        }
    }
}

/// Who writes an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// A BPF program, into a per-CPU stream.
    Kernel,
    /// The same, at a place in a program, or of a word that a program keeps.
    Program,
    /// A workload, into a stream of each of its threads.
    Load,
    /// The recorder; state events.
    Recorder,
}

/// One event: a record, or a state event.
#[derive(Debug, Clone)]
pub struct Event {
    pub id: u16,
    pub name: String,
    pub set: String,
    pub origin: Origin,
    /// Generation of the schema that it came with, from 1.
    pub since: usize,
    pub tracepoint: String,
    pub source: String,
    pub doc: String,
    /// Record size in bytes; 0 for a state event.
    pub size: usize,
    pub fields: Vec<Field>,
}

impl Event {
    pub fn is_state(&self) -> bool {
        self.size == 0
    }
    /// Byte offset of every field.
    pub fn offsets(&self) -> Vec<usize> {
        let mut at = 0;
        self.fields
            .iter()
            .map(|f| {
                let here = at;
                at += f.ty.size();
                here
            })
            .collect()
    }
}

/// The whole schema.
pub struct Schema {
    pub events: Vec<Event>,
    /// Hash of each generation, the first generation's first. Never empty.
    pub hashes: Vec<u64>,
}

impl Schema {
    /// Hash of the newest generation.
    pub fn hash(&self) -> u64 {
        *self.hashes.last().expect("there is a first generation")
    }
}

fn head_fields() -> Vec<Field> {
    let f = |name: &str, ty, unit: &str, doc: &str| Field {
        name: name.into(),
        ty,
        unit: unit.into(),
        doc: doc.into(),
    };
    vec![
        f("ts", Type::U64, "ns", "when, one reading per event"),
        f("id", Type::U16, "nr", "which event"),
        f("lap", Type::U16, "count", "times round the ring, plus one: commits it"),
        f("tid", Type::U32, "tid", "thread on the CPU; 0 is the idle thread"),
    ]
}

fn cont_fields() -> Vec<Field> {
    ["cont_id", "cont_lap"]
        .map(|name| Field {
            name: name.into(),
            ty: Type::U16,
            unit: "nr".into(),
            doc: "second half of the record".into(),
        })
        .to_vec()
}

fn parse_field(line: &str) -> Result<Field> {
    let (code, comment) = line.split_once(';').context("a field ends with ';'")?;
    let doc = comment.trim();
    let doc = doc
        .strip_prefix("/*")
        .and_then(|d| d.strip_suffix("*/"))
        .with_context(|| format!("field without its comment: {line}"))?
        .trim()
        .to_string();
    let words: Vec<&str> = code.split_whitespace().collect();
    ensure!(words.len() >= 2, "not a field: {line}");
    let unit = words.get(2).map(|u| u.to_lowercase()).unwrap_or_default();
    let (name, ty) = match words[0] {
        "char" => {
            let (name, n) = words[1].split_once('[').context("char needs a length")?;
            (name, Type::Bytes(n.trim_end_matches(']').parse()?))
        }
        t => (
            words[1],
            match t {
                "plumb_u8" => Type::U8,
                "plumb_u16" => Type::U16,
                "plumb_u32" => Type::U32,
                "plumb_s32" => Type::S32,
                "plumb_u64" => Type::U64,
                "plumb_s64" => Type::S64,
                "plumb_str" => Type::Str,
                "plumb_seq64" => Type::Seq64,
                other => bail!("type {other} is not one of the schema's"),
            },
        ),
    };
    ensure!(!unit.is_empty() || matches!(ty, Type::Str | Type::Bytes(_)), "field {name} has no unit");
    Ok(Field { name: name.into(), ty, unit, doc })
}

#[derive(Default)]
struct Docs {
    doc: String,
    set: String,
    tp: String,
    source: String,
    origin: String,
    since: String,
}

impl Docs {
    fn origin(&self, size: usize) -> Result<Origin> {
        match (self.origin.as_str(), size) {
            ("", 0) => Ok(Origin::Recorder),
            ("", _) => Ok(Origin::Kernel),
            ("load", 1..) => Ok(Origin::Load),
            ("program", 1..) => Ok(Origin::Program),
            (other, _) => {
                bail!("@origin {other}: only records have one, and only 'load' and 'program' are known")
            }
        }
    }

    fn since(&self) -> Result<usize> {
        let since = if self.since.is_empty() { 1 } else { self.since.parse().context("@since")? };
        ensure!(since > 0, "@since counts from 1");
        Ok(since)
    }
}

/// Parses the header's text.
pub fn parse(text: &str) -> Result<Schema> {
    let mut events: Vec<Event> = Vec::new();
    let mut docs = Docs::default();
    let mut in_doc = false;
    let mut open: Option<(String, Vec<Field>)> = None;
    let mut done: Option<(String, Vec<Field>)> = None;
    for (number, raw) in text.lines().enumerate() {
        let line = raw.trim();
        let at = || format!("event.h line {}", number + 1);
        if line == "/**" {
            in_doc = true;
            docs = Docs::default();
        } else if in_doc {
            if line == "*/" {
                in_doc = false;
                continue;
            }
            let body = line.trim_start_matches('*').trim();
            if let Some(v) = body.strip_prefix("@set ") {
                docs.set = v.into();
            } else if let Some(v) = body.strip_prefix("@tp ") {
                docs.tp = v.into();
            } else if let Some(v) = body.strip_prefix("@source ") {
                docs.source = v.into();
            } else if let Some(v) = body.strip_prefix("@origin ") {
                docs.origin = v.into();
            } else if let Some(v) = body.strip_prefix("@since ") {
                docs.since = v.into();
            } else if body.starts_with('@') {
                bail!("{}: unknown tag {body}", at());
            } else {
                if !docs.doc.is_empty() {
                    docs.doc.push(' ');
                }
                docs.doc.push_str(body);
            }
        } else if let Some((name, fields)) = &mut open {
            if line == "};" {
                done = open.take();
            } else if line == "PLUMB_HEAD;" {
                fields.extend(head_fields());
            } else if line == "PLUMB_CONT;" {
                let used: usize = fields.iter().map(|f| f.ty.size()).sum();
                ensure!(used == 40, "{}: PLUMB_CONT of {name} stands at byte {used}, not 40", at());
                fields.extend(cont_fields());
            } else {
                fields.push(parse_field(line).with_context(at)?);
            }
        } else if let Some(name) = line.strip_prefix("struct plumb_").and_then(|l| l.strip_suffix(" {")) {
            if !matches!(name, "head" | "state_head") {
                open = Some((name.into(), Vec::new()));
            }
        } else if line.starts_with("PLUMB_EVENT(") || line.starts_with("PLUMB_STATE(") {
            let args = line[12..].trim_end_matches(");");
            let args: Vec<&str> = args.split(',').map(str::trim).collect();
            let (name, fields) = done.take().with_context(at)?;
            ensure!(args[1] == name, "{}: {} closes struct plumb_{name}", at(), args[1]);
            let size = args.get(2).map_or(Ok(0), |s| s.parse())?;
            events.push(Event {
                id: args[0].parse().with_context(at)?,
                origin: docs.origin(size).with_context(at)?,
                since: docs.since().with_context(at)?,
                tracepoint: if docs.tp.is_empty() { name.clone() } else { docs.tp.clone() },
                name,
                set: std::mem::take(&mut docs.set),
                source: std::mem::take(&mut docs.source),
                doc: std::mem::take(&mut docs.doc),
                size,
                fields,
            });
            check(events.last().expect("just pushed")).with_context(at)?;
        }
    }
    ensure!(open.is_none() && done.is_none(), "event.h ends inside a struct");
    for pair in events.windows(2) {
        ensure!(pair[0].id < pair[1].id, "ids must rise: {} after {}", pair[1].name, pair[0].name);
    }
    let newest = events.iter().map(|e| e.since).max().unwrap_or(1);
    let of = |n: usize| events.iter().filter(move |e| e.since == n);
    if let Some(n) = (1..=newest).find(|n| of(*n).next().is_none()) {
        bail!("no event is of generation {n}, but there is a later one");
    }
    let hashes = (1..=newest).map(|n| hash(events.iter().filter(|e| e.since <= n))).collect();
    Ok(Schema { events, hashes })
}

fn check(event: &Event) -> Result<()> {
    ensure!(!event.doc.is_empty() && !event.set.is_empty(), "{} needs a doc and a @set", event.name);
    if event.is_state() {
        return Ok(());
    }
    ensure!(matches!(event.size, 32 | 64), "{} is not 32 or 64 bytes", event.name);
    let mut at = 0;
    for field in &event.fields {
        ensure!(field.ty.size() > 0, "{}.{}: variable in a record", event.name, field.name);
        ensure!(at % field.ty.align() == 0, "{}.{} is not aligned", event.name, field.name);
        at += field.ty.size();
    }
    ensure!(at == event.size, "{} has {at} bytes, not {}", event.name, event.size);
    let cont = event.fields.iter().any(|f| f.name == "cont_id");
    ensure!(cont == (event.size == 64), "{}: 64 bytes and PLUMB_CONT go together", event.name);
    Ok(())
}

/// FNV-1a over what a reader depends on: ids, names, types and units, not words.
fn hash<'a>(events: impl Iterator<Item = &'a Event>) -> u64 {
    let mut h = 0xcbf2_9ce4_8422_2325u64;
    let mut eat = |text: &str| {
        for b in text.bytes().chain([0]) {
            h = (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3);
        }
    };
    for e in events {
        eat(&format!("{} {} {}", e.id, e.name, e.size));
        for f in &e.fields {
            eat(&format!("{:?} {} {}", f.ty, f.name, f.unit));
        }
    }
    h
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "/**\n * Doc.\n * @set s\n */\nstruct plumb_a {\n\tPLUMB_HEAD;\n\tplumb_u64 x NS; /* x */\n\tplumb_u64 y BYTES; /* y */\n};\nPLUMB_EVENT(1, a, 32);\n";

    #[test]
    fn reads_a_struct_with_units_and_offsets() {
        let schema = parse(GOOD).expect("good");
        let e = &schema.events[0];
        assert_eq!((e.id, e.set.as_str(), e.size), (1, "s", 32));
        assert_eq!(e.offsets(), [0, 8, 10, 12, 16, 24]);
        assert_eq!(e.fields[5].unit, "bytes");
    }

    #[test]
    fn refuses_what_it_does_not_understand() {
        for (from, to, word) in [
            ("plumb_u64 x", "int x", "not one of"),
            ("plumb_u64 y BYTES", "plumb_u32 y BYTES", "28 bytes"),
            ("x NS", "x", "no unit"),
            (" * @set s\n", "", "@set"),
            ("(1, a, 32)", "(1, b, 32)", "closes"),
            ("@set s", "@set s\n * @origin nobody", "@origin"),
            ("@set s", "@set s\n * @sicne 2", "unknown tag"),
            ("@set s", "@set s\n * @since 2", "generation 1"),
        ] {
            let text = GOOD.replace(from, to);
            let err = format!("{:#}", parse(&text).err().expect(word));
            assert!(err.contains(word), "{err} should say {word}");
        }
    }

    #[test]
    fn the_hash_changes_with_layout_and_not_with_words() {
        let a = parse(GOOD).expect("good").hashes;
        assert_eq!(a, parse(&GOOD.replace("Doc.", "Other.")).expect("good").hashes);
        assert_ne!(a, parse(&GOOD.replace("x NS", "x BYTES")).expect("good").hashes);
    }

    #[test]
    fn a_new_generation_leaves_the_hashes_of_the_older_ones() {
        let later = GOOD
            .replace("@set s", "@set s\n * @origin load\n * @since 2")
            .replace("plumb_a", "plumb_b")
            .replace("(1, a,", "(2, b,");
        let one = parse(GOOD).expect("good");
        let two = parse(&format!("{GOOD}{later}")).expect("good");
        assert_eq!(two.hashes[0], one.hash());
        assert_ne!(two.hash(), one.hash());
        assert_eq!((two.events[0].origin, two.events[1].origin), (Origin::Kernel, Origin::Load));
    }

    /// The hash in the traces of tests/traces; it must stay for as long as they are to be read.
    #[test]
    fn the_first_generation_keeps_its_hash() {
        let schema = parse(include_str!("../../include/plumb/event.h")).expect("the schema");
        assert_eq!(schema.hashes[0], 0x5648_86d1_2dcf_fdbe);
    }
}
