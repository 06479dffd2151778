//! A filter over the columns of records: the short form of a query.

use crate::{Query, Record};

/// Which executions to list; an empty filter lists all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// The tenant.
    pub tenant: Option<String>,
    /// The workflow.
    pub workflow: Option<String>,
    /// The state.
    pub state: Option<String>,
    /// The phase.
    pub phase: Option<String>,
    /// The reason for parking, or the outcome.
    pub reason: Option<String>,
    /// The subject.
    pub subject: Option<String>,
    /// Open (true) or finished (false).
    pub open: Option<bool>,
}

impl Filter {
    /// Returns true if `record` matches.
    #[must_use]
    pub fn accepts(&self, record: &Record) -> bool {
        let is = |wanted: &Option<String>, has: &str| wanted.as_deref().is_none_or(|wanted| wanted == has);
        is(&self.tenant, &record.tenant)
            && is(&self.workflow, &record.workflow)
            && is(&self.state, &record.state)
            && is(&self.phase, &record.phase)
            && is(&self.subject, &record.subject)
            && self.reason.as_deref().is_none_or(|wanted| record.reason.as_deref() == Some(wanted))
            && self.open.is_none_or(|open| open == record.open)
    }
}

impl From<&Filter> for Query {
    fn from(filter: &Filter) -> Self {
        let columns = [
            ("tenant", &filter.tenant),
            ("workflow", &filter.workflow),
            ("state", &filter.state),
            ("phase", &filter.phase),
            ("reason", &filter.reason),
            ("subject", &filter.subject),
        ];
        let named = columns.into_iter().filter_map(|(name, wanted)| Some(Self::is(name, wanted.as_ref()?)));
        let open = filter.open.map(|open| Self::is("open", open.to_string()));
        named.chain(open).fold(Self::All, Self::and)
    }
}
