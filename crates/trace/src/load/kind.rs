// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The kinds of operations.

/// What a workload's operation does, as a user of the file system names it.
///
/// The numbers stand in traces (`load_begin.kind`): they are append-only and
/// never get a second meaning. There is no other list of kinds in the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum OperationKind {
    /// Writes a place for the first time.
    Write = 0,
    /// Writes a place that was written before.
    Rewrite = 1,
    /// Reads a place for the first time.
    Read = 2,
    /// Reads a place that was read before.
    Reread = 3,
    /// Makes written data last: fsync, fdatasync, sync_file_range, msync.
    Sync = 4,
    /// Makes a file or directory.
    Create = 5,
    /// Opens a file that exists.
    Open = 6,
    /// Asks for attributes: stat, statx.
    Stat = 7,
    /// Renames a file or directory.
    Rename = 8,
    /// Removes a file or directory.
    Unlink = 9,
    /// Takes or gives back a lock on a file.
    Lock = 10,
    /// Closes a file.
    Close = 11,
    /// Copies inside the kernel: copy_file_range, sendfile, splice.
    Copy = 12,
    /// Anything else.
    Other = 13,
    /// Asks a server, and reads its answer.
    Request = 14,
    /// Answers a request.
    Serve = 15,
}

impl OperationKind {
    const ALL: [OperationKind; 16] = [
        OperationKind::Write,
        OperationKind::Rewrite,
        OperationKind::Read,
        OperationKind::Reread,
        OperationKind::Sync,
        OperationKind::Create,
        OperationKind::Open,
        OperationKind::Stat,
        OperationKind::Rename,
        OperationKind::Unlink,
        OperationKind::Lock,
        OperationKind::Close,
        OperationKind::Copy,
        OperationKind::Other,
        OperationKind::Request,
        OperationKind::Serve,
    ];

    /// How many kinds there are.
    pub const COUNT: usize = Self::ALL.len();

    /// Every kind, in the order of the numbers.
    pub fn all() -> impl ExactSizeIterator<Item = OperationKind> {
        Self::ALL.into_iter()
    }

    /// The kind of a number in a trace; `None` for one that this version does not know.
    pub fn from_number(number: u8) -> Option<OperationKind> {
        Self::ALL.get(usize::from(number)).copied()
    }

    /// The kind of a word.
    pub fn from_word(word: &str) -> Option<OperationKind> {
        Self::all().find(|kind| kind.word() == word)
    }

    /// Its number, 0 to [`Self::COUNT`] - 1; usable as an index.
    pub const fn number(self) -> u8 {
        self as u8
    }

    /// The word for it in results, options and tables.
    pub const fn word(self) -> &'static str {
        match self {
            OperationKind::Write => "write",
            OperationKind::Rewrite => "rewrite",
            OperationKind::Read => "read",
            OperationKind::Reread => "reread",
            OperationKind::Sync => "sync",
            OperationKind::Create => "create",
            OperationKind::Open => "open",
            OperationKind::Stat => "stat",
            OperationKind::Rename => "rename",
            OperationKind::Unlink => "unlink",
            OperationKind::Lock => "lock",
            OperationKind::Close => "close",
            OperationKind::Copy => "copy",
            OperationKind::Other => "other",
            OperationKind::Request => "request",
            OperationKind::Serve => "serve",
        }
    }
}

impl std::fmt::Display for OperationKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.word())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_words_lead_back_to_their_kind() {
        for (i, kind) in OperationKind::all().enumerate() {
            assert_eq!(usize::from(kind.number()), i);
            assert_eq!(OperationKind::from_number(kind.number()), Some(kind));
            assert_eq!(OperationKind::from_word(kind.word()), Some(kind));
        }
        assert_eq!(OperationKind::from_number(OperationKind::COUNT as u8), None);
        assert_eq!(OperationKind::from_word("frobnicate"), None);
    }

    #[test]
    fn the_schema_tells_the_same_words() {
        let event = crate::event_by_name("load_begin").expect("in the schema");
        let field = event.fields.iter().find(|f| f.name == "kind").expect("kind");
        let words: Vec<String> =
            OperationKind::all().map(|k| format!("{} {}", k.number(), k.word())).collect();
        assert_eq!(field.doc, words.join(", "));
    }
}
