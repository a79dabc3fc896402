-- name: read_log
-- Newest first; links before a merge of logs are in any order. The walk stops at the first message of a
-- log, at a known head, or at a gap. UNION returns a link once, also if both parents lead to it.
WITH RECURSIVE chain AS (
    SELECT head, previous, position, body, is_first, other FROM crewlog.log_links
    WHERE head = $1 AND head <> ALL($2::text[])
    UNION
    SELECT link.* FROM chain CROSS JOIN LATERAL (
        SELECT head, previous, position, body, is_first, other FROM crewlog.log_links
        WHERE head = chain.previous
        UNION ALL
        SELECT head, previous, position, body, is_first, other FROM crewlog.log_links
        WHERE chain.other IS NOT NULL AND head = chain.other
    ) AS link
    WHERE NOT chain.is_first AND link.head <> ALL($2::text[])
)
SELECT head, previous, position, body, is_first, other FROM chain

-- name: read_journal
SELECT position, hash, entry FROM crewlog.journal_entries
WHERE run = $1 AND position > $2
ORDER BY position LIMIT $3

-- name: find_command
-- The text may be in another place of an entry, so the reader compares the ids.
SELECT position, hash, entry FROM crewlog.journal_entries
WHERE run = $1 AND (strpos(entry, $2) > 0 OR strpos(entry, $3) > 0)
ORDER BY position DESC

-- name: get_run
SELECT run, crew, definition, recipe, started_at, started_by, source, source_position,
       restore_position, status, status_position, ended_at, error, position,
       EXISTS (
           SELECT FROM crewlog.interrupts AS stored
           WHERE stored.run = runs.run AND stored.asked_position > stored.answered_position
             AND stored.asked_position >= runs.restore_position
       ) AS has_open_interrupt
FROM crewlog.runs WHERE run = $1

-- name: lineage
WITH RECURSIVE line AS (
    SELECT $1::text COLLATE "C" AS run
    UNION
    SELECT known.source FROM line JOIN LATERAL (
        SELECT source FROM crewlog.runs WHERE runs.run = line.run AND source IS NOT NULL
        UNION ALL SELECT source FROM crewlog.deleted_run_sources AS old WHERE old.run = line.run
        UNION ALL SELECT source FROM crewlog.log_sources AS merged WHERE merged.run = line.run
    ) AS known ON true
)
SELECT run FROM line WHERE run <> $1 ORDER BY run

-- name: lineage_links
WITH known AS (
    SELECT run, source, source_position AS position, false AS by_merge FROM crewlog.runs
    WHERE source IS NOT NULL AND (run = ANY($1::text[]) OR source = ANY($1))
    UNION SELECT run, source, position, true FROM crewlog.log_sources
    WHERE run = ANY($1) OR source = ANY($1)
)
SELECT * FROM known
UNION ALL SELECT run, source, 0, by_merge FROM crewlog.deleted_run_sources AS old
WHERE (run = ANY($1) OR source = ANY($1))
  AND NOT EXISTS (
      SELECT FROM known WHERE known.run = old.run AND known.source = old.source
  )
ORDER BY run, position, source

-- name: count_runs
SELECT count(*) AS count FROM crewlog.runs

-- name: list_runs
-- `waiting` is not stored: see `crewlog.store.projection`.
WITH seen AS (
    SELECT run, crew, definition, recipe, started_at, started_by, source, source_position,
           restore_position, status, status_position, ended_at, error, position,
           EXISTS (
               SELECT FROM crewlog.interrupts AS stored
               WHERE stored.run = runs.run AND stored.asked_position > stored.answered_position
                 AND stored.asked_position >= runs.restore_position
           ) AS has_open_interrupt
    FROM crewlog.runs
)
SELECT * FROM seen
WHERE cardinality($1::text[]) = 0
   OR (
       status = ANY($2::text[])  -- the stored statuses for $1, so that the index is used
       AND CASE WHEN status = 'running' AND has_open_interrupt THEN 'waiting' ELSE status END = ANY($1)
   )
ORDER BY started_at DESC NULLS LAST, run LIMIT $3

-- name: list_interrupts
SELECT run, id, position, at, interrupt, asked_position, decision, answered_by,
       answered_position
FROM crewlog.interrupts
WHERE ($1::text IS NULL OR run = $1) AND interrupt IS NOT NULL
ORDER BY at, run, position

-- name: list_open_interrupts
-- An unanswered interrupt is no longer open after its run has ended or was rolled back behind it.
SELECT run, id, position, at, interrupt, asked_position, decision, answered_by,
       answered_position
FROM crewlog.interrupts
WHERE ($1::text IS NULL OR run = $1) AND asked_position > answered_position
  AND NOT EXISTS (
      SELECT FROM crewlog.runs
      WHERE runs.run = interrupts.run
        AND (status IN ('completed', 'failed', 'stopped', 'merged') OR asked_position < restore_position)
  )
ORDER BY at, run, position

-- name: list_checkpoints
-- Includes positions that are checkpoints only by their tags.
WITH tagged AS (
    SELECT checkpoint AS position, array_agg(tag ORDER BY tag) AS tags, min(at) AS at,
           max(position) AS tagged_at
    FROM crewlog.tags WHERE run = $1 AND checkpoint > $2
    GROUP BY checkpoint
),
found AS (
    SELECT position, kind, step, node, at, tags, is_pruned AS pruned
    FROM crewlog.checkpoints
    LEFT JOIN (SELECT position, tags, tagged_at FROM tagged) AS names USING (position)
    CROSS JOIN LATERAL (SELECT COALESCE(pruned_position > COALESCE(tagged_at, 0), false)) AS state (is_pruned)
    WHERE run = $1 AND position > $2 AND ($4 OR NOT is_pruned)
    UNION ALL
    SELECT position, 'tag', '', '', at, tags, false FROM tagged
    WHERE NOT EXISTS (
        SELECT FROM crewlog.checkpoints AS stored
        WHERE stored.run = $1 AND stored.position = tagged.position
    )
    ORDER BY position LIMIT $3
)
SELECT found.position, kind, found.step, node, agent, found.at, tags, pruned
FROM found LEFT JOIN crewlog.steps ON steps.run = $1 AND steps.step = found.step
ORDER BY position

-- name: prune_checkpoints
UPDATE crewlog.checkpoints SET pruned_position = $3::bigint
WHERE run = $1 AND position = ANY($2::bigint[])

-- name: prune_snapshots
-- Only if the journal has no gaps: after a gap, the snapshot is the only source of the state.
DELETE FROM crewlog.snapshots WHERE run = $1 AND position = ANY($2::bigint[])
AND (
    SELECT count(*) = max(position) - COALESCE((SELECT source_position FROM crewlog.runs WHERE run = $1), 0)
        - (SELECT COALESCE(sum(skipped), 0) FROM crewlog.log_sources WHERE run = $1)
    FROM crewlog.journal_entries WHERE run = $1
)

-- name: put_snapshot
INSERT INTO crewlog.snapshots (run, position, state) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING

-- name: list_snapshots
SELECT position FROM crewlog.snapshots WHERE run = $1 ORDER BY position

-- name: get_snapshot
SELECT position, state FROM crewlog.snapshots
WHERE run = $1 AND position <= $2
ORDER BY position DESC LIMIT 1
