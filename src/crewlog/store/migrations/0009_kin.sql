-- Runs that deleted ones were forks of: what they said in the same words, at the same places, has
-- the same links as in forks of those forks. Not derived from histories.
CREATE TABLE crewlog.forked (run text COLLATE "C" PRIMARY KEY);
