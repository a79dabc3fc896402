-- How many positions a run's journal leaves out right before another run's came in: it goes on behind
-- both.
ALTER TABLE crewlog.parents ADD COLUMN left_out bigint NOT NULL DEFAULT 0;
