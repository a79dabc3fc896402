-- name: append
-- One statement: one round trip, one transaction. Every insert is sorted by its key, so that two
-- statements that overlap take their locks in one order and cannot deadlock.
WITH journal_rows AS (
    INSERT INTO crewlog.journal AS stored (run, position, digest, entry)
    SELECT $1::text, new.position, new.digest, new.entry
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
    INSERT INTO crewlog.links (head, previous, position, body, first)
    SELECT * FROM unnest($5::text[], $6::text[], $7::bigint[], $8::text[], $9::boolean[])
        AS new (head, previous, position, body, first)
    ORDER BY new.head
    ON CONFLICT DO NOTHING
),
body_rows AS (
    INSERT INTO crewlog.bodies (hash, body)
    SELECT * FROM unnest($10::text[], $11::text[]) AS new (hash, body)
    ORDER BY new.hash
    ON CONFLICT DO NOTHING
),
step_rows AS (
    INSERT INTO crewlog.steps (run, step, agent)
    SELECT $1, new.* FROM unnest($12::text[], $13::text[]) AS new (step, agent)
    ORDER BY new.step
    ON CONFLICT DO NOTHING
),
checkpoint_rows AS (
    INSERT INTO crewlog.checkpoints (run, position, step, node, at)
    SELECT $1, new.* FROM unnest($14::bigint[], $15::text[], $16::text[], $17::bigint[])
        AS new (position, step, node, at)
    ORDER BY new.position
    ON CONFLICT DO NOTHING
),
interrupt_rows AS (
    -- `InterruptFacts.merge`: the question and the answer, whichever came first.
    INSERT INTO crewlog.interrupts AS stored
        (run, id, position, at, interrupt, decision, answered_by)
    SELECT $1, new.* FROM unnest(
        $18::text[], $19::bigint[], $20::bigint[], $21::text[], $22::text[], $23::text[]
    ) AS new (id, position, at, interrupt, decision, answered_by)
    ORDER BY new.id
    ON CONFLICT (run, id) DO UPDATE SET
        position = COALESCE(stored.position, excluded.position),
        at = COALESCE(stored.at, excluded.at),
        interrupt = COALESCE(stored.interrupt, excluded.interrupt),
        decision = COALESCE(stored.decision, excluded.decision),
        answered_by = COALESCE(stored.answered_by, excluded.answered_by)
    WHERE (stored.interrupt IS NULL AND excluded.interrupt IS NOT NULL)
       OR (stored.decision IS NULL AND excluded.decision IS NOT NULL)
)
-- `RunFacts.merge`: the start whenever it comes, the status of the highest position.
INSERT INTO crewlog.runs AS stored
    (run, crew, definition, started, started_by, status, since, ended, error, position)
SELECT $1, $24::text, $25::text, $26::bigint, $27::text,
       $28::text, $29::bigint, $30::bigint, $31::text, $32::bigint
WHERE $32 IS NOT NULL
ON CONFLICT (run) DO UPDATE SET
    crew = COALESCE(stored.crew, excluded.crew),
    definition = COALESCE(stored.definition, excluded.definition),
    started = COALESCE(stored.started, excluded.started),
    started_by = COALESCE(stored.started_by, excluded.started_by),
    status = CASE WHEN excluded.since > stored.since THEN excluded.status ELSE stored.status END,
    ended = CASE WHEN excluded.since > stored.since THEN excluded.ended ELSE stored.ended END,
    error = CASE WHEN excluded.since > stored.since THEN excluded.error ELSE stored.error END,
    since = GREATEST(stored.since, excluded.since),
    position = GREATEST(stored.position, excluded.position)
WHERE (stored.crew IS NULL AND excluded.crew IS NOT NULL)
   OR (stored.started IS NULL AND excluded.started IS NOT NULL)
   OR excluded.since > stored.since
   OR excluded.position > stored.position
