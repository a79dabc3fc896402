-- name: lock_memories
-- Serializes the writes of a scope, so that it never exceeds its limit.
SELECT pg_advisory_xact_lock(hashtextextended('crewlog memories ' || $1::text || '/' || $2::text, 0))

-- name: write_memories
-- $1 is the crew, $2 the scope, $3 the memories as a JSON list, $4 a JSON object of what they share.
-- Each word is stored as it is, and as its stem in the crew's language. `older_keys` are the keys that
-- rows of the same memories may have under other encryption keys: those rows are replaced, too.
WITH options AS (
    SELECT new.* FROM jsonb_to_record($4::jsonb) AS new (
        call text, agent text, run text, step text, now bigint, expired_at bigint, most_memories bigint,
        language text, embedder text, older_keys text[]
    )
), new_call AS (
    INSERT INTO crewlog.start_records (key, owner, run)
    SELECT call, 'memory', run FROM options WHERE call <> ''
    ON CONFLICT (key) DO NOTHING
    RETURNING key
), new_rows AS (
    SELECT new.* FROM options CROSS JOIN jsonb_to_recordset($3::jsonb) AS new (
        key text, text text, metadata text, expires_at bigint, words text, embedding text,
        encrypted_key text, written_by text
    )
    WHERE call = '' OR EXISTS (SELECT FROM new_call)
), old_rows AS (
    SELECT old.key, row_number() OVER (ORDER BY old.at DESC, old.key DESC) AS place,
        old.at <= options.expired_at OR old.expires_at <= now AS is_expired
    FROM crewlog.memories AS old CROSS JOIN options
    WHERE old.crew = $1 AND old.scope = $2 AND NOT old.key = ANY(older_keys)
      AND old.key NOT IN (SELECT key FROM new_rows)
), alive AS (
    SELECT key, row_number() OVER (ORDER BY place) AS place FROM old_rows WHERE is_expired IS NOT TRUE
), deleted AS (
    DELETE FROM crewlog.memories AS old USING options
    WHERE old.crew = $1 AND old.scope = $2 AND EXISTS (SELECT FROM new_rows)
      AND (
        old.key = ANY(older_keys) OR old.key IN (SELECT key FROM old_rows WHERE is_expired)
        OR old.key IN (SELECT key FROM alive WHERE place > most_memories - (SELECT count(*) FROM new_rows))
      )
)
INSERT INTO crewlog.memories (
    crew, scope, key, text, metadata, agent, run, step, written_by, at, expires_at, words,
    embedder, embedding, encrypted_key
)
SELECT $1, $2, new_rows.key, new_rows.text, new_rows.metadata, options.agent, options.run, options.step,
    new_rows.written_by, options.now,
    new_rows.expires_at,
    array_to_tsvector(ARRAY(
        SELECT word FROM unnest(string_to_array(new_rows.words, ' ')) AS word WHERE word <> ''
        UNION
        SELECT (ts_lexize(options.language::regdictionary, word))[1]
        FROM unnest(string_to_array(new_rows.words, ' ')) AS word
        WHERE (ts_lexize(options.language::regdictionary, word))[1] <> ''
    )),
    CASE WHEN new_rows.embedding IS NOT NULL THEN options.embedder END, new_rows.embedding::real[],
    new_rows.encrypted_key
FROM new_rows CROSS JOIN options
ON CONFLICT (crew, scope, key) DO UPDATE SET
    text = EXCLUDED.text, metadata = EXCLUDED.metadata, agent = EXCLUDED.agent,
    run = EXCLUDED.run, step = EXCLUDED.step, written_by = EXCLUDED.written_by, at = EXCLUDED.at,
    expires_at = EXCLUDED.expires_at, words = EXCLUDED.words, embedder = EXCLUDED.embedder,
    embedding = EXCLUDED.embedding, encrypted_key = EXCLUDED.encrypted_key
RETURNING key

-- name: find_memories
-- Counts the words of the query that a memory has, each as it is or as its stem. Memories that only
-- their keys could order share a `place`, since keys may be encrypted: see `_in_order`.
-- $8 is the half-life of memories in milliseconds; 0: all have the same weight.
SELECT * FROM (
    SELECT found.*, rank() OVER (ORDER BY
        CASE WHEN $8::float8 > 0
        THEN round((matched * power(2.0::float8, -greatest($3 - at, 0) / $8))::numeric, 9)
        ELSE matched END DESC,
        at DESC, scope
    ) AS place FROM (
        SELECT m.*, (
            SELECT count(*) FROM unnest($5::text[]) AS word
            WHERE m.words @@ (
                '''' || word || ''' | '''
                || coalesce(nullif((ts_lexize($6::text::regdictionary, word))[1], ''), word) || ''''
            )::tsquery
        ) AS matched
        FROM crewlog.memories AS m
        WHERE m.crew = $1 AND m.scope = ANY($2::text[]) AND m.at > $4
          AND (m.expires_at IS NULL OR m.expires_at > $3)
    ) AS found
    WHERE matched > 0 OR cardinality($5) = 0
) AS ranked
WHERE place <= $7
ORDER BY place, key

-- name: compare_memories
-- @schema is the schema of pgvector. Vectors with other dimensions, from another version of the model,
-- are ignored.
SELECT * FROM (
    SELECT m.*, rank() OVER (ORDER BY
        CASE WHEN cardinality(m.embedding) = cardinality($6::real[])
        THEN CASE WHEN $8::float8 > 0
            -- From 1, the same, to 0, the opposite; times the weight of the memory.
            THEN -(2 - (m.embedding::@schema.vector OPERATOR(@schema.<=>) $6::real[]::@schema.vector))
                / 2 * power(2.0::float8, -greatest($3 - at, 0) / $8)
            ELSE m.embedding::@schema.vector OPERATOR(@schema.<=>) $6::real[]::@schema.vector
        END END,
        at DESC, scope
    ) AS place
    FROM crewlog.memories AS m
    WHERE m.crew = $1 AND m.scope = ANY($2::text[]) AND m.at > $4
      AND (m.expires_at IS NULL OR m.expires_at > $3)
      AND m.embedder = $5 AND cardinality(m.embedding) = cardinality($6::real[])
) AS ranked
WHERE place <= $7
ORDER BY place, key

-- name: find_pgvector
SELECT
    (SELECT quote_ident(n.nspname) FROM pg_extension AS e
     JOIN pg_namespace AS n ON n.oid = e.extnamespace WHERE e.extname = 'vector') AS schema,
    EXISTS (SELECT FROM pg_available_extensions WHERE name = 'vector') AS available

-- name: create_pgvector
CREATE EXTENSION IF NOT EXISTS vector

-- name: list_memories
SELECT * FROM (
    SELECT m.*, rank() OVER (ORDER BY at DESC, scope) AS place FROM crewlog.memories AS m
    WHERE crew = $1 AND scope = coalesce($2::text, scope) AND (expires_at IS NULL OR expires_at > $3)
) AS ranked
WHERE place <= $4
ORDER BY place, key

-- name: list_memory_scopes
SELECT crew, scope, count(*) AS count, max(at) AS newest FROM crewlog.memories
WHERE crew = coalesce($1::text, crew)
GROUP BY crew, scope ORDER BY crew, scope

-- name: forget_memories
DELETE FROM crewlog.memories
WHERE crew = coalesce($1::text, crew) AND scope = coalesce($2::text, scope)
  AND ($3::text[] IS NULL OR key = ANY($3)) AND run = coalesce($4::text, run)
  AND step = coalesce($5::text, step)
  AND at < coalesce($6::bigint, at + 1)
  AND ($7::bigint IS NULL OR expires_at <= $7)
RETURNING key
