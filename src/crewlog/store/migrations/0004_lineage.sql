-- Runs that are changed, rolled back, reopened and forked while they live.

-- A fork has no journal of its own up to `base`; `crew` and `definition` are those that position
-- `ruled` said last, `recipe` is the definition that the run began with. What was asked before
-- position `reset`, and not again by it, is open no more.
ALTER TABLE crewlog.runs
    ADD COLUMN base   bigint NOT NULL DEFAULT 0,
    ADD COLUMN source text COLLATE "C",
    ADD COLUMN recipe text COLLATE "C",
    ADD COLUMN ruled  bigint NOT NULL DEFAULT 0,
    ADD COLUMN reset  bigint NOT NULL DEFAULT 0;
UPDATE crewlog.runs SET recipe = definition, ruled = 1 WHERE crew IS NOT NULL;
CREATE INDEX runs_by_source ON crewlog.runs (source) WHERE source IS NOT NULL;

-- A question may be asked again, and then be answered again: the last positions of both.
ALTER TABLE crewlog.interrupts
    ADD COLUMN asked    bigint NOT NULL DEFAULT 0,
    ADD COLUMN answered bigint NOT NULL DEFAULT 0;
UPDATE crewlog.interrupts SET
    asked = COALESCE(position, 0),
    answered = CASE
        WHEN decision IS NULL THEN 0
        ELSE GREATEST(position, (SELECT runs.position FROM crewlog.runs WHERE runs.run = interrupts.run), 1)
    END;
DROP INDEX crewlog.interrupts_open;
CREATE INDEX interrupts_open ON crewlog.interrupts (run) WHERE asked > answered;

-- `kind` is null for the end of a step; `step` and `node` are empty for anything else.
ALTER TABLE crewlog.checkpoints
    ADD COLUMN kind   text COLLATE "C",
    ADD COLUMN pruned boolean NOT NULL DEFAULT false;

-- The names that people gave to checkpoints; `position` is where they did.
CREATE TABLE crewlog.tags (
    run        text COLLATE "C" NOT NULL,
    tag        text COLLATE "C" NOT NULL,
    checkpoint bigint NOT NULL,
    position   bigint NOT NULL,
    at         bigint NOT NULL,
    PRIMARY KEY (run, tag)
);
