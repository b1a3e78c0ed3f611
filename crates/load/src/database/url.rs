// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The URL of a MariaDB server: mariadb://[user[:password]@][host[:port]]/[database][?socket=/path].

use super::{text, DatabaseError};
use std::ffi::CString;

/// Its parts; `None`: what the client library takes by itself, from ~/.my.cnf too.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Mariadb {
    pub user: Option<CString>,
    pub password: Option<CString>,
    pub host: Option<CString>,
    /// 0: not said.
    pub port: u16,
    pub database: Option<CString>,
    pub socket: Option<CString>,
}

fn wrong(said: &str) -> DatabaseError {
    DatabaseError(format!("{said}; give mariadb://[user[:password]@][host[:port]]/[database][?socket=/path]"))
}

/// With %41 for A; `None` of nothing.
fn decoded(part: &str) -> Result<Option<CString>, DatabaseError> {
    let mut bytes = Vec::with_capacity(part.len());
    let mut rest = part.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digit = |d: Option<u8>| d.and_then(|d| char::from(d).to_digit(16));
        match (digit(rest.next()), digit(rest.next())) {
            (Some(high), Some(low)) => bytes.push((high * 16 + low) as u8),
            _ => return Err(wrong("a % in the URL without two hexadecimal digits")),
        }
    }
    let whole = String::from_utf8(bytes).map_err(|_| wrong("the URL is no UTF-8"))?;
    Ok(if whole.is_empty() { None } else { Some(text(&whole)?) })
}

impl Mariadb {
    pub(super) fn parse(url: &str) -> Result<Self, DatabaseError> {
        let rest = url.strip_prefix("mariadb://").ok_or_else(|| wrong("no URL of MariaDB"))?;
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, database) = rest.split_once('/').unwrap_or((rest, ""));
        let (login, address) = authority.rsplit_once('@').unwrap_or(("", authority));
        // An empty password is none, whatever ~/.my.cnf says; one that is not there is asked of it.
        let (user, password) = match login.split_once(':') {
            Some((user, password)) => (user, Some(decoded(password)?.unwrap_or_default())),
            None => (login, None),
        };
        let (host, port) = match address.strip_prefix('[').and_then(|v6| v6.split_once(']')) {
            Some((host, port)) => (host, port.strip_prefix(':').unwrap_or_default()),
            None => address.split_once(':').unwrap_or((address, "")),
        };
        let port = match port {
            "" => 0,
            digits => digits.parse().map_err(|_| wrong("the URL's port is no number up to 65535"))?,
        };
        // To the library localhost is the Unix socket, whatever the port.
        let host = if host == "localhost" && port != 0 { "127.0.0.1" } else { host };
        let mut socket = None;
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            match pair.split_once('=') {
                Some(("socket", path)) => socket = decoded(path)?,
                _ => return Err(wrong("the URL has an unknown option behind its ?")),
            }
        }
        // A socket is of this machine: without a host the library would ask the one that ~/.my.cnf names.
        let host = if host.is_empty() && socket.is_some() { "localhost" } else { host };
        Ok(Mariadb {
            user: decoded(user)?,
            password,
            host: decoded(host)?,
            port,
            database: decoded(database)?,
            socket,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(url: &str) -> Mariadb {
        Mariadb::parse(url).unwrap_or_else(|e| panic!("{url}: {e}"))
    }

    #[test]
    fn a_url_has_all_parts_or_none() {
        assert_eq!(parsed("mariadb://"), Mariadb::default());
        assert_eq!(parsed("mariadb:///"), Mariadb::default());
        let all = parsed("mariadb://me:secret@db.example:3307/bench?socket=/run/s");
        let some = |text: &std::ffi::CStr| Some(text.to_owned());
        assert_eq!((all.user, all.password), (some(c"me"), some(c"secret")));
        assert_eq!((all.host, all.port, all.database), (some(c"db.example"), 3307, some(c"bench")));
        assert_eq!(all.socket, some(c"/run/s"));
        let odd = parsed("mariadb://a%40b:p%3a%2F%25@[::1]:1/x%20y");
        assert_eq!((odd.user, odd.password), (some(c"a@b"), some(c"p:/%")));
        assert_eq!((odd.host, odd.port, odd.database), (some(c"::1"), 1, some(c"x y")));
    }

    #[test]
    fn localhost_with_a_port_is_tcp() {
        assert_eq!(parsed("mariadb://localhost/x").host, Some(c"localhost".to_owned()));
        assert_eq!(parsed("mariadb://localhost:3306/x").host, Some(c"127.0.0.1".to_owned()));
    }

    #[test]
    fn a_socket_and_an_empty_password_are_not_left_to_others() {
        let local = parsed("mariadb://root:@/x?socket=/s");
        assert_eq!((local.host, local.password), (Some(c"localhost".to_owned()), Some(c"".to_owned())));
        assert_eq!(parsed("mariadb://root@/x").password, None);
    }

    #[test]
    fn what_is_wrong_is_told_without_the_password() {
        for url in [
            "mariadb://me:secret@h:port/",
            "mariadb://me:secret@h:70000/",
            "mariadb://me:secret@h/?sock=/s",
            "mariadb://me:secret%g@h/",
            "mariadb://me:secret%00@h/",
            "mysql://me:secret@h/",
        ] {
            let said = Mariadb::parse(url).expect_err(url).0;
            assert!(said.contains("; ") && !said.contains("secret"), "{said}");
        }
    }
}
