-- name: read_log
-- Newest first, but for what is before a join: that is in any order. The walk stops at a log's first
-- message, at a known head, or at a gap. What is reached over both parents is met once.
WITH RECURSIVE chain AS (
    SELECT head, previous, position, body, first, other FROM crewlog.links
    WHERE head = $1 AND head <> ALL($2::text[])
    UNION
    SELECT link.* FROM chain CROSS JOIN LATERAL (
        SELECT head, previous, position, body, first, other FROM crewlog.links
        WHERE head = chain.previous
        UNION ALL
        SELECT head, previous, position, body, first, other FROM crewlog.links
        WHERE chain.other IS NOT NULL AND head = chain.other
    ) AS link
    WHERE NOT chain.first AND link.head <> ALL($2::text[])
)
SELECT head, previous, position, body, first, other FROM chain

-- name: read_journal
SELECT position, digest, entry FROM crewlog.journal
WHERE run = $1 AND position > $2
ORDER BY position LIMIT $3

-- name: find_command
-- What has the text may have it elsewhere than where the id of its command is: the reader looks.
SELECT position, digest, entry FROM crewlog.journal
WHERE run = $1 AND (strpos(entry, $2) > 0 OR strpos(entry, $3) > 0)
ORDER BY position DESC

-- name: get_run
SELECT run, crew, definition, recipe, started, started_by, base, source, reset,
       status, since, ended, error, position,
       EXISTS (
           SELECT FROM crewlog.interrupts AS asked
           WHERE asked.run = runs.run AND asked.asked > asked.answered
             AND asked.asked >= runs.reset
       ) AS asking
FROM crewlog.runs WHERE run = $1

-- name: lineage
WITH RECURSIVE line AS (
    SELECT $1::text COLLATE "C" AS run
    UNION
    SELECT known.source FROM line JOIN LATERAL (
        SELECT source FROM crewlog.runs WHERE runs.run = line.run AND source IS NOT NULL
        UNION ALL SELECT source FROM crewlog.lineage WHERE lineage.run = line.run
        UNION ALL SELECT parent FROM crewlog.parents WHERE parents.run = line.run
    ) AS known ON true
)
SELECT run FROM line WHERE run <> $1 ORDER BY run

-- name: ties
WITH known AS (
    SELECT run, source, base AS position, false AS taken_in FROM crewlog.runs
    WHERE source IS NOT NULL AND (run = ANY($1::text[]) OR source = ANY($1))
    UNION SELECT run, parent, position, true FROM crewlog.parents
    WHERE run = ANY($1) OR parent = ANY($1)
)
SELECT * FROM known
UNION ALL SELECT run, source, 0, taken_in FROM crewlog.lineage
WHERE (run = ANY($1) OR source = ANY($1))
  AND NOT EXISTS (
      SELECT FROM known WHERE known.run = lineage.run AND known.source = lineage.source
  )
ORDER BY run, position, source

-- name: count_runs
SELECT count(*) AS count FROM crewlog.runs

-- name: list_runs
-- `waiting` is not stored: see `crewlog.store.projection`.
WITH seen AS (
    SELECT run, crew, definition, recipe, started, started_by, base, source, reset,
           status, since, ended, error, position,
           EXISTS (
               SELECT FROM crewlog.interrupts AS asked
               WHERE asked.run = runs.run AND asked.asked > asked.answered
                 AND asked.asked >= runs.reset
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
SELECT run, id, position, at, interrupt, asked, decision, answered_by, answered
FROM crewlog.interrupts
WHERE ($1::text IS NULL OR run = $1) AND interrupt IS NOT NULL
ORDER BY at, run, position

-- name: list_open_interrupts
-- A question that nobody answered before its run ended, or went back behind it, is no longer open.
SELECT run, id, position, at, interrupt, asked, decision, answered_by, answered
FROM crewlog.interrupts
WHERE ($1::text IS NULL OR run = $1) AND asked > answered
  AND NOT EXISTS (
      SELECT FROM crewlog.runs
      WHERE runs.run = interrupts.run
        AND (status IN ('completed', 'failed', 'stopped', 'merged') OR asked < reset)
  )
ORDER BY at, run, position

-- name: list_checkpoints
-- With positions that are nothing but tagged.
WITH tagged AS (
    SELECT checkpoint AS position, array_agg(tag ORDER BY tag) AS tags, min(at) AS at,
           max(position) AS named
    FROM crewlog.tags WHERE run = $1 AND checkpoint > $2
    GROUP BY checkpoint
),
found AS (
    SELECT position, kind, step, node, at, tags, hidden AS pruned
    FROM crewlog.checkpoints
    LEFT JOIN (SELECT position, tags, named FROM tagged) AS names USING (position)
    CROSS JOIN LATERAL (SELECT COALESCE(pruned > COALESCE(named, 0), false)) AS now (hidden)
    WHERE run = $1 AND position > $2 AND ($4 OR NOT hidden)
    UNION ALL
    SELECT position, 'tag', '', '', at, tags, false FROM tagged
    WHERE NOT EXISTS (
        SELECT FROM crewlog.checkpoints AS kept
        WHERE kept.run = $1 AND kept.position = tagged.position
    )
    ORDER BY position LIMIT $3
)
SELECT found.position, kind, found.step, node, agent, found.at, tags, pruned
FROM found LEFT JOIN crewlog.steps ON steps.run = $1 AND steps.step = found.step
ORDER BY position

-- name: prune_checkpoints
UPDATE crewlog.checkpoints SET pruned = $3::bigint
WHERE run = $1 AND position = ANY($2::bigint[])

-- name: prune_snapshots
-- Only where the journal is whole: a state behind a gap is all that is left of what was there.
DELETE FROM crewlog.snapshots WHERE run = $1 AND position = ANY($2::bigint[])
AND (
    SELECT count(*) = max(position) - COALESCE((SELECT base FROM crewlog.runs WHERE run = $1), 0)
        - (SELECT COALESCE(sum(left_out), 0) FROM crewlog.parents WHERE run = $1)
    FROM crewlog.journal WHERE run = $1
)

-- name: put_snapshot
INSERT INTO crewlog.snapshots (run, position, state) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING

-- name: list_snapshots
SELECT position FROM crewlog.snapshots WHERE run = $1 ORDER BY position

-- name: get_snapshot
SELECT position, state FROM crewlog.snapshots
WHERE run = $1 AND position <= $2
ORDER BY position DESC LIMIT 1
