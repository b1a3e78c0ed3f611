// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Files that go into a bucket of S3, or of a server that speaks its protocol. An object appears when it is whole. A request
//! that fails for a reason that passes (a broken connection, 5xx, 429) is tried again.

mod send;
mod settings;

use anyhow::{anyhow, bail, Context, Result};
use base64::Engine;
use ring::digest::{Context as Digest, SHA256};
use rusty_s3::actions::{ListObjectsV2, S3Action};
use rusty_s3::{Bucket as Address, Credentials, UrlStyle};
pub use send::{Parcel, Sent};
use settings::Settings;
use std::fs::File;
use std::io::{Read, Seek};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};
use ureq::http::Response;
use ureq::tls::{parse_pem, PemItem, RootCerts, TlsConfig};
use ureq::{Agent, Body};

/// What a bucket's address begins with.
pub const SCHEME: &str = "s3://";

/// How long a signed address is good for: a server looks when a request begins, and each try is signed anew.
const SIGNED: Duration = Duration::from_secs(900);
const CONNECT: Duration = Duration::from_secs(10);
/// Of each part of a request that is written: a peer that takes longer is gone.
const PART: Duration = Duration::from_secs(30);
/// Until the answer begins, and of each part of it: a server may have to write what it was given.
const ANSWER: Duration = Duration::from_secs(120);
/// Larger files are sent when the server has said that it takes them; else a refusal is a broken connection.
const ASKS_FIRST: u64 = 1 << 20;
const TRIES: u32 = 6;
/// Before the second try; doubled before each further one.
const PAUSE: Duration = Duration::from_millis(200);
/// Where distributions keep the certificates that they trust: Debian, Fedora, SUSE.
const TRUSTED: [&str; 3] =
    ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/ca-bundle.pem"];
/// Metadata of an object: its content's SHA-256, hexadecimal.
const SUM: &str = "x-amz-meta-sha256";
/// The same for the server, which refuses a content that is another; base64.
const CHECKED: &str = "x-amz-checksum-sha256";

/// A bucket, or what begins with a prefix in it.
pub struct Bucket {
    address: Address,
    prefix: String,
    credentials: Credentials,
    agent: Agent,
    /// Ends what is tried when it becomes true.
    stop: &'static AtomicBool,
}

/// An object that is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Object {
    /// Of its content, hexadecimal, when it was put by [`Bucket::put`].
    pub sha256: Option<String>,
}

/// Whether what is there may be replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    Always,
    /// There must be none.
    New,
}

/// The server did not answer, or not with an answer to the request, however often it was tried: another request would fare as badly.
#[derive(Debug)]
pub struct OutOfReach;

impl std::fmt::Display for OutOfReach {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "no answer of use in {TRIES} tries")
    }
}

/// Why a try has no answer that is of use.
enum Failed {
    /// The next try may have one.
    Passing(anyhow::Error),
    Final(anyhow::Error),
}

impl Bucket {
    /// `s3://NAME` or `s3://NAME/PREFIX`. Credentials, region and endpoint are those of the tools of AWS: `variable` gives
    /// the value of an environment variable. Requests end with an error when `stop` becomes true.
    ///
    /// # Errors
    /// It is no such address, there are no credentials, or certificates cannot be read.
    pub fn open(
        url: &str,
        variable: &dyn Fn(&str) -> Option<String>,
        stop: &'static AtomicBool,
    ) -> Result<Self> {
        let settings = Settings::new(variable)?;
        let rest =
            url.strip_prefix(SCHEME).with_context(|| format!("{url}: does not begin with {SCHEME}"))?;
        let (name, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
        if name.is_empty() || !name.chars().all(plain) {
            bail!("{url}: '{name}' is no bucket's name; it is s3://NAME/PREFIX");
        }
        let prefix = prefix.trim_matches('/');
        // In an address they would lead out of the bucket.
        if std::iter::once(name).chain(prefix.split('/')).any(|part| matches!(part, "." | "..")) {
            bail!("{url}: neither a bucket nor a part of the prefix can be '.' or '..'");
        }
        // What a host's name cannot have, or a certificate is not for.
        let odd = |c: char| matches!(c, '.' | '_') || c.is_ascii_uppercase();
        let style = match (&settings.endpoint, name.contains(odd)) {
            (None, false) => UrlStyle::VirtualHost,
            _ => UrlStyle::Path,
        };
        let region = settings.region.clone();
        let china = if region.starts_with("cn-") { ".cn" } else { "" };
        let mut endpoint =
            settings.endpoint.clone().unwrap_or(format!("https://s3.{region}.amazonaws.com{china}"));
        if endpoint.contains('@') {
            bail!("the endpoint has a user's name in it; credentials are AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY");
        }
        // The bucket comes behind its path.
        if !endpoint.ends_with('/') {
            endpoint.push('/');
        }
        let parsed = endpoint.parse().with_context(|| format!("{endpoint}: is no endpoint"))?;
        let address = Address::new(parsed, style, name.to_owned(), region)
            .map_err(|error| anyhow!("{endpoint}: is no endpoint: {error}"))?;
        let https = address.base_url().scheme() == "https";
        let agent = Agent::config_builder()
            .tls_config(tls(https, settings.certificates.as_deref(), "AWS_CA_BUNDLE")?)
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .timeout_connect(Some(CONNECT))
            .timeout_per_write(Some(PART))
            .timeout_per_read(Some(ANSWER))
            .timeout_recv_response(Some(ANSWER))
            .timeout_recv_body(Some(ANSWER))
            .user_agent(concat!("plumb/", env!("CARGO_PKG_VERSION")))
            .build();
        let prefix = if prefix.is_empty() { String::new() } else { format!("{prefix}/") };
        Ok(Self { address, prefix, credentials: settings.credentials.clone(), agent: agent.into(), stop })
    }

    /// The server, bucket and prefix: where its files are, whatever it is called.
    pub fn place(&self) -> String {
        format!("{}{}", self.address.base_url(), self.prefix)
    }

    /// The object of a key below the prefix; none where there is none.
    ///
    /// # Errors
    /// The server cannot be asked, or refuses.
    pub fn head(&self, key: &str) -> Result<Option<Object>> {
        let key = self.key(key);
        let action = self.address.head_object(Some(&self.credentials), &key);
        let answer = self.tried(&key, &[404], || self.agent.head(action.sign(SIGNED).as_str()).call())?;
        let header = |name: &str| Some(answer.headers().get(name)?.to_str().ok()?.to_owned());
        let object = || Object { sha256: header(SUM) };
        Ok((answer.status() != 404).then(object))
    }

    /// Makes an object of a file. False when [`When`] does not hold; then nothing is changed.
    ///
    /// # Errors
    /// The file cannot be read, or the server cannot be asked, or refuses.
    pub fn put(&self, key: &str, path: &Path, when: When) -> Result<bool> {
        let key = self.key(key);
        let name = || path.display().to_string();
        // Opened once: what is sent is what was summed up.
        let mut file = File::open(path).with_context(name)?;
        let large = file.metadata().with_context(name)?.len() > ASKS_FIRST;
        let sum = Sum::of(&mut file).with_context(name)?;
        let mut headers = vec![(SUM, sum.hexadecimal()), (CHECKED, sum.base64())];
        if when == When::New {
            headers.push(("if-none-match", "*".to_owned()));
        }
        let put = |headers: &[(&'static str, String)]| {
            (&file).rewind()?;
            let mut action = self.address.put_object(Some(&self.credentials), &key);
            headers.iter().for_each(|(name, value)| action.headers_mut().insert(*name, value.clone()));
            let mut request = self.agent.put(action.sign(SIGNED).as_str());
            if large {
                request = request.header("expect", "100-continue");
            }
            headers.iter().fold(request, |request, (name, value)| request.header(*name, value)).send(&file)
        };
        // 501: a server without conditions. 409: another request for the same object was not done yet.
        let excused: &[u16] = if when == When::New { &[412, 409, 501] } else { &[] };
        let answer = self.tried(&key, excused, || put(&headers))?;
        match answer.status().as_u16() {
            501 => {
                headers.pop();
                self.tried(&key, &[], || put(&headers)).map(|_| true)
            }
            409 | 412 => Ok(false),
            _ => Ok(true),
        }
    }

    /// Removes an object, or finds that there is none.
    ///
    /// # Errors
    /// The server cannot be asked, or refuses.
    pub fn remove(&self, key: &str) -> Result<()> {
        let key = self.key(key);
        let action = self.address.delete_object(Some(&self.credentials), &key);
        self.tried(&key, &[404], || self.agent.delete(action.sign(SIGNED).as_str()).call()).map(drop)
    }

    /// Names of the directories right below the prefix: what keys have there before their next slash.
    ///
    /// # Errors
    /// The server cannot be asked, or refuses.
    pub fn directories(&self) -> Result<Vec<String>> {
        let mut out = Vec::new();
        let mut token: Option<String> = None;
        loop {
            let mut action = self.address.list_objects_v2(Some(&self.credentials));
            action.with_prefix(self.prefix.as_str());
            action.with_delimiter("/");
            if let Some(token) = &token {
                action.with_continuation_token(token.as_str());
            }
            let mut answer =
                self.tried(&self.prefix, &[], || self.agent.get(action.sign(SIGNED).as_str()).call())?;
            let text = answer.body_mut().read_to_string()?;
            let said = ListObjectsV2::parse_response(&text)
                .with_context(|| format!("{}: its list of objects is none", self.address.base_url()))?;
            for below in said.common_prefixes {
                let name = below.prefix.strip_prefix(&self.prefix).unwrap_or(&below.prefix);
                out.push(name.trim_end_matches('/').to_owned());
            }
            token = said.next_continuation_token;
            if token.is_none() {
                return Ok(out);
            }
        }
    }

    fn key(&self, key: &str) -> String {
        format!("{}{key}", self.prefix)
    }

    /// The answer to a request: of success, or one that is excused.
    fn tried(
        &self,
        key: &str,
        excused: &[u16],
        request: impl Fn() -> Result<Response<Body>, ureq::Error>,
    ) -> Result<Response<Body>> {
        let mut pause = PAUSE;
        for tries in 1.. {
            if self.stop.load(Ordering::Relaxed) {
                bail!("ended before it was sent");
            }
            let failed = match request() {
                Ok(answer) if answer.status().is_success() => return Ok(answer),
                Ok(answer) if excused.contains(&answer.status().as_u16()) => return Ok(answer),
                Ok(answer) => match answer.status().as_u16() {
                    408 | 425 | 429 | 500 | 502..=504 => Failed::Passing(self.said(key, answer)),
                    _ => Failed::Final(self.said(key, answer)),
                },
                Err(error) => self.without_answer(error),
            };
            match failed {
                Failed::Passing(_) if tries < TRIES => {}
                Failed::Passing(error) => return Err(error.context(OutOfReach)),
                Failed::Final(error) => return Err(error),
            }
            let until = Instant::now() + pause;
            while Instant::now() < until && !self.stop.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(20));
            }
            pause *= 2;
        }
        unreachable!("the last try returns")
    }

    fn without_answer(&self, error: ureq::Error) -> Failed {
        let address = self.address.base_url();
        let host = format!(
            "{}:{}",
            address.host_str().unwrap_or_default(),
            address.port_or_known_default().unwrap_or(0)
        );
        match error {
            ureq::Error::Io(_)
            | ureq::Error::Timeout(_)
            | ureq::Error::HostNotFound
            | ureq::Error::ConnectionFailed
            | ureq::Error::Protocol(_) => Failed::Passing(anyhow!("{host}: {error}")),
            _ => Failed::Final(anyhow!("{host}: {error}")),
        }
    }

    /// What a server that refuses says.
    fn said(&self, key: &str, answer: Response<Body>) -> anyhow::Error {
        let status = answer.status();
        let there =
            answer.headers().get("x-amz-bucket-region").and_then(|v| v.to_str().ok()).map(str::to_owned);
        let mut text = String::new();
        // What it says is another's: as much as an error has.
        let _ = answer.into_body().into_reader().take(4096).read_to_string(&mut text);
        let word = |tag: &str| {
            let from = text.find(&format!("<{tag}>"))? + tag.len() + 2;
            let word = &text[from..from + text[from..].find('<')?];
            Some(word.chars().filter(|c| !c.is_control()).collect::<String>())
        };
        let words = match (word("Code"), word("Message")) {
            (Some(code), Some(message)) => format!("{code}: {message}"),
            (Some(code), None) => code,
            _ => status.canonical_reason().unwrap_or("refused").to_owned(),
        };
        let next = match (status.as_u16(), there) {
            (300..=400, Some(region)) if region != self.address.region() => {
                format!("; the bucket is in {region}: set AWS_REGION={region}")
            }
            // What is not there is 403 as well to who may not list.
            (403, _) => {
                "; the key and its secret must be right, and allow s3:ListBucket, s3:GetObject, s3:PutObject and s3:DeleteObject".to_owned()
            }
            (404, _) => format!("; is there a bucket '{}'?", self.address.name()),
            _ => String::new(),
        };
        anyhow!("{SCHEME}{}/{key}: {} {words}{next}", self.address.name(), status.as_u16())
    }
}

/// A content's SHA-256.
struct Sum(ring::digest::Digest);

impl Sum {
    fn of(file: &mut File) -> std::io::Result<Self> {
        let (mut digest, mut buffer) = (Digest::new(&SHA256), vec![0; 1 << 16]);
        loop {
            match file.read(&mut buffer)? {
                0 => return Ok(Self(digest.finish())),
                n => digest.update(&buffer[..n]),
            }
        }
    }

    fn hexadecimal(&self) -> String {
        self.0.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
    }

    fn base64(&self) -> String {
        base64::engine::general_purpose::STANDARD.encode(self.0.as_ref())
    }
}

/// A file's SHA-256, hexadecimal, as [`Object::sha256`] has it.
///
/// # Errors
/// It cannot be read.
pub fn sha256(path: &Path) -> Result<String> {
    let sum = File::open(path).and_then(|mut file| Sum::of(&mut file));
    Ok(sum.with_context(|| path.display().to_string())?.hexadecimal())
}

/// Whom a client over HTTP trusts: with `https` the certificates of the file that is named, in the environment variable `variable`, or
/// of the system.
///
/// # Errors
/// There are none, or they cannot be read.
pub fn tls(https: bool, named: Option<&Path>, variable: &str) -> Result<TlsConfig> {
    let mut tls = TlsConfig::builder()
        .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()));
    if https {
        tls = tls.root_certs(RootCerts::Specific(Arc::new(trusted(named, variable)?)));
    }
    Ok(tls.build())
}

fn trusted(named: Option<&Path>, variable: &str) -> Result<Vec<ureq::tls::Certificate<'static>>> {
    let usual = || TRUSTED.iter().map(PathBuf::from).find(|path| path.exists());
    let Some(path) = named.map(Path::to_path_buf).or_else(usual) else {
        bail!("there are no trusted certificates on this system; install ca-certificates, or set {variable}");
    };
    let name = || path.display().to_string();
    let bytes = std::fs::read(&path).with_context(name)?;
    let certificates: Vec<_> = parse_pem(&bytes)
        .filter_map(|item| match item {
            Ok(PemItem::Certificate(certificate)) => Some(certificate),
            _ => None,
        })
        .collect();
    if certificates.is_empty() {
        bail!("{}: has no certificate", path.display());
    }
    Ok(certificates)
}
