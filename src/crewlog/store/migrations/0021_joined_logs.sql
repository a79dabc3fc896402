-- Logs that two runs had become one where the runs do: a link with a second parent, and no body.
ALTER TABLE crewlog.links ADD COLUMN other text COLLATE "C";

-- The runs whose logs came into a run, each with the position in its journal: it goes on from them, as
-- a fork does from its `source`.
CREATE TABLE crewlog.parents (
    run      text COLLATE "C" NOT NULL,
    parent   text COLLATE "C" NOT NULL,
    position bigint NOT NULL,
    PRIMARY KEY (run, parent, position)
);
