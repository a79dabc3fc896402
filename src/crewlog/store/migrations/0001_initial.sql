-- Everything has a schema of its own, so that a database may be shared with an application.
-- Ids and hashes are compared byte by byte (collation C): faster, and the same on every system.
-- Free text went through `crewlog.store.codec.pack`, JSON through `dump_json`: `json` and `jsonb`
-- would not give every value back as it was.

CREATE TABLE crewlog.definitions (
    hash       text COLLATE "C" PRIMARY KEY,
    definition text NOT NULL
);

CREATE TABLE crewlog.crews (
    name       text COLLATE "C" NOT NULL,
    version    integer NOT NULL,
    definition text COLLATE "C" NOT NULL REFERENCES crewlog.definitions (hash),
    at         bigint NOT NULL,
    PRIMARY KEY (name, version)
);

CREATE TABLE crewlog.bodies (
    hash text COLLATE "C" PRIMARY KEY,
    body text NOT NULL
);

CREATE TABLE crewlog.journal (
    run      text COLLATE "C" NOT NULL,
    position bigint NOT NULL,
    digest   text COLLATE "C" NOT NULL,
    entry    text NOT NULL,
    PRIMARY KEY (run, position)
);

-- The head names run, log and everything before it, so that it is key enough.
CREATE TABLE crewlog.links (
    head     text COLLATE "C" PRIMARY KEY,
    previous text COLLATE "C" NOT NULL,
    position bigint NOT NULL,
    body     text COLLATE "C" NOT NULL,
    first    boolean NOT NULL
);

-- `crew` to `started_by` are null until RunStarted is stored: later entries may be stored before it.
CREATE TABLE crewlog.runs (
    run        text COLLATE "C" PRIMARY KEY,
    crew       text COLLATE "C",
    definition text COLLATE "C",
    started    bigint,
    started_by text,
    status     text COLLATE "C" NOT NULL,
    since      bigint NOT NULL,
    ended      bigint,
    error      text NOT NULL,
    position   bigint NOT NULL
);
CREATE INDEX runs_newest ON crewlog.runs (started DESC NULLS LAST, run);
CREATE INDEX runs_by_status ON crewlog.runs (status, started DESC NULLS LAST, run);

-- `position` to `interrupt` are null while only the answer is stored.
CREATE TABLE crewlog.interrupts (
    run         text COLLATE "C" NOT NULL,
    id          text COLLATE "C" NOT NULL,
    position    bigint,
    at          bigint,
    interrupt   text,
    decision    text,
    answered_by text,
    PRIMARY KEY (run, id)
);
CREATE INDEX interrupts_open ON crewlog.interrupts (run)
    WHERE interrupt IS NOT NULL AND decision IS NULL;

-- Whose turn a step is: its start and its end may be stored in either order.
CREATE TABLE crewlog.steps (
    run   text COLLATE "C" NOT NULL,
    step  text COLLATE "C" NOT NULL,
    agent text NOT NULL,
    PRIMARY KEY (run, step)
);

CREATE TABLE crewlog.checkpoints (
    run      text COLLATE "C" NOT NULL,
    position bigint NOT NULL,
    step     text COLLATE "C" NOT NULL,
    node     text NOT NULL,
    at       bigint NOT NULL,
    PRIMARY KEY (run, position)
);

CREATE TABLE crewlog.snapshots (
    run      text COLLATE "C" NOT NULL,
    position bigint NOT NULL,
    state    text NOT NULL,
    PRIMARY KEY (run, position)
);

-- Called where an insert meets another entry at its position: it ends the whole statement, so that
-- nothing of the batch is stored, and it costs nothing where there is no conflict.
CREATE FUNCTION crewlog.refuse_entry(at_position bigint) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'a different entry' USING ERRCODE = 'CL001', DETAIL = at_position::text;
END
$$;
