-- The schema of version 0.1. All tables are in the schema `crewlog`, so that an application may use
-- the same database.
--
-- - Ids, hashes and names use collation C: the comparison is faster, and equal on every system.
-- - Free text is stored by `crewlog.store.codec.pack`, JSON by `dump_json`, both as `text`: the types
--   `json` and `jsonb` do not return every value unchanged.
-- - Times are milliseconds since the epoch. Positions are positions in the journal of a run.
-- - `crewlog rebuild` makes the rows of a run again from its histories. A comment says so where a
--   table is not derived from them.

-- Content, addressed by its hash. `doomed` is the time since which no run names the content: see
-- `crewlog.store.deletion`.
CREATE TABLE crewlog.definitions (
    hash       text COLLATE "C" PRIMARY KEY,
    definition text NOT NULL,
    doomed     bigint
);
CREATE INDEX definitions_doomed ON crewlog.definitions (doomed) WHERE doomed IS NOT NULL;

CREATE TABLE crewlog.bodies (
    hash   text COLLATE "C" PRIMARY KEY,
    body   text NOT NULL,
    doomed bigint
);
CREATE INDEX bodies_doomed ON crewlog.bodies (doomed) WHERE doomed IS NOT NULL;

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
CREATE TABLE crewlog.default_crew (
    one  boolean PRIMARY KEY DEFAULT true CHECK (one),
    name text COLLATE "C" NOT NULL
);

-- Registered registries and their parts. Their contents are in `definitions`. Not derived from
-- histories.
CREATE TABLE crewlog.registered (
    kind    text COLLATE "C" NOT NULL,
    name    text COLLATE "C" NOT NULL,
    version integer NOT NULL,
    content text COLLATE "C" NOT NULL REFERENCES crewlog.definitions (hash),
    at      bigint NOT NULL,
    PRIMARY KEY (kind, name, version)
);

CREATE TABLE crewlog.journal (
    run      text COLLATE "C" NOT NULL,
    position bigint NOT NULL,
    digest   text COLLATE "C" NOT NULL,
    entry    text NOT NULL,
    PRIMARY KEY (run, position)
);

-- The messages of logs, as chains. The head is a hash of the run, the log and all links before it, so
-- it identifies the link. `first` marks the first message of a log. A link that joins two logs has a
-- second parent in `other`, and an empty body.
CREATE TABLE crewlog.links (
    head     text COLLATE "C" PRIMARY KEY,
    previous text COLLATE "C" NOT NULL,
    position bigint NOT NULL,
    body     text COLLATE "C" NOT NULL,
    first    boolean NOT NULL,
    other    text COLLATE "C"
);

-- Links of deleted runs that related runs still use.
CREATE TABLE crewlog.orphans (head text COLLATE "C" PRIMARY KEY);

-- Entries may be stored in any order. So `crew` and `definition` are null until an entry is stored
-- that names them, `recipe`, `started` and `started_by` until the entry is that the run began with.
--
-- `crew` and `definition` are the current ones, which the entry at position `ruled` named; `recipe` is
-- the definition that the run began with. `since` is the position of the entry that set `status`.
-- The journal of a fork begins after position `base` of its `source`. A question that was last asked
-- before position `reset` is no longer open.
CREATE TABLE crewlog.runs (
    run        text COLLATE "C" PRIMARY KEY,
    crew       text COLLATE "C",
    definition text COLLATE "C",
    ruled      bigint NOT NULL,
    recipe     text COLLATE "C",
    started    bigint,
    started_by text,
    base       bigint NOT NULL,
    source     text COLLATE "C",
    reset      bigint NOT NULL,
    status     text COLLATE "C" NOT NULL,
    since      bigint NOT NULL,
    ended      bigint,
    error      text NOT NULL,
    position   bigint NOT NULL
);
CREATE INDEX runs_newest ON crewlog.runs (started DESC NULLS LAST, run);
CREATE INDEX runs_by_status ON crewlog.runs (status, started DESC NULLS LAST, run);
CREATE INDEX runs_by_source ON crewlog.runs (source) WHERE source IS NOT NULL;

-- `asked` and `answered` are the last positions that asked and answered the question; 0 if none is
-- stored. `position`, `at` and `interrupt` are null while only the answer is stored.
CREATE TABLE crewlog.interrupts (
    run         text COLLATE "C" NOT NULL,
    id          text COLLATE "C" NOT NULL,
    position    bigint,
    at          bigint,
    interrupt   text,
    asked       bigint NOT NULL,
    decision    text,
    answered_by text,
    answered    bigint NOT NULL,
    PRIMARY KEY (run, id)
);
CREATE INDEX interrupts_open ON crewlog.interrupts (run) WHERE asked > answered;

-- The agent of a step. The start of a step names it, and its end may be stored before its start.
CREATE TABLE crewlog.steps (
    run   text COLLATE "C" NOT NULL,
    step  text COLLATE "C" NOT NULL,
    agent text NOT NULL,
    PRIMARY KEY (run, step)
);

-- `step` and `node` are empty where the checkpoint is not the end of a step or a turn. `pruned` is the
-- position at which the checkpoint policy removed the checkpoint from the list; a later tag lists it
-- again.
CREATE TABLE crewlog.checkpoints (
    run      text COLLATE "C" NOT NULL,
    position bigint NOT NULL,
    kind     text COLLATE "C" NOT NULL,
    step     text COLLATE "C" NOT NULL,
    node     text NOT NULL,
    at       bigint NOT NULL,
    pruned   bigint,
    PRIMARY KEY (run, position)
);

-- Names of checkpoints. `position` is that of the entry that gave the name.
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
CREATE TABLE crewlog.rulings (
    run      text COLLATE "C" NOT NULL,
    position bigint NOT NULL,
    PRIMARY KEY (run, position)
);

-- The runs whose logs a run took in, with the position of the entry. `left_out` is the number of
-- positions that the journal of the run leaves out right before it.
CREATE TABLE crewlog.parents (
    run      text COLLATE "C" NOT NULL,
    parent   text COLLATE "C" NOT NULL,
    position bigint NOT NULL,
    left_out bigint NOT NULL,
    PRIMARY KEY (run, parent, position)
);

-- The sources and parents of deleted runs, kept while a run is left that goes on from them.
-- `taken_in`: the deleted run took the other one in; else it began from it. Not derived from histories.
CREATE TABLE crewlog.lineage (
    run      text COLLATE "C" NOT NULL,
    source   text COLLATE "C" NOT NULL,
    taken_in boolean NOT NULL,
    PRIMARY KEY (run, source)
);

-- Runs that are left and that deleted runs went on from: forks of them may share links. Not derived
-- from histories.
CREATE TABLE crewlog.forked (run text COLLATE "C" PRIMARY KEY);

-- Forks that are about to begin: their source is not deleted before their own journal names what they
-- share with it. Not derived from histories.
CREATE TABLE crewlog.forks (
    source text COLLATE "C" NOT NULL,
    fork   text COLLATE "C" NOT NULL,
    at     bigint NOT NULL,
    PRIMARY KEY (source, fork)
);

-- Executions that are no longer part of the history of their run. The store refuses their entries. Not
-- derived from histories.
CREATE TABLE crewlog.shut (
    run       text COLLATE "C" NOT NULL,
    execution text COLLATE "C" NOT NULL,
    PRIMARY KEY (run, execution)
);

-- The executions of runs with signed commands whose start was checked, or that continue such a one.
-- The store takes entries of such a run from no other execution. Not derived from histories.
CREATE TABLE crewlog.executions (
    run       text COLLATE "C" NOT NULL,
    execution text COLLATE "C" NOT NULL,
    PRIMARY KEY (run, execution)
);

-- Work that must begin only once. The first owner to claim a key does it. Not derived from histories.
CREATE TABLE crewlog.claims (
    key   text COLLATE "C" PRIMARY KEY,
    owner text COLLATE "C" NOT NULL
);

-- Approved tools of MCP servers. `digest` is that of the description and the arguments, `told` their
-- text at the time of the approval. Not derived from histories.
CREATE TABLE crewlog.tool_approvals (
    source   text COLLATE "C" NOT NULL,
    tool     text COLLATE "C" NOT NULL,
    digest   text COLLATE "C" NOT NULL,
    approver text NOT NULL,
    at       bigint NOT NULL,
    told     text NOT NULL,
    PRIMARY KEY (source, tool)
);

-- Signed approvals of tools of MCP servers: the newest one of each key. The reader verifies the
-- signature. Not derived from histories.
CREATE TABLE crewlog.tool_proofs (
    source    text COLLATE "C" NOT NULL,
    tool      text COLLATE "C" NOT NULL,
    key       text COLLATE "C" NOT NULL,
    digest    text COLLATE "C" NOT NULL,
    approver  text NOT NULL,
    at        bigint NOT NULL,
    expires   bigint NOT NULL,
    signature text NOT NULL,
    PRIMARY KEY (source, tool, key)
);

-- The memory of crews. Not derived from histories. An embedding is an array, so that the table is the
-- same without pgvector. With encryption, `key` is a code, and `sealed_key` the encrypted key; without
-- it, `sealed_key` is null.
CREATE TABLE crewlog.memories (
    crew       text COLLATE "C" NOT NULL,
    scope      text COLLATE "C" NOT NULL,
    key        text COLLATE "C" NOT NULL,
    sealed_key text COLLATE "C",
    text       text COLLATE "C" NOT NULL,
    metadata   text COLLATE "C" NOT NULL,
    agent      text COLLATE "C" NOT NULL,
    run        text COLLATE "C" NOT NULL,
    step       text COLLATE "C" NOT NULL,
    said_by    text COLLATE "C" NOT NULL,
    at         bigint NOT NULL,
    expires    bigint,
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
CREATE TABLE crewlog.sealing (
    namespace      text COLLATE "C" PRIMARY KEY,
    only_encrypted boolean NOT NULL
);

-- The calls that count in quotas over runs, each once. `span` is the hour or the day. Not derived from
-- histories.
CREATE TABLE crewlog.reservations (
    quota text COLLATE "C" NOT NULL,
    call  text COLLATE "C" NOT NULL,
    span  text COLLATE "C" NOT NULL,
    at    bigint NOT NULL,
    PRIMARY KEY (quota, call)
);
CREATE INDEX reservations_by_age ON crewlog.reservations (quota, at);

-- The number of `reservations` by quota and span: a reservation reads one row, however many calls
-- there are. Not derived from histories.
CREATE TABLE crewlog.quota_counts (
    quota text COLLATE "C" NOT NULL,
    span  text COLLATE "C" NOT NULL,
    used  bigint NOT NULL,
    PRIMARY KEY (quota, span)
);

-- Functions are created with OR REPLACE: they are left where somebody dropped the tables alone.

-- An insert calls this where the position holds another entry. The error ends the whole statement, so
-- nothing of the batch is stored. Without a conflict it costs nothing.
CREATE OR REPLACE FUNCTION crewlog.refuse_entry(at_position bigint) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'a different entry' USING ERRCODE = 'CL001', DETAIL = at_position::text;
END
$$;

-- Reservations in one quota run one after the other.
CREATE OR REPLACE FUNCTION crewlog.lock_quotas(quotas text[])
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended(key, 4854126601903010))
    FROM unnest(quotas) AS key;
END
$$;

-- Counts a call in all of the quotas, or in none. In the second case it returns a quota that is used
-- up. A call that is counted already is not counted again, in whatever span. The caller sorts the
-- quotas, so that no two calls deadlock; each statement sees what was committed before its lock.
CREATE OR REPLACE FUNCTION crewlog.reserve(
    this text, quotas text[], spans text[], mosts bigint[], now bigint, older bigint
) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    used_up text;
BEGIN
    PERFORM crewlog.lock_quotas(quotas);
    SELECT new.quota INTO used_up
    FROM unnest(quotas, spans, mosts) AS new (quota, span, most)
    LEFT JOIN crewlog.quota_counts AS counts
        ON counts.quota = new.quota AND counts.span = new.span
    WHERE new.most <= COALESCE(counts.used, 0)
    AND NOT EXISTS (
        SELECT FROM crewlog.reservations AS old WHERE old.quota = new.quota AND old.call = this
    )
    ORDER BY new.quota COLLATE "C" LIMIT 1;
    IF FOUND THEN
        RETURN used_up;
    END IF;
    WITH made AS (
        INSERT INTO crewlog.reservations (quota, call, span, at)
        SELECT new.quota, this, new.span, now
        FROM unnest(quotas, spans) AS new (quota, span)
        ON CONFLICT DO NOTHING
        RETURNING reservations.quota, reservations.span
    )
    INSERT INTO crewlog.quota_counts AS counts (quota, span, used)
    SELECT made.quota, made.span, count(*) FROM made GROUP BY made.quota, made.span
    ON CONFLICT (quota, span) DO UPDATE SET used = counts.used + EXCLUDED.used;
    WITH old AS (
        DELETE FROM crewlog.reservations AS old
        WHERE old.quota = ANY (quotas) AND old.at < older AND old.call <> this
        RETURNING old.quota, old.span
    ),
    less AS (
        SELECT old.quota, old.span, count(*) AS calls FROM old GROUP BY old.quota, old.span
    )
    UPDATE crewlog.quota_counts AS counts SET used = counts.used - less.calls
    FROM less WHERE counts.quota = less.quota AND counts.span = less.span;
    IF FOUND THEN
        DELETE FROM crewlog.quota_counts AS counts
        WHERE counts.quota = ANY (quotas) AND counts.used <= 0;
    END IF;
    RETURN NULL;
END
$$;

-- Removes a call that was not made from quotas.
CREATE OR REPLACE FUNCTION crewlog.release(this text, quotas text[])
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM crewlog.lock_quotas(quotas);
    WITH gone AS (
        DELETE FROM crewlog.reservations AS old
        WHERE old.quota = ANY (quotas) AND old.call = this
        RETURNING old.quota, old.span
    )
    UPDATE crewlog.quota_counts AS counts SET used = counts.used - 1
    FROM gone WHERE counts.quota = gone.quota AND counts.span = gone.span;
END
$$;
