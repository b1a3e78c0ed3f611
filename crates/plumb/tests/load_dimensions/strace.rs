// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads what `strace -f -y` wrote: one call a line, those that another thread
//! interrupted in two.

use std::collections::HashMap;

/// A system call, in the order in which the calls began.
#[derive(Debug, Clone, PartialEq)]
pub struct Call {
    pub tid: u32,
    pub name: String,
    /// Its arguments as strace writes them.
    pub args: Vec<String>,
    /// What it returned; `None` when the thread ended in it.
    pub result: Option<i64>,
}

impl Call {
    /// An argument as a number, decimal or hexadecimal; what follows it is left out.
    pub fn number(&self, arg: usize) -> i64 {
        let text = self.args.get(arg).unwrap_or_else(|| panic!("{self:?} has no argument {arg}"));
        integer(text).unwrap_or_else(|| panic!("{text} is no number: {self:?}"))
    }

    /// The path of the descriptor that is argument `arg`; empty when it is none.
    pub fn path(&self, arg: usize) -> &str {
        let text = self.args.get(arg).map_or("", String::as_str);
        text.split_once('<').and_then(|(_, rest)| rest.strip_suffix('>')).unwrap_or("")
    }

    /// Whether an argument contains the word between separators.
    pub fn has(&self, word: &str) -> bool {
        let inside = |c: char| !(c.is_alphanumeric() || c == '_');
        self.args.iter().any(|a| a.split(inside).any(|w| w == word))
    }
}

fn integer(text: &str) -> Option<i64> {
    if let Some(hex) = text.strip_prefix("0x") {
        let end = hex.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(hex.len());
        return i64::from_str_radix(&hex[..end], 16).ok();
    }
    let end = text[1.min(text.len())..].find(|c: char| !c.is_ascii_digit()).map_or(text.len(), |i| i + 1);
    text[..end].parse().ok()
}

/// All calls of a file that strace wrote.
pub fn parse(text: &str) -> Vec<Call> {
    let mut calls: Vec<Call> = Vec::new();
    // Of each thread the call that was interrupted, and its text so far.
    let mut open: HashMap<u32, (usize, String)> = HashMap::new();
    for line in text.lines() {
        let Some((tid, rest)) = line.split_once(' ') else { continue };
        let (Ok(tid), rest) = (tid.parse(), rest.trim_start()) else { panic!("no thread: {line}") };
        if rest.starts_with("+++") || rest.starts_with("---") {
            continue;
        }
        if let Some(begun) = rest.strip_suffix("<unfinished ...>") {
            let name = begun.split('(').next().unwrap_or_default().to_string();
            open.insert(tid, (calls.len(), begun.trim_end().to_string()));
            calls.push(Call { tid, name, args: Vec::new(), result: None });
            continue;
        }
        if let Some(resumed) = rest.strip_prefix("<... ") {
            let Some((at, begun)) = open.remove(&tid) else { panic!("nothing was interrupted: {line}") };
            let end = resumed.split_once("resumed>").map_or("", |(_, end)| end);
            calls[at] = whole(tid, &format!("{begun}{end}")).unwrap_or_else(|| panic!("{line}"));
            continue;
        }
        calls.extend(whole(tid, rest));
    }
    calls
}

/// `name(args) = result ...`.
fn whole(tid: u32, text: &str) -> Option<Call> {
    let (name, rest) = text.split_once('(')?;
    let (args, end) = arguments(rest);
    let result = end.trim_start().strip_prefix('=').and_then(|r| integer(r.trim_start()));
    Some(Call { tid, name: name.to_string(), args, result })
}

/// The arguments up to the closing bracket, and what follows that.
fn arguments(text: &str) -> (Vec<String>, &str) {
    let (mut args, mut one) = (Vec::new(), String::new());
    let (mut depth, mut quoted, mut escaped, mut path) = (0, false, false, false);
    for (i, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' if !path => quoted = !quoted,
            _ if quoted => {}
            // A path behind a descriptor; brackets of a shift (1<<2) do not occur.
            '<' => path = true,
            '>' => path = false,
            _ if path => {}
            '[' | '{' | '(' => depth += 1,
            ')' if depth == 0 => {
                if !one.trim().is_empty() {
                    args.push(one.trim().to_string());
                }
                return (args, &text[i + 1..]);
            }
            ']' | '}' | ')' => depth -= 1,
            ',' if depth == 0 => {
                args.push(std::mem::take(&mut one).trim().to_string());
                continue;
            }
            _ => {}
        }
        one.push(c);
    }
    (args, "")
}

#[test]
fn lines_become_calls() {
    let text = "7 pwrite64(4</d/data.0.0>, \"a\\\",(\"..., 4096, 8192) = 4096\n\
                7 fsync(4</d/data.0.0> <unfinished ...>\n\
                8 writev(5</d/x>, [{iov_base=\"a, b\", iov_len=3}, {iov_base=\"c\", iov_len=1}], 2) = 4\n\
                7 <... fsync resumed>)              = -1 EIO (Input/output error)\n\
                8 mmap(NULL, 10, PROT_READ|PROT_WRITE, MAP_SHARED, 4</d/y>, 0) = 0x7f00\n\
                8 sync()                            = 0\n\
                8 exit_group(0)                     = ?\n\
                8 +++ exited with 0 +++\n";
    let calls = parse(text);
    let told: Vec<_> = calls.iter().map(|c| (c.tid, c.name.as_str(), c.args.len(), c.result)).collect();
    let expected = [
        (7, "pwrite64", 4, Some(4096)),
        (7, "fsync", 1, Some(-1)),
        (8, "writev", 3, Some(4)),
        (8, "mmap", 6, Some(0x7f00)),
        (8, "sync", 0, Some(0)),
        (8, "exit_group", 1, None),
    ];
    assert_eq!(told, expected);
    assert_eq!((calls[0].path(0), calls[0].number(3)), ("/d/data.0.0", 8192));
    assert!(calls[3].has("PROT_WRITE") && calls[3].has("MAP_SHARED") && !calls[3].has("PROT"));
}
