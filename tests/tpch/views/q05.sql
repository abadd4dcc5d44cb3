-- Local supplier volume.
CREATE MATERIALIZED VIEW q5 AS
SELECT n_name, sum(l_extendedprice * (1 - l_discount)) AS revenue
FROM maria.customer, maria.orders, pg.lineitem, lite.supplier, lite.nation, lite.region
WHERE c_custkey = o_custkey
  AND l_orderkey = o_orderkey
  AND l_suppkey = s_suppkey
  AND c_nationkey = s_nationkey
  AND s_nationkey = n_nationkey
  AND n_regionkey = r_regionkey
  AND r_name = 'ASIA'
  AND o_orderdate >= DATE '1994-01-01'
  AND o_orderdate < DATE '1994-01-01' + INTERVAL '1' YEAR
GROUP BY n_name;
