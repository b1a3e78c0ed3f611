// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Names of frames, read from files' symbol tables in the plainest way.

use crate::user::elf::Elf;
use crate::user::{Kind, Modules, UserStack};
use object::{Object, ObjectSymbol, SymbolKind};
use std::os::unix::fs::FileExt;

/// Each frame's function: its name; `[jit]`, `[vdso]`, `[nothing]`; `?` where no symbol is.
pub fn names(modules: &Modules, stack: &UserStack) -> Vec<String> {
    let place = |(i, &(module, offset)): (usize, &(u32, u64))| {
        let module = modules.get(module).expect("a module of that number");
        match module.kind {
            Kind::Jit => "[jit]".into(),
            Kind::Vdso => "[vdso]".into(),
            Kind::Nothing => "[nothing]".into(),
            Kind::Python => module.functions[offset as usize - 1].0.clone(),
            Kind::File => function(module.file.as_deref(), offset - u64::from(i > 0)).unwrap_or("?".into()),
        }
    };
    stack.frames.iter().enumerate().map(place).collect()
}

fn function(file: Option<&std::fs::File>, offset: u64) -> Option<String> {
    let file = file?;
    let mut bytes = vec![0; file.metadata().ok()?.len() as usize];
    file.read_exact_at(&mut bytes, 0).ok()?;
    let address = Elf::head(&*bytes)?.address(offset)?;
    let object = object::File::parse(&*bytes).ok()?;
    let symbols = object.symbols().chain(object.dynamic_symbols());
    let mut at: Vec<_> = symbols
        .filter(|s| s.kind() == SymbolKind::Text && s.is_definition() && s.address() <= address)
        .filter(|s| address < s.address() + s.size().max(1))
        .collect();
    at.sort_by_key(|s| s.address());
    let name = at.last()?.name().ok()?;
    Some(format!("{:#}", rustc_demangle::demangle(name)))
}

/// Whether the names stand there one after the other.
pub fn has(names: &[String], chain: &[&str]) -> bool {
    names.windows(chain.len()).any(|w| w.iter().zip(chain).all(|(a, b)| a == b))
}
