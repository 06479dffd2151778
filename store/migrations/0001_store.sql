-- The store, as one database holds it. Bodies are the engine's; what stands beside them is for people to query.
-- Texts that are ordered or compared are COLLATE "C": by their bytes, as every store orders them.

-- One row: the last commit, and which versions may use what is here.
CREATE TABLE head (
    one        boolean PRIMARY KEY DEFAULT true CHECK (one),
    sequence   bigint NOT NULL DEFAULT 0,
    -- The oldest schema that a program may know and still use this database.
    compatible integer NOT NULL,
    -- Which history this is: a copy has the same, an import another.
    lineage    uuid NOT NULL DEFAULT gen_random_uuid(),
    -- Server, database and schema that it was made in: a copy is elsewhere.
    place      text COLLATE "C"
);
INSERT INTO head (compatible) VALUES (1);

-- While a row is here, no work is handed out.
CREATE TABLE hold (
    one   boolean PRIMARY KEY DEFAULT true CHECK (one),
    since bigint NOT NULL,
    why   text NOT NULL
);

-- Whoever writes: one row a process, and the last batch it wrote, so that a commit whose answer was lost is found again.
CREATE TABLE engines (
    id         uuid PRIMARY KEY,
    name       text COLLATE "C" NOT NULL,
    version    text NOT NULL,
    started_at timestamptz NOT NULL DEFAULT now(),
    beat_at    timestamptz NOT NULL DEFAULT now(),
    ended_at   timestamptz,
    batch      bigint NOT NULL DEFAULT 0
);

CREATE TABLE executions (
    id           uuid PRIMARY KEY,
    revision     bigint NOT NULL,
    workflow     text COLLATE "C" NOT NULL,
    schema       bigint NOT NULL,
    tenant       text COLLATE "C" NOT NULL,
    subject      text COLLATE "C" NOT NULL,
    guard        text COLLATE "C",
    state        text COLLATE "C" NOT NULL,
    phase        text COLLATE "C" NOT NULL,
    reason       text COLLATE "C",
    open         boolean NOT NULL,
    requested_by text COLLATE "C" NOT NULL,
    created_at   bigint NOT NULL,
    updated_at   bigint NOT NULL,
    attributes   jsonb NOT NULL,
    body         bytea NOT NULL
) WITH (fillfactor = 60);
-- What changes with every transition is in none of these indexes, so that a new version of a row stays on its page and touches none.
CREATE UNIQUE INDEX executions_guard ON executions (guard) WHERE open AND guard IS NOT NULL;
CREATE INDEX executions_tenant ON executions (tenant, id);
CREATE INDEX executions_workflow ON executions (workflow, id);
CREATE INDEX executions_reason ON executions (reason, id) WHERE reason IS NOT NULL;
CREATE INDEX executions_phase ON executions (phase, id);
CREATE INDEX executions_subject ON executions (subject, id);
CREATE INDEX executions_requested_by ON executions (requested_by, id);
CREATE INDEX executions_open ON executions (id) WHERE open;
CREATE INDEX executions_attributes ON executions USING gin (attributes jsonb_path_ops);

-- What changes with every transition, for those who search by it: narrow, and apart.
CREATE TABLE standing (
    id         uuid PRIMARY KEY,
    state      text COLLATE "C" NOT NULL,
    updated_at bigint NOT NULL
) WITH (fillfactor = 80);
CREATE INDEX standing_state ON standing (state, id);
CREATE INDEX standing_updated ON standing (updated_at, id);

-- The history of all executions, in the order of commits. Divided by that order, so that what is old and empty goes by dropping a part.
CREATE TABLE journal (
    sequence   bigint NOT NULL,
    place      bigint NOT NULL,
    execution  uuid NOT NULL,
    at         bigint NOT NULL,
    actor      text COLLATE "C" NOT NULL,
    event      text COLLATE "C" NOT NULL,
    from_state text COLLATE "C" NOT NULL,
    to_state   text COLLATE "C" NOT NULL,
    detail     bytea NOT NULL,
    PRIMARY KEY (sequence, place)
) PARTITION BY RANGE (sequence);
CREATE INDEX journal_execution ON journal (execution, sequence, place);
CREATE TABLE journal_0 PARTITION OF journal FOR VALUES FROM (0) TO (10000000);

CREATE TABLE documents (
    collection text COLLATE "C" NOT NULL,
    id         text COLLATE "C" NOT NULL,
    version    bigint NOT NULL,
    body       bytea NOT NULL,
    PRIMARY KEY (collection, id)
);

-- Work. It is available once it is due and no lease on it stands.
CREATE TABLE tasks (
    execution  uuid NOT NULL,
    visit      bigint NOT NULL,
    slot       bigint NOT NULL,
    tenant     text COLLATE "C" NOT NULL,
    due        bigint NOT NULL,
    available  bigint NOT NULL,
    body       bytea NOT NULL,
    deliveries bigint NOT NULL,
    holder     text,
    epoch      bigint,
    until      bigint,
    PRIMARY KEY (execution, visit, slot)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX tasks_turn ON tasks (tenant, available, execution, visit, slot);
CREATE INDEX tasks_available ON tasks (available);
CREATE INDEX tasks_held ON tasks (available) WHERE holder IS NOT NULL;

-- Fencing tokens: each lease has one, and none is given twice.
CREATE SEQUENCE epochs AS bigint;

-- For people with SQL: the same with moments as moments and bodies as JSON, where they are JSON and not sealed.
CREATE FUNCTION readable(body bytea) RETURNS jsonb LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    RETURN convert_from(body, 'UTF8')::jsonb;
EXCEPTION WHEN OTHERS THEN
    RETURN NULL;
END $$;

CREATE VIEW executions_readable AS
SELECT id, revision, workflow, schema, tenant, subject, guard, state, phase, reason, open, requested_by,
       to_timestamp(created_at / 1000.0) AS created_at, to_timestamp(updated_at / 1000.0) AS updated_at,
       attributes, readable(body) AS body
FROM executions;

CREATE VIEW journal_readable AS
SELECT sequence, place, execution, to_timestamp(at / 1000.0) AS at, actor, event, from_state, to_state,
       readable(detail) AS detail
FROM journal;

CREATE VIEW documents_readable AS
SELECT collection, id, version, readable(body) AS body FROM documents;
