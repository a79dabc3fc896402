-- How many calls each quota counts in each of its hours or days: a reservation looks at one row,
-- however many calls there were.
CREATE TABLE crewlog.quota_counts (
    quota text COLLATE "C" NOT NULL,
    span  text COLLATE "C" NOT NULL,
    used  bigint NOT NULL,
    PRIMARY KEY (quota, span)
);
INSERT INTO crewlog.quota_counts (quota, span, used)
SELECT quota, span, count(*) FROM crewlog.reservations GROUP BY quota, span;

-- Calls are looked up by their age, to forget them, and no longer by their span, to count them.
DROP INDEX crewlog.reservations_by_span;
CREATE INDEX reservations_by_age ON crewlog.reservations (quota, at);

-- Calls of one quota queue up.
CREATE OR REPLACE FUNCTION crewlog.lock_quotas(quotas text[])
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended(key, 4854126601903010))
    FROM unnest(quotas) AS key;
END
$$;

-- Counts a call in all of the quotas, or in none; then it returns one that is used up. A call that
-- is counted already is not counted again, in whichever span that was. The quotas are sorted, so
-- that no two calls wait for each other; each statement sees what was committed before its lock.
CREATE OR REPLACE FUNCTION crewlog.reserve(
    this text, quotas text[], spans text[], mosts bigint[], now bigint, older bigint
) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    used_up text;
BEGIN
    PERFORM crewlog.lock_quotas(quotas);
    SELECT new.quota INTO used_up
    FROM unnest(quotas, spans, mosts) AS new (quota, span, most)
    LEFT JOIN crewlog.quota_counts AS counts
        ON counts.quota = new.quota AND counts.span = new.span
    WHERE new.most <= COALESCE(counts.used, 0)
    AND NOT EXISTS (
        SELECT FROM crewlog.reservations AS old WHERE old.quota = new.quota AND old.call = this
    )
    ORDER BY new.quota COLLATE "C" LIMIT 1;
    IF FOUND THEN
        RETURN used_up;
    END IF;
    WITH made AS (
        INSERT INTO crewlog.reservations (quota, call, span, at)
        SELECT new.quota, this, new.span, now
        FROM unnest(quotas, spans) AS new (quota, span)
        ON CONFLICT DO NOTHING
        RETURNING reservations.quota, reservations.span
    )
    INSERT INTO crewlog.quota_counts AS counts (quota, span, used)
    SELECT made.quota, made.span, count(*) FROM made GROUP BY made.quota, made.span
    ON CONFLICT (quota, span) DO UPDATE SET used = counts.used + EXCLUDED.used;
    WITH old AS (
        DELETE FROM crewlog.reservations AS old
        WHERE old.quota = ANY (quotas) AND old.at < older AND old.call <> this
        RETURNING old.quota, old.span
    ),
    less AS (
        SELECT old.quota, old.span, count(*) AS calls FROM old GROUP BY old.quota, old.span
    )
    UPDATE crewlog.quota_counts AS counts SET used = counts.used - less.calls
    FROM less WHERE counts.quota = less.quota AND counts.span = less.span;
    IF FOUND THEN
        DELETE FROM crewlog.quota_counts AS counts
        WHERE counts.quota = ANY (quotas) AND counts.used <= 0;
    END IF;
    RETURN NULL;
END
$$;

-- Takes a call out of quotas: it was not made.
CREATE OR REPLACE FUNCTION crewlog.release(this text, quotas text[])
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM crewlog.lock_quotas(quotas);
    WITH gone AS (
        DELETE FROM crewlog.reservations AS old
        WHERE old.quota = ANY (quotas) AND old.call = this
        RETURNING old.quota, old.span
    )
    UPDATE crewlog.quota_counts AS counts SET used = counts.used - 1
    FROM gone WHERE counts.quota = gone.quota AND counts.span = gone.span;
END
$$;
