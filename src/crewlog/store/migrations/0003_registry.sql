-- What prompts may use, and its parts, by name and version; crews have a table of their own. The
-- contents are beside those of crews in `definitions`. Not derived from histories.
CREATE TABLE crewlog.registered (
    kind    text COLLATE "C" NOT NULL,
    name    text COLLATE "C" NOT NULL,
    version integer NOT NULL,
    content text COLLATE "C" NOT NULL REFERENCES crewlog.definitions (hash),
    at      bigint NOT NULL,
    PRIMARY KEY (kind, name, version)
);
