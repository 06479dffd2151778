//! Paginated lists: `?limit=&cursor=`.

pub(in crate::http) mod scope;

use crate::{
    http::problem::{Problem, code::ProblemCode},
    state::ServerState,
};
use engine::Entity;
use program::encoding::hex;
use schemars::JsonSchema;
use scope::PlatformDocument;
use serde::{Deserialize, Serialize};
use store::{Document, Key, Sequence};

/// The default number of items of a page.
const USUAL: usize = 100;
/// The maximum number of items of a page.
const MOST: usize = 1_000;

/// The requested part of a list.
#[derive(Clone, Debug)]
pub(in crate::http) struct Page {
    /// The maximum number of items.
    pub(in crate::http) limit: usize,
    /// The last key of the previous page.
    pub(in crate::http) after: Option<String>,
}

/// The parameters of a list without filters.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct Paging {
    limit: Option<usize>,
    cursor: Option<String>,
}

impl Paging {
    /// Returns the requested page.
    pub(in crate::http) fn page(&self) -> Result<Page, Problem> {
        Page::of(self.limit, self.cursor.as_deref())
    }
}

/// A page of a list.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "{T}List")]
pub(in crate::http) struct ListPage<T> {
    /// The items of the page.
    pub(in crate::http) items: Vec<T>,
    /// The `cursor` of the next page; `null` at the end.
    pub(in crate::http) next: Option<String>,
}

impl Page {
    /// Parses `limit` and `cursor`.
    pub(in crate::http) fn of(limit: Option<usize>, cursor: Option<&str>) -> Result<Self, Problem> {
        let limit = limit.unwrap_or(USUAL);
        if limit == 0 || limit > MOST {
            return Err(Problem::new(ProblemCode::QueryInvalid, format!("limit: use 1 to {MOST}")));
        }
        let wrong =
            || Problem::new(ProblemCode::QueryInvalid, "cursor: use the unchanged `next` of a previous page");
        let after = cursor
            .map(|text| hex::decode(text).and_then(|bytes| String::from_utf8(bytes).ok()).ok_or_else(wrong))
            .transpose()?;
        Ok(Self { limit, after })
    }
}

impl<T> ListPage<T> {
    /// Returns a page of a list in memory, sorted by name. A page continues after the name of the cursor, even if that item was removed.
    pub(in crate::http) fn part(mut all: Vec<T>, page: &Page, name: impl Fn(&T) -> String) -> Self {
        all.sort_by_cached_key(&name);
        if let Some(after) = &page.after {
            all.retain(|item| name(item) > *after);
        }
        let more = all.len() > page.limit;
        all.truncate(page.limit);
        let next = all.last().filter(|_| more).map(name);
        Self::new(all, next)
    }

    /// Maps each item of the page.
    pub(in crate::http) fn each<U>(self, make: impl FnMut(T) -> U) -> ListPage<U> {
        ListPage { items: self.items.into_iter().map(make).collect(), next: self.next }
    }

    /// Creates a page with the cursor of the next one.
    pub(in crate::http) fn new(items: Vec<T>, next: Option<String>) -> Self {
        Self { items, next: next.map(|key| hex::encode(key.as_bytes())) }
    }
}

/// Returns a page of the platform's documents that `wanted` selects. [`seen_by`](scope::seen_by) reads those of tenants.
pub(in crate::http) async fn documents<T: PlatformDocument>(
    app: &ServerState,
    prefix: &str,
    page: &Page,
    wanted: impl Fn(&T) -> bool,
) -> Result<(Vec<T>, Option<String>), Problem> {
    found(app, prefix, page, wanted).await
}

/// Returns a document of the platform by its id. [`get_visible`](scope::get_visible) reads those of tenants.
pub(in crate::http) async fn document<T: PlatformDocument>(
    app: &ServerState,
    id: &str,
) -> Result<Option<T>, Problem> {
    Ok(load(app, id).await?.map(|(found, _)| found))
}

async fn found<T: Entity>(
    app: &ServerState,
    prefix: &str,
    page: &Page,
    wanted: impl Fn(&T) -> bool,
) -> Result<(Vec<T>, Option<String>), Problem> {
    let (mut items, mut after) = (Vec::new(), page.after.clone());
    loop {
        let found = app.engine.store().documents(T::COLLECTION, prefix, after.as_deref(), page.limit).await?;
        for document in &found.items {
            let item: T = parse(document)?;
            after = Some(document.key.id.clone());
            if wanted(&item) {
                items.push(item);
                if items.len() == page.limit {
                    let is_last = found.next.is_none()
                        && found.items.last().is_some_and(|last| last.key.id == document.key.id);
                    return Ok((items, after.filter(|_| !is_last)));
                }
            }
        }
        if found.next.is_none() {
            return Ok((items, None));
        }
        after = found.next;
    }
}

/// Returns a document of the platform by its id, with its version.
pub(in crate::http) async fn document_with_version<T: PlatformDocument>(
    app: &ServerState,
    id: &str,
) -> Result<Option<(T, Sequence)>, Problem> {
    load(app, id).await
}

async fn load<T: Entity>(app: &ServerState, id: &str) -> Result<Option<(T, Sequence)>, Problem> {
    if id.is_empty() || id.len() > 512 {
        return Ok(None);
    }
    let found = app.engine.store().document(&Key::new(T::COLLECTION, id)).await?;
    found.as_ref().map(|found| Ok((parse(found)?, found.version))).transpose()
}

fn parse<T: Entity>(found: &Document) -> Result<T, Problem> {
    let corrupt =
        |e: serde_json::Error| store::Error::Corrupt { what: found.key.to_string(), why: e.to_string() };
    serde_json::from_slice(&found.body).map_err(|e| corrupt(e).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_of_a_list_in_memory_have_each_item_once_even_after_a_removal() {
        let all = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
        let page = |cursor: Option<&str>| Page::of(Some(2), cursor).unwrap();
        let first = ListPage::part(all(&["c", "a", "b", "d"]), &page(None), Clone::clone);
        assert_eq!(first.items, ["a", "b"]);
        let second = ListPage::part(all(&["a", "c", "d"]), &page(first.next.as_deref()), Clone::clone);
        assert_eq!(
            (second.items, second.next),
            (all(&["c", "d"]), None),
            "b was removed, and no other item is missing"
        );
    }
}
