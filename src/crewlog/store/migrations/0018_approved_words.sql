-- What a tool said of itself when it was approved, so that people see what has changed since. Empty
-- where it was approved before this was kept. Not derived from histories.
ALTER TABLE crewlog.tool_approvals ADD COLUMN told text NOT NULL DEFAULT '';
