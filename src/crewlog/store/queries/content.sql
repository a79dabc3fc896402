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

-- name: put_definitions
INSERT INTO crewlog.definitions (hash, definition)
SELECT * FROM unnest($1::text[], $2::text[]) AS new (hash, definition)
ORDER BY new.hash
ON CONFLICT DO NOTHING

-- name: get_definition
SELECT definition FROM crewlog.definitions WHERE hash = $1
