-- Whether a deleted run took another one in, or began from it. Of what was deleted before it was not
-- kept.
ALTER TABLE crewlog.lineage ADD COLUMN taken_in boolean NOT NULL DEFAULT false;
