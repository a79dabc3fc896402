-- Who approved a server's tool under a signed policy: the newest approval of each key, with its
-- signature. What it proves is judged by who uses it. Not derived from histories.
CREATE TABLE crewlog.tool_proofs (
    source    text COLLATE "C" NOT NULL,
    tool      text COLLATE "C" NOT NULL,
    key       text COLLATE "C" NOT NULL,
    digest    text COLLATE "C" NOT NULL,
    approver  text NOT NULL,
    at        bigint NOT NULL,
    expires   bigint NOT NULL,
    signature text NOT NULL,
    PRIMARY KEY (source, tool, key)
);
