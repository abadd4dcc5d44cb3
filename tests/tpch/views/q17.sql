-- Small-quantity-order revenue.
CREATE MATERIALIZED VIEW q17 AS
SELECT sum(l_extendedprice) / 7.0 AS avg_yearly
FROM pg.lineitem, pg.part
WHERE p_partkey = l_partkey
  AND p_brand = 'Brand#23'
  AND p_container = 'MED BOX'
  AND l_quantity < (
    SELECT 0.2 * avg(l_quantity)
    FROM pg.lineitem
    WHERE l_partkey = p_partkey
  );
