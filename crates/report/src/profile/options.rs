// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is asked for of a profile.

use std::path::PathBuf;

/// What the rows of a flat table are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum By {
    /// The innermost function.
    Function,
    Process,
    Thread,
    /// CPU that it was sampled on; waits have none.
    Cpu,
    /// Category of the account.
    Category,
    /// Program, library or kernel that the innermost function is of.
    Module,
    /// Source line of the innermost function.
    Line,
    /// Category and who caused it.
    Cause,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum View {
    Flat(By),
    /// How many functions have 50, 80, 90 ... % of the time.
    Coverage,
    /// The call tree from its roots inward.
    Tree,
    /// By category, cause, functions.
    Account,
    /// Who calls a function.
    Callers(String),
    /// What a function calls.
    Callees(String),
    /// A function's instructions.
    Annotate {
        function: String,
        /// Every instruction; else only those near the time.
        all: bool,
        /// A directory in which to look for source files too.
        source: Option<PathBuf>,
    },
}

/// Which part of the time is shown, and how. The default is all of it, function by function.
#[derive(Debug, Clone)]
pub struct Options {
    pub on_cpu: bool,
    pub off_cpu: bool,
    /// Categories, or what stands in front of the point in theirs.
    pub category: Vec<String>,
    /// From the trace's begin, ns.
    pub from: Option<u64>,
    pub to: Option<u64>,
    pub comm: Vec<String>,
    pub pid: Vec<u32>,
    pub tid: Vec<u32>,
    pub cpu: Vec<u32>,
    pub view: View,
    /// Of two profiles: the first's times are scaled to the second's whole.
    pub normalize: bool,
    /// Inlined functions count as part of the function that they were put into.
    pub no_inline: bool,
    /// Rows of a table, 0 all; `None`: as many as suit the form.
    pub limit: Option<usize>,
    /// Smallest share of a tree's branch; `None`: what suits the form.
    pub min: Option<f64>,
    /// Levels of a tree, 0 all.
    pub depth: usize,
    pub json: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            on_cpu: false,
            off_cpu: false,
            category: Vec::new(),
            from: None,
            to: None,
            comm: Vec::new(),
            pid: Vec::new(),
            tid: Vec::new(),
            cpu: Vec::new(),
            view: View::Flat(By::Function),
            normalize: false,
            no_inline: false,
            limit: None,
            min: None,
            depth: 0,
            json: false,
        }
    }
}
