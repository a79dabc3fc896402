-- The tables of version 0.1. They are in the schema `crewlog`, so that an application can use the same
-- database.
--
-- - Ids, hashes and names use collation C: the comparison is faster, and equal on every system.
-- - Free text is stored by `crewlog.store.codec.pack`, JSON by `dump_json`, both as `text`: the types
--   `json` and `jsonb` do not return every value unchanged.
-- - Times are milliseconds since the epoch. Positions are positions in the journal of a run.
-- - `crewlog rebuild` makes the rows of a run again from its histories. A comment says so where a
--   table is not derived from them.

-- Now, in milliseconds since the epoch.
CREATE OR REPLACE FUNCTION crewlog.now_ms() RETURNS bigint LANGUAGE sql STABLE
AS $$ SELECT (extract(epoch FROM now()) * 1000)::bigint $$;

-- Content by its hash. `unreferenced_at` is the time of the last deletion that removed a reference, null
-- if it was stored since; see `crewlog.store.deletion`.
CREATE TABLE crewlog.definitions (
    hash       text COLLATE "C" PRIMARY KEY,
    definition text NOT NULL,
    unreferenced_at bigint
);
CREATE INDEX definitions_unreferenced ON crewlog.definitions (unreferenced_at) WHERE unreferenced_at IS NOT NULL;

CREATE TABLE crewlog.bodies (
    hash   text COLLATE "C" PRIMARY KEY,
    body   text NOT NULL,
    unreferenced_at bigint
);
CREATE INDEX bodies_unreferenced ON crewlog.bodies (unreferenced_at) WHERE unreferenced_at IS NOT NULL;

-- The hashes that a run refers to: of bodies and definitions that it stored, and those in its journal,
-- which are bodies, definitions and heads of logs. The run is empty for bodies of links whose run is empty.
CREATE TABLE crewlog.content_references (
    run  text COLLATE "C" NOT NULL,
    hash text COLLATE "C" NOT NULL,
    PRIMARY KEY (run, hash)
);

-- Registered crews. The rows of a removed crew stay, so that a version number never names two
-- definitions. Not derived from histories.
CREATE TABLE crewlog.crews (
    name       text COLLATE "C" NOT NULL,
    version    integer NOT NULL,
    definition text COLLATE "C" NOT NULL REFERENCES crewlog.definitions (hash),
    at         bigint NOT NULL,
    removed    boolean NOT NULL DEFAULT false,
    PRIMARY KEY (name, version)
);

-- The crew of runs that name none; at most one row. Not derived from histories.
CREATE TABLE crewlog.default_crews (
    one  boolean PRIMARY KEY DEFAULT true CHECK (one),
    name text COLLATE "C" NOT NULL
);

-- Registered registries and their parts. Their contents are in `definitions`. Not derived from
-- histories.
CREATE TABLE crewlog.catalog_entries (
    kind    text COLLATE "C" NOT NULL,
    name    text COLLATE "C" NOT NULL,
    version integer NOT NULL,
    content text COLLATE "C" NOT NULL REFERENCES crewlog.definitions (hash),
    at      bigint NOT NULL,
    PRIMARY KEY (kind, name, version)
);

CREATE TABLE crewlog.journal_entries (
    run      text COLLATE "C" NOT NULL,
    position bigint NOT NULL,
    hash     text COLLATE "C" NOT NULL,
    entry    text NOT NULL,
    PRIMARY KEY (run, position)
);

-- The messages of logs, as chains. The head is a hash of the run, the log and all links before it, so
-- it identifies the link. `is_first` marks the first message of a log. A link that merges two logs has
-- a second parent in `other`, and an empty body. Each run whose journal has the link has a row; the run
-- is empty for links of deleted runs from which other runs continue.
CREATE TABLE crewlog.log_links (
    head     text COLLATE "C" NOT NULL,
    run      text COLLATE "C" NOT NULL,
    previous text COLLATE "C" NOT NULL,
    position bigint NOT NULL,
    body     text COLLATE "C" NOT NULL,
    is_first boolean NOT NULL,
    other    text COLLATE "C",
    PRIMARY KEY (head, run)
);
CREATE INDEX log_links_of_deleted_runs ON crewlog.log_links (body) WHERE run = '';

-- Entries may be stored in any order. So `crew` and `definition` are null until an entry with them is
-- stored; `recipe`, `started_at` and `started_by` until the first entry of the run is.
--
-- `crew` and `definition` are the current ones, set by the entry at `definition_position`. `recipe` is
-- the definition that the run was started with. The entry at `status_position` set `status`. The journal
-- of a fork begins after `source_position` of its `source`. The entry at `restore_position` was the last
-- to restore a state: an interrupt that was last asked before it is no longer open.
CREATE TABLE crewlog.runs (
    run                 text COLLATE "C" PRIMARY KEY,
    crew                text COLLATE "C",
    definition          text COLLATE "C",
    definition_position bigint NOT NULL,
    recipe              text COLLATE "C",
    started_at          bigint,
    started_by          text,
    source              text COLLATE "C",
    source_position     bigint NOT NULL,
    restore_position    bigint NOT NULL,
    status              text COLLATE "C" NOT NULL,
    status_position     bigint NOT NULL,
    ended_at            bigint,
    error               text NOT NULL,
    position            bigint NOT NULL
);
CREATE INDEX runs_newest ON crewlog.runs (started_at DESC NULLS LAST, run);
CREATE INDEX runs_by_status ON crewlog.runs (status, started_at DESC NULLS LAST, run);
CREATE INDEX runs_by_source ON crewlog.runs (source) WHERE source IS NOT NULL;

-- `asked_position` and `answered_position` are the last positions that asked and answered the
-- question; 0 if none is stored. `position`, `at` and `interrupt` are null while only the answer is
-- stored.
CREATE TABLE crewlog.interrupts (
    run               text COLLATE "C" NOT NULL,
    id                text COLLATE "C" NOT NULL,
    position          bigint,
    at                bigint,
    interrupt         text,
    asked_position    bigint NOT NULL,
    decision          text,
    answered_by       text,
    answered_position bigint NOT NULL,
    PRIMARY KEY (run, id)
);
CREATE INDEX interrupts_open ON crewlog.interrupts (run) WHERE asked_position > answered_position;

-- The agents of steps. The start of a step names it; its end may be stored before its start.
CREATE TABLE crewlog.steps (
    run   text COLLATE "C" NOT NULL,
    step  text COLLATE "C" NOT NULL,
    agent text NOT NULL,
    PRIMARY KEY (run, step)
);

-- `step` is the step or the exchange that ended, `node` the node of the step; else they are empty.
-- `pruned_position` is the position at which the policy pruned the checkpoint; a later tag lists it
-- again.
CREATE TABLE crewlog.checkpoints (
    run      text COLLATE "C" NOT NULL,
    position bigint NOT NULL,
    kind     text COLLATE "C" NOT NULL,
    step     text COLLATE "C" NOT NULL,
    node     text NOT NULL,
    at       bigint NOT NULL,
    pruned_position bigint,
    PRIMARY KEY (run, position)
);

-- Tags of checkpoints. `position` is that of the entry that set the tag.
CREATE TABLE crewlog.tags (
    run        text COLLATE "C" NOT NULL,
    tag        text COLLATE "C" NOT NULL,
    checkpoint bigint NOT NULL,
    position   bigint NOT NULL,
    at         bigint NOT NULL,
    PRIMARY KEY (run, tag)
);

CREATE TABLE crewlog.snapshots (
    run      text COLLATE "C" NOT NULL,
    position bigint NOT NULL,
    state    text NOT NULL,
    PRIMARY KEY (run, position)
);

-- The positions of entries that change what an agent may call. An activity compares the last one with
-- the position at which its call was scheduled.
CREATE TABLE crewlog.permission_changes (
    run      text COLLATE "C" NOT NULL,
    position bigint NOT NULL,
    PRIMARY KEY (run, position)
);

-- The runs whose logs continue in a run, by run merge, with the position of the entry. `skipped` is
-- the number of positions that the journal of the run skips right before it.
CREATE TABLE crewlog.log_sources (
    run      text COLLATE "C" NOT NULL,
    source   text COLLATE "C" NOT NULL,
    position bigint NOT NULL,
    skipped  bigint NOT NULL,
    PRIMARY KEY (run, source, position)
);

-- The lineage of deleted runs, kept while another run continues from them. `by_merge`: the deleted run
-- merged the source; else it began from it. Not derived from histories.
CREATE TABLE crewlog.deleted_run_sources (
    run      text COLLATE "C" NOT NULL,
    source   text COLLATE "C" NOT NULL,
    by_merge boolean NOT NULL,
    PRIMARY KEY (run, source)
);

-- Forks that have not started: their source is not deleted before their journal names the links that
-- they share with it. Not derived from histories.
CREATE TABLE crewlog.pending_forks (
    source text COLLATE "C" NOT NULL,
    fork   text COLLATE "C" NOT NULL,
    at     bigint NOT NULL,
    PRIMARY KEY (source, fork)
);

-- Executions that are no longer part of the history of their run. The store refuses their entries. Not
-- derived from histories.
CREATE TABLE crewlog.rejected_executions (
    run       text COLLATE "C" NOT NULL,
    execution text COLLATE "C" NOT NULL,
    at        bigint NOT NULL DEFAULT crewlog.now_ms(),
    PRIMARY KEY (run, execution)
);

-- The executions of runs with signed commands whose start was authorized, and those that continue them.
-- The store accepts entries of such a run from no other execution.
CREATE TABLE crewlog.accepted_executions (
    run       text COLLATE "C" NOT NULL,
    execution text COLLATE "C" NOT NULL,
    at        bigint NOT NULL DEFAULT crewlog.now_ms(),
    PRIMARY KEY (run, execution)
);

-- Start records of work that starts only once: the first process that inserts a key owns the work. The
-- work is a call, a summary, or the claim of an agent of an ended run; these are deleted with their run.
-- The run is empty for the use of a start or a command, which outlives the run.
CREATE TABLE crewlog.start_records (
    key   text COLLATE "C" PRIMARY KEY,
    owner text COLLATE "C" NOT NULL,
    run   text COLLATE "C" NOT NULL,
    at    bigint NOT NULL DEFAULT crewlog.now_ms()
);
CREATE INDEX start_records_of_run ON crewlog.start_records (run);

-- Approved tools of MCP servers. `hash` is that of description and arguments, `description` their text at
-- the time of the approval. Not derived from histories.
CREATE TABLE crewlog.tool_approvals (
    source   text COLLATE "C" NOT NULL,
    tool     text COLLATE "C" NOT NULL,
    hash     text COLLATE "C" NOT NULL,
    approver text NOT NULL,
    at       bigint NOT NULL,
    description text NOT NULL,
    PRIMARY KEY (source, tool)
);

-- Signed approvals of tools of MCP servers: the newest one of each key. The reader verifies the
-- signature. Not derived from histories.
CREATE TABLE crewlog.signed_tool_approvals (
    source    text COLLATE "C" NOT NULL,
    tool      text COLLATE "C" NOT NULL,
    key       text COLLATE "C" NOT NULL,
    hash      text COLLATE "C" NOT NULL,
    approver  text NOT NULL,
    at        bigint NOT NULL,
    expires   bigint NOT NULL,
    signature text NOT NULL,
    PRIMARY KEY (source, tool, key)
);

-- The memory of crews. Not derived from histories. An embedding is an array, so that the table is the
-- same without pgvector. With encryption, `key` is a code, and `encrypted_key` the encrypted key;
-- without it, `encrypted_key` is null. `written_by` is the principal, or empty for an agent.
CREATE TABLE crewlog.memories (
    crew       text COLLATE "C" NOT NULL,
    scope      text COLLATE "C" NOT NULL,
    key        text COLLATE "C" NOT NULL,
    encrypted_key text COLLATE "C",
    text       text COLLATE "C" NOT NULL,
    metadata   text COLLATE "C" NOT NULL,
    agent      text COLLATE "C" NOT NULL,
    run        text COLLATE "C" NOT NULL,
    step       text COLLATE "C" NOT NULL,
    written_by text COLLATE "C" NOT NULL,
    at         bigint NOT NULL,
    expires_at bigint,
    words      tsvector NOT NULL,
    embedder   text COLLATE "C",
    embedding  real[],
    PRIMARY KEY (crew, scope, key)
);
CREATE INDEX memories_newest ON crewlog.memories (crew, scope, at DESC, key);
CREATE INDEX memories_of_run ON crewlog.memories (run) WHERE run <> '';

-- The namespace that the encrypted rows are bound to; at most one row, and none without encryption.
-- `only_encrypted`: a process that refuses plain rows has found none. Not derived from histories; if
-- the row is missing, the next process checks the rows again.
CREATE TABLE crewlog.key_checks (
    namespace      text COLLATE "C" PRIMARY KEY,
    only_encrypted boolean NOT NULL
);

-- The calls that count in quotas over runs, each once. `period` is the hour or the day.
CREATE TABLE crewlog.quota_calls (
    quota text COLLATE "C" NOT NULL,
    call  text COLLATE "C" NOT NULL,
    period text COLLATE "C" NOT NULL,
    at    bigint NOT NULL,
    PRIMARY KEY (quota, call)
);
CREATE INDEX quota_calls_by_age ON crewlog.quota_calls (quota, at);

-- The number of `quota_calls` by quota and period, so that counting a call reads one row.
CREATE TABLE crewlog.quota_counts (
    quota text COLLATE "C" NOT NULL,
    period text COLLATE "C" NOT NULL,
    calls  bigint NOT NULL,
    PRIMARY KEY (quota, period)
);

-- OR REPLACE, since the functions remain if only the tables were dropped.

-- Called by an insert if the position has another entry. The error aborts the statement, so nothing of
-- the batch is stored. Without a conflict it costs nothing.
CREATE OR REPLACE FUNCTION crewlog.reject_entry(at_position bigint) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'a different entry' USING ERRCODE = 'CL001', DETAIL = at_position::text;
END
$$;

-- Serializes the counting of calls in a quota.
CREATE OR REPLACE FUNCTION crewlog.lock_quotas(quotas text[])
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended(key, 4854126601903010))
    FROM unnest(quotas) AS key;
END
$$;

-- Counts a call in all of the quotas, or in none, and then returns a quota that is used up. A counted
-- call is not counted again, in any period. The caller sorts the quotas, so that calls cannot deadlock;
-- each statement sees what was committed before its lock.
CREATE OR REPLACE FUNCTION crewlog.count_call(
    this text, quotas text[], periods text[], limits bigint[], now bigint, older bigint
) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    used_up text;
BEGIN
    PERFORM crewlog.lock_quotas(quotas);
    SELECT new.quota INTO used_up
    FROM unnest(quotas, periods, limits) AS new (quota, period, most)
    LEFT JOIN crewlog.quota_counts AS counts
        ON counts.quota = new.quota AND counts.period = new.period
    WHERE new.most <= COALESCE(counts.calls, 0)
    AND NOT EXISTS (
        SELECT FROM crewlog.quota_calls AS old WHERE old.quota = new.quota AND old.call = this
    )
    ORDER BY new.quota COLLATE "C" LIMIT 1;
    IF FOUND THEN
        RETURN used_up;
    END IF;
    WITH inserted AS (
        INSERT INTO crewlog.quota_calls (quota, call, period, at)
        SELECT new.quota, this, new.period, now
        FROM unnest(quotas, periods) AS new (quota, period)
        ON CONFLICT DO NOTHING
        RETURNING quota_calls.quota, quota_calls.period
    )
    INSERT INTO crewlog.quota_counts AS counts (quota, period, calls)
    SELECT inserted.quota, inserted.period, count(*) FROM inserted
    GROUP BY inserted.quota, inserted.period
    ON CONFLICT (quota, period) DO UPDATE SET calls = counts.calls + EXCLUDED.calls;
    WITH old AS (
        DELETE FROM crewlog.quota_calls AS old
        WHERE old.quota = ANY (quotas) AND old.at < older AND old.call <> this
        RETURNING old.quota, old.period
    ),
    less AS (
        SELECT old.quota, old.period, count(*) AS calls FROM old GROUP BY old.quota, old.period
    )
    UPDATE crewlog.quota_counts AS counts SET calls = counts.calls - less.calls
    FROM less WHERE counts.quota = less.quota AND counts.period = less.period;
    IF FOUND THEN
        DELETE FROM crewlog.quota_counts AS counts
        WHERE counts.quota = ANY (quotas) AND counts.calls <= 0;
    END IF;
    RETURN NULL;
END
$$;

-- Removes a call that was not made from quotas.
CREATE OR REPLACE FUNCTION crewlog.release_call(this text, quotas text[])
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM crewlog.lock_quotas(quotas);
    WITH deleted AS (
        DELETE FROM crewlog.quota_calls AS old
        WHERE old.quota = ANY (quotas) AND old.call = this
        RETURNING old.quota, old.period
    )
    UPDATE crewlog.quota_counts AS counts SET calls = counts.calls - 1
    FROM deleted WHERE counts.quota = deleted.quota AND counts.period = deleted.period;
END
$$;
