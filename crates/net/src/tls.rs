// SPDX-License-Identifier: Apache-2.0 OR MIT
//! TLS 1.3 between two ends that know each other's public key.

use crate::address::{readable, Socket};
use anyhow::{Context, Result};
use ring::rand::SystemRandom;
use ring::signature::Ed25519KeyPair;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::AlwaysResolvesClientRawPublicKeys;
use rustls::crypto::{verify_tls13_signature_with_raw_key, CryptoProvider};
use rustls::pki_types::{
    CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName, SubjectPublicKeyInfoDer, UnixTime,
};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::AlwaysResolvesServerRawPublicKeys;
use rustls::sign::{CertifiedKey, SigningKey};
use rustls::version::TLS13;
use rustls::{
    CertificateError, ClientConfig, ClientConnection, Connection, DigitallySignedStruct, DistinguishedName,
    Error, ServerConfig, ServerConnection, SignatureScheme,
};
use std::fmt;
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// One end's key (Ed25519, RFC 8032).
#[derive(Clone)]
pub struct Key(Arc<dyn SigningKey>);

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key")
    }
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

impl Key {
    /// A new key, as PKCS#8.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub fn generate() -> Result<Vec<u8>> {
        let made = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new());
        Ok(made.map_err(|_| anyhow::anyhow!("no random numbers for a key"))?.as_ref().to_vec())
    }

    /// A key that was generated.
    ///
    /// # Errors
    /// It is none.
    pub fn of(pkcs8: &[u8]) -> Result<Self> {
        let der = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(pkcs8.to_vec()));
        Ok(Self(provider().key_provider.load_private_key(der).context("no key")?))
    }

    /// Its public part (SubjectPublicKeyInfo).
    pub fn public(&self) -> Vec<u8> {
        self.0.public_key().map(|key| key.to_vec()).unwrap_or_default()
    }

    fn certified(&self) -> Arc<CertifiedKey> {
        Arc::new(CertifiedKey::new(vec![CertificateDer::from(self.public())], self.0.clone()))
    }
}

/// Whose public keys are accepted.
#[derive(Debug)]
struct Known {
    keys: Vec<Vec<u8>>,
    provider: Arc<CryptoProvider>,
}

impl Known {
    fn check(&self, key: &CertificateDer<'_>) -> Result<(), Error> {
        let known = self.keys.iter().any(|k| k.as_slice() == key.as_ref());
        known.then_some(()).ok_or(Error::InvalidCertificate(CertificateError::ApplicationVerificationFailure))
    }

    fn signed(
        &self,
        message: &[u8],
        key: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let key = SubjectPublicKeyInfoDer::from(key.as_ref());
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature_with_raw_key(message, &key, signature, algorithms)
    }
}

impl ServerCertVerifier for Known {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.check(end_entity).map(|()| ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(Error::General("TLS 1.3 only".into()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.signed(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}

impl ClientCertVerifier for Known {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        self.check(end_entity).map(|()| ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(Error::General("TLS 1.3 only".into()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.signed(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}

/// What a sender connects with.
///
/// # Errors
/// The library lacks TLS 1.3.
pub fn client(key: &Key, collector: Vec<u8>) -> Result<Arc<ClientConfig>> {
    let provider = provider();
    let known = Arc::new(Known { keys: vec![collector], provider: provider.clone() });
    let config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(known)
        .with_client_cert_resolver(Arc::new(AlwaysResolvesClientRawPublicKeys::new(key.certified())));
    Ok(Arc::new(config))
}

/// What a collector takes connections with, from those keys only.
///
/// # Errors
/// As [`client`].
pub fn server(key: &Key, invited: Vec<Vec<u8>>) -> Result<Arc<ServerConfig>> {
    let provider = provider();
    let known = Arc::new(Known { keys: invited, provider: provider.clone() });
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13])?
        .with_client_cert_verifier(known)
        .with_cert_resolver(Arc::new(AlwaysResolvesServerRawPublicKeys::new(key.certified())));
    // Nothing is resumed: each connection shows its key.
    config.send_tls13_tickets = 0;
    Ok(Arc::new(config))
}

/// How often a handshake looks whether to stop.
const TURN: Duration = Duration::from_millis(100);

/// A connection: frames go out whole, and come in as they are there.
pub struct Wire {
    socket: Socket,
    tls: Connection,
    /// What came in and was not taken.
    inbox: Vec<u8>,
}

impl fmt::Debug for Wire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Wire({:?})", self.socket)
    }
}

impl Wire {
    /// Connects as a sender, until `limit` at most, or `stop` says so.
    ///
    /// # Errors
    /// The other end is not who it should be, does not know us, or is slow.
    pub fn client(
        socket: Socket,
        config: Arc<ClientConfig>,
        limit: Duration,
        stop: &dyn Fn() -> bool,
    ) -> io::Result<Self> {
        // It is not looked at: the key alone counts.
        let name = ServerName::try_from("collector").map_err(io::Error::other)?;
        let tls = ClientConnection::new(config, name).map_err(io::Error::other)?;
        Self::shake_hands(socket, tls.into(), limit, stop)
    }

    /// Takes a connection as a collector, until `limit` at most, or `stop` says so.
    ///
    /// # Errors
    /// The other end was not invited, or is slow.
    pub fn server(
        socket: Socket,
        config: Arc<ServerConfig>,
        limit: Duration,
        stop: &dyn Fn() -> bool,
    ) -> io::Result<Self> {
        let tls = ServerConnection::new(config).map_err(io::Error::other)?;
        Self::shake_hands(socket, tls.into(), limit, stop)
    }

    fn shake_hands(
        socket: Socket,
        tls: Connection,
        limit: Duration,
        stop: &dyn Fn() -> bool,
    ) -> io::Result<Self> {
        let until = Instant::now() + limit;
        socket.set_write_timeout(Some(limit))?;
        let mut wire = Self { socket, tls, inbox: Vec::new() };
        loop {
            wire.push()?;
            if !wire.tls.is_handshaking() {
                return Ok(wire);
            }
            if Instant::now() >= until || stop() {
                return Err(io::ErrorKind::TimedOut.into());
            }
            wire.pull(TURN)?;
        }
    }

    /// Another handle of the socket, to end the connection by.
    ///
    /// # Errors
    /// As dup(2).
    pub fn handle(&self) -> io::Result<Socket> {
        self.socket.try_clone()
    }

    /// The other end's public key.
    pub fn peer(&self) -> Vec<u8> {
        let keys = self.tls.peer_certificates();
        keys.and_then(|k| k.first()).map(|k| k.to_vec()).unwrap_or_default()
    }

    fn push(&mut self) -> io::Result<()> {
        while self.tls.wants_write() {
            if self.tls.write_tls(&mut self.socket)? == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
        }
        Ok(())
    }

    /// Takes in what is there, or comes within `wait`; whether something did.
    fn pull(&mut self, wait: Duration) -> io::Result<bool> {
        if !readable(self.socket.as_raw_fd(), wait)? {
            return Ok(false);
        }
        if self.tls.read_tls(&mut self.socket)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let state = self.tls.process_new_packets();
        if state.is_err() {
            // It tells the other end why.
            let _ = self.push();
        }
        let plain = state.map_err(io::Error::other)?.plaintext_bytes_to_read();
        if plain > 0 {
            let from = self.inbox.len();
            self.inbox.resize(from + plain, 0);
            self.tls.reader().read_exact(&mut self.inbox[from..])?;
        }
        Ok(true)
    }

    /// Sends bytes, all of them.
    ///
    /// # Errors
    /// The connection is gone, or takes nothing for longer than it may.
    pub fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut rest = bytes;
        while !rest.is_empty() {
            // Its own buffer is bounded: what does not fit waits for a push.
            let taken = self.tls.writer().write(rest)?;
            rest = &rest[taken..];
            self.push()?;
        }
        Ok(())
    }

    /// Waits for more; what came in can be taken from the inbox.
    ///
    /// # Errors
    /// The connection is gone.
    pub fn receive(&mut self, wait: Duration) -> io::Result<&mut Vec<u8>> {
        let _came = self.pull(wait)?;
        Ok(&mut self.inbox)
    }

    /// What came in and was not taken.
    pub fn inbox(&mut self) -> &mut Vec<u8> {
        &mut self.inbox
    }
}
