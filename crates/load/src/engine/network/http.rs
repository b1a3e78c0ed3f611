// SPDX-License-Identifier: Apache-2.0 OR MIT
//! As much of HTTP/1.1 (RFC 9112) as a load needs: where an answer ends, and where a request does.

/// Longest head of an answer or request, bytes.
pub(super) const HEAD: usize = 64 << 10;

/// What comes next of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Head,
    /// So many bytes, and then nothing.
    Body(u64),
    /// The line in front of a chunk.
    Size,
    /// So many bytes of a chunk, with the line's end behind it; the last chunk is empty.
    Chunk {
        left: u64,
        last: bool,
    },
    /// Everything until the connection ends.
    Rest,
}

/// An answer that is being read, in whatever pieces it comes.
#[derive(Debug)]
pub(super) struct Answer {
    part: Part,
    /// Its bytes so far.
    bytes: u64,
    /// Whether the server closes the connection behind it.
    closes: bool,
    /// The beginning of a head or line whose end has not come.
    partial: Vec<u8>,
    /// The last head that was whole, which the next one mostly equals: (its bytes, what it said).
    known: (Vec<u8>, Option<Head>),
}

/// What counts in the head of an answer.
#[derive(Debug, Clone, Copy)]
struct Head {
    status: u32,
    length: Option<u64>,
    chunked: bool,
    closes: bool,
}

const BAD: i64 = -(libc::EPROTO as i64);

impl Answer {
    pub fn new() -> Self {
        Answer { part: Part::Head, bytes: 0, closes: false, partial: Vec::new(), known: (Vec::new(), None) }
    }

    /// Ready for the next answer of a connection; what was read of this one is forgotten.
    pub fn begin(&mut self) {
        (self.part, self.bytes, self.closes) = (Part::Head, 0, false);
        self.partial.clear();
    }

    /// Its bytes so far.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether the connection ends with it.
    pub fn closes(&self) -> bool {
        self.closes
    }

    /// Takes bytes that came; true when the answer is whole.
    ///
    /// # Errors
    /// The negative error number: EPROTO of bytes that are no answer, or come behind its end; EREMOTEIO of an answer
    /// that says that the server failed or refuses (status 400 and above).
    pub fn take(&mut self, mut bytes: &[u8]) -> Result<bool, i64> {
        loop {
            let used = match self.part {
                Part::Head => match self.head(bytes)? {
                    Some(used) => used,
                    None => return Ok(false),
                },
                Part::Body(left) | Part::Chunk { left, last: false } if left > bytes.len() as u64 => {
                    self.bytes += bytes.len() as u64;
                    let left = left - bytes.len() as u64;
                    self.part = match self.part {
                        Part::Body(_) => Part::Body(left),
                        _ => Part::Chunk { left, last: false },
                    };
                    return Ok(false);
                }
                Part::Chunk { left, last: true } if left > bytes.len() as u64 => {
                    self.bytes += bytes.len() as u64;
                    self.part = Part::Chunk { left: left - bytes.len() as u64, last: true };
                    return Ok(false);
                }
                Part::Body(left) | Part::Chunk { left, last: true } => {
                    self.bytes += left;
                    return if left == bytes.len() as u64 { Ok(true) } else { Err(BAD) };
                }
                Part::Chunk { left, last: false } => {
                    self.bytes += left;
                    self.part = Part::Size;
                    left as usize
                }
                Part::Size => match self.size(bytes)? {
                    Some(used) => used,
                    None => return Ok(false),
                },
                Part::Rest => {
                    self.bytes += bytes.len() as u64;
                    return Ok(false);
                }
            };
            bytes = &bytes[used..];
        }
    }

    /// The connection ended; whether the answer is whole by that.
    pub fn ended(&self) -> bool {
        self.part == Part::Rest
    }

    /// Bytes of what came that belong to the head, once its end is there.
    fn head(&mut self, bytes: &[u8]) -> Result<Option<usize>, i64> {
        let (known, said) = &self.known;
        if let (true, true, Some(said)) = (self.partial.is_empty(), bytes.starts_with(known), said) {
            let (said, used) = (*said, known.len());
            self.bytes += used as u64;
            return self.body(said).map(|()| Some(used));
        }
        let Some((whole, used)) = until(b"\r\n\r\n", &mut self.partial, bytes, HEAD)? else {
            return Ok(None);
        };
        let said = Head::read(&whole).ok_or(BAD)?;
        self.bytes += whole.len() as u64;
        self.known = (whole, Some(said));
        self.body(said).map(|()| Some(used))
    }

    fn body(&mut self, head: Head) -> Result<(), i64> {
        if head.status >= 400 {
            return Err(-i64::from(libc::EREMOTEIO));
        }
        self.closes = head.closes || (head.length.is_none() && !head.chunked);
        self.part = match head.length {
            Some(length) => Part::Body(length),
            None if head.chunked => Part::Size,
            None => Part::Rest,
        };
        Ok(())
    }

    fn size(&mut self, bytes: &[u8]) -> Result<Option<usize>, i64> {
        let Some((line, used)) = until(b"\r\n", &mut self.partial, bytes, 1024)? else { return Ok(None) };
        let text = std::str::from_utf8(&line).map_err(|_| BAD)?;
        let size = text.split(';').next().map_or("", str::trim);
        let size = u64::from_str_radix(size, 16).ok().filter(|n| *n < 1 << 40).ok_or(BAD)?;
        self.bytes += line.len() as u64;
        // The last chunk has no trailers here.
        self.part = Part::Chunk { left: size + 2, last: size == 0 };
        Ok(Some(used))
    }
}

/// What lies before `end`, with it, and how many of `bytes` belong to that; `partial` has what came before of it.
fn until(
    end: &[u8],
    partial: &mut Vec<u8>,
    bytes: &[u8],
    most: usize,
) -> Result<Option<(Vec<u8>, usize)>, i64> {
    let before = partial.len();
    let from = before.saturating_sub(end.len() - 1);
    partial.extend_from_slice(&bytes[..bytes.len().min(most)]);
    match partial[from..].windows(end.len()).position(|w| w == end) {
        Some(at) => {
            let whole = from + at + end.len();
            partial.truncate(whole);
            Ok(Some((std::mem::take(partial), whole - before)))
        }
        None if partial.len() >= most => Err(BAD),
        None => Ok(None),
    }
}

impl Head {
    fn read(bytes: &[u8]) -> Option<Head> {
        let text = std::str::from_utf8(bytes).ok()?;
        let mut lines = text.split("\r\n");
        let status = lines.next()?.strip_prefix("HTTP/1.")?.split(' ').nth(1)?.parse().ok()?;
        let mut head = Head { status, length: None, chunked: false, closes: false };
        for (name, value) in lines.filter_map(|line| line.split_once(':')) {
            let value = value.trim();
            match name.to_ascii_lowercase().as_str() {
                "content-length" => head.length = Some(value.parse().ok()?),
                "transfer-encoding" => head.chunked = value.to_ascii_lowercase().ends_with("chunked"),
                "connection" => head.closes = value.eq_ignore_ascii_case("close"),
                _ => {}
            }
        }
        if status == 204 || status == 304 {
            head.length = Some(0);
        }
        Some(head)
    }
}

/// Counts whole requests in the bytes of a connection, in whatever pieces they come. Requests have no body here.
#[derive(Debug, Default)]
pub(super) struct Heads {
    /// Bytes of the end of a head that came last, 0 to 3.
    matched: usize,
    length: usize,
}

impl Heads {
    /// Requests that ended in these bytes; None: one is longer than a head may be.
    pub fn take(&mut self, bytes: &[u8]) -> Option<u32> {
        const END: &[u8] = b"\r\n\r\n";
        let mut whole = 0;
        for &byte in bytes {
            self.length += 1;
            self.matched = match byte {
                b if b == END[self.matched] => self.matched + 1,
                b'\r' => 1,
                _ => 0,
            };
            if self.matched == END.len() {
                (self.matched, self.length) = (0, 0);
                whole += 1;
            }
        }
        (self.length <= HEAD).then_some(whole)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes an answer in pieces of so many bytes; its bytes and whether it is whole.
    fn read(answer: &[u8], piece: usize, twice: bool) -> Result<(u64, bool), i64> {
        let mut reading = Answer::new();
        let mut whole = false;
        for _ in 0..1 + usize::from(twice) {
            reading.begin();
            whole = false;
            for bytes in answer.chunks(piece) {
                whole = reading.take(bytes)?;
            }
        }
        Ok((reading.bytes(), whole || reading.ended()))
    }

    #[test]
    fn an_answer_ends_where_it_says() {
        for answer in [
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
            "HTTP/1.1 204 No Content\r\n\r\n",
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\nb;x=y\r\nhello world\r\n0\r\n\r\n",
            "HTTP/1.0 200 OK\r\n\r\nuntil it closes",
        ] {
            for piece in 1..=answer.len() {
                for twice in [false, true] {
                    assert_eq!(
                        read(answer.as_bytes(), piece, twice),
                        Ok((answer.len() as u64, true)),
                        "{answer} in pieces of {piece}"
                    );
                }
            }
            for cut in 1..answer.len() - usize::from(answer.ends_with("closes")) * 16 {
                let (bytes, whole) = read(&answer.as_bytes()[..cut], cut, false).expect("no error yet");
                assert!(bytes <= cut as u64 && !whole, "{answer} cut at {cut}");
            }
        }
    }

    #[test]
    fn what_is_no_answer_is_an_error() {
        for (answer, code) in [
            ("HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n", libc::EREMOTEIO),
            ("SMTP\r\n\r\n", libc::EPROTO),
            ("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nhello", libc::EPROTO),
            ("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n", libc::EPROTO),
        ] {
            assert_eq!(read(answer.as_bytes(), answer.len(), false), Err(-i64::from(code)), "{answer}");
        }
        assert_eq!(read(&vec![b'x'; HEAD + 1], HEAD, false), Err(BAD));
    }

    #[test]
    fn requests_are_counted_however_they_come() {
        let two = b"GET / HTTP/1.1\r\nHost: a\r\n\r\nGET /b HTTP/1.1\r\n\r\r\n\r\n";
        for piece in 1..=two.len() {
            let mut heads = Heads::default();
            let all: u32 = two.chunks(piece).map(|bytes| heads.take(bytes).expect("short")).sum();
            assert_eq!(all, 2, "in pieces of {piece}");
        }
        assert_eq!(Heads::default().take(&vec![b'x'; HEAD + 1]), None);
    }
}
