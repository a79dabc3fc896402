-- name: put_bodies
-- What is there already is left out: the conflict clause would lock its row.
INSERT INTO crewlog.bodies (hash, body)
SELECT new.* FROM unnest($1::text[], $2::text[]) AS new (hash, body)
WHERE NOT EXISTS (
    SELECT FROM crewlog.bodies AS old WHERE old.hash = new.hash AND old.doomed IS NULL
)
ORDER BY new.hash
ON CONFLICT (hash) DO UPDATE SET doomed = NULL WHERE bodies.doomed IS NOT NULL

-- name: get_bodies
SELECT hash, body FROM crewlog.bodies WHERE hash = ANY($1::text[])

-- name: claim
-- The update changes nothing: it makes RETURNING tell the owner of a key that is taken.
INSERT INTO crewlog.claims (key, owner) VALUES ($1, $2)
ON CONFLICT (key) DO UPDATE SET owner = claims.owner
RETURNING owner

-- name: claimed
SELECT owner FROM crewlog.claims WHERE key = $1::text

-- name: last_ruling
SELECT COALESCE(max(position), 0) AS ruling FROM crewlog.rulings WHERE run = $1::text

-- name: lock_quotas
-- Calls of one quota queue up; the keys are sorted, so that no two wait for each other.
SELECT pg_advisory_xact_lock(hashtextextended(key, 4854126601903010)) FROM unnest($1::text[]) AS key

-- name: reserve
-- All or none. A call that is counted already is not counted again, in whichever span that was.
WITH wanted AS (
    SELECT * FROM unnest($2::text[], $3::text[], $4::bigint[]) AS new (quota, span, most)
),
used_up AS (
    SELECT quota FROM wanted
    WHERE NOT EXISTS (
        SELECT FROM crewlog.reservations AS old
        WHERE old.quota = wanted.quota AND old.call = $1::text
    )
    AND most <= (
        SELECT count(*) FROM crewlog.reservations AS old
        WHERE old.quota = wanted.quota AND old.span = wanted.span
    )
),
made AS (
    INSERT INTO crewlog.reservations (quota, call, span, at)
    SELECT quota, $1, span, $5::bigint FROM wanted
    WHERE NOT EXISTS (SELECT FROM used_up)
    ORDER BY quota
    ON CONFLICT DO NOTHING
),
old AS (
    DELETE FROM crewlog.reservations WHERE quota = ANY($2) AND at < $6::bigint AND call <> $1
)
SELECT quota FROM used_up ORDER BY quota LIMIT 1

-- name: release
DELETE FROM crewlog.reservations WHERE call = $1::text AND quota = ANY($2::text[])
-- name: approve_tool
INSERT INTO crewlog.tool_approvals (source, tool, digest, approver, at)
VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (source, tool) DO UPDATE
SET digest = EXCLUDED.digest, approver = EXCLUDED.approver, at = EXCLUDED.at

-- name: tool_approvals
SELECT tool, digest FROM crewlog.tool_approvals WHERE source = $1

-- name: put_definitions
INSERT INTO crewlog.definitions (hash, definition)
SELECT new.* FROM unnest($1::text[], $2::text[]) AS new (hash, definition)
WHERE NOT EXISTS (
    SELECT FROM crewlog.definitions AS old WHERE old.hash = new.hash AND old.doomed IS NULL
)
ORDER BY new.hash
ON CONFLICT (hash) DO UPDATE SET doomed = NULL WHERE definitions.doomed IS NOT NULL

-- name: get_definition
SELECT definition FROM crewlog.definitions WHERE hash = $1
