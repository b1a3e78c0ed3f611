// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads a trace while it is written, up to what its writer has published. What it hands out is what [`Trace::for_each`]
//! does when the trace is whole, in the same order; where that cannot be, it is an error, and the whole trace is to be read.

use super::ahead;
use super::cursor::{sizes, Cursor, Packets, Sizes};
use super::merge::{Merge, Sink};
use super::telling::Telling;
use super::{Error, Gap, Item, Operation, RawRecord, State, Summary, Told, Trace};
use crate::ctf::Metadata;
use crate::schema::StateTrigger;
use crate::writer::Stream;
use std::path::{Path, PathBuf};

/// How far a trace that is being written can be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Published {
    /// Whatever happened until then is in the files, ns.
    pub until: u64,
    /// Bytes of each file that are whole packets.
    pub sizes: Vec<(Stream, u64)>,
    /// The trace is whole.
    pub last: bool,
}

/// Tells a reader how far it can read.
pub trait News {
    /// Waits for more; `None` where the writer has gone before the trace was whole.
    fn next(&mut self) -> Option<Published>;
    /// Called now and then while records are handed out: whoever reads beside a measured program rests here.
    fn rest(&mut self);
}

/// Why a trace cannot be read as it grows.
#[derive(Debug, thiserror::Error)]
pub enum Unordered {
    /// Something was written behind what is later.
    #[error("an interval of lost events began before what was read already")]
    Late,
    /// A workload's threads write files of their own.
    #[error("a workload writes into the trace")]
    Workload,
    /// A file has bad bytes.
    #[error("a file is damaged")]
    Damage,
    /// The writer has gone.
    #[error("the recording ended early")]
    Gone,
    /// A file cannot be opened.
    #[error(transparent)]
    Trace(#[from] Error),
}

/// A place in a trace that is being written.
pub struct Following {
    dir: PathBuf,
    metadata: Metadata,
    begin: u64,
    merge: Merge,
    sizes: Box<Sizes>,
}

impl Following {
    /// The trace in `dir`, whose metadata is written; `begin`: when its target began, ns.
    ///
    /// # Errors
    /// The metadata cannot be read.
    pub fn open(dir: &Path, begin: u64) -> Result<Self, Error> {
        let telling = Telling { keeps: Some(State::default()), ..Telling::default() };
        let summary = Summary { begin: u64::MAX, ..Summary::default() };
        Ok(Self {
            metadata: super::metadata(dir)?,
            dir: dir.into(),
            begin,
            merge: Merge::new(Vec::new(), telling, begin, summary),
            sizes: sizes(false),
        })
    }

    /// The same, for who wants to know soon: records come so much later than they are written, ns, and what the
    /// recorder tells of one later than that comes behind it.
    ///
    /// # Errors
    /// As [`Following::open`].
    pub fn near(dir: &Path, begin: u64, ahead: u64) -> Result<Self, Error> {
        let mut following = Self::open(dir, begin)?;
        following.merge.near(ahead);
        Ok(following)
    }

    /// What holds for the whole trace, as far as it was told.
    pub fn state(&self) -> &State {
        static NOTHING: std::sync::LazyLock<State> = std::sync::LazyLock::new(State::default);
        self.merge.telling.keeps.as_ref().unwrap_or(&NOTHING)
    }

    /// What triggers told of since this was asked last.
    pub fn take_triggers(&mut self) -> Vec<StateTrigger> {
        self.merge.telling.keeps.as_mut().map_or_else(Vec::new, |state| std::mem::take(&mut state.triggers))
    }

    /// Forgets what of the state holds for moments before `ts`, ns, so that it does not grow with the trace.
    pub fn forget(&mut self, ts: u64) {
        let Some(state) = &mut self.merge.telling.keeps else { return };
        state.counters.retain(|c| c.at >= ts);
        state.files.retain(|f| f.at >= ts);
        state.pauses.retain(|p| p.end >= ts);
        state.tasks.clear();
        state.services.clear();
        let clocks = state.clocks.len().saturating_sub(1);
        state.clocks.drain(1.min(clocks)..clocks);
        let timex = state.timex.len().saturating_sub(1);
        state.timex.drain(1.min(timex)..timex);
    }

    /// What the metadata file says.
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// Hands out what can be told in its order as the trace grows, until it is whole, and tells what holds for all of it;
    /// [`Following::rest`] has what is left then.
    ///
    /// # Errors
    /// It is not in the order of time.
    pub fn follow(&mut self, news: &mut impl News, mut f: impl FnMut(Item<'_>)) -> Result<&State, Unordered> {
        while !self.step(news, &mut f)?.last {}
        self.merge.telling.keeps.as_ref().ok_or(Unordered::Damage)
    }

    /// Waits until more is published, hands out what can be told of it, and tells how far it was; of the last publication
    /// [`Following::rest`] has what is left.
    ///
    /// # Errors
    /// As [`Following::follow`].
    pub fn step(
        &mut self,
        news: &mut impl News,
        mut f: impl FnMut(Item<'_>),
    ) -> Result<Published, Unordered> {
        let published = news.next().ok_or(Unordered::Gone)?;
        self.extend(&published)?;
        if published.last {
            self.merge.telling.read_state();
        } else {
            let until = published.until.saturating_sub(self.merge.ahead());
            if until > self.begin {
                let mut direct = Direct { sizes: &self.sizes, f: &mut f, rest: &mut || news.rest() };
                self.merge.run_until(until, &mut direct);
            }
        }
        self.check()?;
        Ok(published)
    }

    /// Hands out the rest, and the trace that it was.
    ///
    /// # Errors
    /// As [`Following::follow`].
    pub fn rest(mut self, f: impl FnMut(Item<'_>)) -> Result<(Trace, Summary), Unordered> {
        let mut trace = Trace::without_state(self.dir.clone(), self.metadata.clone())?;
        if !trace.loads.is_empty() {
            return Err(Unordered::Workload);
        }
        let summary = ahead::for_each(&mut self.merge, f);
        self.check()?;
        trace.state = self.merge.telling.keeps.take().unwrap_or_default();
        Ok((trace, summary))
    }

    fn extend(&mut self, published: &Published) -> Result<(), Unordered> {
        let dir = &self.dir;
        let open = |stream: Stream| {
            let io = |source| Error::Io { path: dir.join(stream.file_name()), source };
            Packets::open(dir, stream).map_err(io)
        };
        for (stream, size) in &published.sizes {
            let packets = match stream {
                Stream::State | Stream::Waits => {
                    let telling = &mut self.merge.telling;
                    let place =
                        if *stream == Stream::State { &mut telling.state } else { &mut telling.waits };
                    if place.is_none() {
                        *place = Some(open(*stream)?);
                    }
                    place.as_mut()
                }
                Stream::Cpu(cpu) => {
                    let at = self.merge.cursors.partition_point(|c| c.number < *cpu);
                    if self.merge.cursors.get(at).is_none_or(|c| c.number != *cpu) {
                        let cursor = Cursor::of(open(*stream)?, *stream, self.metadata.machine());
                        self.merge.cursors.insert(at, cursor);
                    }
                    Some(&mut self.merge.cursors[at].packets)
                }
                Stream::Load { .. } => return Err(Unordered::Workload),
            };
            if let Some(packets) = packets {
                packets.limit = *size;
            }
        }
        self.merge.cursors.iter_mut().filter(|c| c.is_done()).for_each(Cursor::advance_packet);
        Ok(())
    }

    fn check(&self) -> Result<(), Unordered> {
        let telling = &self.merge.telling;
        let others = telling.state.iter().chain(&telling.waits);
        let mut packets = others.chain(self.merge.cursors.iter().map(|c| &c.packets));
        if self.merge.late {
            return Err(Unordered::Late);
        }
        if packets.any(|p| !p.damage.is_empty()) || !self.merge.summary.damage.is_empty() {
            return Err(Unordered::Damage);
        }
        Ok(())
    }
}

/// Hands out at once, on this thread.
struct Direct<'a, F, R> {
    sizes: &'a Sizes,
    f: &'a mut F,
    /// Called after each run of records.
    rest: &'a mut R,
}

impl<F: FnMut(Item<'_>), R: FnMut()> Sink for Direct<'_, F, R> {
    fn records(&mut self, cpu: u32, bytes: &[u8]) -> bool {
        let mut pos = 0;
        while pos < bytes.len() {
            let record = RawRecord::at(&bytes[pos..], cpu, self.sizes);
            pos += record.bytes.len();
            (self.f)(Item::Record(record));
        }
        (self.rest)();
        true
    }

    fn gap(&mut self, gap: Gap) {
        (self.f)(Item::Gap(gap));
    }

    fn told(&mut self, told: Told) {
        (self.f)(Item::Told(&told));
    }

    fn operation(&mut self, operation: Operation) {
        (self.f)(Item::Operation(operation));
    }
}
