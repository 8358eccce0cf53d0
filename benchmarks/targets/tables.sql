-- Work of a database in memory; the shell prints the CPU time of each statement.
.timer on
CREATE TABLE item (id INTEGER PRIMARY KEY, name TEXT, price REAL);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 150000)
  INSERT INTO item SELECT i, printf('item %d', i * 7919 % 150000), i * 0.25 FROM n;
CREATE INDEX by_name ON item (name);
SELECT sum(length(a.name)) FROM item a JOIN item b ON b.name = a.name WHERE a.id % 2 = 0;
SELECT count(*) FROM (SELECT substr(name, 1, 7) AS word, sum(price) FROM item GROUP BY word);
SELECT length(group_concat(upper(name))) FROM item;
