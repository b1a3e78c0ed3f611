// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What was read and is still in the buffer: segments, each following one reader.

#[derive(Debug, Clone, Copy)]
struct Segment {
    first: u64,
    end: u64,
    used: u64,
}

/// The buffer's segments; the one that was not used for longest goes first.
#[derive(Debug, Clone)]
pub(super) struct Segments {
    list: Vec<Segment>,
    /// Sectors that each of them holds.
    pub length: u64,
    uses: u64,
    /// The one that was kept last.
    last: usize,
}

impl Segments {
    /// `count` empty segments of `length` sectors.
    pub fn new(count: u32, length: u64) -> Self {
        let list = (0..count).map(|_| Segment { first: 0, end: 0, used: 0 }).collect();
        Self { list, length, uses: 0, last: 0 }
    }

    /// The first sector of these that has to be read; `end` if a segment holds all of them, which is then used.
    pub fn missing(&mut self, first: u64, end: u64) -> u64 {
        match self.list.iter_mut().find(|s| s.first <= first && first < s.end) {
            Some(segment) if end <= segment.end => {
                self.uses += 1;
                segment.used = self.uses;
                end
            }
            Some(segment) => segment.end,
            None => first,
        }
    }

    /// These sectors were read. They prolong the segment that they join; its beginning goes.
    pub fn keep(&mut self, first: u64, end: u64) {
        if self.length == 0 || first >= end {
            return;
        }
        self.uses += 1;
        // The last one that was kept is the one that is read ahead into.
        let joins = |s: &Segment| s.first <= first && first <= s.end && s.first < s.end;
        let index = if self.list.get(self.last).is_some_and(joins) {
            self.last
        } else {
            // One pass for both questions: none joins a random read.
            let (mut joined, mut oldest) = (None, (0, u64::MAX));
            for (index, segment) in self.list.iter().enumerate() {
                if joins(segment) {
                    joined = Some(index);
                    break;
                }
                if segment.used < oldest.1 {
                    oldest = (index, segment.used);
                }
            }
            joined.unwrap_or_else(|| {
                self.list[oldest.0] = Segment { first, end, used: 0 };
                oldest.0
            })
        };
        self.last = index;
        let segment = &mut self.list[index];
        segment.end = segment.end.max(end);
        segment.first = segment.first.max(segment.end.saturating_sub(self.length));
        segment.used = self.uses;
    }

    /// These sectors were written: what was read of them, and what follows it, is not valid any more.
    pub fn forget(&mut self, first: u64, end: u64) {
        for segment in &mut self.list {
            if first < segment.end && segment.first < end {
                if segment.first < first {
                    segment.end = first;
                } else {
                    segment.first = end.min(segment.end);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Segments {
        fn holds(&mut self, first: u64, end: u64) -> bool {
            self.missing(first, end) == end
        }
    }

    #[test]
    fn a_reader_prolongs_its_segment_and_others_replace_the_oldest() {
        let mut segments = Segments::new(2, 100);
        segments.keep(1000, 1060);
        segments.keep(1060, 1120);
        assert!(segments.holds(1020, 1120) && !segments.holds(1019, 1021), "it holds the last 100");
        assert_eq!(
            (segments.missing(1100, 1200), segments.missing(1120, 1121), segments.missing(5, 9)),
            (1120, 1120, 5)
        );
        segments.keep(5000, 5010);
        assert!(segments.holds(1100, 1110));
        segments.keep(9000, 9010);
        assert!(segments.holds(1100, 1110) && !segments.holds(5000, 5001), "the oldest went");
    }

    #[test]
    fn what_is_written_is_forgotten() {
        let mut segments = Segments::new(1, 100);
        segments.keep(0, 100);
        segments.forget(40, 50);
        assert!(segments.holds(0, 40) && !segments.holds(39, 41) && !segments.holds(50, 51));
        segments.forget(0, 10);
        assert!(segments.holds(10, 40) && !segments.holds(9, 11));
        segments.forget(0, 1000);
        assert!(!segments.holds(20, 21));
        let mut none = Segments::new(4, 0);
        none.keep(0, 10);
        assert!(!none.holds(0, 1));
    }
}
