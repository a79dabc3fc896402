-- name: lock_delete
-- Serializes deletions, since each computes what is still used.
SELECT pg_advisory_xact_lock(4854126601903004)

-- name: lock_runs
-- `add_pending_fork` runs before this, and its fork is found; or after it, and finds no source.
SELECT FROM crewlog.runs WHERE run = ANY($1::text[]) ORDER BY run FOR UPDATE

-- name: add_pending_fork
INSERT INTO crewlog.pending_forks (source, fork, at)
SELECT $1::text, $2::text, $3::bigint
FROM (SELECT FROM crewlog.runs WHERE run = $1 FOR KEY SHARE) AS source
ON CONFLICT (source, fork) DO UPDATE SET at = excluded.at
RETURNING source

-- name: list_pending_forks
-- A fork with a row has started.
SELECT source, fork, at FROM crewlog.pending_forks
WHERE source = ANY($1::text[]) AND fork <> ALL($1)
  AND NOT EXISTS (SELECT FROM crewlog.runs WHERE run = fork)
ORDER BY source, fork

-- name: remove_pending_fork
DELETE FROM crewlog.pending_forks WHERE source = $1::text AND fork = $2::text

-- name: delete_rows
-- Deletes the rows of runs, except for content.
WITH step_rows AS (DELETE FROM crewlog.steps WHERE run = ANY($1::text[])),
checkpoint_rows AS (DELETE FROM crewlog.checkpoints WHERE run = ANY($1)),
interrupt_rows AS (DELETE FROM crewlog.interrupts WHERE run = ANY($1)),
tag_rows AS (DELETE FROM crewlog.tags WHERE run = ANY($1)),
permission_rows AS (DELETE FROM crewlog.permission_changes WHERE run = ANY($1)),
snapshot_rows AS (DELETE FROM crewlog.snapshots WHERE run = ANY($1)),
lineage_rows AS (
    INSERT INTO crewlog.deleted_run_sources (run, source, by_merge)
    SELECT run, source, bool_and(by_merge) FROM (
        SELECT run, source, false AS by_merge FROM crewlog.runs WHERE source IS NOT NULL
        UNION ALL SELECT run, source, true FROM crewlog.log_sources
    ) AS known
    WHERE run = ANY($1) GROUP BY run, source ON CONFLICT DO NOTHING
),
source_rows AS (DELETE FROM crewlog.log_sources WHERE run = ANY($1)),
execution_rows AS (DELETE FROM crewlog.accepted_executions WHERE run = ANY($1)),
record_rows AS (DELETE FROM crewlog.start_records WHERE run = ANY($1)),
run_rows AS (DELETE FROM crewlog.runs WHERE run = ANY($1)),
fork_rows AS (DELETE FROM crewlog.pending_forks WHERE source = ANY($1) OR fork = ANY($1)),
call_rows AS (
    -- The calls still count, under keys that no call of a later run with the id can have.
    UPDATE crewlog.quota_calls SET call = call || '@' || gen_random_uuid() FROM unnest($1) AS deleted (id)
    WHERE call >= deleted.id || '/' AND call < deleted.id || '0'  -- `0` is the character after the slash
      AND substr(call, length(deleted.id) + 2) ~ '^[^/]+/[0-9]+$'  -- not of a longer id
),
journal_rows AS (DELETE FROM crewlog.journal_entries WHERE run = ANY($1) RETURNING run)
SELECT count(*) AS entries FROM journal_rows

-- name: prune_lineage
-- Removes the lineage that no remaining run continues from.
WITH RECURSIVE needed AS (
    SELECT source FROM crewlog.runs WHERE source IS NOT NULL
    UNION SELECT source FROM crewlog.log_sources
    UNION
    SELECT old.source FROM needed JOIN crewlog.deleted_run_sources AS old ON old.run = needed.source
)
DELETE FROM crewlog.deleted_run_sources WHERE run NOT IN (SELECT source FROM needed)

-- name: list_shared_heads
-- The heads of links of the runs $1, or of runs that were deleted before, from which other runs continue.
WITH owned AS MATERIALIZED (
    SELECT head FROM crewlog.log_links WHERE run = ANY($1::text[]) OR run = ''
)
SELECT head FROM owned JOIN crewlog.content_references ON hash = head WHERE run <> ALL($1)
UNION SELECT owned.head FROM owned JOIN crewlog.log_links AS other ON previous = owned.head
WHERE run <> ALL($1) AND run <> ''
UNION SELECT owned.head FROM owned JOIN crewlog.log_links AS other ON other.other = owned.head
WHERE run <> ALL($1) AND run <> ''

-- name: list_links_of_runs
SELECT DISTINCT head, previous, other FROM crewlog.log_links WHERE run = ANY($1::text[]) OR run = ''

-- name: delete_links
-- Deletes the links of the runs $1, and those of runs that were deleted before, except for the links $2.
WITH kept_rows AS (
    INSERT INTO crewlog.log_links (run, head, previous, position, body, is_first, other)
    SELECT DISTINCT '', head, previous, position, body, is_first, other FROM crewlog.log_links
    WHERE head = ANY($2::text[]) AND run = ANY($1::text[])
    ON CONFLICT DO NOTHING
)
DELETE FROM crewlog.log_links
WHERE run = ANY($1) OR (run = '' AND head NOT IN (SELECT unnest($2)))

-- name: delete_references
-- Deletes the references of the runs $1, and marks their content; the bodies of links stay referenced.
-- Content is locked in the order in which writers lock it.
WITH kept_rows AS (
    INSERT INTO crewlog.content_references (run, hash)
    SELECT DISTINCT '', body FROM crewlog.log_links WHERE run = '' AND body <> ''
    ON CONFLICT DO NOTHING
),
deleted AS (
    DELETE FROM crewlog.content_references AS old
    WHERE run = ANY($1::text[]) OR (
        run = '' AND NOT EXISTS (SELECT FROM crewlog.log_links WHERE log_links.run = '' AND body = old.hash)
    )
    RETURNING hash
),
locked_bodies AS MATERIALIZED (
    SELECT hash FROM crewlog.bodies WHERE hash IN (SELECT hash FROM deleted) ORDER BY hash FOR UPDATE
),
locked_definitions AS MATERIALIZED (
    SELECT hash FROM crewlog.definitions WHERE hash IN (SELECT hash FROM deleted) ORDER BY hash FOR UPDATE
),
body_rows AS (
    UPDATE crewlog.bodies SET unreferenced_at = $2::bigint WHERE hash IN (SELECT hash FROM locked_bodies)
)
UPDATE crewlog.definitions SET unreferenced_at = $2 WHERE hash IN (SELECT hash FROM locked_definitions)

-- name: collect_content
-- Deletes the content that was marked at $1 or before and has no reference. Storing content unmarks it: a
-- deletion waits for the lock of its row, sees that, and leaves it.
WITH marked_bodies AS MATERIALIZED (
    SELECT hash FROM crewlog.bodies WHERE unreferenced_at <= $1::bigint ORDER BY hash FOR UPDATE
),
marked_definitions AS MATERIALIZED (
    SELECT hash FROM crewlog.definitions WHERE unreferenced_at <= $1 ORDER BY hash FOR UPDATE
),
marked AS (SELECT hash FROM marked_bodies UNION SELECT hash FROM marked_definitions),
used AS MATERIALIZED (
    SELECT hash FROM marked WHERE hash IN (SELECT hash FROM crewlog.content_references)
    UNION SELECT definition FROM crewlog.crews
    UNION SELECT content FROM crewlog.catalog_entries
),
unused AS MATERIALIZED (SELECT hash FROM marked EXCEPT SELECT hash FROM used),
used_bodies AS (
    UPDATE crewlog.bodies SET unreferenced_at = NULL
    WHERE hash IN (SELECT hash FROM marked_bodies) AND hash IN (SELECT hash FROM used)
),
used_definitions AS (
    UPDATE crewlog.definitions SET unreferenced_at = NULL
    WHERE hash IN (SELECT hash FROM marked_definitions) AND hash IN (SELECT hash FROM used)
),
deleted_bodies AS (
    DELETE FROM crewlog.bodies
    WHERE hash IN (SELECT hash FROM marked_bodies) AND hash IN (SELECT hash FROM unused) RETURNING hash
),
deleted_definitions AS (
    DELETE FROM crewlog.definitions
    WHERE hash IN (SELECT hash FROM marked_definitions) AND hash IN (SELECT hash FROM unused) RETURNING hash
)
SELECT (SELECT count(*) FROM deleted_bodies) AS bodies,
       (SELECT count(*) FROM deleted_definitions) AS definitions

-- name: delete_records
-- Deletes the records from before $1 that no run needs: start records without a run that exists, rejected
-- executions, and of each run the accepted ones except for the last.
WITH start_rows AS (
    DELETE FROM crewlog.start_records AS old
    WHERE at < $1::bigint AND NOT EXISTS (SELECT FROM crewlog.runs WHERE runs.run = old.run)
    RETURNING key
),
rejected_rows AS (DELETE FROM crewlog.rejected_executions WHERE at < $1 RETURNING run),
accepted_rows AS (
    DELETE FROM crewlog.accepted_executions AS old
    WHERE at < $1 AND EXISTS (
        SELECT FROM crewlog.accepted_executions AS later
        WHERE later.run = old.run AND (later.at, later.execution) > (old.at, old.execution)
    )
    RETURNING run
)
SELECT (SELECT count(*) FROM start_rows) + (SELECT count(*) FROM rejected_rows)
     + (SELECT count(*) FROM accepted_rows) AS records

-- name: count_unreferenced
SELECT (SELECT count(*) FROM crewlog.bodies WHERE unreferenced_at IS NOT NULL)
     + (SELECT count(*) FROM crewlog.definitions WHERE unreferenced_at IS NOT NULL) AS unreferenced
