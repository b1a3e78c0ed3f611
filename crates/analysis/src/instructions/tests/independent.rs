// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Another disassembler says the same.

use super::super::disassembly::{Code, Names};
use std::process::Command;

/// One instruction as objdump shows it.
pub struct Shown {
    pub address: u64,
    pub bytes: Vec<u8>,
    pub text: String,
}

/// Takes a part of a file apart; `None` with a word why when objdump is not there.
pub fn objdump(file: &str, more: &[&str]) -> Option<Vec<Shown>> {
    let run = Command::new("objdump").args(["-d", "--insn-width=16"]).args(more).arg(file).output();
    let Ok(run) = run else {
        println!("SKIP objdump: it is not installed");
        return None;
    };
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    let text = String::from_utf8_lossy(&run.stdout).into_owned();
    let line = |l: &str| {
        let mut parts = l.split('\t');
        let address = u64::from_str_radix(parts.next()?.trim().strip_suffix(':')?, 16).ok()?;
        let bytes = parts.next()?.split_whitespace().map(|b| u8::from_str_radix(b, 16));
        Some(Shown {
            address,
            bytes: bytes.collect::<Result<_, _>>().ok()?,
            text: parts.next().unwrap_or("").trim().to_string(),
        })
    };
    Some(text.lines().filter_map(line).collect())
}

/// Both texts brought to one: without comments, names, and what one of them leaves out because it
/// goes without saying (a string's segments, zero displacements, an operand size of the stack, a
/// scale or shift of one, the padding's prefixes).
fn normal(text: &str) -> String {
    let text = text.split(" # ").next().unwrap_or(text);
    let mut text = text.split('<').next().unwrap_or(text).trim().to_string();
    for (from, to) in
        [("%es:(%rdi)", "(%rdi)"), ("%ds:(%rsi)", "(%rsi)"), ("data16 ", ""), ("cs nop", "nop"), (",1)", ")")]
    {
        text = text.replace(from, to);
    }
    for from in [" 0x0(", ",0x0("] {
        text = text.replace(from, &format!("{}(", &from[..1]));
    }
    text = text.replace(":0x0(", ":(");
    let (name, operands) = text.split_once(' ').unwrap_or((&text, ""));
    let name = match name {
        "callq" | "jmpq" | "pushq" | "popq" | "retq" => &name[..name.len() - 1],
        name => name,
    };
    let operands = operands.trim();
    let operands = match name {
        "sar" | "shr" | "shl" | "rol" | "ror" | "shlq" | "sarl" | "shrl" | "shll" => {
            operands.strip_prefix("$0x1,").unwrap_or(operands)
        }
        _ if name.starts_with('j') || name == "call" => operands.strip_prefix("0x").unwrap_or(operands),
        "imul" => match operands.rsplit(',').collect::<Vec<_>>()[..] {
            [to, from, _] if to == from => &operands[..operands.len() - to.len() - 1],
            _ => operands,
        },
        // The x87 stack's top goes without saying.
        _ if name.starts_with('f') && operands.starts_with("%st") => "",
        _ => operands,
    };
    format!("{name} {}", operands.replace(' ', ""))
}

#[test]
fn thousands_of_instructions_of_libc_are_read_as_objdump_reads_them() {
    if !cfg!(target_arch = "x86_64") {
        println!("SKIP libc: only x86-64 code is taken apart");
        return;
    }
    let maps = std::fs::read_to_string("/proc/self/maps").expect("maps");
    let Some(libc) = maps.split_whitespace().find(|w| w.contains("/libc.so") || w.contains("/libc-2")) else {
        println!("SKIP libc: none is loaded");
        return;
    };
    let start = Command::new("objdump").args(["-h", "-j", ".text", libc]).output();
    let Ok(head) = start else {
        println!("SKIP libc: objdump is not installed");
        return;
    };
    let head = String::from_utf8_lossy(&head.stdout).into_owned();
    let vma = head.lines().find(|l| l.contains(".text")).and_then(|l| l.split_whitespace().nth(3));
    let begin = u64::from_str_radix(vma.expect(".text"), 16).expect("an address");
    let end = begin + 0x10000;
    let range = [format!("--start-address={begin:#x}"), format!("--stop-address={end:#x}")];
    let Some(mut theirs) = objdump(libc, &["-j", ".text", &range[0], &range[1]]) else { return };
    // The range may end inside an instruction.
    theirs.truncate(theirs.len() - 16);
    assert!(theirs.len() > 10_000, "{}", theirs.len());
    let bytes: Vec<u8> = theirs.iter().flat_map(|s| s.bytes.iter().copied()).collect();
    let code = Code::new(&bytes, begin, "x86_64", &Names::new());
    let mut differ = Vec::new();
    for t in &theirs {
        let i = code.at(t.address - begin).expect("an instruction");
        let ours = &code.instructions[i];
        let mut text = ours.text.clone();
        if let Some(at) = text.find(" +0x") {
            let offset = u64::from_str_radix(&text[at + 4..], 16).expect("hex");
            text = format!("{} {:x}", &text[..at], begin + offset);
        }
        let same = ours.offset == t.address - begin && normal(&text) == normal(&t.text);
        if !same {
            differ.push(format!("{:x}: {} | {}", t.address, text, t.text));
        }
    }
    for d in &differ {
        println!("{d}");
    }
    assert!(differ.is_empty(), "{} of {} differ", differ.len(), theirs.len());
    assert_eq!(code.instructions.len(), theirs.len());
}
