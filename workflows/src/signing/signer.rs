//! Ed25519 keys: signing and verification.

use crate::signing::{Digest, KeySuccession, KeySuccessions, Moment};
use async_trait::async_trait;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use ring::{
    rand::{SecureRandom as _, SystemRandom},
    signature::{ED25519, Ed25519KeyPair, KeyPair as _, UnparsedPublicKey},
};
use rustls::pki_types::{PrivatePkcs8KeyDer, SubjectPublicKeyInfoDer, pem::PemObject as _};
use serde::{Deserialize, Serialize};
use std::{
    fmt,
    fs::OpenOptions,
    io::{self, Write as _},
    path::{Path, PathBuf},
};

/// The PKCS#8 prefix of a 32-byte private key (RFC 8410, section 7).
const PRIVATE_PREFIX: [u8; 16] =
    [0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20];
/// The SubjectPublicKeyInfo prefix of a 32-byte public key (RFC 8410, section 4).
const PUBLIC_PREFIX: [u8; 12] = [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];

/// Creates signatures. The same key must give the same signature for the same message.
#[async_trait]
pub trait Signer: fmt::Debug + Send + Sync {
    /// Signs `message` with Ed25519.
    ///
    /// # Errors
    /// The reason why the key cannot be used.
    async fn sign(&self, message: &[u8]) -> Result<(Vec<u8>, PublicKey), String>;
}

/// The public half of an Ed25519 key.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct PublicKey([u8; 32]);

impl PublicKey {
    /// Returns the key's id: the SHA-256 of its SubjectPublicKeyInfo, as `openssl pkey -pubin -outform DER | sha256sum` prints it.
    #[must_use]
    pub fn id(&self) -> String {
        Digest::from_bytes(&self.der()).0
    }

    /// Returns the key as PEM.
    #[must_use]
    pub fn to_pem(&self) -> String {
        pem("PUBLIC KEY", &self.der())
    }

    /// Reads every public key in a PEM text.
    ///
    /// # Errors
    /// The problem of the text.
    pub fn all_from_pem(text: &[u8]) -> Result<Vec<Self>, String> {
        let sections: Result<Vec<_>, _> = SubjectPublicKeyInfoDer::pem_slice_iter(text).collect();
        let keys = sections.map_err(|e| format!("the PEM cannot be read: {e:?}"))?;
        if keys.is_empty() {
            return Err("it has no PUBLIC KEY: expected PEM, as `tenure certificate key` prints it".into());
        }
        let key = |der: SubjectPublicKeyInfoDer<'_>| {
            let bytes = der.strip_prefix(&PUBLIC_PREFIX).and_then(|key| key.try_into().ok());
            bytes.map(Self).ok_or_else(|| "a PUBLIC KEY in it is not an Ed25519 key".to_owned())
        };
        keys.into_iter().map(key).collect()
    }

    /// Returns true if `signature` is a signature of `message` by this key.
    #[must_use]
    pub fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        UnparsedPublicKey::new(&ED25519, &self.0).verify(message, signature).is_ok()
    }

    fn der(&self) -> Vec<u8> {
        [&PUBLIC_PREFIX[..], &self.0].concat()
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PublicKey({})", self.id())
    }
}

impl From<PublicKey> for String {
    fn from(key: PublicKey) -> Self {
        STANDARD.encode(key.0)
    }
}

impl TryFrom<String> for PublicKey {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let bytes = STANDARD.decode(text).ok().and_then(|bytes| bytes.try_into().ok());
        bytes.map(Self).ok_or("an Ed25519 public key is 32 bytes in base64")
    }
}

/// A private key in the memory of this process.
pub struct SigningKey {
    pair: Ed25519KeyPair,
}

impl SigningKey {
    /// Returns the key of these 32 bytes, for simulated platforms and tests. The bytes are as secret as the key.
    ///
    /// # Errors
    /// Never fails for 32 bytes; otherwise returns the error of the library.
    pub fn from_seed(seed: [u8; 32]) -> Result<Self, String> {
        let pair = Ed25519KeyPair::from_seed_unchecked(&seed).map_err(|e| e.to_string())?;
        Ok(Self { pair })
    }

    /// Reads a key in PKCS#8 PEM, as this program or `openssl genpkey -algorithm ed25519` writes it.
    ///
    /// # Errors
    /// The problem of the text. It never contains the key.
    pub fn from_pem(text: &[u8]) -> Result<Self, String> {
        let der = PrivatePkcs8KeyDer::from_pem_slice(text)
            .map_err(|_| "it has no PRIVATE KEY: expected PKCS#8 PEM".to_owned())?;
        let pair = Ed25519KeyPair::from_pkcs8_maybe_unchecked(der.secret_pkcs8_der());
        pair.map(|pair| Self { pair }).map_err(|e| format!("it is not an Ed25519 key: {e}"))
    }

    /// Returns the signature of `message`.
    pub(crate) fn signature(&self, message: &[u8]) -> Vec<u8> {
        self.pair.sign(message).as_ref().to_vec()
    }

    /// Returns the public key.
    #[must_use]
    pub fn public_key(&self) -> PublicKey {
        let mut key = [0; 32];
        for (byte, known) in key.iter_mut().zip(self.pair.public_key().as_ref()) {
            *byte = *known;
        }
        PublicKey(key)
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SigningKey({})", self.public_key().id())
    }
}

#[async_trait]
impl Signer for SigningKey {
    async fn sign(&self, message: &[u8]) -> Result<(Vec<u8>, PublicKey), String> {
        Ok((self.signature(message), self.public_key()))
    }
}

/// A key in a file of mode 0600. It is created on first use.
#[derive(Clone, Debug)]
pub struct KeyFile {
    path: PathBuf,
}

impl KeyFile {
    /// The name of the file in the data folder.
    pub const NAME: &'static str = "certificate-key.pem";

    /// Returns the key file at this path.
    #[must_use]
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// Returns the key, and creates it if the file does not exist.
    ///
    /// # Errors
    /// The problem of the file, with its path.
    pub fn load_or_create(&self) -> Result<SigningKey, String> {
        let named = |why: &dyn fmt::Display| format!("{}: {why}", self.path.display());
        match self.read() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.make().map_err(|error| named(&error))?;
                let text = self.read().map_err(|error| named(&error))?;
                SigningKey::from_pem(&text).map_err(|why| named(&why))
            }
            Err(error) => Err(named(&error)),
            Ok(text) => SigningKey::from_pem(&text).map_err(|why| named(&why)),
        }
    }

    /// Returns the statements of succession beside the file.
    ///
    /// # Errors
    /// The problem of their file, with its path.
    pub fn successions(&self) -> Result<KeySuccessions, String> {
        let path = self.path.with_file_name(KeySuccessions::NAME);
        match std::fs::read(&path) {
            Ok(file) => Ok(KeySuccessions::read(&file)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(KeySuccessions::default()),
            Err(error) => Err(format!("{}: {error}", path.display())),
        }
    }

    /// Returns the public key of the file and its predecessors.
    ///
    /// # Errors
    /// The problem of a file, with its path.
    pub fn public_keys(&self) -> Result<Vec<PublicKey>, String> {
        Ok(self.successions()?.predecessors(&[self.load_or_create()?.public_key()]))
    }

    /// States that the key of the file succeeds `old`, and returns the statement.
    ///
    /// # Errors
    /// The problem of a file, with its path; or `old` is the key of the file.
    pub fn succeed(&self, old: &SigningKey, at: Moment, reason: &str) -> Result<String, String> {
        let key = self.load_or_create()?;
        if key.public_key() == old.public_key() {
            return Err(format!("{} is this key: no statement is necessary", self.path.display()));
        }
        let line = KeySuccession::sign(old, &key, at, reason);
        self.append_succession(&line).map_err(|error| format!("{}: {error}", KeySuccessions::NAME))?;
        Ok(line)
    }

    /// Replaces the key by a new one, and returns the statement of its succession. The old key stays in a file that its id names.
    ///
    /// The statement is written before the key is replaced: after a crash in between, the old key is still in use.
    ///
    /// # Errors
    /// The problem of a file, with its path.
    pub fn rotate(&self, at: Moment, reason: &str) -> Result<String, String> {
        let old = self.load_or_create()?;
        let named = |error: io::Error| format!("{}: {error}", self.path.display());
        let (aside, text) = self.write_aside().map_err(named)?;
        let line = KeySuccession::sign(&old, &SigningKey::from_pem(text.as_bytes())?, at, reason);
        let id = Digest(old.public_key().id());
        let kept = self.path.with_file_name(format!("certificate-key-{}.pem", id.short()));
        let replaced = self.append_succession(&line).and_then(|()| {
            match std::fs::hard_link(&self.path, &kept) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                Err(_) | Ok(()) => {}
            }
            std::fs::rename(&aside, &self.path)?;
            sync_folder(&self.path)
        });
        if let Err(error) = replaced {
            // A new key that is not in use does not stay behind.
            drop(std::fs::remove_file(&aside));
            return Err(named(error));
        }
        Ok(line)
    }

    fn append_succession(&self, line: &str) -> io::Result<()> {
        let path = self.path.with_file_name(KeySuccessions::NAME);
        let mut file = OpenOptions::new().create(true).append(true).open(&path)?;
        // An incomplete line, which a crash left, must not swallow this one. Empty lines are ignored.
        file.write_all(format!("\n{line}\n").as_bytes())?;
        file.sync_all()?;
        sync_folder(&path)
    }

    /// Rejects a file that other users can read, because its key is not secret.
    fn read(&self) -> io::Result<Vec<u8>> {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = std::fs::metadata(&self.path)?.permissions().mode();
        if mode & 0o077 != 0 {
            let why =
                format!("its mode is {:o}, so other users can read the key: run chmod 600", mode & 0o777);
            return Err(io::Error::other(why));
        }
        std::fs::read(&self.path)
    }

    /// Two processes may create the file at the same time and end with one key: each writes a temporary file, and links it only if the key file does
    /// not exist.
    fn make(&self) -> io::Result<()> {
        let (aside, _) = self.write_aside()?;
        let linked = std::fs::hard_link(&aside, &self.path);
        std::fs::remove_file(&aside)?;
        match linked {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            Err(error) => Err(error),
            Ok(()) => sync_folder(&self.path),
        }
    }
}

impl KeyFile {
    /// Writes a new key to a temporary file, and returns its path and its text.
    fn write_aside(&self) -> io::Result<(PathBuf, String)> {
        use std::os::unix::fs::OpenOptionsExt as _;
        let (seed, mark) = (random::<32>()?, random::<8>()?);
        let aside = self.path.with_extension(format!("pem.{:016x}", u64::from_le_bytes(mark)));
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&aside)?;
        let text = pem("PRIVATE KEY", &[&PRIVATE_PREFIX[..], &seed].concat());
        if let Err(error) = file.write_all(text.as_bytes()).and_then(|()| file.sync_all()) {
            std::fs::remove_file(&aside)?;
            return Err(error);
        }
        Ok((aside, text))
    }
}

fn random<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    SystemRandom::new()
        .fill(&mut bytes)
        .map_err(|_| io::Error::other("the random number generator of the system failed"))?;
    Ok(bytes)
}

fn sync_folder(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    std::fs::File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}

#[async_trait]
impl Signer for KeyFile {
    async fn sign(&self, message: &[u8]) -> Result<(Vec<u8>, PublicKey), String> {
        self.load_or_create()?.sign(message).await
    }
}

fn pem(label: &str, der: &[u8]) -> String {
    format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", STANDARD.encode(der))
}
