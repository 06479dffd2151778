//! Record keys as files: one for each tenant, encrypted with the platform's key, and destroyed with its file.
//!
//! They are stored outside the store, so that no journal, snapshot or backup of the store contains a key that was
//! destroyed. Several processes may share a folder: a key is created once, and a process does not use a key that
//! another has destroyed.

use super::cipher::Secret;
use crate::{Error, Timestamp, hex, model::encrypted_body::KeyId, random, sync::lock_unpoisoned};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use sha2::{Digest, Sha256};
use std::{
    collections::HashMap,
    fs::{self, File, OpenOptions},
    io::{self, ErrorKind, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
};

/// The file of the platform's own key; no tenant can be called so.
const PLATFORM: &str = "-";

/// The record keys of a platform, in their own folder.
#[derive(Debug)]
pub struct KeyFolder {
    dir: PathBuf,
    wrapping: Secret,
    known: Mutex<HashMap<String, Arc<RecordKey>>>,
}

/// A key that seals and opens.
#[derive(Debug)]
pub(super) struct RecordKey {
    pub(super) id: KeyId,
    pub(super) secret: Secret,
}

/// The status of a key that something was encrypted with.
pub(super) enum KeyStatus {
    Available(Arc<RecordKey>),
    Destroyed(Timestamp),
    Missing,
}

/// A key as its file holds it.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Wrapped {
    version: u32,
    owner: String,
    key: String,
    wrapped: String,
}

/// The record of a destroyed key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DestroyedKey {
    /// The key.
    pub key: String,
    /// When it was destroyed.
    pub at: Timestamp,
}

impl KeyFolder {
    /// Opens the keys in `dir`, which is created if it does not exist, with the key `wrapping`. Keys encrypted with
    /// one of `earlier` are encrypted again. The platform's key is created with the folder, and must exist if `used`
    /// is true.
    ///
    /// # Errors
    /// [`Error::Refused`] when a key does not open, or the platform's is lost; [`Error::Unavailable`] for the disk's.
    pub fn open(dir: &Path, wrapping: Secret, earlier: &[Secret], used: bool) -> Result<Self, Error> {
        fs::create_dir_all(dir).map_err(|e| failed(dir, &e))?;
        let folder = Self { dir: dir.into(), wrapping, known: Mutex::default() };
        for found in fs::read_dir(dir).map_err(|e| failed(dir, &e))? {
            let path = found.map_err(|e| failed(dir, &e))?.path();
            match path.extension().and_then(|extension| extension.to_str()) {
                Some("key") => folder.rewrap(&path, earlier)?,
                // Left by a process that was killed while it wrote.
                Some("new") => fs::remove_file(&path).map_err(|e| failed(&path, &e))?,
                Some(_) | None => {}
            }
        }
        if used && folder.read("")?.is_none() {
            let why = format!(
                "{}: the platform's record key is missing, but the store has bodies encrypted with it; restore the folder of record keys",
                folder.file("", "key").display()
            );
            return Err(Error::Refused { why });
        }
        folder.key("")?;
        Ok(folder)
    }

    /// Returns the current key of `owner`, and creates it if it does not exist.
    pub(super) fn key(&self, owner: &str) -> Result<Arc<RecordKey>, Error> {
        // Read each time, because another process may have destroyed it.
        let file = self.file(owner, "key");
        if let Some(known) = self.cached(owner).filter(|_| file.exists()) {
            return Ok(known);
        }
        match self.read(owner)? {
            Some(key) if !self.destroyed(owner)?.iter().any(|gone| gone.key == key.id.to_string()) => {
                Ok(self.cache(owner, key))
            }
            Some(_) => {
                // The process that destroyed it was killed after recording it and before removing the file.
                erase(&file)?;
                self.make(owner)
            }
            None => self.make(owner),
        }
    }

    /// Returns the status of the key `id` of `owner`.
    pub(super) fn status(&self, owner: &str, id: KeyId) -> Result<KeyStatus, Error> {
        if let Some(known) = self.cached(owner)
            && known.id == id
            && self.file(owner, "key").exists()
        {
            return Ok(KeyStatus::Available(known));
        }
        if let Some(gone) = self.destroyed(owner)?.into_iter().find(|gone| gone.key == id.to_string()) {
            return Ok(KeyStatus::Destroyed(gone.at));
        }
        Ok(match self.read(owner)? {
            Some(key) if key.id == id => KeyStatus::Available(self.cache(owner, key)),
            Some(_) | None => KeyStatus::Missing,
        })
    }

    /// Destroys the key of `owner`: its bodies cannot be decrypted any more. Returns the destroyed keys of this owner
    /// so far, in order. Safe to repeat, and without a key. The destruction is recorded before the file is removed.
    ///
    /// # Errors
    /// Returns [`Error::Invalid`] for the platform's key, [`Error::Unavailable`] if the disk fails.
    pub fn destroy(&self, owner: &str, at: Timestamp) -> Result<Vec<DestroyedKey>, Error> {
        if owner.is_empty() {
            return Err(Error::Invalid { what: "the platform's own record key is never destroyed".into() });
        }
        let mut destroyed = self.destroyed(owner)?;
        let file = self.file(owner, "key");
        if let Some(wrapped) = parsed::<Wrapped>(&file)? {
            if destroyed.iter().all(|gone| gone.key != wrapped.key) {
                destroyed.push(DestroyedKey { key: wrapped.key, at });
                self.replace(&self.file(owner, "destroyed"), &destroyed)?;
            }
            erase(&file)?;
        }
        lock_unpoisoned(&self.known).remove(owner);
        Ok(destroyed)
    }

    /// The keys of `owner` that were destroyed, in order.
    fn destroyed(&self, owner: &str) -> Result<Vec<DestroyedKey>, Error> {
        Ok(parsed(&self.file(owner, "destroyed"))?.unwrap_or_default())
    }

    fn cached(&self, owner: &str) -> Option<Arc<RecordKey>> {
        lock_unpoisoned(&self.known).get(owner).cloned()
    }

    fn cache(&self, owner: &str, key: RecordKey) -> Arc<RecordKey> {
        let key = Arc::new(key);
        lock_unpoisoned(&self.known).insert(owner.into(), key.clone());
        key
    }

    fn file(&self, owner: &str, extension: &str) -> PathBuf {
        let name = if owner.is_empty() { PLATFORM.into() } else { file_name(owner) };
        self.dir.join(format!("{name}.{extension}"))
    }

    fn read(&self, owner: &str) -> Result<Option<RecordKey>, Error> {
        let file = self.file(owner, "key");
        let Some(wrapped) = parsed::<Wrapped>(&file)? else { return Ok(None) };
        let key = unwrap(&wrapped, &self.wrapping).ok_or_else(|| does_not_open(&file))?;
        if wrapped.owner == owner { Ok(Some(key)) } else { Err(does_not_open(&file)) }
    }

    fn make(&self, owner: &str) -> Result<Arc<RecordKey>, Error> {
        let dry = |why: String| Error::Unavailable { why };
        let mut id = [0; 8];
        random::fill(&mut id).map_err(dry)?;
        let key = RecordKey { id: KeyId(id), secret: Secret::random().map_err(dry)? };
        let wrapped = wrap(owner, &key, &self.wrapping).map_err(dry)?;
        let file = self.file(owner, "key");
        let written = self.write(&wrapped)?;
        // A link fails where a rename would take another's key away.
        let linked = fs::hard_link(&written, &file);
        fs::remove_file(&written).map_err(|e| failed(&written, &e))?;
        match linked {
            Ok(()) => sync(&self.dir)?,
            Err(e) if e.kind() == ErrorKind::AlreadyExists => {}
            Err(e) => return Err(failed(&file, &e)),
        }
        let made = self.read(owner)?.ok_or_else(|| failed(&file, &ErrorKind::NotFound.into()))?;
        Ok(self.cache(owner, made))
    }

    fn rewrap(&self, file: &Path, earlier: &[Secret]) -> Result<(), Error> {
        let Some(wrapped) = parsed::<Wrapped>(file)? else { return Ok(()) };
        if unwrap(&wrapped, &self.wrapping).is_some() {
            return Ok(());
        }
        let key = earlier.iter().find_map(|secret| unwrap(&wrapped, secret));
        let key = key.ok_or_else(|| does_not_open(file))?;
        let anew = wrap(&wrapped.owner, &key, &self.wrapping).map_err(|why| Error::Unavailable { why })?;
        self.replace(file, &anew)
    }

    fn replace<T: Serialize>(&self, file: &Path, content: &T) -> Result<(), Error> {
        let written = self.write(content)?;
        fs::rename(&written, file).map_err(|e| failed(file, &e))?;
        sync(&self.dir)
    }

    /// Writes a new file, which is on disk when this returns.
    fn write<T: Serialize>(&self, content: &T) -> Result<PathBuf, Error> {
        let name = random::name().map_err(|why| Error::Unavailable { why })?;
        let path = self.dir.join(format!("{name}.new"));
        let body = serde_json::to_vec(content).map_err(|e| Error::Unavailable { why: e.to_string() })?;
        let written = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
        let synced = written.and_then(|mut file| {
            file.write_all(&body)?;
            file.sync_all()
        });
        synced.map(|()| path.clone()).map_err(|e| failed(&path, &e))
    }
}

/// Returns the owner's name if it is a valid file name, otherwise its digest.
fn file_name(owner: &str) -> String {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if owner.len() <= 100 && owner.chars().all(plain) && owner != PLATFORM {
        owner.into()
    } else {
        format!("sha256.{}", hex::encode(&Sha256::digest(owner)))
    }
}

fn about(owner: &str, id: KeyId) -> Vec<u8> {
    format!("record key {id} of {owner}").into_bytes()
}

fn wrap(owner: &str, key: &RecordKey, wrapping: &Secret) -> Result<Wrapped, String> {
    let wrapped = hex::encode(&wrapping.encrypt(&about(owner, key.id), key.secret.bytes())?);
    Ok(Wrapped { version: 1, owner: owner.into(), key: key.id.to_string(), wrapped })
}

fn unwrap(wrapped: &Wrapped, wrapping: &Secret) -> Option<RecordKey> {
    let id = KeyId::parse(&wrapped.key)?;
    let bytes = zeroize::Zeroizing::new(
        wrapping.decrypt(&about(&wrapped.owner, id), &hex::decode(&wrapped.wrapped)?)?,
    );
    Some(RecordKey { id, secret: Secret::from_bytes(&bytes)? })
}

fn parsed<T: DeserializeOwned>(file: &Path) -> Result<Option<T>, Error> {
    match fs::read(file) {
        Ok(bytes) => serde_json::from_slice(&bytes)
            .map(Some)
            .map_err(|e| Error::Refused { why: format!("{}: {e}; restore the file", file.display()) }),
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
        Err(e) => Err(failed(file, &e)),
    }
}

/// Overwrites a file before it is removed. Other copies on the disk are still encrypted with the platform's key.
fn erase(file: &Path) -> Result<(), Error> {
    let overwritten = OpenOptions::new().write(true).open(file).and_then(|mut open| {
        let length = usize::try_from(open.metadata()?.len()).unwrap_or_default();
        let mut noise = vec![0; length];
        random::fill(&mut noise).map_err(io::Error::other)?;
        open.write_all(&noise)?;
        open.sync_all()?;
        fs::remove_file(file)
    });
    match overwritten {
        Ok(()) => file.parent().map_or(Ok(()), sync),
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(()),
        Err(e) => Err(failed(file, &e)),
    }
}

fn sync(dir: &Path) -> Result<(), Error> {
    File::open(dir).and_then(|dir| dir.sync_all()).map_err(|e| failed(dir, &e))
}

fn does_not_open(file: &Path) -> Error {
    Error::Refused {
        why: format!(
            "{}: the platform's key cannot decrypt this record key, which was encrypted with another key",
            file.display()
        ),
    }
}

fn failed(path: &Path, error: &io::Error) -> Error {
    Error::Unavailable { why: format!("{}: {error}", path.display()) }
}
