// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `plumb collect`: recordings of other hosts, and the sender's end of `plumb record --to`.

use crate::cli::{CollectArgs, RecordArgs};
use anyhow::Result;
use plumb_machine::json;
use plumb_machine::signals::{self, Calls};
use plumb_machine::{capabilities, output};
use plumb_net::{invite, Collector, Invitation, Limits, News, RemoteSink};
use plumb_probe::{Options, Outcome};
use plumb_trace::ctf::Metadata;
use plumb_trace::units;
use plumb_trace::writer::Sink;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Runs the command.
///
/// # Errors
/// No set, nobody invited, or the address is taken.
pub fn main(args: &CollectArgs) -> Result<ExitCode> {
    output::private_unless(args.share);
    if let Some(name) = &args.invite {
        let file = args.output.clone().unwrap_or_else(|| PathBuf::from(format!("{name}.invitation")));
        invite(&args.set, name, &file)?;
        eprintln!(
            "{}: for {name} alone, which sends with 'plumb record --to ADDRESS --invitation {}'",
            file.display(),
            file.display()
        );
    }
    let Some(listen) = &args.listen else { return Ok(ExitCode::SUCCESS) };
    signals::catch(Calls::Restart);
    let collector = Collector::new(&args.set, listen)?;
    // What comes from outside is read with no more than it takes to write for the user behind sudo.
    let _ = capabilities::keep(&[capabilities::CHOWN, capabilities::DAC_OVERRIDE, capabilities::FOWNER], &[]);
    let port = collector.port().map_or(String::new(), |port| format!(", port {port}"));
    eprintln!("listening on {listen}{port} for recordings into {}; Ctrl-C ends it", args.set.display());
    if args.json {
        json::begin_lines::<News>(std::io::stdout())?;
    }
    let begun = Instant::now();
    let until = args.duration.map(Duration::from_nanos);
    let over = || signals::stop().times() > 0 || until.is_some_and(|until| begun.elapsed() >= until);
    collector.run(&over, &|news| tell(&news, args.json));
    Ok(ExitCode::SUCCESS)
}

fn tell(news: &News, json: bool) {
    if json {
        let _ = json::line(std::io::stdout(), news);
        return;
    }
    match news {
        News::Began { dir } => eprintln!("{}: a recording begins", dir.display()),
        News::Resumed { dir } => eprintln!("{}: its sender is back", dir.display()),
        News::Ended { dir, bytes } => {
            let size = units::bytes(*bytes);
            eprintln!("{}: whole, {size}; 'plumb explain {}' explains it", dir.display(), dir.display());
        }
        News::Failed { dir: Some(dir), why } => eprintln!("{}: {why}; what came is readable", dir.display()),
        News::Failed { dir: None, why } => eprintln!("a connection was refused: {why}"),
    }
}

/// Records to a collector, if the words say so.
///
/// # Errors
/// No invitation, or nobody who takes it; nothing could be recorded.
pub fn record(args: &RecordArgs, options: &Options) -> Result<Option<Outcome>> {
    let (Some(to), Some(file)) = (&args.to, &args.invitation) else { return Ok(None) };
    let invitation = Invitation::read(file)?;
    let options = Options { dir: format!("{} at {to}", invitation.name).into(), ..options.clone() };
    let mut open = |metadata: &Metadata| {
        let sink = RemoteSink::connect(to, &invitation, metadata, Limits::default())?;
        Ok(Box::new(sink) as Box<dyn Sink>)
    };
    crate::record::record_into(&options, args.what.quiet, &mut open).map(Some)
}
