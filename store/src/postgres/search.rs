//! Queries as SQL. [`Query::accepts`] defines their meaning.

use super::{
    row::{self, and_one, page, to_i64, to_uuid},
    shared::Shared,
};
use crate::{Error, ExecutionId, Found, Query};
use sqlx::{Postgres, QueryBuilder, types::Json};
use std::collections::BTreeMap;

impl Shared {
    pub(super) async fn search(
        &self,
        query: &Query,
        after: Option<ExecutionId>,
        limit: usize,
    ) -> Result<Found, Error> {
        let records = self
            .with_retries(|| async move {
                let mut sql = QueryBuilder::new("SELECT ");
                sql.push(row::RECORD).push(" FROM executions WHERE ");
                push_query(&mut sql, query, true);
                if let Some(after) = after {
                    sql.push(" AND id > ").push_bind(to_uuid(after));
                }
                sql.push(" ORDER BY id LIMIT ").push_bind(and_one(limit));
                let rows = sql.build().fetch_all(&self.pool).await?;
                rows.iter().map(row::record).collect::<Result<Vec<_>, _>>()
            })
            .await?;
        let crate::Page { items, next } = page(records, limit, |record| record.id);
        Ok(Found { items, next, partial: false })
    }
}

/// The column of that name, if it is one.
fn column(field: &str) -> Option<&'static str> {
    ["tenant", "workflow", "state", "phase", "reason", "subject", "requested_by"]
        .into_iter()
        .find(|column| *column == field)
}

/// Adds the condition of `query`. `must` is true if it is required and not one of several alternatives: then its own
/// index can be used.
fn push_query(sql: &mut QueryBuilder<Postgres>, query: &Query, must: bool) {
    match query {
        Query::All => _ = sql.push("true"),
        // No text there has one.
        Query::Is { value: text, .. } | Query::StartsWith { with: text, .. } if text.contains('\0') => {
            _ = sql.push("false");
        }
        Query::And(all) => push_joined(sql, all, (" AND ", "true"), must),
        Query::Or(any) => match states(any).filter(|_| must) {
            Some(states) => {
                push_standing(sql, |sql| _ = sql.push("state = ANY(").push_bind(states).push(")"))
            }
            None => push_joined(sql, any, (" OR ", "false"), false),
        },
        Query::Not(one) => {
            // An unknown value, such as a comparison with a missing reason, counts as false.
            sql.push("NOT coalesce(");
            push_query(sql, one, false);
            sql.push(", false)");
        }
        Query::Is { field, value } => push_is(sql, field, value, must),
        Query::StartsWith { field, with } if field == "open" => {
            sql.push("starts_with(open::text, ").push_bind(with.clone()).push(")");
        }
        Query::StartsWith { field, with } => match column(field) {
            Some(column) => {
                sql.push("starts_with(").push(column).push(", ").push_bind(with.clone()).push(")");
            }
            None => {
                push_attribute_values(sql, field);
                sql.push("starts_with(v, ").push_bind(with.clone()).push("))");
            }
        },
        Query::Has { field } if field == "open" => _ = sql.push("true"),
        Query::Has { field } => match column(field) {
            Some(column) => _ = sql.push("coalesce(").push(column).push(", '') <> ''"),
            None => {
                push_attribute_values(sql, field);
                sql.push("v <> '')");
            }
        },
        Query::CreatedBetween { from, until } => {
            sql.push("(id >= ").push_bind(to_uuid(ExecutionId::first_at(*from)));
            sql.push(" AND id < ").push_bind(to_uuid(ExecutionId::first_at(*until))).push(")");
        }
        Query::UpdatedBetween { from, until } => {
            let between = |sql: &mut QueryBuilder<Postgres>| {
                sql.push("(updated_at >= ").push_bind(to_i64(from.0));
                sql.push(" AND updated_at < ").push_bind(to_i64(until.0)).push(")");
            };
            if must { push_standing(sql, between) } else { between(sql) }
        }
    }
}

fn push_is(sql: &mut QueryBuilder<Postgres>, field: &str, value: &str, must: bool) {
    match (field, column(field)) {
        ("open", _) => match value {
            "true" => _ = sql.push("open"),
            "false" => _ = sql.push("NOT open"),
            _ => _ = sql.push("false"),
        },
        ("state", _) if must => {
            push_standing(sql, |sql| _ = sql.push("state = ").push_bind(value.to_owned()))
        }
        (_, Some(column)) => _ = sql.push(column).push(" = ").push_bind(value.to_owned()),
        (_, None) => {
            let wanted = BTreeMap::from([(field.to_owned(), vec![value.to_owned()])]);
            sql.push("attributes @> ").push_bind(Json(wanted));
        }
    }
}

/// Adds the condition that the execution is among those of `says`, in a separate table, because the state changes
/// with every transition.
fn push_standing(sql: &mut QueryBuilder<Postgres>, says: impl FnOnce(&mut QueryBuilder<Postgres>)) {
    sql.push("id IN (SELECT id FROM standing WHERE ");
    says(sql);
    sql.push(")");
}

/// Returns the requested states, if the query has no other conditions.
fn states(any: &[Query]) -> Option<Vec<String>> {
    let state = |one: &Query| match one {
        Query::Is { field, value } if field == "state" && !value.contains('\0') => Some(value.clone()),
        Query::All
        | Query::And(_)
        | Query::Or(_)
        | Query::Not(_)
        | Query::Is { .. }
        | Query::StartsWith { .. }
        | Query::Has { .. }
        | Query::CreatedBetween { .. }
        | Query::UpdatedBetween { .. } => None,
    };
    any.iter().map(state).collect::<Option<Vec<_>>>().filter(|states| !states.is_empty())
}

/// Adds the condition that one of the values of an attribute matches; the caller adds the closing parenthesis.
fn push_attribute_values(sql: &mut QueryBuilder<Postgres>, field: &str) {
    sql.push("EXISTS (SELECT 1 FROM jsonb_array_elements_text(coalesce(attributes->");
    sql.push_bind(field.to_owned()).push(", '[]'::jsonb)) v WHERE ");
}

fn push_joined(
    sql: &mut QueryBuilder<Postgres>,
    all: &[Query],
    (by, none): (&'static str, &'static str),
    must: bool,
) {
    if all.is_empty() {
        sql.push(none);
        return;
    }
    sql.push("(");
    for (place, query) in all.iter().enumerate() {
        if place > 0 {
            sql.push(by);
        }
        push_query(sql, query, must);
    }
    sql.push(")");
}
