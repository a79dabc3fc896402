-- The parts of one statement: `crewlog.store.append_statement` joins those whose tables get rows. $1 is the run,
-- $2 a JSON object that has the rows of each table as a list, $3 the execution that sends entries.
--
-- Each insert is sorted by its key, so that two statements that overlap take their locks in one order
-- and cannot deadlock.

-- name: append_journal
INSERT INTO crewlog.journal AS stored (run, position, digest, entry)
SELECT $1::text, new.position, new.digest,
       CASE
           WHEN EXISTS (SELECT FROM crewlog.shut WHERE run = $1 AND execution = $3::text)
           THEN crewlog.refuse_entry(new.position) ELSE new.entry
       END
FROM jsonb_to_recordset($2::jsonb -> 'journal') AS new (position bigint, digest text, entry text)
-- Entries that are there already are left out here: the conflict clause would lock their rows.
WHERE new.digest IS DISTINCT FROM (
    SELECT old.digest FROM crewlog.journal AS old
    WHERE old.run = $1 AND old.position = new.position
)
ORDER BY new.position
ON CONFLICT (run, position) DO UPDATE SET entry = crewlog.refuse_entry(excluded.position)
WHERE stored.digest <> excluded.digest

-- name: append_links
INSERT INTO crewlog.links (head, previous, position, body, first, other)
SELECT new.* FROM jsonb_to_recordset($2::jsonb -> 'links') AS new (
    head text, previous text, position bigint, body text, first boolean, other text
)
ORDER BY new.head
ON CONFLICT DO NOTHING

-- name: append_bodies
INSERT INTO crewlog.bodies (hash, body)
SELECT new.* FROM jsonb_to_recordset($2::jsonb -> 'bodies') AS new (hash text, body text)
WHERE NOT EXISTS (
    SELECT FROM crewlog.bodies AS old WHERE old.hash = new.hash AND old.doomed IS NULL
)
ORDER BY new.hash
ON CONFLICT (hash) DO UPDATE SET doomed = NULL WHERE bodies.doomed IS NOT NULL

-- name: append_steps
INSERT INTO crewlog.steps (run, step, agent)
SELECT $1::text, new.*
FROM jsonb_to_recordset($2::jsonb -> 'steps') AS new (step text, agent text)
ORDER BY new.step
ON CONFLICT DO NOTHING

-- name: append_checkpoints
INSERT INTO crewlog.checkpoints (run, position, step, node, at, kind)
SELECT $1::text, new.* FROM jsonb_to_recordset($2::jsonb -> 'checkpoints') AS new (
    position bigint, step text, node text, at bigint, kind text
)
ORDER BY new.position
ON CONFLICT DO NOTHING

-- name: append_tags
-- `TagProjection.merge`: the later of both.
INSERT INTO crewlog.tags AS stored (run, tag, checkpoint, position, at)
SELECT $1::text, new.* FROM jsonb_to_recordset($2::jsonb -> 'tags') AS new (
    tag text, checkpoint bigint, position bigint, at bigint
)
ORDER BY new.tag
ON CONFLICT (run, tag) DO UPDATE SET
    checkpoint = excluded.checkpoint, position = excluded.position, at = excluded.at
WHERE excluded.position > stored.position

-- name: append_interrupts
-- `InterruptProjection.merge`: the question and the last answer, whichever came first.
INSERT INTO crewlog.interrupts AS stored
    (run, id, position, at, interrupt, asked, decision, answered_by, answered)
SELECT $1::text, new.* FROM jsonb_to_recordset($2::jsonb -> 'interrupts') AS new (
    id text, position bigint, at bigint, interrupt text, asked bigint,
    decision text, answered_by text, answered bigint
)
ORDER BY new.id
ON CONFLICT (run, id) DO UPDATE SET
    position = COALESCE(stored.position, excluded.position),
    at = LEAST(stored.at, excluded.at),
    interrupt = COALESCE(stored.interrupt, excluded.interrupt),
    asked = GREATEST(stored.asked, excluded.asked),
    decision = CASE
        WHEN excluded.answered > stored.answered THEN excluded.decision ELSE stored.decision
    END,
    answered_by = CASE
        WHEN excluded.answered > stored.answered
        THEN excluded.answered_by ELSE stored.answered_by
    END,
    answered = GREATEST(stored.answered, excluded.answered)
WHERE (stored.interrupt IS NULL AND excluded.interrupt IS NOT NULL)
   OR excluded.at < stored.at
   OR excluded.asked > stored.asked
   OR excluded.answered > stored.answered

-- name: append_rulings
INSERT INTO crewlog.rulings (run, position)
SELECT $1::text, new.* FROM jsonb_to_recordset($2::jsonb -> 'rulings') AS new (position bigint)
ORDER BY new.position
ON CONFLICT DO NOTHING

-- name: append_parents
INSERT INTO crewlog.parents (run, parent, position, left_out)
SELECT $1::text, new.* FROM jsonb_to_recordset($2::jsonb -> 'parents') AS new (
    parent text, position bigint, left_out bigint
)
ORDER BY new.parent, new.position
ON CONFLICT DO NOTHING

-- name: append_forks
-- As `add_pending_fork` notes one: a run is not deleted before its parts have taken what is theirs.
INSERT INTO crewlog.forks (source, fork, at)
SELECT $1::text, new.* FROM jsonb_to_recordset($2::jsonb -> 'forks') AS new (fork text, at bigint)
ORDER BY new.fork
ON CONFLICT DO NOTHING

-- name: append_runs
-- `RunFacts.merge`: how it began whenever that comes; the rest as the highest position says.
INSERT INTO crewlog.runs AS stored (
    run, crew, definition, ruled, recipe, started, started_by, base, source, reset,
    status, since, ended, error, position
)
SELECT $1::text, new.* FROM jsonb_to_recordset($2::jsonb -> 'runs') AS new (
    crew text, definition text, ruled bigint, recipe text, started bigint, started_by text,
    base bigint, source text, reset bigint, status text, since bigint, ended bigint, error text,
    position bigint
)
ON CONFLICT (run) DO UPDATE SET
    crew = CASE WHEN excluded.ruled > stored.ruled THEN excluded.crew ELSE stored.crew END,
    definition = CASE
        WHEN excluded.ruled > stored.ruled THEN excluded.definition ELSE stored.definition
    END,
    ruled = GREATEST(stored.ruled, excluded.ruled),
    recipe = COALESCE(stored.recipe, excluded.recipe),
    started = COALESCE(stored.started, excluded.started),
    started_by = COALESCE(stored.started_by, excluded.started_by),
    base = GREATEST(stored.base, excluded.base),
    source = COALESCE(stored.source, excluded.source),
    reset = GREATEST(stored.reset, excluded.reset),
    status = CASE WHEN excluded.since > stored.since THEN excluded.status ELSE stored.status END,
    ended = CASE WHEN excluded.since > stored.since THEN excluded.ended ELSE stored.ended END,
    error = CASE WHEN excluded.since > stored.since THEN excluded.error ELSE stored.error END,
    since = GREATEST(stored.since, excluded.since),
    position = GREATEST(stored.position, excluded.position)
WHERE excluded.ruled > stored.ruled
   OR (stored.recipe IS NULL AND excluded.recipe IS NOT NULL)
   OR (stored.started IS NULL AND excluded.started IS NOT NULL)
   OR excluded.since > stored.since
   OR excluded.position > stored.position
