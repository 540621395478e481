-- Accounts of the ledger.
CREATE TABLE IF NOT EXISTS accounts (name text);
INSERT INTO accounts VALUES ('cash');
