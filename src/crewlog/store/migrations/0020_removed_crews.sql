-- Crews that people took away keep their rows: a version's number never means two definitions. And the
-- crew that a run has which names none. Not derived from histories.
ALTER TABLE crewlog.crews ADD COLUMN removed boolean NOT NULL DEFAULT false;

CREATE TABLE crewlog.default_crew (
    one  boolean PRIMARY KEY DEFAULT true CHECK (one),
    name text COLLATE "C" NOT NULL
);
