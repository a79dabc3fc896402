-- name: append
-- One statement: one round trip, one transaction. Every insert is sorted by its key, so that two
-- statements that overlap take their locks in one order and cannot deadlock.
WITH journal_rows AS (
    INSERT INTO crewlog.journal AS stored (run, position, digest, entry)
    SELECT $1::text, new.position, new.digest,
           CASE
               WHEN EXISTS (SELECT FROM crewlog.shut WHERE run = $1 AND execution = $45::text)
               THEN crewlog.refuse_entry(new.position) ELSE new.entry
           END
    FROM unnest($2::bigint[], $3::text[], $4::text[]) AS new (position, digest, entry)
    -- Entries that are there already are left out here: the conflict clause would lock their rows.
    WHERE new.digest IS DISTINCT FROM (
        SELECT old.digest FROM crewlog.journal AS old
        WHERE old.run = $1 AND old.position = new.position
    )
    ORDER BY new.position
    ON CONFLICT (run, position) DO UPDATE SET entry = crewlog.refuse_entry(excluded.position)
    WHERE stored.digest <> excluded.digest
),
link_rows AS (
    INSERT INTO crewlog.links (head, previous, position, body, first, other)
    SELECT * FROM unnest(
        $5::text[], $6::text[], $7::bigint[], $8::text[], $9::boolean[], $47::text[]
    ) AS new (head, previous, position, body, first, other)
    ORDER BY new.head
    ON CONFLICT DO NOTHING
),
body_rows AS (
    INSERT INTO crewlog.bodies (hash, body)
    SELECT new.* FROM unnest($10::text[], $11::text[]) AS new (hash, body)
    WHERE NOT EXISTS (
        SELECT FROM crewlog.bodies AS old WHERE old.hash = new.hash AND old.doomed IS NULL
    )
    ORDER BY new.hash
    ON CONFLICT (hash) DO UPDATE SET doomed = NULL WHERE bodies.doomed IS NOT NULL
),
step_rows AS (
    INSERT INTO crewlog.steps (run, step, agent)
    SELECT $1, new.* FROM unnest($12::text[], $13::text[]) AS new (step, agent)
    ORDER BY new.step
    ON CONFLICT DO NOTHING
),
checkpoint_rows AS (
    INSERT INTO crewlog.checkpoints (run, position, step, node, at, kind)
    SELECT $1, new.*
    FROM unnest($14::bigint[], $15::text[], $16::text[], $17::bigint[], $18::text[])
        AS new (position, step, node, at, kind)
    ORDER BY new.position
    ON CONFLICT DO NOTHING
),
tag_rows AS (
    -- `TagFacts.merge`: the later of both.
    INSERT INTO crewlog.tags AS stored (run, tag, checkpoint, position, at)
    SELECT $1, new.* FROM unnest($19::text[], $20::bigint[], $21::bigint[], $22::bigint[])
        AS new (tag, checkpoint, position, at)
    ORDER BY new.tag
    ON CONFLICT (run, tag) DO UPDATE SET
        checkpoint = excluded.checkpoint, position = excluded.position, at = excluded.at
    WHERE excluded.position > stored.position
),
interrupt_rows AS (
    -- `InterruptFacts.merge`: the question and the last answer, whichever came first.
    INSERT INTO crewlog.interrupts AS stored
        (run, id, position, at, interrupt, asked, decision, answered_by, answered)
    SELECT $1, new.* FROM unnest(
        $23::text[], $24::bigint[], $25::bigint[], $26::text[], $27::bigint[],
        $28::text[], $29::text[], $30::bigint[]
    ) AS new (id, position, at, interrupt, asked, decision, answered_by, answered)
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
),
ruling_rows AS (
    INSERT INTO crewlog.rulings (run, position)
    SELECT $1, new.position FROM unnest($46::bigint[]) AS new (position)
    ORDER BY new.position
    ON CONFLICT DO NOTHING
),
parent_rows AS (
    INSERT INTO crewlog.parents (run, parent, position, left_out)
    SELECT $1, new.*
    FROM unnest($48::text[], $49::bigint[], $50::bigint[]) AS new (parent, position, left_out)
    ORDER BY new.parent, new.position
    ON CONFLICT DO NOTHING
),
part_rows AS (
    -- As `expect_fork` notes one: a run is not deleted before its parts have taken what is theirs.
    INSERT INTO crewlog.forks (source, fork, at)
    SELECT $1, new.* FROM unnest($51::text[], $52::bigint[]) AS new (fork, at)
    ORDER BY new.fork
    ON CONFLICT DO NOTHING
),
run_rows AS (
-- `RunFacts.merge`: how it began whenever that comes; the rest as the highest position says.
INSERT INTO crewlog.runs AS stored (
    run, crew, definition, ruled, recipe, started, started_by, base, source, reset,
    status, since, ended, error, position
)
SELECT $1, $31::text, $32::text, $33::bigint, $34::text, $35::bigint, $36::text,
       $37::bigint, $38::text, $39::bigint,
       $40::text, $41::bigint, $42::bigint, $43::text, $44::bigint
WHERE $44 IS NOT NULL
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
)
-- The rows are those of the statement's start; what this batch rules its sender knows.
SELECT COALESCE(max(position), 0) AS ruling FROM crewlog.rulings WHERE run = $1
