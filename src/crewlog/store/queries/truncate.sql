-- name: lock_journal
-- Waits for running appends. Later ones wait for this transaction, and then see the rejected executions.
LOCK TABLE crewlog.journal_entries IN SHARE ROW EXCLUSIVE MODE

-- name: reject_executions
INSERT INTO crewlog.rejected_executions (run, execution) SELECT $1::text, unnest($2::text[]) ON CONFLICT DO NOTHING

-- name: accepted_executions
SELECT run, execution FROM crewlog.accepted_executions WHERE run = ANY($1::text[])

-- name: accept_executions
INSERT INTO crewlog.accepted_executions (run, execution) SELECT $1::text, unnest($2::text[]) ON CONFLICT DO NOTHING

-- name: remove_other_executions
DELETE FROM crewlog.accepted_executions WHERE run = $1::text AND execution <> ALL($2::text[])

-- name: truncate_journal
-- Deletes the entries after position $2, and returns the others. Rows that follow from several entries
-- are deleted, too: the caller projects them again. All parts see the rows as they were before the
-- statement, so their order does not matter.
WITH journal_rows AS (DELETE FROM crewlog.journal_entries WHERE run = $1::text AND position > $2::bigint),
step_rows AS (DELETE FROM crewlog.steps WHERE run = $1),
checkpoint_rows AS (DELETE FROM crewlog.checkpoints WHERE run = $1 AND position > $2),
snapshot_rows AS (DELETE FROM crewlog.snapshots WHERE run = $1 AND position > $2),
interrupt_rows AS (DELETE FROM crewlog.interrupts WHERE run = $1),
tag_rows AS (DELETE FROM crewlog.tags WHERE run = $1),
permission_rows AS (DELETE FROM crewlog.permission_changes WHERE run = $1 AND position > $2),
lineage_rows AS (
    INSERT INTO crewlog.deleted_run_sources (run, source, by_merge)
    SELECT run, source, bool_and(by_merge) FROM (
        SELECT run, source, false AS by_merge FROM crewlog.runs WHERE source IS NOT NULL
        UNION ALL SELECT run, source, true FROM crewlog.log_sources
    ) AS known
    WHERE run = $1 GROUP BY run, source ON CONFLICT DO NOTHING
),
source_rows AS (DELETE FROM crewlog.log_sources WHERE run = $1 AND position > $2),
run_rows AS (DELETE FROM crewlog.runs WHERE run = $1)
SELECT position, hash, entry FROM crewlog.journal_entries
WHERE run = $1 AND position <= $2 ORDER BY position
