// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The first phase: client and server agree on the export.

use super::wire::*;
use super::Export;
use std::io::{self, Read, Write};

/// Most bytes of an option: a name has at most 4096.
const OPTION: u32 = 1 << 14;
/// Most options: who sends more is not a client.
const OPTIONS: usize = 1000;

fn invalid(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

fn word<const N: usize>(stream: &mut impl Read) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    stream.read_exact(&mut bytes)?;
    Ok(bytes)
}

fn reply(stream: &mut impl Write, option: u32, kind: u32, data: &[u8]) -> io::Result<()> {
    let mut out = Vec::with_capacity(20 + data.len());
    out.extend(OPTION_REPLY.to_be_bytes());
    for word in [option, kind, data.len() as u32] {
        out.extend(word.to_be_bytes());
    }
    out.extend(data);
    stream.write_all(&out)
}

/// The name and the pieces of information that INFO and GO ask for. None: it is damaged.
fn asked(data: &[u8]) -> Option<(&[u8], Vec<u16>)> {
    let (length, rest) = data.split_first_chunk::<4>()?;
    let (name, rest) = rest.split_at_checked(u32::from_be_bytes(*length) as usize)?;
    let (count, rest) = rest.split_first_chunk::<2>()?;
    let whole = rest.len() == usize::from(u16::from_be_bytes(*count)) * 2;
    let pieces = rest.chunks_exact(2).map(|two| u16::from_be_bytes([two[0], two[1]]));
    whole.then(|| (name, pieces.collect()))
}

/// Talks until the client has chosen the export (true), or goes (false).
///
/// # Errors
/// The socket's, or what the client sends is not the protocol; then the connection is of
/// no use any more.
pub(super) fn negotiate(
    stream: &mut (impl Read + Write),
    export: &Export,
    size: u64,
    flags: u16,
) -> io::Result<bool> {
    let mut hello = Vec::with_capacity(18);
    hello.extend(NBDMAGIC.to_be_bytes());
    hello.extend(IHAVEOPT.to_be_bytes());
    hello.extend((FIXED_NEWSTYLE | NO_ZEROES).to_be_bytes());
    stream.write_all(&hello)?;
    let client = u32::from_be_bytes(word(stream)?);
    if client & !u32::from(FIXED_NEWSTYLE | NO_ZEROES) != 0 {
        return Err(invalid("flags that the server did not offer"));
    }
    let known = |name: &[u8]| name.is_empty() || name == export.name.as_bytes();
    for _ in 0..OPTIONS {
        if u64::from_be_bytes(word(stream)?) != IHAVEOPT {
            return Err(invalid("no option"));
        }
        let option = u32::from_be_bytes(word(stream)?);
        let length = u32::from_be_bytes(word(stream)?);
        if length > OPTION {
            return Err(invalid("an option that is too long"));
        }
        let mut data = vec![0; length as usize];
        stream.read_exact(&mut data)?;
        match option {
            OPT_EXPORT_NAME => {
                if !known(&data) {
                    return Err(invalid("no such export"));
                }
                let mut out = size.to_be_bytes().to_vec();
                out.extend(flags.to_be_bytes());
                if client & u32::from(NO_ZEROES) == 0 {
                    out.extend([0; 124]);
                }
                stream.write_all(&out)?;
                return Ok(true);
            }
            OPT_ABORT => {
                reply(stream, option, REP_ACK, &[])?;
                return Ok(false);
            }
            OPT_LIST if data.is_empty() => {
                let mut out = (export.name.len() as u32).to_be_bytes().to_vec();
                out.extend(export.name.as_bytes());
                reply(stream, option, REP_SERVER, &out)?;
                reply(stream, option, REP_ACK, &[])?;
            }
            OPT_LIST => reply(stream, option, REP_ERR_INVALID, b"a list needs no data")?,
            OPT_INFO | OPT_GO => match asked(&data) {
                None => reply(stream, option, REP_ERR_INVALID, b"no name and list of information")?,
                Some((name, _)) if !known(name) => {
                    let about = format!("the export is called '{}'", export.name);
                    reply(stream, option, REP_ERR_UNKNOWN, about.as_bytes())?;
                }
                Some((_, pieces)) => {
                    inform(stream, option, &pieces, export, size, flags)?;
                    reply(stream, option, REP_ACK, &[])?;
                    if option == OPT_GO {
                        return Ok(true);
                    }
                }
            },
            _ => reply(stream, option, REP_ERR_UNSUP, &[])?,
        }
    }
    Err(invalid("too many options"))
}

fn inform(
    stream: &mut impl Write,
    option: u32,
    pieces: &[u16],
    export: &Export,
    size: u64,
    flags: u16,
) -> io::Result<()> {
    let mut tell = |kind: u16, data: &[&[u8]]| {
        reply(stream, option, REP_INFO, &[&kind.to_be_bytes(), &data.concat()[..]].concat())
    };
    tell(INFO_EXPORT, &[&size.to_be_bytes(), &flags.to_be_bytes()])?;
    // The smallest, the best and the largest request.
    let blocks = [512, 4096, PAYLOAD].map(u32::to_be_bytes);
    tell(INFO_BLOCK_SIZE, &[&blocks.concat()])?;
    if pieces.contains(&INFO_NAME) {
        tell(INFO_NAME, &[export.name.as_bytes()])?;
    }
    if pieces.contains(&INFO_DESCRIPTION) && !export.about.is_empty() {
        tell(INFO_DESCRIPTION, &[export.about.as_bytes()])?;
    }
    Ok(())
}
