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
INSERT INTO crewlog.claims (key, owner)
SELECT $1::text, $2::text
WHERE NOT EXISTS (SELECT FROM crewlog.rulings WHERE run = $3::text AND position > $4::bigint)
ON CONFLICT (key) DO UPDATE SET owner = claims.owner
RETURNING owner

-- name: claimed
SELECT owner FROM crewlog.claims WHERE key = $1::text

-- name: last_permission_position
SELECT COALESCE(max(position), 0) AS ruling FROM crewlog.rulings WHERE run = $1::text

-- name: count_call
SELECT crewlog.reserve(
    $1::text, $2::text[], $3::text[], $4::bigint[], $5::bigint, $6::bigint
) AS quota

-- name: release
SELECT crewlog.release($1::text, $2::text[])

-- name: counted
SELECT counts.quota, counts.span, counts.used
FROM unnest($1::text[], $2::text[]) AS wanted (quota, span)
JOIN crewlog.quota_counts AS counts USING (quota, span)

-- name: approve_tool
INSERT INTO crewlog.tool_approvals (source, tool, digest, approver, at, told)
VALUES ($1, $2, $3, $4, $5, $6)
ON CONFLICT (source, tool) DO UPDATE
SET digest = EXCLUDED.digest, approver = EXCLUDED.approver, at = EXCLUDED.at, told = EXCLUDED.told

-- name: list_approved_tools
SELECT tool, digest FROM crewlog.tool_approvals WHERE source = $1

-- name: approved_at
SELECT tool, at FROM crewlog.tool_approvals WHERE source = $1

-- name: list_approved_descriptions
SELECT tool, told FROM crewlog.tool_approvals WHERE source = $1

-- name: put_signed_approval
INSERT INTO crewlog.tool_proofs (source, tool, key, digest, approver, at, expires, signature)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
ON CONFLICT (source, tool, key) DO UPDATE
SET digest = EXCLUDED.digest, approver = EXCLUDED.approver, at = EXCLUDED.at,
    expires = EXCLUDED.expires, signature = EXCLUDED.signature

-- name: list_signed_approvals
SELECT source, tool, key, digest, approver, at, expires, signature
FROM crewlog.tool_proofs WHERE source = $1 ORDER BY tool, at DESC, key

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
