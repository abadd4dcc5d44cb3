-- Large volume customer. o_orderkey is added to the order: it leaves no ties.
CREATE MATERIALIZED VIEW q18 AS
SELECT c_name, c_custkey, o_orderkey, o_orderdate, o_totalprice, sum(l_quantity) AS total_quantity
FROM maria.customer, maria.orders, pg.lineitem
WHERE o_orderkey IN (
    SELECT l_orderkey
    FROM pg.lineitem
    GROUP BY l_orderkey
    HAVING sum(l_quantity) > 300
  )
  AND c_custkey = o_custkey
  AND o_orderkey = l_orderkey
GROUP BY c_name, c_custkey, o_orderkey, o_orderdate, o_totalprice
ORDER BY o_totalprice DESC, o_orderdate, o_orderkey
LIMIT 100;
