-- name: lock_memories
-- Writers of a scope come one after the other, so that it never has more than it may.
SELECT pg_advisory_xact_lock(hashtextextended('crewlog memories ' || $1::text || '/' || $2::text, 0))

-- name: write_memories
-- $1 is the crew, $2 the scope, $3 the memories as a JSON list, $4 a JSON object of what they share. A
-- word is stored as it is, and as its stem in the crew's language. `older_keys` are the keys that rows of
-- the same memories may have under other encryption keys: those rows are replaced, too.
WITH terms AS (
    SELECT new.* FROM jsonb_to_record($4::jsonb) AS new (
        call text, agent text, run text, step text, now bigint, since bigint, most bigint,
        language text, embedder text, older_keys text[]
    )
), begun AS (
    INSERT INTO crewlog.start_records (key, owner)
    SELECT call, 'memory' FROM terms WHERE call <> ''
    ON CONFLICT (key) DO NOTHING
    RETURNING key
), given AS (
    SELECT new.* FROM terms CROSS JOIN jsonb_to_recordset($3::jsonb) AS new (
        key text, text text, metadata text, expires bigint, words text, embedding text,
        encrypted_key text, written_by text
    )
    WHERE call = '' OR EXISTS (SELECT FROM begun)
), left_over AS (
    SELECT old.key, row_number() OVER (ORDER BY old.at DESC, old.key DESC) AS place,
        old.at <= since OR old.expires <= now AS ended
    FROM crewlog.memories AS old CROSS JOIN terms
    WHERE old.crew = $1 AND old.scope = $2 AND NOT old.key = ANY(older_keys)
      AND old.key NOT IN (SELECT key FROM given)
), alive AS (
    SELECT key, row_number() OVER (ORDER BY place) AS place FROM left_over WHERE ended IS NOT TRUE
), gone AS (
    DELETE FROM crewlog.memories AS old USING terms
    WHERE old.crew = $1 AND old.scope = $2 AND EXISTS (SELECT FROM given)
      AND (
        old.key = ANY(older_keys) OR old.key IN (SELECT key FROM left_over WHERE ended)
        OR old.key IN (SELECT key FROM alive WHERE place > most - (SELECT count(*) FROM given))
      )
)
INSERT INTO crewlog.memories (
    crew, scope, key, text, metadata, agent, run, step, written_by, at, expires, words,
    embedder, embedding, encrypted_key
)
SELECT $1, $2, given.key, given.text, given.metadata, terms.agent, terms.run, terms.step,
    given.written_by, terms.now,
    given.expires,
    array_to_tsvector(ARRAY(
        SELECT word FROM unnest(string_to_array(given.words, ' ')) AS word WHERE word <> ''
        UNION
        SELECT (ts_lexize(terms.language::regdictionary, word))[1]
        FROM unnest(string_to_array(given.words, ' ')) AS word
        WHERE (ts_lexize(terms.language::regdictionary, word))[1] <> ''
    )),
    CASE WHEN given.embedding IS NOT NULL THEN terms.embedder END, given.embedding::real[],
    given.encrypted_key
FROM given CROSS JOIN terms
ON CONFLICT (crew, scope, key) DO UPDATE SET
    text = EXCLUDED.text, metadata = EXCLUDED.metadata, agent = EXCLUDED.agent,
    run = EXCLUDED.run, step = EXCLUDED.step, written_by = EXCLUDED.written_by, at = EXCLUDED.at,
    expires = EXCLUDED.expires, words = EXCLUDED.words, embedder = EXCLUDED.embedder,
    embedding = EXCLUDED.embedding, encrypted_key = EXCLUDED.encrypted_key
RETURNING key

-- name: find_memories
-- How many of the words that are looked for a memory has, each as it is or as its stem. `place` is
-- shared by those that only their keys put in an order, which may be encrypted: see `_in_order`.
-- $8 is the half-life of memories in milliseconds; 0: none fades.
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
          AND (m.expires IS NULL OR m.expires > $3)
    ) AS found
    WHERE matched > 0 OR cardinality($5) = 0
) AS ranked
WHERE place <= $7
ORDER BY place, key

-- name: compare_memories
-- @schema is where pgvector is. A model may come back with other dimensions: those do not count.
SELECT * FROM (
    SELECT m.*, rank() OVER (ORDER BY
        CASE WHEN cardinality(m.embedding) = cardinality($6::real[])
        THEN CASE WHEN $8::float8 > 0
            -- From 1, the same, to 0, the opposite; a fading memory is less and less like anything.
            THEN -(2 - (m.embedding::@schema.vector OPERATOR(@schema.<=>) $6::real[]::@schema.vector))
                / 2 * power(2.0::float8, -greatest($3 - at, 0) / $8)
            ELSE m.embedding::@schema.vector OPERATOR(@schema.<=>) $6::real[]::@schema.vector
        END END,
        at DESC, scope
    ) AS place
    FROM crewlog.memories AS m
    WHERE m.crew = $1 AND m.scope = ANY($2::text[]) AND m.at > $4
      AND (m.expires IS NULL OR m.expires > $3)
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
    WHERE crew = $1 AND scope = coalesce($2::text, scope) AND (expires IS NULL OR expires > $3)
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
  AND ($7::bigint IS NULL OR expires <= $7)
RETURNING key
