-- Which columns have encrypted texts only, as a process found that accepts no others, and the
-- namespace that they are bound to. At most one row, and none where nothing is encrypted. Not derived
-- from histories; where it is gone, the next process looks again.
CREATE TABLE crewlog.sealing (
    namespace text COLLATE "C" PRIMARY KEY,
    columns   text[] NOT NULL
);
