// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The tables of several recordings together: their clocks, and requests from host to host.

use super::screen::{Screen, COLUMNS};
use super::table::{wrapped_to, Table};
use anyhow::Result;
use plumb_analysis::hosts::{
    ClockRow, CommandRow, Hosts, PartRow, PeerRow, RequestRow, SteeringRow, COMMAND_PARTS,
};
use plumb_trace::units;
use std::io::Write;

/// Rows of requests that are shown whole.
const MOST: usize = 8;
/// Ends of their time that are told.
const LEAVES: usize = 8;

/// The part that is the target's device.
const DEVICE: &str = COMMAND_PARTS[6];

/// The clocks, the commands and the requests, most time first.
///
/// # Errors
/// The writer's.
pub fn hosts(hosts: &Hosts, out: &mut Screen<'_>) -> Result<()> {
    for row in hosts.commands.iter().take(MOST) {
        commands(row, out)?;
    }
    if hosts.commands.len() > MOST {
        writeln!(out, "  {} more of commands: --json", hosts.commands.len() - MOST)?;
    }
    for row in hosts.requests.iter().take(MOST) {
        requests(row, out)?;
    }
    if hosts.requests.len() > MOST {
        writeln!(out, "  {} more: --json", hosts.requests.len() - MOST)?;
    }
    clocks(&hosts.clocks, out)?;
    // Of one recording there is nothing to align.
    if !hosts.clocks.is_empty() {
        steering(&hosts.steering, out)?;
    }
    Ok(())
}

/// Slow ones that are told step by step.
const STEPS: usize = 5;

/// The slowest commands and requests, each step by step over both hosts.
///
/// # Errors
/// The writer's.
pub fn slowest(hosts: &Hosts, out: &mut Screen<'_>) -> Result<()> {
    let mut all = Vec::new();
    for row in &hosts.commands {
        let device = row.device.as_deref().unwrap_or("its disk");
        let places: Vec<_> = row.parts.iter().map(|p| (p.host.as_deref(), p.part.as_str())).collect();
        for s in &row.slow {
            let what = match row.kind.as_str() {
                kind @ ("read" | "write") if s.bytes > 0 => {
                    format!("{kind} of {} at {}", units::bytes(s.bytes.into()), units::bytes(s.place))
                }
                kind => kind.into(),
            };
            let head = format!("{what} of {device} by {}, {} {}", row.client, row.protocol, row.address);
            all.push((s.took, s.begin, s.again, head, places.clone(), &s.parts));
        }
    }
    for row in &hosts.requests {
        let places: Vec<_> = row.parts.iter().map(|p| (p.host.as_deref(), p.part.as_str())).collect();
        for s in &row.slow {
            let head = format!("request of {} to {}", party(&row.client, &row.client_name), row.address);
            all.push((s.took, s.begin, s.again, head, places.clone(), &s.parts));
        }
    }
    if all.is_empty() {
        writeln!(out, "\nNo command and no request on a TCP connection was seen from its begin to its end")?;
    }
    all.sort_by_key(|(took, begin, ..)| (std::cmp::Reverse(*took), *begin));
    for (took, begin, again, head, places, parts) in all.into_iter().take(STEPS) {
        writeln!(out)?;
        let (took, begin) = (units::duration(took), units::duration(begin));
        let lost = if again > 0 { format!("; {again} segments were retransmitted") } else { String::new() };
        out.heading(&format!("{took}: {head}, begun at {begin}{lost}"))?;
        let mut table = Table::new(&["at", "took", "<where", "<what"]);
        let mut at = 0u64;
        for ((host, part), ns) in places.into_iter().zip(parts).filter(|(_, ns)| **ns > 0) {
            let host = host.unwrap_or("network").to_string();
            table.row(vec![units::duration(at), units::duration(*ns), host, part.into()]);
            at = at.saturating_add(*ns);
        }
        if at == 0 {
            writeln!(out, "  Its steps are not known: the server was not recorded, or not fully observed")?;
            continue;
        }
        out.table(&table)?;
    }
    Ok(())
}

/// Whose it is: recording and name.
fn party(host: &str, name: &str) -> String {
    if name.is_empty() {
        host.into()
    } else {
        format!("{host} ({name})")
    }
}

/// What is known of a server that was not recorded.
fn peer(p: &PeerRow, row: &RequestRow) -> String {
    let n = row.requests.max(1);
    let share = |ns: u64| format!("{:.1} %", ns as f64 * 100.0 / row.time.max(1) as f64);
    let waiting = p.waiting / n;
    let rest = match p.round_trip {
        Some(trip) => format!(
            "; round-trip time (SYN to SYN-ACK) at least {} over {} connections, server and queueing {} a request",
            units::duration(trip),
            units::count(p.connections),
            units::duration(waiting.saturating_sub(trip))
        ),
        None => "; round-trip time unknown: no connection was opened during the recording".into(),
    };
    format!(
        "sending {}, waiting for the answer {} ({} a request), until it is read {}{rest}",
        share(p.sending),
        share(p.waiting),
        units::duration(waiting),
        share(p.reading)
    )
}

fn requests(row: &RequestRow, out: &mut Screen<'_>) -> Result<()> {
    let client = party(&row.client, &row.client_name);
    let server = match &row.server {
        Some(host) => party(host, &row.server_name),
        None => "a host that was not recorded".into(),
    };
    writeln!(out)?;
    out.heading(&format!("Requests of {client} to {server}, {}", row.address))?;
    let shown = units::duration;
    let mean = row.time / row.requests.max(1);
    let again = match row.again {
        0 => String::new(),
        n => format!("; {} segments were retransmitted", units::count(n)),
    };
    let line = format!(
        "{} requests: mean {}, p50 {}, p99 {}, max {}{again}",
        units::count(row.requests),
        shown(mean),
        shown(row.p50),
        shown(row.p99),
        shown(row.max)
    );
    writeln!(out, "  {}", wrapped_to(&line, 4, COLUMNS))?;
    if row.incomplete > 0 {
        let n = units::count(row.incomplete);
        writeln!(
            out,
            "  {n} of them in no part: events of the server are missing, or its clock is not aligned"
        )?;
    }
    if let Some(p) = &row.peer {
        writeln!(out, "  {}", wrapped_to(&peer(p, row), 4, COLUMNS))?;
    }
    if row.parts.is_empty() {
        return Ok(());
    }
    followed(row, out)?;
    let head = ["share", "mean", "p99", "slowest 1 %", "<where", "<part", "<mostly"];
    let mut table = Table::new(&head).least(&["p99", "slowest 1 %"]);
    let all: u64 = row.parts.iter().fold(0, |sum, p| sum.saturating_add(p.time));
    let whole = row.requests.saturating_sub(row.incomplete).max(1);
    let local = row.server.as_ref() == Some(&row.client);
    for (i, part) in row.parts.iter().enumerate() {
        let place = match &part.host {
            None => "network",
            Some(_) if local && (i == 0 || i + 1 == row.parts.len()) => &row.client_name,
            Some(_) if local => &row.server_name,
            Some(host) => host,
        };
        let way =
            if part.host.is_none() && !local { format!(" (+-{})", shown(row.width)) } else { String::new() };
        table.row(vec![
            format!("{:.1} %", part.time as f64 * 100.0 / all.max(1) as f64),
            shown(part.time / whole),
            shown(part.p99),
            shown(part.slow),
            place.to_string(),
            format!("{}{way}", part.part),
            causes(part),
        ]);
    }
    out.table(&table)?;
    Ok(())
}

/// Commands of one kind: where their time went.
fn commands(row: &CommandRow, out: &mut Screen<'_>) -> Result<()> {
    let device = row.device.as_deref().unwrap_or("no block device");
    let server = match (&row.server, &row.server_device) {
        (Some(host), Some(disk)) => format!("{disk} of {host}"),
        (Some(host), None) => host.clone(),
        (None, _) => "a target that was not recorded".into(),
    };
    writeln!(out)?;
    let heading = format!(
        "{} commands of {} ({device}) to {server}, {} {}",
        row.kind, row.client, row.protocol, row.address
    );
    out.heading(&heading)?;
    let shown = units::duration;
    let bytes = if row.bytes > 0 { format!(", {}", units::bytes(row.bytes)) } else { String::new() };
    let mut line = format!(
        "{} commands{bytes}: mean {}, p50 {}, p99 {}, max {}",
        units::count(row.commands),
        shown(row.time / row.commands.max(1)),
        shown(row.p50),
        shown(row.p99),
        shown(row.max)
    );
    let mut also = |n: u64, what: &str| {
        if n > 0 {
            line += &format!("; {} {what}", units::count(n));
        }
    };
    also(row.again, "with retransmitted segments");
    also(row.failed, "ended with an error");
    also(row.incomplete, "not fully observed, in no part");
    also(row.unanswered, "more without a response");
    writeln!(out, "  {}", wrapped_to(&line, 4, COLUMNS))?;
    let all: u64 = row.parts.iter().fold(0, |sum, p| sum.saturating_add(p.time));
    let Some(largest) = row.parts.iter().max_by_key(|p| p.time) else { return Ok(()) };
    let place = |host: &Option<String>| host.clone().unwrap_or_else(|| "network".into());
    let share = |ns: u64| ns as f64 * 100.0 / all.max(1) as f64;
    let most =
        format!("Most of it: {}, {} ({:.0} %)", place(&largest.host), largest.part, share(largest.time));
    writeln!(out, "  {}", wrapped_to(&most, 4, COLUMNS))?;
    let mut table = Table::new(&["share", "mean", "p50", "p99", "slowest 1 %", "<where", "<part"]).least(&[
        "p50",
        "p99",
        "slowest 1 %",
    ]);
    let whole = row.complete.max(1);
    for part in row.parts.iter().filter(|p| p.time > 0) {
        let device = row.server_device.as_ref().filter(|_| part.part == DEVICE);
        let device = device.map_or(String::new(), |name| format!(" of {name}"));
        let way = if part.host.is_none() { format!(" (+-{})", shown(row.width)) } else { String::new() };
        table.row(vec![
            format!("{:.1} %", share(part.time)),
            shown(part.time / whole),
            shown(part.p50),
            shown(part.p99),
            shown(part.slow),
            place(&part.host),
            format!("{}{device}{way}", part.part),
        ]);
    }
    out.table(&table)?;
    Ok(())
}

/// Where the time went in the end, in sentences.
fn followed(row: &RequestRow, out: &mut Screen<'_>) -> Result<()> {
    let all: u64 = row.parts.iter().fold(0, |sum, p| sum.saturating_add(p.time));
    for leaf in row.followed.iter().take_while(|leaf| leaf.time >= all / 20).take(LEAVES) {
        let place = match leaf.name.is_empty() {
            true => format!("on the way to {}", leaf.host),
            false => party(&leaf.host, &leaf.name),
        };
        let who = if leaf.who.is_empty() { String::new() } else { format!(": {}", leaf.who) };
        let what = match leaf.category {
            None if leaf.again => format!("segments of {} were retransmitted", leaf.who),
            None if leaf.name.is_empty() => format!("network of {}", leaf.who),
            None => format!("what it sent for {} was in queues of TCP and the device", leaf.who),
            Some(category) if leaf.followed => {
                format!("waiting for another thread, {}{who}", category.meaning())
            }
            Some(category) => format!("{}{who}", category.meaning()),
        };
        let share = format!("  {:5.1} %  ", leaf.time as f64 * 100.0 / all.max(1) as f64);
        writeln!(out, "{share}{}", wrapped_to(&format!("{place}: {what}"), share.len(), COLUMNS))?;
    }
    Ok(())
}

/// The largest causes of a part, in words.
fn causes(part: &PartRow) -> String {
    let shown = part.causes.iter().filter(|c| c.time >= part.time.max(10) / 10).take(3);
    let words = shown.map(|c| {
        let what = match c.category {
            Some(category) if c.followed => format!("waiting for a thread: {category}"),
            Some(category) => category.to_string(),
            None if c.who.is_empty() => "being sent".into(),
            None => "requests to".into(),
        };
        let who = if c.who.is_empty() { String::new() } else { format!(" {}", c.who) };
        format!("{what}{who} {:.0} %", c.time as f64 * 100.0 / part.time.max(1) as f64)
    });
    words.collect::<Vec<_>>().join(", ")
}

fn clocks(rows: &[ClockRow], out: &mut Screen<'_>) -> Result<()> {
    if rows.is_empty() {
        return Ok(());
    }
    writeln!(out)?;
    out.heading("Clocks [from the segments that both saw]")?;
    let mut table =
        Table::new(&["<of", "<against", "segments", "ahead", "off by at most", "drift", "pieces"])
            .least(&["pieces", "drift"]);
    for c in rows {
        let ahead = c.moments.first().map_or(0, |m| m.ahead);
        let sign = if ahead < 0 { "-" } else { "" };
        table.row(vec![
            c.to.clone(),
            c.from.clone(),
            units::count(c.segments),
            format!("{sign}{}", units::duration(ahead.unsigned_abs())),
            units::duration(c.width),
            format!("{:.2} +-{:.2} ppm", c.drift_ppm, c.drift_width_ppm),
            c.pieces.to_string(),
        ]);
    }
    out.table(&table)?;
    Ok(())
}

fn steering(rows: &[SteeringRow], out: &mut Screen<'_>) -> Result<()> {
    for s in rows {
        let how = if s.steered { "synchronized" } else { "not synchronized" };
        let mut line = format!("Clock of {}: {how}, rate corrected by {:.2} ppm", s.host, s.rate_ppm);
        if s.changed_ppm > 0.0 {
            line += &format!("; the correction changed by {:.4} ppm while it was recorded", s.changed_ppm);
        }
        if s.slewed_ns > 0 {
            line += &format!("; {} were being slewed", units::duration(s.slewed_ns));
        }
        writeln!(out, "  {}", wrapped_to(&line, 4, COLUMNS))?;
    }
    Ok(())
}
