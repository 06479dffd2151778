//! Sessions on a token, and the classification of its errors.

use super::Pkcs11Target;
use crate::{SettingError, connection_settings};
use cryptoki::{
    context::{CInitializeArgs, CInitializeFlags, Pkcs11 as Library},
    error::{Error, RvError},
    session::{Session, SessionState, UserType},
    types::AuthPin,
};
use engine::ActionError;
use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use workflows::platform::{CallMetadata, DriveTool, codes};

/// Loaded libraries by path. A process may initialise a library only once.
static LIBRARIES: Mutex<BTreeMap<PathBuf, Arc<Shared>>> = Mutex::new(BTreeMap::new());

/// A library, its lock, and one open session per token that keeps the process logged in. Software tokens write to their
/// storage at each login, and a process killed during that write can damage them, so logins are kept rare.
#[derive(Debug)]
struct Shared {
    library: Library,
    turn: Mutex<BTreeMap<String, Session>>,
}

/// A token.
#[derive(Debug)]
pub(super) struct Token {
    shared: Arc<Shared>,
    label: String,
    pin_file: PathBuf,
}

/// A logged-in session for one piece of work.
pub(super) struct Work {
    pub(super) session: Session,
    left: Arc<AtomicBool>,
    changing: Arc<AtomicBool>,
}

/// Signals that the caller no longer waits.
struct Waiting(Arc<AtomicBool>);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

impl Token {
    pub(super) fn of(target: &Pkcs11Target) -> Result<Self, SettingError> {
        let wrong = |why: &dyn std::fmt::Display| {
            let path = target.module.display();
            let why = format!("{path} cannot be used: {why}; name the library of the token's maker");
            SettingError::new("module", why)
        };
        let mut libraries = LIBRARIES.lock().unwrap_or_else(PoisonError::into_inner);
        let shared = match libraries.get(&target.module) {
            Some(shared) => shared.clone(),
            None => {
                let library = Library::new(&target.module).map_err(|e| wrong(&e))?;
                match library.initialize(CInitializeArgs::new(CInitializeFlags::OS_LOCKING_OK)) {
                    Ok(()) | Err(Error::Pkcs11(RvError::CryptokiAlreadyInitialized, _)) => {}
                    Err(e) => return Err(wrong(&e)),
                }
                let shared = Arc::new(Shared { library, turn: Mutex::default() });
                libraries.insert(target.module.clone(), shared.clone());
                shared
            }
        };
        if target.token.is_empty() {
            return Err(SettingError::new("token", "is empty: write the token's label"));
        }
        Ok(Self { shared, label: target.token.clone(), pin_file: target.pin_file.clone() })
    }

    /// Runs `work` on its own thread, logged in, until the stamp's deadline. After the deadline, or when the caller is
    /// dropped, a call in progress finishes, but no further change begins.
    pub(super) async fn work<T: Send + 'static>(
        self: &Arc<Self>,
        stamp: &CallMetadata,
        work: impl FnOnce(&Work) -> Result<T, ActionError> + Send + 'static,
    ) -> Result<T, ActionError> {
        let left = Arc::new(AtomicBool::new(false));
        let changing = Arc::new(AtomicBool::new(false));
        let waiting = Waiting(left.clone());
        let (token, begun) = (self.clone(), changing.clone());
        let thread = tokio::task::spawn_blocking(move || {
            let mut turn = token.shared.turn.lock().unwrap_or_else(PoisonError::into_inner);
            let session = token.session(&mut turn)?;
            work(&Work { session, left, changing })
        });
        let ended = tokio::time::timeout(stamp.deadline, thread).await;
        drop(waiting);
        match ended {
            Ok(Ok(done)) => done,
            Ok(Err(died)) => Err(ActionError::unknown(codes::NO_ANSWER, died)),
            // No further change begins. A change that has begun may still be in progress.
            Err(_) => Err(late(stamp.deadline, begun.load(Ordering::Acquire))),
        }
    }

    /// Returns the library's manufacturer and version.
    pub(super) async fn maker(self: &Arc<Self>, stamp: &CallMetadata) -> Result<DriveTool, ActionError> {
        let token = self.clone();
        let asked = move |on: &Work| on.ask("read the library", token.shared.library.get_library_info());
        let said = self.work(stamp, asked).await?;
        Ok(DriveTool {
            name: said.manufacturer_id().trim_end().to_owned(),
            version: said.library_version().to_string(),
        })
    }

    /// Opens a session for one piece of work. The login belongs to the process and lasts while any session is open.
    fn session(&self, kept: &mut BTreeMap<String, Session>) -> Result<Session, ActionError> {
        let library = &self.shared.library;
        let slots = library.get_slots_with_token().map_err(|e| classed("find tokens", e, false))?;
        for slot in slots {
            let info = library.get_token_info(slot).map_err(|e| classed("read a token", e, false))?;
            if info.label().trim_end() != self.label {
                continue;
            }
            let session = library.open_rw_session(slot).map_err(|e| classed("open a session", e, false))?;
            let state = session.get_session_info().map_err(|e| classed("read a session", e, false))?;
            if state.session_state() != SessionState::RwUser {
                self.log_in(&session)?;
                let open = library.open_rw_session(slot);
                kept.insert(self.label.clone(), open.map_err(|e| classed("open a session", e, false))?);
            }
            return Ok(session);
        }
        let why = format!("no token is labelled {:?}: see that it is plugged in and initialised", self.label);
        Err(ActionError::transient(codes::UNAVAILABLE, why))
    }
}

impl Token {
    fn log_in(&self, session: &Session) -> Result<(), ActionError> {
        let pin = connection_settings::secret("pin_file", &self.pin_file);
        let pin = pin.map_err(|e| ActionError::permanent(codes::REFUSED, e))?;
        match session.login(UserType::User, Some(&AuthPin::new(pin.into()))) {
            Ok(()) | Err(Error::Pkcs11(RvError::UserAlreadyLoggedIn, _)) => Ok(()),
            Err(e) => Err(classed("log in", e, false)),
        }
    }
}

impl Work {
    /// Classifies the result of a read-only call.
    pub(super) fn ask<T>(&self, what: &str, asked: Result<T, Error>) -> Result<T, ActionError> {
        asked.map_err(|e| classed(what, e, false))
    }

    /// Makes a change on the token, if the caller still waits.
    pub(super) fn change<T>(
        &self,
        what: &str,
        change: impl FnOnce(&Session) -> Result<T, Error>,
    ) -> Result<T, ActionError> {
        if self.left.load(Ordering::Acquire) {
            return Err(ActionError::unknown(codes::NO_ANSWER, format!("{what}: nobody waits any more")));
        }
        self.changing.store(true, Ordering::Release);
        change(&self.session).map_err(|e| classed(what, e, true))
    }
}

fn late(deadline: Duration, changing: bool) -> ActionError {
    let said = format!("the token gave no answer in {} ms", deadline.as_millis());
    if changing {
        ActionError::unknown(codes::NO_ANSWER, said)
    } else {
        ActionError::transient(codes::UNAVAILABLE, said)
    }
}

/// Classifies an error of the library.
pub(super) fn classed(what: &str, error: Error, changing: bool) -> ActionError {
    let said = format!("{what}: {error}");
    let Error::Pkcs11(rv, _) = error else { return ActionError::permanent(codes::REFUSED, said) };
    match rv {
        RvError::PinIncorrect
        | RvError::PinInvalid
        | RvError::PinLenRange
        | RvError::PinExpired
        | RvError::PinLocked
        | RvError::UserNotLoggedIn
        | RvError::UserPinNotInitialized
        | RvError::UserTypeInvalid
        | RvError::UserAnotherAlreadyLoggedIn
        | RvError::ActionProhibited
        | RvError::TokenWriteProtected => ActionError::permanent(codes::DENIED, said),
        RvError::MechanismInvalid | RvError::MechanismParamInvalid | RvError::FunctionNotSupported => {
            ActionError::permanent(codes::UNSUPPORTED, said)
        }
        // The last two mean that another caller destroyed the object concurrently.
        RvError::TokenNotPresent
        | RvError::SlotIdInvalid
        | RvError::SessionHandleInvalid
        | RvError::SessionClosed
        | RvError::SessionCount
        | RvError::ObjectHandleInvalid
        | RvError::KeyHandleInvalid => ActionError::transient(codes::UNAVAILABLE, said),
        RvError::DeviceError
        | RvError::DeviceMemory
        | RvError::DeviceRemoved
        | RvError::FunctionFailed
        | RvError::GeneralError
        | RvError::HostMemory => {
            if changing {
                ActionError::unknown(codes::NO_ANSWER, said)
            } else {
                ActionError::transient(codes::UNAVAILABLE, said)
            }
        }
        // An enum of the library, which can grow.
        _ => ActionError::permanent(codes::REFUSED, said),
    }
}

#[cfg(test)]
mod tests {
    use super::{Pkcs11Target, Token, classed};
    use cryptoki::{
        context::Function,
        error::{Error, RvError},
    };
    use engine::Class;
    use workflows::platform::codes;

    #[test]
    fn every_answer_of_a_token_has_an_error_class() {
        for (rv, changing, class, code) in [
            (RvError::PinIncorrect, true, Class::Permanent, codes::DENIED),
            (RvError::PinLocked, false, Class::Permanent, codes::DENIED),
            (RvError::MechanismInvalid, false, Class::Permanent, codes::UNSUPPORTED),
            (RvError::TokenNotPresent, true, Class::Transient, codes::UNAVAILABLE),
            (RvError::DeviceError, true, Class::Unknown, codes::NO_ANSWER),
            (RvError::DeviceError, false, Class::Transient, codes::UNAVAILABLE),
            (RvError::TemplateInconsistent, true, Class::Permanent, codes::REFUSED),
        ] {
            let error = classed("try", Error::Pkcs11(rv, Function::GenerateKey), changing);
            assert_eq!((error.class, error.code.as_str()), (class, code), "{rv:?}");
        }
    }

    #[test]
    fn a_file_that_is_not_a_library_is_refused_with_its_field() {
        let target = Pkcs11Target {
            module: "/nowhere/libpkcs11.so".into(),
            token: "tenants".into(),
            pin_file: "/nowhere/pin".into(),
        };
        assert!(Token::of(&target).unwrap_err().to_string().starts_with("module: /nowhere/libpkcs11.so"));
    }
}
