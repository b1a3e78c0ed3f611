// SPDX-License-Identifier: Apache-2.0 OR MIT
//! CPython: which processes have an interpreter, what function a code object is, and where functions of Python
//! belong in a stack of C. Their frames lie on the heap: bpf/python.bpf.h reads them when a stack is taken, here
//! their code objects get names while the process lives.
//!
//! Offsets are those of Include/cpython/ and Include/internal/ of each version for machines of 64 bits.

use super::elf::{symbols, Elf};
use super::{Kind, Modules, UserStack};
use crate::skel::types::plumb_python;
use object::ReadCache;
use std::collections::HashMap;
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::mpsc::{channel, Receiver, Sender};
use std::time::Duration;

/// Code objects that are remembered; with more, all are forgotten and read again: a program may make the same for ever.
const MOST: usize = 65_536;
/// Characters of a name or a path.
const LONGEST: u64 = 512;
/// A process's memory is waited for so long: a page of it may be a file that another process serves.
const PATIENCE: Duration = Duration::from_millis(100);
/// PLUMB_PYTHON_ENTRY: the frame's function was called from C.
const ENTRY: u64 = 1;
/// PLUMB_PYTHON_ADDRESS, PLUMB_PYTHON_LENGTH, PLUMB_PYTHON_HASH, PLUMB_PYTHON_MIX.
const ADDRESS: u32 = 48;
const TEXT_LENGTH: u64 = 16;
const TEXT_HASH: u64 = 24;
const MIX: u64 = 0x9e37_79b9_7f4a_7c15;

/// Where a version keeps what; see `struct plumb_python`.
struct Version {
    minor: u32,
    /// _PyRuntimeState.interpreters.main
    main: u64,
    threads: u16,
    thread_id: u16,
    frame: u16,
    indirect: u16,
    back: u16,
    code: u16,
    entry: u16,
    /// enum plumb_python_entry
    kind: u16,
    /// PyCodeObject: co_filename, behind which co_name lies; co_qualname (or co_name), co_firstlineno
    filename: usize,
    name: usize,
    line: usize,
    /// sizeof(PyASCIIObject), sizeof(PyCompactUnicodeObject)
    text: [u64; 2],
}

const EACH: Version = Version {
    minor: 8,
    main: 40,
    threads: 8,
    thread_id: 176,
    frame: 24,
    indirect: 0,
    back: 24,
    code: 32,
    entry: 0,
    kind: 0,
    filename: 104,
    name: 112,
    line: 40,
    text: [48, 72],
};

const VERSIONS: [Version; 6] = [
    EACH,
    Version { minor: 9, ..EACH },
    Version { minor: 10, ..EACH },
    Version {
        minor: 11,
        main: 48,
        threads: 16,
        thread_id: 152,
        frame: 56,
        indirect: 8 + 1,
        back: 48,
        entry: 68,
        kind: 1,
        filename: 112,
        name: 128,
        line: 72,
        ..EACH
    },
    Version { minor: 12, main: 48, threads: 72, thread_id: 136, frame: 56, indirect: 1, ..LATEST },
    LATEST,
];

const LATEST: Version = Version {
    minor: 13,
    main: 640,
    threads: 7344,
    thread_id: 152,
    frame: 72,
    indirect: 0,
    back: 8,
    code: 0,
    entry: 70,
    kind: 2,
    filename: 112,
    name: 128,
    line: 68,
    text: [40, 56],
};

/// The interpreter in a program or library.
#[derive(Debug)]
struct Interpreter {
    version: usize,
    /// Address of the main interpreter's pointer, less the mapping's shift.
    main: u64,
    /// Where the function lies that runs those of Python, by offset in the file.
    eval: Vec<Range<u64>>,
}

/// A process with an interpreter.
#[derive(Debug, Default)]
struct Process {
    version: usize,
    /// The place of each code object, by its address and what tells it from others that had its memory.
    functions: HashMap<u64, Option<(u32, u64)>>,
}

#[derive(Debug, Default)]
pub(super) struct Pythons {
    /// By module.
    interpreters: HashMap<u32, Interpreter>,
    /// Those that were told of.
    processes: HashMap<u32, Process>,
    /// Processes of which the programs must be told, or that ended.
    news: Vec<(u32, Option<plumb_python>)>,
    /// Code objects of all processes that are remembered.
    known: usize,
    reader: Option<Reader>,
    /// The process whose memory did not answer: nobody's is read any more.
    silent: Option<u32>,
}

/// What the memory of a code object tells.
#[derive(Debug, PartialEq)]
enum Told {
    /// File, name and first line.
    Function(String, String, u32),
    /// Another object has the memory by now.
    Gone,
    /// It cannot be read, or has no name.
    Nothing,
}

/// Reads processes' memory in a thread of its own, which may come to wait for ever.
#[derive(Debug)]
struct Reader {
    ask: Sender<(u32, u64, usize)>,
    answer: Receiver<Told>,
}

impl Reader {
    fn start() -> Option<Self> {
        let (ask, asked) = channel::<(u32, u64, usize)>();
        let (say, answer) = channel();
        let answers = move || {
            for (pid, code, version) in asked {
                if say.send(read(pid, code, &VERSIONS[version]).unwrap_or(Told::Nothing)).is_err() {
                    return;
                }
            }
        };
        std::thread::Builder::new().name("python-names".into()).spawn(answers).ok()?;
        Some(Self { ask, answer })
    }

    /// None where it does not answer in time.
    fn function(&self, pid: u32, code: u64, version: usize) -> Option<Told> {
        self.ask.send((pid, code, version)).ok()?;
        self.answer.recv_timeout(PATIENCE).ok()
    }
}

/// The minor version that a path states: `/usr/bin/python3.11`, `libpython3.12.so.1.0`.
fn minor(path: &str) -> Option<u32> {
    let name = path.strip_suffix(" (deleted)").unwrap_or(path).rsplit('/').next()?;
    let rest = name.strip_prefix("lib").unwrap_or(name).strip_prefix("python3.")?;
    let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    // What follows the version of a free-threaded or debug build is another layout's: python3.13t, python3.11d.
    (rest[end..].is_empty() || rest[end..].starts_with(".so")).then_some(())?;
    rest[..end].parse().ok()
}

impl Interpreter {
    fn of(path: &str, file: &File) -> Option<Self> {
        let minor = minor(path)?;
        let version = VERSIONS.iter().position(|v| v.minor == minor)?;
        let cache = ReadCache::new(file);
        let elf = Elf::head(&cache)?;
        let names = ["_PyRuntime", "_PyEval_EvalFrameDefault", "_PyEval_EvalFrameDefault.cold"];
        let [runtime, eval, cold]: [Option<Range<u64>>; 3] = symbols(&cache, &names).try_into().ok()?;
        let (runtime, eval) = (runtime?, eval?);
        let begin = elf.offset(eval.start)?;
        let place = |at: &Range<u64>| {
            elf.offset(at.start).map(|begin| begin..begin.saturating_add(at.end - at.start))
        };
        Some(Self {
            version,
            main: (runtime.start.wrapping_add(VERSIONS[version].main))
                .wrapping_add(begin)
                .wrapping_sub(eval.start),
            eval: [Some(eval), cold].iter().flatten().filter_map(place).collect(),
        })
    }
}

impl Pythons {
    /// A program or library was opened.
    pub fn opened(&mut self, module: u32, path: &str, file: Option<&File>) {
        if let Some(found) = file.and_then(|file| Interpreter::of(path, file)) {
            self.interpreters.insert(module, found);
        }
    }

    /// A stack of a process leads through a module that is mapped with this difference between addresses and offsets.
    pub fn met(&mut self, pid: u32, module: u32, shift: u64) {
        if self.interpreters.is_empty() || self.processes.contains_key(&pid) {
            return;
        }
        let Some(i) = self.interpreters.get(&module) else { return };
        let v = &VERSIONS[i.version];
        let tell = plumb_python {
            interpreter: shift.wrapping_add(i.main),
            threads: v.threads,
            next: 8,
            thread_id: v.thread_id,
            frame: v.frame,
            indirect: v.indirect,
            back: v.back,
            code: v.code,
            entry: v.entry,
            kind: v.kind,
            line: v.line as u16,
            filename: v.filename as u16,
            unused: 0,
        };
        self.processes.insert(pid, Process { version: i.version, functions: HashMap::new() });
        self.news.push((pid, Some(tell)));
    }

    /// A process ended, or runs another program.
    pub fn ended(&mut self, pid: u32) {
        if let Some(process) = self.processes.remove(&pid) {
            self.known -= process.functions.len();
            self.news.push((pid, None));
        }
    }

    /// What is missing, a sentence.
    pub fn lacking(&self) -> Option<String> {
        let pid = self.silent?;
        Some(format!(
            "The memory of process {pid} could not be read within {} ms: functions of Python have no names from then on.",
            PATIENCE.as_millis()
        ))
    }

    /// What the programs must be told since the last call.
    pub fn news(&mut self) -> Vec<(u32, Option<plumb_python>)> {
        std::mem::take(&mut self.news)
    }

    /// Puts the functions of Python in the place of the interpreter's own. `codes`: code objects as they come from
    /// the programs, innermost first.
    pub fn merge(&mut self, pid: u32, native: UserStack, codes: &[u64], modules: &mut Modules) -> UserStack {
        if !self.processes.contains_key(&pid) {
            return native;
        }
        let mut calls: Vec<Vec<(u32, u64)>> = vec![Vec::new()];
        for &code in codes {
            if code & !ENTRY != 0 {
                let place = self.function(pid, code & !ENTRY, modules);
                let last = calls.last_mut().expect("there is one");
                // Of one that has no name the place in the stack is kept.
                last.extend(place);
            }
            if code & ENTRY != 0 {
                calls.push(Vec::new());
            }
        }
        let mut calls = calls.into_iter();
        let mut frames = Vec::with_capacity(native.frames.len() + codes.len());
        let mut placed = false;
        for (i, &(module, offset)) in native.frames.iter().enumerate() {
            let inside = offset.saturating_sub(u64::from(i > 0));
            let runs = self
                .interpreters
                .get(&module)
                .is_some_and(|it| it.eval.iter().any(|range| range.contains(&inside)));
            let call = if runs { calls.next() } else { None }.filter(|call| !call.is_empty());
            // Code that the interpreter made to call it is the same function again, for a perf map (-X perf).
            let again = placed && modules.get(module).is_some_and(|m| m.kind == Kind::Jit);
            placed = call.is_some();
            match call {
                Some(call) => frames.extend(call),
                None if again => {}
                None => frames.push((module, offset)),
            }
        }
        // Where the stack of C could not be walked to its end, that of Python is known all the same.
        if native.end != super::End::Root {
            frames.extend(calls.flatten());
        }
        UserStack { frames, end: native.end }
    }

    /// The place of a code object; none where it cannot be read.
    fn function(&mut self, pid: u32, code: u64, modules: &mut Modules) -> Option<(u32, u64)> {
        if let Some(known) = self.processes.get(&pid)?.functions.get(&code) {
            return *known;
        }
        if self.silent.is_some() {
            return None;
        }
        if self.known >= MOST {
            self.processes.values_mut().for_each(|p| p.functions = HashMap::new());
            self.known = 0;
        }
        if self.reader.is_none() {
            self.reader = Reader::start();
        }
        let process = self.processes.get_mut(&pid)?;
        let Some(found) = self.reader.as_ref().and_then(|r| r.function(pid, code, process.version)) else {
            self.silent = Some(pid);
            return None;
        };
        let place = match found {
            Told::Function(path, name, line) => modules.python(&path, &name, line),
            // It may come again as it was.
            Told::Gone => return None,
            Told::Nothing => None,
        };
        process.functions.insert(code, place);
        self.known += 1;
        place
    }
}

/// What a code object's address has above it in a stack (python_code() in bpf/python.bpf.h).
fn mark(line: u32, words: [u64; 4]) -> u64 {
    words.iter().fold(u64::from(line).wrapping_mul(MIX), |hash, word| (hash ^ word).wrapping_mul(MIX))
        >> ADDRESS
}

/// The function of a code object as it came from the programs.
fn read(pid: u32, code: u64, v: &Version) -> Option<Told> {
    let (code, marked) = (code & ((1 << ADDRESS) - 1), code >> ADDRESS);
    let memory = File::open(format!("/proc/{pid}/mem")).ok()?;
    let mut object = [0; 160];
    memory.read_exact_at(&mut object, code).ok()?;
    let word = |at: usize| Some(u64::from_le_bytes(object.get(at..at + 8)?.try_into().ok()?));
    let line = u32::from_le_bytes(object.get(v.line..v.line + 4)?.try_into().ok()?);
    let there = |at: u64| {
        let mut word = [0; 8];
        memory.read_exact_at(&mut word, at).ok().map(|()| u64::from_le_bytes(word))
    };
    let (filename, short) = (word(v.filename)?, word(v.filename + 8)?);
    let words =
        [filename, there(filename.wrapping_add(TEXT_LENGTH))?, short, there(short.wrapping_add(TEXT_HASH))?];
    if mark(line, words) != marked {
        return Some(Told::Gone);
    }
    let path = text(&memory, filename, v)?;
    let name = text(&memory, word(v.name)?, v)?;
    (!name.is_empty()).then_some(Told::Function(path, name, line))
}

/// A string of Python (PEP 393), compact as all names are.
fn text(memory: &File, at: u64, v: &Version) -> Option<String> {
    let mut head = [0; 40];
    memory.read_exact_at(&mut head, at).ok()?;
    let length = u64::from_le_bytes(head[16..24].try_into().ok()?);
    let state = u32::from_le_bytes(head[32..36].try_into().ok()?);
    let (kind, compact, ascii) = ((state >> 2) & 7, (state >> 5) & 1, (state >> 6) & 1);
    if length > LONGEST || compact == 0 || !matches!(kind, 1 | 2 | 4) {
        return None;
    }
    let mut bytes = vec![0; (length * u64::from(kind)) as usize];
    memory.read_exact_at(&mut bytes, at + v.text[usize::from(ascii == 0)]).ok()?;
    let unit = |c: &[u8]| c.iter().rev().fold(0, |sum, b| sum << 8 | u32::from(*b));
    // Anybody may name a file: a line's end in it would be one name more.
    let plain = |c: char| if c.is_control() { '?' } else { c };
    bytes.chunks_exact(kind as usize).map(|c| char::from_u32(unit(c)).map(plain)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::user::End;

    #[test]
    fn a_version_is_known_by_its_file() {
        assert_eq!(minor("/usr/bin/python3.11"), Some(11));
        assert_eq!(minor("/opt/lib/libpython3.9.so.1.0"), Some(9));
        assert_eq!(minor("/usr/bin/python3.12 (deleted)"), Some(12));
        for other in [
            "/usr/bin/python3",
            "/usr/bin/python2.7",
            "/usr/bin/python3.13t",
            "/lib/libpython3.11d.so",
            "python3.x",
        ] {
            assert_eq!(minor(other), None, "{other}");
        }
    }

    #[test]
    fn functions_of_python_stand_where_the_interpreter_ran_them() {
        let mut pythons = Pythons::default();
        pythons
            .interpreters
            .insert(3, Interpreter { version: 3, main: 0, eval: vec![0x100..0x180, 0x180..0x200] });
        pythons.processes.insert(7, Process { version: 3, functions: HashMap::new() });
        let mut modules = Modules::default();
        for (code, name) in [(0x10, "inner"), (0x20, "middle"), (0x30, "outer")] {
            let place = modules.python("/app.py", name, 5).expect("there is room");
            pythons.processes.get_mut(&7).expect("it").functions.insert(code, Some(place));
            pythons.known += 1;
        }
        let native = |end| UserStack {
            // A function of C, eval, a function of C, and eval's last instruction was a call.
            frames: vec![(9, 0x1), (3, 0x150), (4, 0x2), (3, 0x200), (5, 0x3)],
            end,
        };
        let merged = pythons.merge(7, native(End::Root), &[0x10, 0x20 | ENTRY, 0x30], &mut modules);
        let python = |n| (1, n);
        assert_eq!(merged.frames, [(9, 1), python(1), python(2), (4, 2), python(3), (5, 3)]);
        // An entry that stands alone, as versions with shims have it.
        let same = pythons.merge(7, native(End::Root), &[0x10, 0x20, ENTRY, 0x30, ENTRY], &mut modules);
        assert_eq!(same, merged);
        // More of Python than of C: the copy of the stack ended.
        let short = UserStack { frames: vec![(3, 0x150)], end: End::Copy };
        let merged = pythons.merge(7, short, &[0x10 | ENTRY, 0x20 | ENTRY, 0x30], &mut modules);
        assert_eq!(merged.frames, [python(1), python(2), python(3)]);
        // A trampoline for a perf map is the function once more.
        let jit = modules.jit(7);
        let mut mapped = native(End::Root);
        mapped.frames.insert(2, (jit, 0x40));
        assert_eq!(pythons.merge(7, mapped, &[0x10, 0x20 | ENTRY, 0x30], &mut modules), same);
        // Of another process nothing is known.
        assert_eq!(pythons.merge(8, native(End::Root), &[0x10], &mut modules), native(End::Root));
        // More code than is remembered: that of a process that is not has no name.
        pythons.known = MOST;
        let nobody = u32::MAX;
        pythons.processes.insert(nobody, Process { version: 3, functions: HashMap::new() });
        assert_eq!(pythons.merge(nobody, native(End::Root), &[0x70], &mut modules), native(End::Root));
        assert_eq!(pythons.processes[&7].functions.len(), 0);
        pythons.ended(nobody);
        pythons.ended(7);
        assert_eq!(pythons.known, 0);
        assert_eq!(pythons.merge(7, native(End::Root), &[0x10], &mut modules), native(End::Root));
    }
}
