//! A notification: a document that the notifier delivers, and removes or marks once it is delivered.
//!
//! Written by the commit of the event that it describes, so it is written once and never without that event.

use crate::{Entity, model::documents::collection};
use serde::{Deserialize, Serialize};
use store::{Key, Put, Record, Timestamp};

/// Something to be told, written by the commit that it tells of, so once and never without it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Notification {
    /// Follows from what it tells of, so that telling twice is telling once.
    pub id: String,
    /// What happened, such as `approval.opened` or `execution.parked`; `docs/notifications.md` lists them all.
    pub kind: String,
    /// Of an execution that is parked its reason, of an approval the state that asks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What it is about: the id of the approval or the execution, or another name.
    pub about: String,
    /// Whose it is; empty for what is nobody's.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub tenant: String,
    /// The roles and groups that should know.
    pub to: Vec<String>,
    /// One or two sentences.
    pub text: String,
    /// When it happened.
    pub at: Timestamp,
}

impl Entity for Notification {
    const COLLECTION: &'static str = collection::NOTIFICATIONS;
    const RETENTION: crate::Retention<Self> = crate::Retention::WithSubject;

    fn id(&self) -> String {
        self.id.clone()
    }
}

impl Notification {
    /// It as a document.
    pub(crate) fn to_put(&self) -> Put {
        let body = serde_json::to_vec(self).unwrap_or_default();
        Put { key: Key::new(collection::NOTIFICATIONS, &self.id), body: Some(body) }
    }

    pub(crate) fn for_record(record: &Record, name: &str, kind: &str, text: String) -> Self {
        Self {
            id: format!("{}.{name}", record.id),
            kind: kind.into(),
            reason: None,
            about: record.id.to_string(),
            tenant: record.tenant.clone(),
            to: vec![OPERATORS.into()],
            text,
            at: record.updated_at,
        }
    }
}

/// Who looks after executions.
pub(crate) const OPERATORS: &str = "platform_ops";
