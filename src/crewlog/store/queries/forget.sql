-- name: lock_journal
-- Waits for whatever is being appended, and lets the rest wait: it then sees what is shut.
LOCK TABLE crewlog.journal IN SHARE ROW EXCLUSIVE MODE

-- name: shut
INSERT INTO crewlog.shut (run, execution) SELECT $1::text, unnest($2::text[]) ON CONFLICT DO NOTHING

-- name: executions
SELECT execution FROM crewlog.executions WHERE run = $1::text

-- name: admit
INSERT INTO crewlog.executions (run, execution) SELECT $1::text, unnest($2::text[]) ON CONFLICT DO NOTHING

-- name: dismiss
DELETE FROM crewlog.executions WHERE run = $1::text AND execution <> ALL($2::text[])

-- name: forget
-- What a run's journal says after position $2 goes, and what is kept of it is returned. Rows that
-- follow from several entries go whole: the caller makes them again from what is kept. The rows are
-- those of the statement's start, so that nothing here depends on the order of the parts.
WITH journal_rows AS (DELETE FROM crewlog.journal WHERE run = $1::text AND position > $2::bigint),
step_rows AS (DELETE FROM crewlog.steps WHERE run = $1),
checkpoint_rows AS (DELETE FROM crewlog.checkpoints WHERE run = $1 AND position > $2),
snapshot_rows AS (DELETE FROM crewlog.snapshots WHERE run = $1 AND position > $2),
interrupt_rows AS (DELETE FROM crewlog.interrupts WHERE run = $1),
tag_rows AS (DELETE FROM crewlog.tags WHERE run = $1),
ruling_rows AS (DELETE FROM crewlog.rulings WHERE run = $1 AND position > $2),
lineage_rows AS (
    INSERT INTO crewlog.lineage (run, source, taken_in)
    SELECT run, source, bool_and(taken_in) FROM (
        SELECT run, source, false AS taken_in FROM crewlog.runs WHERE source IS NOT NULL
        UNION ALL SELECT run, parent, true FROM crewlog.parents
    ) AS known
    WHERE run = $1 GROUP BY run, source ON CONFLICT DO NOTHING
),
parent_rows AS (DELETE FROM crewlog.parents WHERE run = $1 AND position > $2),
run_rows AS (DELETE FROM crewlog.runs WHERE run = $1)
SELECT position, digest, entry FROM crewlog.journal
WHERE run = $1 AND position <= $2 ORDER BY position
