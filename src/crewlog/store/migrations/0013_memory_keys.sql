-- Where encryption is on, a memory's key is a code, and this is the key, encrypted; else it is null.
ALTER TABLE crewlog.memories ADD COLUMN sealed_key text COLLATE "C";
