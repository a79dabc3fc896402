-- name: lock_delete
-- Deletions queue up: each works out what is still used.
SELECT pg_advisory_xact_lock(4854126601903004)

-- name: lock_runs
-- Whoever notes a fork of one of them comes before this, and is seen; or after it, and finds none.
SELECT FROM crewlog.runs WHERE run = ANY($1::text[]) ORDER BY run FOR UPDATE

-- name: add_pending_fork
INSERT INTO crewlog.forks (source, fork, at)
SELECT $1::text, $2::text, $3::bigint
FROM (SELECT FROM crewlog.runs WHERE run = $1 FOR KEY SHARE) AS source
ON CONFLICT (source, fork) DO UPDATE SET at = excluded.at
RETURNING source

-- name: starting_forks
-- One whose row there is has begun, or is another run than was expected.
SELECT source, fork, at FROM crewlog.forks
WHERE source = ANY($1::text[]) AND fork <> ALL($1)
  AND NOT EXISTS (SELECT FROM crewlog.runs WHERE run = fork)
ORDER BY source, fork

-- name: remove_pending_fork
DELETE FROM crewlog.forks WHERE source = $1::text AND fork = $2::text

-- name: delete_rows
-- What a run has of its own; its journal is returned, from which the rest is worked out.
WITH step_rows AS (DELETE FROM crewlog.steps WHERE run = ANY($1::text[])),
checkpoint_rows AS (DELETE FROM crewlog.checkpoints WHERE run = ANY($1)),
interrupt_rows AS (DELETE FROM crewlog.interrupts WHERE run = ANY($1)),
tag_rows AS (DELETE FROM crewlog.tags WHERE run = ANY($1)),
ruling_rows AS (DELETE FROM crewlog.rulings WHERE run = ANY($1)),
snapshot_rows AS (DELETE FROM crewlog.snapshots WHERE run = ANY($1)),
lineage_rows AS (
    INSERT INTO crewlog.lineage (run, source, taken_in)
    SELECT run, source, bool_and(taken_in) FROM (
        SELECT run, source, false AS taken_in FROM crewlog.runs WHERE source IS NOT NULL
        UNION ALL SELECT run, parent, true FROM crewlog.parents
    ) AS known
    WHERE run = ANY($1) GROUP BY run, source ON CONFLICT DO NOTHING
),
parent_rows AS (DELETE FROM crewlog.parents WHERE run = ANY($1)),
execution_rows AS (DELETE FROM crewlog.executions WHERE run = ANY($1)),
run_rows AS (DELETE FROM crewlog.runs WHERE run = ANY($1)),
fork_rows AS (DELETE FROM crewlog.forks WHERE source = ANY($1) OR fork = ANY($1)),
journal_rows AS (
    DELETE FROM crewlog.journal WHERE run = ANY($1) RETURNING run, position, digest, entry
)
SELECT run, position, digest, entry FROM journal_rows ORDER BY run, position

-- name: prune_lineage
-- Of no use is what no run that is left goes on from.
WITH RECURSIVE needed AS (
    SELECT source FROM crewlog.runs WHERE source IS NOT NULL
    UNION SELECT parent FROM crewlog.parents
    UNION
    SELECT lineage.source FROM needed JOIN crewlog.lineage ON lineage.run = needed.source
)
DELETE FROM crewlog.lineage WHERE run NOT IN (SELECT source FROM needed)

-- name: delete_claims
-- Keys that begin with a run's id and a slash: `0` comes after it. Another run's id may begin so, too.
-- What is claimed for a body, as a summary is, goes with it.
DELETE FROM crewlog.claims
WHERE key >= $1::text || '/' AND key < $1 || '0'
  AND substr(key, length($1) + 2) ~ '^[^/]+/[0-9]+/[0-9]+$'
RETURNING owner

-- name: keep_counts
-- What a run has called counts still, under names that no call of a run with its id has.
UPDATE crewlog.reservations SET call = call || '@' || gen_random_uuid()
WHERE call >= $1::text || '/' AND call < $1 || '0'
  AND substr(call, length($1) + 2) ~ '^[^/]+/[0-9]+$'

-- name: list_kin
-- Runs that may have links of others: what goes on from others, and what others go on from, or did.
SELECT run FROM crewlog.runs WHERE source IS NOT NULL
UNION SELECT run FROM crewlog.runs WHERE run IN (SELECT source FROM crewlog.runs WHERE source IS NOT NULL)
UNION SELECT run FROM crewlog.parents
UNION SELECT run FROM crewlog.runs WHERE run IN (SELECT parent FROM crewlog.parents)
UNION SELECT run FROM crewlog.forked

-- name: leave_kin
-- Before the rows go that say it.
WITH gone AS (DELETE FROM crewlog.forked WHERE run = ANY($1::text[]))
INSERT INTO crewlog.forked (run)
SELECT DISTINCT deleted.source FROM (
    SELECT run, source FROM crewlog.runs UNION ALL SELECT run, parent FROM crewlog.parents
) AS deleted
JOIN crewlog.runs AS kept ON kept.run = deleted.source
WHERE deleted.run = ANY($1) AND kept.run <> ALL($1)
ON CONFLICT DO NOTHING

-- name: list_origins
-- Of the runs $1, every entry that says which heads a run goes on from; others may be among them.
SELECT entry FROM crewlog.journal
WHERE run = ANY($1::text[]) AND entry ~ '"kind":"(RunForked|RunRolledBack|RunReopened)"|"joined":'

-- name: list_alike
-- Those of the runs $1 that name at a link's position what makes it: its body, or a joined head.
SELECT DISTINCT run
FROM unnest($2::bigint[], $3::text[]) AS link (position, name)
JOIN crewlog.journal USING (position)
WHERE run = ANY($1::text[]) AND strpos(entry, '"' || name || '"') > 0

-- name: list_orphans
SELECT head, previous, position, body, other FROM crewlog.orphans JOIN crewlog.links USING (head)

-- name: delete_links
-- $1 go, $2 stay for kin. The bodies of those that go are returned.
WITH kept AS (
    INSERT INTO crewlog.orphans (head) SELECT unnest($2::text[]) ON CONFLICT DO NOTHING
),
orphan_rows AS (DELETE FROM crewlog.orphans WHERE head = ANY($1::text[]))
DELETE FROM crewlog.links WHERE head = ANY($1) RETURNING body

-- name: doom_bodies
UPDATE crewlog.bodies SET doomed = $2::bigint WHERE hash = ANY($1::text[]) AND doomed IS NULL

-- name: doom_definitions
UPDATE crewlog.definitions SET doomed = $2::bigint WHERE hash = ANY($1::text[]) AND doomed IS NULL

-- name: list_doomed
SELECT hash FROM crewlog.bodies WHERE doomed <= $1::bigint
UNION SELECT hash FROM crewlog.definitions WHERE doomed <= $1

-- name: list_used
-- Those of $1 that something names. It reads links and journals whole: deletions are rare, and an
-- index for them would cost every step. Entries that name nothing but steps and nodes are left out.
WITH wanted AS MATERIALIZED (SELECT unnest($1::text[]) COLLATE "C" AS hash)
SELECT hash FROM wanted WHERE EXISTS (SELECT FROM crewlog.crews WHERE definition = hash)
UNION SELECT hash FROM wanted WHERE EXISTS (SELECT FROM crewlog.registered WHERE content = hash)
UNION SELECT hash FROM wanted JOIN crewlog.runs ON definition = hash
UNION SELECT hash FROM wanted JOIN crewlog.runs ON recipe = hash
UNION SELECT hash FROM wanted JOIN crewlog.links ON body = hash
UNION SELECT hash FROM wanted JOIN (
    SELECT found[1] COLLATE "C" AS name
    FROM crewlog.journal, regexp_matches(entry, '"([A-Za-z0-9_-]{27})"', 'g') AS found
    WHERE entry !~ '^{"kind":"(StepStarted|StepCompleted|NodesReached)"'
) AS named ON name = hash

-- name: spare
WITH body_rows AS (UPDATE crewlog.bodies SET doomed = NULL WHERE hash = ANY($1::text[]))
UPDATE crewlog.definitions SET doomed = NULL WHERE hash = ANY($1)

-- name: remove_bodies
DELETE FROM crewlog.bodies WHERE hash = ANY($1::text[]) AND doomed IS NOT NULL RETURNING hash

-- name: remove_definitions
DELETE FROM crewlog.definitions WHERE hash = ANY($1::text[]) AND doomed IS NOT NULL RETURNING hash

-- name: count_doomed
SELECT (SELECT count(*) FROM crewlog.bodies WHERE doomed IS NOT NULL)
     + (SELECT count(*) FROM crewlog.definitions WHERE doomed IS NOT NULL) AS left
