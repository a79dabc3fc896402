-- What people approved of tools that servers offer: the digest of all that a tool says of itself.
-- Not derived from histories.
CREATE TABLE crewlog.tool_approvals (
    source   text COLLATE "C" NOT NULL,
    tool     text COLLATE "C" NOT NULL,
    digest   text COLLATE "C" NOT NULL,
    approver text NOT NULL,
    at       bigint NOT NULL,
    PRIMARY KEY (source, tool)
);
