CREATE TABLE products (name text);
INSERT INTO products VALUES ('lamp');
INSERT INTO products VALUES ('table');
