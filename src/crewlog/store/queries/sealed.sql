-- What other queries look for in the texts of journals, where these are encrypted: read whole, and
-- looked through by whoever has the keys.

-- name: sealed_of_run
SELECT position, digest, entry FROM crewlog.journal
WHERE run = $1::text AND starts_with(entry, 'sealed:') ORDER BY position DESC

-- name: sealed_of_runs
SELECT run, position, digest, entry FROM crewlog.journal
WHERE run = ANY($1::text[]) AND starts_with(entry, 'sealed:')

-- name: sealed_at
SELECT run, position, digest, entry FROM crewlog.journal
WHERE run = ANY($1::text[]) AND position = ANY($2::bigint[]) AND starts_with(entry, 'sealed:')

-- name: all_sealed
SELECT run, position, digest, entry FROM crewlog.journal WHERE starts_with(entry, 'sealed:')
