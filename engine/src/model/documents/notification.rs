//! A notification: a document that the notifier delivers, and removes or marks once it is delivered.
//!
//! Written by the commit of the event that it describes, so it is written once and never without that event.

use crate::{Entity, model::documents::collection};
use serde::{Deserialize, Serialize};
use store::{Key, Put, Record, Timestamp};

/// A notification, written by the commit of the event that it describes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Notification {
    /// Derived from the event, so that a repeated notification replaces the first.
    pub id: String,
    /// The kind of event, such as `approval.opened` or `execution.parked`; `docs/notifications.md` lists them all.
    pub kind: String,
    /// The reason of a parked execution, or the state of an approval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The subject: the id of the approval or the execution, or another name.
    pub about: String,
    /// The tenant; empty for the platform.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub tenant: String,
    /// The roles and groups to notify.
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
    /// Encodes it as a document.
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

/// The role that receives notifications about executions.
pub(crate) const OPERATORS: &str = "platform_ops";
