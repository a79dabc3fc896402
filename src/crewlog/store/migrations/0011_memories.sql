-- What crews remember beyond one run. Not derived from histories: a rebuild leaves it alone.
-- An embedding is an array, so that a database without pgvector has the same table.
CREATE TABLE crewlog.memories (
    crew      text COLLATE "C" NOT NULL,
    scope     text COLLATE "C" NOT NULL,
    key       text COLLATE "C" NOT NULL,
    text      text COLLATE "C" NOT NULL,
    metadata  text COLLATE "C" NOT NULL,
    agent     text COLLATE "C" NOT NULL,
    run       text COLLATE "C" NOT NULL,
    step      text COLLATE "C" NOT NULL,
    said_by   text COLLATE "C" NOT NULL,
    at        bigint NOT NULL,
    expires   bigint,
    words     tsvector NOT NULL,
    embedder  text COLLATE "C",
    embedding real[],
    PRIMARY KEY (crew, scope, key)
);
CREATE INDEX memories_newest ON crewlog.memories (crew, scope, at DESC, key);
CREATE INDEX memories_of_run ON crewlog.memories (run) WHERE run <> '';
