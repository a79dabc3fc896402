-- What deleted runs were forks of, as long as a fork of theirs is left: its logs may begin there.
-- Not derived from histories.
CREATE TABLE crewlog.lineage (
    run    text COLLATE "C" NOT NULL,
    source text COLLATE "C" NOT NULL,
    PRIMARY KEY (run, source)
);
