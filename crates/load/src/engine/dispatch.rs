// SPDX-License-Identifier: Apache-2.0 OR MIT
//! From a job to the engine's type, in one place; the loop around an engine
//! is compiled for each.

use super::{
    copy, io_uring, libaio, BlockingServer, Char, CopyFileRange, DatagramServer, Engine, EngineError,
    EpollEdgeServer, EpollExclusiveServer, EpollServer, EventRequests, IoUringFixed, IoUringPlain,
    IoUringSqpoll, Libaio, Locks, Mmap, NameCalls, Null, PollServer, PosixAio, Pwrite, Pwritev2, Requests,
    RingServer, SelectServer, Sendfile, Sql, Stdio, Write, Writev, UDP,
};
use crate::job::{Job, Multiplex, Through, What};

/// Something that is done with the type of an engine.
pub trait Visitor {
    /// What comes of it.
    type Out;

    /// Does it.
    fn visit<E: Engine>(self) -> Self::Out;
}

/// Does it with the job's engine: null where nothing shall be called, that of
/// names, locks, requests or answers where the job is about them, and else what `through` says.
pub fn choose<V: Visitor>(job: &Job, visitor: V) -> V::Out {
    match (job.through, job.what) {
        (Through::Null, _) => visitor.visit::<Null>(),
        (_, What::LockAndUpdate) => visitor.visit::<Locks>(),
        (_, What::Request) if !job.sql.is_empty() => visitor.visit::<Sql>(),
        (_, What::Request) if job.multiplex == Multiplex::None => visitor.visit::<Requests>(),
        (_, What::Request) => visitor.visit::<EventRequests>(),
        (_, What::Serve) if job.listen.starts_with(UDP) => visitor.visit::<DatagramServer>(),
        (_, What::Serve) => match job.multiplex {
            Multiplex::None => visitor.visit::<BlockingServer>(),
            Multiplex::Select => visitor.visit::<SelectServer>(),
            Multiplex::Poll => visitor.visit::<PollServer>(),
            Multiplex::Epoll => visitor.visit::<EpollServer>(),
            Multiplex::EpollEdge => visitor.visit::<EpollEdgeServer>(),
            Multiplex::EpollExclusive => visitor.visit::<EpollExclusiveServer>(),
            Multiplex::IoUring => visitor.visit::<RingServer>(),
        },
        (_, what) if what.names() => visitor.visit::<NameCalls>(),
        (Through::Pwrite, _) => visitor.visit::<Pwrite>(),
        (Through::Write, _) => visitor.visit::<Write>(),
        (Through::Writev, _) => visitor.visit::<Writev>(),
        (Through::Pwritev2, _) => visitor.visit::<Pwritev2>(),
        (Through::Stdio, _) => visitor.visit::<Stdio>(),
        (Through::Char, _) => visitor.visit::<Char>(),
        (Through::Mmap, _) => visitor.visit::<Mmap>(),
        (Through::PosixAio, _) => visitor.visit::<PosixAio>(),
        (Through::Libaio, _) => visitor.visit::<Libaio>(),
        (Through::IoUring, _) => visitor.visit::<IoUringPlain>(),
        (Through::IoUringFixed, _) => visitor.visit::<IoUringFixed>(),
        (Through::IoUringSqpoll, _) => visitor.visit::<IoUringSqpoll>(),
        (Through::Sendfile, _) => visitor.visit::<Sendfile>(),
        (Through::CopyFileRange, _) => visitor.visit::<CopyFileRange>(),
    }
}

/// Whether this kernel has an interface for us; it is tried.
///
/// # Errors
/// Why not, and what to do.
pub fn available(through: Through) -> Result<(), EngineError> {
    match through {
        Through::Pwritev2 => known("pwritev2", |bad| {
            // SAFETY: no pieces, and no file.
            unsafe { libc::pwritev2(bad, std::ptr::null(), 0, 0, 0) }
        }),
        Through::CopyFileRange => {
            known("copy_file_range", |bad| copy::copy_file_range(bad, bad, 0, 0) as isize)
        }
        Through::Libaio => libaio::available(),
        Through::IoUring => io_uring::available(false, false),
        Through::IoUringFixed => io_uring::available(true, false),
        Through::IoUringSqpoll => io_uring::available(false, true),
        // Every kernel and C library that this program runs on has these.
        Through::Pwrite
        | Through::Write
        | Through::Writev
        | Through::Stdio
        | Through::Char
        | Through::Mmap
        | Through::PosixAio
        | Through::Sendfile
        | Through::Null => Ok(()),
    }
}

/// Whether the kernel knows a call: with a descriptor that is none it says
/// so (EBADF), and only a kernel without the call says anything else.
fn known(name: &str, call: impl Fn(i32) -> isize) -> Result<(), EngineError> {
    call(-1);
    match super::errno() {
        libc::EBADF => Ok(()),
        _ => Err(EngineError::last(name, "this kernel does not have it; choose --through pwrite")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{Action, EngineError, OpenFile, Operation, Setup};
    use clap::ValueEnum;
    use plumb_trace::load::OperationKind;

    struct Name;

    impl Visitor for Name {
        type Out = &'static str;
        fn visit<E: Engine>(self) -> &'static str {
            std::any::type_name::<E>()
        }
    }

    #[test]
    fn each_interface_has_an_engine_of_its_own() {
        let all = Through::value_variants();
        let mut names: Vec<_> =
            all.iter().map(|&through| choose(&Job { through, ..Job::default() }, Name)).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all.len());
    }

    #[test]
    fn names_and_locks_go_their_own_way() {
        let of = |what, through| choose(&Job { what, through, ..Job::default() }, Name);
        assert!(of(What::Unlink, Through::IoUring).ends_with("NameCalls"));
        assert!(of(What::LockAndUpdate, Through::Pwrite).ends_with("Locks"));
        assert!(of(What::Request, Through::Pwrite).ends_with("::Requests"));
        let sql = Job { what: What::Request, sql: vec!["select 1".into()], ..Job::default() };
        assert!(choose(&sql, Name).ends_with("::Sql"));
        assert!(of(What::Create, Through::Null).ends_with("Null"));
        assert!(of(What::Copy, Through::Sendfile).ends_with("Sendfile"));
    }

    /// Opens the engine on a descriptor that is none and reads: no figure may come of it.
    struct Bad;

    impl Visitor for Bad {
        type Out = Result<i64, EngineError>;
        fn visit<E: Engine>(self) -> Self::Out {
            let job = Job::default();
            let buffers = crate::buffers::Buffers::new(1, 4096).expect("memory");
            let names = crate::names::Names::new(std::path::Path::new("/nowhere"), 0, 0);
            let setup = Setup {
                job: &job,
                files: &[OpenFile { fd: -1, copy_to: -1, size: 4096 }],
                buffers: &buffers,
                names: &names,
                shared: std::ptr::null_mut(),
                shared_len: 0,
                listener: -1,
                worker: 0,
            };
            let mut engine = E::open(&setup)?;
            let buffer = buffers.at(0);
            let (kind, action) = (OperationKind::Read, Action::Read);
            let operation = Operation { kind, action, file: 0, len: 4096, offset: 0, buffer };
            if let Some(result) = engine.start(&operation, 0) {
                return Ok(result);
            }
            let mut done = Vec::new();
            engine.submit().expect("submitted");
            for _ in 0..100 {
                engine.finish(super::super::Wait::For(100_000_000), &mut done).expect("finished");
                if let Some(done) = done.first() {
                    return Ok(done.result);
                }
            }
            panic!("it did not end");
        }
    }

    #[test]
    fn a_bad_descriptor_is_an_error_everywhere() {
        for &through in Through::value_variants() {
            if through == Through::Null {
                continue;
            }
            if let Err(e) = available(through) {
                println!("SKIP {through}: {e}");
                continue;
            }
            match choose(&Job { through, ..Job::default() }, Bad) {
                Ok(result) => assert_eq!(result, -i64::from(libc::EBADF), "{through}"),
                Err(said) => assert!(said.0.contains(';'), "{through}: {said} (lacks a next step)"),
            }
        }
    }
}
