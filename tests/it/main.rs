//! End-to-end tests of the program, one module for each subject. Their names are sentences.

#![allow(missing_docs, reason = "a test is documented by its name")]
#![allow(clippy::duplicate_mod, reason = "short examples of the engine contain each other")]

#[allow(dead_code, reason = "the example has a main of its own")]
#[path = "../../engine/examples/card.rs"]
mod example;

#[path = "../../docs/examples/booking/src/lib.rs"]
mod booking;

mod access_policies;
mod admission;
mod agents;
mod approvals;
mod audit;
mod authoring;
mod book;
mod bound;
mod certificate;
mod channels;
mod cli;
mod cli_domain;
mod cli_operators;
mod clock;
mod closed_tenants;
mod cluster_keys;
mod console;
mod counts;
mod crash;
mod decisions;
mod denied;
mod doctor;
mod domain_http;
mod dry_run;
mod edge;
mod edges;
mod engine;
mod events;
mod examples;
mod expiry;
mod fleet;
mod following;
mod foreign_text;
mod foreseen;
mod given_back;
mod golden_lists;
mod held;
mod hello;
mod hooks;
mod http;
mod incident_holds;
mod incidents;
mod kit;
mod ladder;
mod layers;
mod limits;
mod newcomer;
mod notify;
mod offboarding;
mod onboarding;
mod openapi;
mod outside;
mod placement;
mod planner;
mod policy;
mod postgres;
mod progress;
mod quota;
mod recipes;
mod reclaim;
mod repeated;
mod requirements;
mod routes;
mod scale;
mod schedules;
mod sealing;
mod search;
mod separation;
mod served;
mod sessions;
mod shortage;
mod simulate;
mod simulation;
mod sla_change;
mod slices;
mod standing;
mod stopping;
mod storm;
mod streams;
mod sweeps;
mod targets;
mod tenancy;
mod tls;
mod tokens;
mod traces;
mod typed;
mod understood;
mod upgrade;
mod versions;
mod workloads;
mod world;
mod world_kept;
