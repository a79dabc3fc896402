-- The position at which the crew's policy took a checkpoint from the list: a tag that is given later
-- puts it there again.
ALTER TABLE crewlog.checkpoints
    ALTER COLUMN pruned DROP DEFAULT,
    ALTER COLUMN pruned DROP NOT NULL,
    ALTER COLUMN pruned TYPE bigint USING CASE WHEN pruned THEN position END;

-- What was named by runs that are deleted, since when (in milliseconds since the epoch): see
-- `crewlog.store.deleting`.
ALTER TABLE crewlog.bodies ADD COLUMN doomed bigint;
CREATE INDEX bodies_doomed ON crewlog.bodies (doomed) WHERE doomed IS NOT NULL;
ALTER TABLE crewlog.definitions ADD COLUMN doomed bigint;
CREATE INDEX definitions_doomed ON crewlog.definitions (doomed) WHERE doomed IS NOT NULL;

-- Links of deleted runs that are kept for forks.
CREATE TABLE crewlog.orphans (head text COLLATE "C" PRIMARY KEY);
