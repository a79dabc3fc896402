-- A run's beginning is a checkpoint, too: where the first nodes are reached, from none and for no
-- other reason, see `crewlog.state.checkpoints`. Versions that knew none of `kind` did not store it.
-- A text with an escaped NUL, which Postgres could not read as JSON, gives a reason.
INSERT INTO crewlog.checkpoints (run, position, step, node, at, kind)
SELECT run, position, '', '', COALESCE((told ->> 'at')::bigint, 0), 'start'
FROM (
    SELECT run, position,
           CASE WHEN entry NOT LIKE '%\\u0000%' THEN entry::json END AS told
    FROM crewlog.journal WHERE starts_with(entry, '{"kind":"Routed"')
) AS routed
WHERE told ->> 'source' IS NULL AND COALESCE(told ->> 'because', '') = '' AND told IS NOT NULL
ON CONFLICT DO NOTHING;
