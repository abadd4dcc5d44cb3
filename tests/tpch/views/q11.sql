-- Important stock identification. The fraction is 0.0001 at scale 1, and grows as the scale shrinks.
CREATE MATERIALIZED VIEW q11 AS
SELECT ps_partkey, sum(ps_supplycost * ps_availqty) AS value
FROM lite.partsupp, lite.supplier, lite.nation
WHERE ps_suppkey = s_suppkey
  AND s_nationkey = n_nationkey
  AND n_name = 'GERMANY'
GROUP BY ps_partkey
HAVING sum(ps_supplycost * ps_availqty) > (
  SELECT sum(ps_supplycost * ps_availqty) * 0.0001
  FROM lite.partsupp, lite.supplier, lite.nation
  WHERE ps_suppkey = s_suppkey
    AND s_nationkey = n_nationkey
    AND n_name = 'GERMANY'
);
