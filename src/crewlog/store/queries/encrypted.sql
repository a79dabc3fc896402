-- Encrypted entries. Other queries search the texts of entries, which works for plain ones only. These
-- return the encrypted ones to the process, which decrypts and searches them.

-- name: encrypted_entries_of_run
SELECT position, hash, entry FROM crewlog.journal_entries
WHERE run = $1::text AND starts_with(entry, 'crewlog:encrypted:') ORDER BY position DESC
