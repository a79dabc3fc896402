-- Runs that are about to begin as forks, noted before they do: what they share must not be deleted
-- until their own journals name it. Not derived from histories.
CREATE TABLE crewlog.forks (
    source text COLLATE "C" NOT NULL,
    fork   text COLLATE "C" NOT NULL,
    at     bigint NOT NULL,
    PRIMARY KEY (source, fork)
);
