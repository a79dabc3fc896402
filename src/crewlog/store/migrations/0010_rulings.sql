-- Where a run's journal says who may call what, by position: an activity sees by the last of them
-- whether anything was ruled since its call was scheduled.
CREATE TABLE crewlog.rulings (
    run      text COLLATE "C" NOT NULL,
    position bigint NOT NULL,
    PRIMARY KEY (run, position)
);
-- Calls that are counted in quotas over runs, each once. Not derived from histories.
CREATE TABLE crewlog.reservations (
    quota text COLLATE "C" NOT NULL,
    call  text COLLATE "C" NOT NULL,
    span  text COLLATE "C" NOT NULL,
    at    bigint NOT NULL,
    PRIMARY KEY (quota, call)
);
CREATE INDEX reservations_by_span ON crewlog.reservations (quota, span);
