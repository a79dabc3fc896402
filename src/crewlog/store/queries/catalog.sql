-- name: lock_crew
-- Serializes registrations of one name, so that each sees the version before it.
SELECT pg_advisory_xact_lock(hashtextextended($1::text, 20261121))

-- name: put_crew
INSERT INTO crewlog.crews (name, version, definition, at)
SELECT $1::text, 1 + COALESCE(max(version), 0), $2::text, $3::bigint
FROM crewlog.crews WHERE name = $1
RETURNING name, version, definition, at

-- name: get_crew
SELECT name, version, definition, at FROM crewlog.crews
WHERE name = $1 AND NOT removed AND ($2::integer IS NULL OR version = $2)
ORDER BY version DESC LIMIT 1

-- name: list_crews
SELECT DISTINCT ON (name) name, version, definition, at FROM crewlog.crews
WHERE NOT removed ORDER BY name, version DESC

-- name: list_crew_versions
SELECT name, version, definition, at FROM crewlog.crews
WHERE NOT removed ORDER BY name, version

-- name: remove_crew
WITH removed_rows AS (
    UPDATE crewlog.crews SET removed = true WHERE name = $1 AND NOT removed RETURNING name
), unset AS (
    DELETE FROM crewlog.default_crews WHERE name = $1
)
SELECT count(*) AS versions FROM removed_rows

-- name: default_crew
SELECT name FROM crewlog.default_crews

-- name: set_default_crew
INSERT INTO crewlog.default_crews (name) VALUES ($1)
ON CONFLICT (one) DO UPDATE SET name = excluded.name

-- name: unset_default_crew
DELETE FROM crewlog.default_crews

-- name: lock_catalog
-- One lock for all names, since registrations of several names overlap in any order. They are rare.
SELECT pg_advisory_xact_lock(4854126601903003)

-- name: put_catalog_entries
INSERT INTO crewlog.catalog_entries (kind, name, version, content, at)
SELECT new.kind, new.name, 1 + COALESCE(last.version, 0), new.content, $4::bigint
FROM unnest($1::text[], $2::text[], $3::text[]) AS new (kind, name, content)
LEFT JOIN LATERAL (
    SELECT version, content FROM crewlog.catalog_entries AS old
    WHERE old.kind = new.kind AND old.name = new.name
    ORDER BY version DESC LIMIT 1
) AS last ON true
WHERE last.content IS DISTINCT FROM new.content

-- name: newest_catalog_entries
SELECT last.kind, last.name, last.version, last.content, last.at
FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS wanted (kind, name, place)
CROSS JOIN LATERAL (
    SELECT kind, name, version, content, at FROM crewlog.catalog_entries AS old
    WHERE old.kind = wanted.kind AND old.name = wanted.name
    ORDER BY version DESC LIMIT 1
) AS last
ORDER BY wanted.place

-- name: get_catalog_entry
SELECT kind, name, version, content, at FROM crewlog.catalog_entries
WHERE kind = $1 AND name = $2 AND ($3::integer IS NULL OR version = $3)
ORDER BY version DESC LIMIT 1

-- name: list_catalog_entries
SELECT DISTINCT ON (name) kind, name, version, content, at FROM crewlog.catalog_entries
WHERE kind = $1
ORDER BY name, version DESC

-- name: list_catalog_versions
SELECT kind, name, version, content, at FROM crewlog.catalog_entries
WHERE kind = $1 AND name = $2
ORDER BY version
