-- The parts of one statement: `crewlog.store.append_statement` combines those whose tables get rows. $1
-- is the run, $2 a JSON object with the rows of each table as a list, $3 the execution that sends the
-- entries.
--
-- Each insert is sorted by its key, so that overlapping statements take their locks in one order and
-- cannot deadlock.

-- name: append_journal_entries
INSERT INTO crewlog.journal_entries AS stored (run, position, hash, entry)
SELECT $1::text, new.position, new.hash,
       CASE
           WHEN EXISTS (SELECT FROM crewlog.rejected_executions WHERE run = $1 AND execution = $3::text)
           THEN crewlog.reject_entry(new.position) ELSE new.entry
       END
FROM jsonb_to_recordset($2::jsonb -> 'journal_entries') AS new (position bigint, hash text, entry text)
-- Stored entries are left out here, since the conflict clause would lock their rows.
WHERE new.hash IS DISTINCT FROM (
    SELECT old.hash FROM crewlog.journal_entries AS old
    WHERE old.run = $1 AND old.position = new.position
)
ORDER BY new.position
ON CONFLICT (run, position) DO UPDATE SET entry = crewlog.reject_entry(excluded.position)
WHERE stored.hash <> excluded.hash

-- name: append_log_links
INSERT INTO crewlog.log_links (run, head, previous, position, body, is_first, other)
SELECT $1::text, new.* FROM jsonb_to_recordset($2::jsonb -> 'log_links') AS new (
    head text, previous text, position bigint, body text, is_first boolean, other text
)
ORDER BY new.head
ON CONFLICT DO NOTHING

-- name: append_bodies
INSERT INTO crewlog.bodies (hash, body)
SELECT new.* FROM jsonb_to_recordset($2::jsonb -> 'bodies') AS new (hash text, body text)
WHERE NOT EXISTS (
    SELECT FROM crewlog.bodies AS old WHERE old.hash = new.hash AND old.unreferenced_at IS NULL
)
ORDER BY new.hash
ON CONFLICT (hash) DO UPDATE SET unreferenced_at = NULL WHERE bodies.unreferenced_at IS NOT NULL

-- name: append_content_references
INSERT INTO crewlog.content_references (run, hash)
SELECT $1::text, new.* FROM jsonb_to_recordset($2::jsonb -> 'content_references') AS new (hash text)
ORDER BY new.hash
ON CONFLICT DO NOTHING

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
-- See `TagProjection.merge`.
INSERT INTO crewlog.tags AS stored (run, tag, checkpoint, position, at)
SELECT $1::text, new.* FROM jsonb_to_recordset($2::jsonb -> 'tags') AS new (
    tag text, checkpoint bigint, position bigint, at bigint
)
ORDER BY new.tag
ON CONFLICT (run, tag) DO UPDATE SET
    checkpoint = excluded.checkpoint, position = excluded.position, at = excluded.at
WHERE excluded.position > stored.position

-- name: append_interrupts
-- See `InterruptProjection.merge`.
INSERT INTO crewlog.interrupts AS stored
    (run, id, position, at, interrupt, asked_position, decision, answered_by, answered_position)
SELECT $1::text, new.* FROM jsonb_to_recordset($2::jsonb -> 'interrupts') AS new (
    id text, position bigint, at bigint, interrupt text, asked_position bigint,
    decision text, answered_by text, answered_position bigint
)
ORDER BY new.id
ON CONFLICT (run, id) DO UPDATE SET
    position = COALESCE(stored.position, excluded.position),
    at = LEAST(stored.at, excluded.at),
    interrupt = COALESCE(stored.interrupt, excluded.interrupt),
    asked_position = GREATEST(stored.asked_position, excluded.asked_position),
    decision = CASE
        WHEN excluded.answered_position > stored.answered_position THEN excluded.decision ELSE stored.decision
    END,
    answered_by = CASE
        WHEN excluded.answered_position > stored.answered_position
        THEN excluded.answered_by ELSE stored.answered_by
    END,
    answered_position = GREATEST(stored.answered_position, excluded.answered_position)
WHERE (stored.interrupt IS NULL AND excluded.interrupt IS NOT NULL)
   OR excluded.at < stored.at
   OR excluded.asked_position > stored.asked_position
   OR excluded.answered_position > stored.answered_position

-- name: append_permission_changes
INSERT INTO crewlog.permission_changes (run, position)
SELECT $1::text, new.* FROM jsonb_to_recordset($2::jsonb -> 'permission_changes') AS new (position bigint)
ORDER BY new.position
ON CONFLICT DO NOTHING

-- name: append_log_sources
INSERT INTO crewlog.log_sources (run, source, position, skipped)
SELECT $1::text, new.* FROM jsonb_to_recordset($2::jsonb -> 'log_sources') AS new (
    source text, position bigint, skipped bigint
)
ORDER BY new.source, new.position
ON CONFLICT DO NOTHING

-- name: append_pending_forks
-- As `add_pending_fork`: a run is not deleted before its split runs have started.
INSERT INTO crewlog.pending_forks (source, fork, at)
SELECT $1::text, new.* FROM jsonb_to_recordset($2::jsonb -> 'pending_forks') AS new (fork text, at bigint)
ORDER BY new.fork
ON CONFLICT DO NOTHING

-- name: append_runs
-- See `RunProjection.merge`.
INSERT INTO crewlog.runs AS stored (
    run, crew, definition, definition_position, recipe, started_at, started_by, source_position, source, restore_position,
    status, status_position, ended_at, error, position
)
SELECT $1::text, new.* FROM jsonb_to_recordset($2::jsonb -> 'runs') AS new (
    crew text, definition text, definition_position bigint, recipe text, started_at bigint, started_by text,
    source_position bigint, source text, restore_position bigint, status text, status_position bigint, ended_at bigint, error text,
    position bigint
)
ON CONFLICT (run) DO UPDATE SET
    crew = CASE WHEN excluded.definition_position > stored.definition_position THEN excluded.crew ELSE stored.crew END,
    definition = CASE
        WHEN excluded.definition_position > stored.definition_position THEN excluded.definition ELSE stored.definition
    END,
    definition_position = GREATEST(stored.definition_position, excluded.definition_position),
    recipe = COALESCE(stored.recipe, excluded.recipe),
    started_at = COALESCE(stored.started_at, excluded.started_at),
    started_by = COALESCE(stored.started_by, excluded.started_by),
    source_position = GREATEST(stored.source_position, excluded.source_position),
    source = COALESCE(stored.source, excluded.source),
    restore_position = GREATEST(stored.restore_position, excluded.restore_position),
    status = CASE WHEN excluded.status_position > stored.status_position THEN excluded.status ELSE stored.status END,
    ended_at = CASE WHEN excluded.status_position > stored.status_position THEN excluded.ended_at ELSE stored.ended_at END,
    error = CASE WHEN excluded.status_position > stored.status_position THEN excluded.error ELSE stored.error END,
    status_position = GREATEST(stored.status_position, excluded.status_position),
    position = GREATEST(stored.position, excluded.position)
WHERE excluded.definition_position > stored.definition_position
   OR (stored.recipe IS NULL AND excluded.recipe IS NOT NULL)
   OR (stored.started_at IS NULL AND excluded.started_at IS NOT NULL)
   OR excluded.status_position > stored.status_position
   OR excluded.position > stored.position
