// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Options of `plumb collect`.

use clap::Args;
use plumb_net::Address;
use plumb_trace::units;
use std::path::PathBuf;

/// Help's last part.
pub const HELP: &str = "\
Senders are 'plumb record --to ADDRESS --invitation FILE' on other hosts. 'plumb help collecting' tells more.
Exit codes: 0 done, 2 error.

Examples:
  plumb collect set --invite web1            # writes web1.invitation: give it to that host, and to nobody else
  plumb collect set --listen 0.0.0.0:7007
  plumb explain set/web1";

/// Whom to invite, or where to listen.
#[derive(Debug, Args)]
pub struct CollectArgs {
    /// Directory of the set: a trace for each recording, named after its sender.
    pub set: PathBuf,
    /// Invite a sender of this name: make its keys, and write its half to NAME.invitation.
    #[arg(long, value_name = "NAME", required_unless_present = "listen", conflicts_with = "listen")]
    pub invite: Option<String>,
    /// Write the invitation to this file.
    #[arg(short, long, value_name = "FILE", requires = "invite")]
    pub output: Option<PathBuf>,
    /// Take recordings at HOST:PORT, unix:PATH or vsock:CID:PORT, until Ctrl-C.
    #[arg(long, value_name = "ADDRESS")]
    pub listen: Option<Address>,
    /// End after this long.
    #[arg(long = "for", value_name = "DURATION", value_parser = units::parse_duration, requires = "listen")]
    pub duration: Option<u64>,
    /// Let every user read the set, if it is made now, and what is collected; else its user alone can (of sudo, the
    /// user who called it).
    #[arg(long)]
    pub share: bool,
    /// Tell what happens as JSON on standard output, a line each.
    #[arg(long, requires = "listen")]
    pub json: bool,
}
