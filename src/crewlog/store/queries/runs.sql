-- name: read_log
-- Newest first. The walk stops at the log's first message, at a known head, or at a gap.
WITH RECURSIVE chain AS (
    SELECT head, previous, position, body, first FROM crewlog.links
    WHERE head = $1 AND head <> ALL($2::text[])
    UNION ALL
    SELECT link.head, link.previous, link.position, link.body, link.first
    FROM chain JOIN crewlog.links AS link ON link.head = chain.previous
    WHERE NOT chain.first AND chain.previous <> ALL($2::text[])
)
SELECT head, previous, position, body, first FROM chain

-- name: read_journal
SELECT position, entry FROM crewlog.journal
WHERE run = $1 AND position > $2
ORDER BY position LIMIT $3

-- name: get_run
SELECT run, crew, definition, started, started_by, status, since, ended, error, position,
       EXISTS (
           SELECT FROM crewlog.interrupts AS asked
           WHERE asked.run = runs.run AND interrupt IS NOT NULL AND decision IS NULL
       ) AS asking
FROM crewlog.runs WHERE run = $1

-- name: list_runs
-- `waiting` is not stored: see `crewlog.store.projection`.
WITH seen AS (
    SELECT run, crew, definition, started, started_by, status, since, ended, error, position,
           EXISTS (
               SELECT FROM crewlog.interrupts AS asked
               WHERE asked.run = runs.run AND interrupt IS NOT NULL AND decision IS NULL
           ) AS asking
    FROM crewlog.runs
)
SELECT * FROM seen
WHERE cardinality($1::text[]) = 0
   OR (
       status = ANY($2::text[])  -- what can be stored for $1: for the index
       AND CASE WHEN status = 'running' AND asking THEN 'waiting' ELSE status END = ANY($1)
   )
ORDER BY started DESC NULLS LAST, run LIMIT $3

-- name: list_interrupts
SELECT run, id, position, at, interrupt, decision, answered_by
FROM crewlog.interrupts
WHERE ($1::text IS NULL OR run = $1) AND interrupt IS NOT NULL
ORDER BY at, run, position

-- name: list_open_interrupts
-- A question that nobody answered before its run ended is no longer open.
SELECT run, id, position, at, interrupt, decision, answered_by
FROM crewlog.interrupts
WHERE ($1::text IS NULL OR run = $1) AND interrupt IS NOT NULL AND decision IS NULL
  AND NOT EXISTS (
      SELECT FROM crewlog.runs
      WHERE runs.run = interrupts.run AND status IN ('completed', 'failed', 'stopped')
  )
ORDER BY at, run, position

-- name: list_checkpoints
SELECT position, step, node, agent, at
FROM crewlog.checkpoints LEFT JOIN crewlog.steps USING (run, step)
WHERE run = $1 AND position > $2
ORDER BY position LIMIT $3

-- name: put_snapshot
INSERT INTO crewlog.snapshots (run, position, state) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING

-- name: get_snapshot
SELECT position, state FROM crewlog.snapshots
WHERE run = $1 AND position <= $2
ORDER BY position DESC LIMIT 1
