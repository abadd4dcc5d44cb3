-- Potential part promotion.
CREATE MATERIALIZED VIEW q20 AS
SELECT s_name, s_address
FROM lite.supplier, lite.nation
WHERE s_suppkey IN (
    SELECT ps_suppkey
    FROM lite.partsupp
    WHERE ps_partkey IN (
        SELECT p_partkey
        FROM pg.part
        WHERE p_name LIKE 'forest%'
      )
      AND ps_availqty > (
        SELECT 0.5 * sum(l_quantity)
        FROM pg.lineitem
        WHERE l_partkey = ps_partkey
          AND l_suppkey = ps_suppkey
          AND l_shipdate >= DATE '1994-01-01'
          AND l_shipdate < DATE '1994-01-01' + INTERVAL '1' YEAR
      )
  )
  AND s_nationkey = n_nationkey
  AND n_name = 'CANADA';
