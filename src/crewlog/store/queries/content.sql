-- name: put_bodies
INSERT INTO crewlog.bodies (hash, body)
SELECT * FROM unnest($1::text[], $2::text[]) AS new (hash, body)
ORDER BY new.hash
ON CONFLICT DO NOTHING

-- name: get_bodies
SELECT hash, body FROM crewlog.bodies WHERE hash = ANY($1::text[])

-- name: claim
-- The update changes nothing: it makes RETURNING tell the owner of a key that is taken.
INSERT INTO crewlog.claims (key, owner) VALUES ($1, $2)
ON CONFLICT (key) DO UPDATE SET owner = claims.owner
RETURNING owner

-- name: put_definition
INSERT INTO crewlog.definitions (hash, definition) VALUES ($1, $2) ON CONFLICT DO NOTHING

-- name: get_definition
SELECT definition FROM crewlog.definitions WHERE hash = $1

-- name: lock_crew
-- Registrations of one name queue up here, so that each sees the version before it.
SELECT pg_advisory_xact_lock(hashtextextended($1::text, 20261121))

-- name: put_crew
INSERT INTO crewlog.crews (name, version, definition, at)
SELECT $1::text, 1 + COALESCE(max(version), 0), $2::text, $3::bigint
FROM crewlog.crews WHERE name = $1
RETURNING name, version, definition, at

-- name: get_crew
SELECT name, version, definition, at FROM crewlog.crews
WHERE name = $1 AND ($2::integer IS NULL OR version = $2)
ORDER BY version DESC LIMIT 1

-- name: list_crews
SELECT DISTINCT ON (name) name, version, definition, at FROM crewlog.crews
ORDER BY name, version DESC
