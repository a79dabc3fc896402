-- Executions whose run's id has another history now: what they store late is refused. Not derived
-- from histories.
CREATE TABLE crewlog.shut (
    run       text COLLATE "C" NOT NULL,
    execution text COLLATE "C" NOT NULL,
    PRIMARY KEY (run, execution)
);
