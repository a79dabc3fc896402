-- name: put_bodies
-- Each with a reference of its run. Stored bodies are left out, since the conflict clause would lock their
-- rows.
WITH reference_rows AS (
    INSERT INTO crewlog.content_references (run, hash)
    SELECT new.* FROM unnest($1::text[], $2::text[]) AS new (run, hash)
    ORDER BY new.run, new.hash
    ON CONFLICT DO NOTHING
)
INSERT INTO crewlog.bodies (hash, body)
SELECT DISTINCT ON (new.hash) new.* FROM unnest($2::text[], $3::text[]) AS new (hash, body)
WHERE NOT EXISTS (
    SELECT FROM crewlog.bodies AS old WHERE old.hash = new.hash AND old.unreferenced_at IS NULL
)
ORDER BY new.hash
ON CONFLICT (hash) DO UPDATE SET unreferenced_at = NULL WHERE bodies.unreferenced_at IS NOT NULL

-- name: get_bodies
SELECT hash, body FROM crewlog.bodies WHERE hash = ANY($1::text[])

-- name: claim
-- The update changes nothing; with it, RETURNING also returns an existing owner.
INSERT INTO crewlog.start_records (key, owner, run)
SELECT $1::text, $2::text, $3::text
WHERE NOT EXISTS (SELECT FROM crewlog.permission_changes WHERE run = $3 AND position > $4::bigint)
ON CONFLICT (key) DO UPDATE SET owner = start_records.owner
RETURNING owner

-- name: key_owner
SELECT owner FROM crewlog.start_records WHERE key = $1::text

-- name: last_permission_position
SELECT COALESCE(max(position), 0) AS position FROM crewlog.permission_changes WHERE run = $1::text

-- name: last_permission_positions
SELECT run, max(position) AS position FROM crewlog.permission_changes WHERE run = ANY($1::text[]) GROUP BY run

-- name: count_call
SELECT crewlog.count_call(
    $1::text, $2::text[], $3::text[], $4::bigint[], $5::bigint, $6::bigint
) AS quota

-- name: release_call
SELECT crewlog.release_call($1::text, $2::text[])

-- name: counted_calls
SELECT counts.quota, counts.period, counts.calls
FROM unnest($1::text[], $2::text[]) AS wanted (quota, period)
JOIN crewlog.quota_counts AS counts USING (quota, period)

-- name: approve_tool
INSERT INTO crewlog.tool_approvals (source, tool, hash, approver, at, description)
VALUES ($1, $2, $3, $4, $5, $6)
ON CONFLICT (source, tool) DO UPDATE
SET hash = EXCLUDED.hash, approver = EXCLUDED.approver, at = EXCLUDED.at, description = EXCLUDED.description

-- name: list_approved_tools
SELECT tool, hash FROM crewlog.tool_approvals WHERE source = $1

-- name: list_approval_times
SELECT tool, at FROM crewlog.tool_approvals WHERE source = $1

-- name: list_approved_descriptions
SELECT tool, description FROM crewlog.tool_approvals WHERE source = $1

-- name: put_signed_approval
INSERT INTO crewlog.signed_tool_approvals (source, tool, key, hash, approver, at, expires, signature)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
ON CONFLICT (source, tool, key) DO UPDATE
SET hash = EXCLUDED.hash, approver = EXCLUDED.approver, at = EXCLUDED.at,
    expires = EXCLUDED.expires, signature = EXCLUDED.signature

-- name: list_signed_approvals
SELECT source, tool, key, hash, approver, at, expires, signature
FROM crewlog.signed_tool_approvals WHERE source = $1 ORDER BY tool, at DESC, key

-- name: put_definition
-- With a reference of its run.
WITH reference_rows AS (
    INSERT INTO crewlog.content_references (run, hash) VALUES ($1::text, $2::text) ON CONFLICT DO NOTHING
)
INSERT INTO crewlog.definitions (hash, definition)
SELECT $2, $3::text WHERE NOT EXISTS (
    SELECT FROM crewlog.definitions AS old WHERE old.hash = $2 AND old.unreferenced_at IS NULL
)
ON CONFLICT (hash) DO UPDATE SET unreferenced_at = NULL WHERE definitions.unreferenced_at IS NOT NULL

-- name: put_definitions
-- Of the catalog, in the transaction that stores its rows: these are the references.
INSERT INTO crewlog.definitions (hash, definition)
SELECT new.* FROM unnest($1::text[], $2::text[]) AS new (hash, definition)
WHERE NOT EXISTS (
    SELECT FROM crewlog.definitions AS old WHERE old.hash = new.hash AND old.unreferenced_at IS NULL
)
ORDER BY new.hash
ON CONFLICT (hash) DO UPDATE SET unreferenced_at = NULL WHERE definitions.unreferenced_at IS NOT NULL

-- name: get_definition
SELECT definition FROM crewlog.definitions WHERE hash = $1
