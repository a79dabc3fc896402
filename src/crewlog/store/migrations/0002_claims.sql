-- Who may begin a call that must begin once: the first to claim its key. Not derived from histories.
CREATE TABLE crewlog.claims (
    key   text COLLATE "C" PRIMARY KEY,
    owner text COLLATE "C" NOT NULL
);
