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
-- Deletes the rows of runs, and returns their journals, from which the other rows to delete follow.
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
run_rows AS (DELETE FROM crewlog.runs WHERE run = ANY($1)),
fork_rows AS (DELETE FROM crewlog.pending_forks WHERE source = ANY($1) OR fork = ANY($1)),
journal_rows AS (
    DELETE FROM crewlog.journal_entries WHERE run = ANY($1) RETURNING run, position, hash, entry
)
SELECT run, position, hash, entry FROM journal_rows ORDER BY run, position

-- name: prune_lineage
-- Removes the lineage that no remaining run continues from.
WITH RECURSIVE needed AS (
    SELECT source FROM crewlog.runs WHERE source IS NOT NULL
    UNION SELECT source FROM crewlog.log_sources
    UNION
    SELECT old.source FROM needed JOIN crewlog.deleted_run_sources AS old ON old.run = needed.source
)
DELETE FROM crewlog.deleted_run_sources WHERE run NOT IN (SELECT source FROM needed)

-- name: delete_start_records
-- Keys that start with the id of the run and a slash; `0` is the next character. Ids of other runs may
-- start the same way, hence the regular expression. Returns owners, which may name bodies, such as
-- summaries.
DELETE FROM crewlog.start_records
WHERE key >= $1::text || '/' AND key < $1 || '0'
  AND substr(key, length($1) + 2) ~ '^[^/]+/[0-9]+/[0-9]+$'
RETURNING owner

-- name: detach_quota_calls
-- The calls of a deleted run still count, under keys that no call of a later run with its id can have.
UPDATE crewlog.quota_calls SET call = call || '@' || gen_random_uuid()
WHERE call >= $1::text || '/' AND call < $1 || '0'
  AND substr(call, length($1) + 2) ~ '^[^/]+/[0-9]+$'

-- name: list_related_runs
-- Runs that may share links: those that continue from others, and those that others continue from, also
-- deleted ones.
SELECT run FROM crewlog.runs WHERE source IS NOT NULL
UNION SELECT run FROM crewlog.runs WHERE run IN (SELECT source FROM crewlog.runs WHERE source IS NOT NULL)
UNION SELECT run FROM crewlog.log_sources
UNION SELECT run FROM crewlog.runs WHERE run IN (SELECT source FROM crewlog.log_sources)
UNION SELECT run FROM crewlog.forked_runs

-- name: add_forked_runs
-- Runs before `delete_rows`, which deletes the rows that this reads.
WITH deleted_rows AS (DELETE FROM crewlog.forked_runs WHERE run = ANY($1::text[]))
INSERT INTO crewlog.forked_runs (run)
SELECT DISTINCT deleted.source FROM (
    SELECT run, source FROM crewlog.runs UNION ALL SELECT run, source FROM crewlog.log_sources
) AS deleted
JOIN crewlog.runs AS kept ON kept.run = deleted.source
WHERE deleted.run = ANY($1) AND kept.run <> ALL($1)
ON CONFLICT DO NOTHING

-- name: list_entries_with_heads
-- The entries of the runs $1 with heads that a run continues from; others may be among them.
SELECT entry FROM crewlog.journal_entries
WHERE run = ANY($1::text[]) AND entry ~ '"kind":"(RunForked|RunRolledBack|RunReopened)"|"merged_logs":'

-- name: list_runs_with_links
-- The runs among $1 whose entry at the position of a link names its body or merged head.
SELECT DISTINCT run
FROM unnest($2::bigint[], $3::text[]) AS link (position, name)
JOIN crewlog.journal_entries USING (position)
WHERE run = ANY($1::text[]) AND strpos(entry, '"' || name || '"') > 0

-- name: list_orphans
SELECT head, previous, position, body, other FROM crewlog.orphaned_links JOIN crewlog.log_links USING (head)

-- name: delete_links
-- Deletes the links $1 and returns their bodies. Marks the links $2, which related runs use, as orphaned.
WITH used_rows AS (
    INSERT INTO crewlog.orphaned_links (head) SELECT unnest($2::text[]) ON CONFLICT DO NOTHING
),
orphan_rows AS (DELETE FROM crewlog.orphaned_links WHERE head = ANY($1::text[]))
DELETE FROM crewlog.log_links WHERE head = ANY($1) RETURNING body

-- name: mark_bodies_unreferenced
UPDATE crewlog.bodies SET unreferenced_at = $2::bigint WHERE hash = ANY($1::text[]) AND unreferenced_at IS NULL

-- name: mark_definitions_unreferenced
UPDATE crewlog.definitions SET unreferenced_at = $2::bigint WHERE hash = ANY($1::text[]) AND unreferenced_at IS NULL

-- name: list_unreferenced
SELECT hash FROM crewlog.bodies WHERE unreferenced_at <= $1::bigint
UNION SELECT hash FROM crewlog.definitions WHERE unreferenced_at <= $1

-- name: list_referenced
-- The hashes among $1 that any row names. It reads all links and journals: deletions are rare, and an
-- index would slow down every step. Entries without hashes are skipped.
WITH wanted AS MATERIALIZED (SELECT unnest($1::text[]) COLLATE "C" AS hash)
SELECT hash FROM wanted WHERE EXISTS (SELECT FROM crewlog.crews WHERE definition = hash)
UNION SELECT hash FROM wanted WHERE EXISTS (SELECT FROM crewlog.catalog_entries WHERE content = hash)
UNION SELECT hash FROM wanted JOIN crewlog.runs ON definition = hash
UNION SELECT hash FROM wanted JOIN crewlog.runs ON recipe = hash
UNION SELECT hash FROM wanted JOIN crewlog.log_links ON body = hash
UNION SELECT hash FROM wanted JOIN (
    SELECT found[1] COLLATE "C" AS name
    FROM crewlog.journal_entries, regexp_matches(entry, '"([A-Za-z0-9_-]{27})"', 'g') AS found
    WHERE entry !~ '^{"kind":"(StepStarted|StepCompleted|NodesReached)"'
) AS named ON name = hash

-- name: mark_referenced
WITH body_rows AS (UPDATE crewlog.bodies SET unreferenced_at = NULL WHERE hash = ANY($1::text[]))
UPDATE crewlog.definitions SET unreferenced_at = NULL WHERE hash = ANY($1)

-- name: remove_bodies
DELETE FROM crewlog.bodies WHERE hash = ANY($1::text[]) AND unreferenced_at IS NOT NULL RETURNING hash

-- name: remove_definitions
DELETE FROM crewlog.definitions WHERE hash = ANY($1::text[]) AND unreferenced_at IS NOT NULL RETURNING hash

-- name: count_unreferenced
SELECT (SELECT count(*) FROM crewlog.bodies WHERE unreferenced_at IS NOT NULL)
     + (SELECT count(*) FROM crewlog.definitions WHERE unreferenced_at IS NOT NULL) AS left
