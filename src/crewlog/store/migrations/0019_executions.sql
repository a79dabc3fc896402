-- Of runs whose commands are signed, the executions whose start was looked at, or which go on from one
-- of these: what any other one says is not believed. Not derived from histories. Of runs that were
-- there before, nothing is known: the empty name says so.
CREATE TABLE crewlog.executions (
    run       text COLLATE "C" NOT NULL,
    execution text COLLATE "C" NOT NULL,
    PRIMARY KEY (run, execution)
);
INSERT INTO crewlog.executions (run, execution) SELECT run, '' FROM crewlog.runs;
